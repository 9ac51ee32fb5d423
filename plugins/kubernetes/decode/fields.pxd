"""What both decoders share: the typed texts inside objects (addresses, versions, times) and the arrays an object is built in."""
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from fastdns.plugins.kubernetes.decode.objects cimport Address, Endpoint, Import, Label, Namespace, Pod, Port, Service, Slice, Span

cdef enum:
    POD_NAME_MAX = 64               # targetRef names of this length and above are not used as endpoint names
    COUNT_MAX = 65535               # ports, addresses or labels of one object

cdef enum DecodeResult:                  # of decoding one object
    DECODED = 0
    MALFORMED = -1
    NO_MEMORY = -2

cdef struct Array:                  # grows by doubling; owned by its Scratch
    void *data
    uint32_t count
    uint32_t capacity

cdef struct Scratch:                # an object under construction; everything is used again for the next one
    Array cluster_ips               # of Address
    Array external_ips              # of Address
    Array ports                     # of Port
    Array endpoints                 # of Endpoint
    Array labels                    # of Label
    Namespace namespace
    Service service
    Slice slice
    Pod pod
    Import imported
    Span trigger                    # text of a slice's last-change-trigger-time that is no RFC 3339 time, else empty

cdef void scratch_init(Scratch *scratch) noexcept nogil
cdef void scratch_free(Scratch *scratch) noexcept nogil
# One more element, zeroed; NULL when memory ran out or `limit` elements are there.
cdef void *array_add(Array *array, uint32_t size, uint32_t limit) noexcept nogil

cdef inline Address *add_address(Array *array) noexcept nogil:
    return <Address *>array_add(array, sizeof(Address), COUNT_MAX)

cdef inline Port *add_port(Scratch *scratch) noexcept nogil:
    return <Port *>array_add(&scratch.ports, sizeof(Port), COUNT_MAX)

cdef inline Label *add_label(Scratch *scratch) noexcept nogil:
    return <Label *>array_add(&scratch.labels, sizeof(Label), COUNT_MAX)

cdef inline Endpoint *add_endpoint(Scratch *scratch) noexcept nogil:
    return <Endpoint *>array_add(&scratch.endpoints, sizeof(Endpoint), 0xffffffffU)

cdef inline bint span_is(Span span, const char *text, uint32_t length) noexcept nogil:
    cdef uint32_t i
    if span.length != length:
        return False
    for i in range(length):
        if span.data[i] != text[i]:
            return False
    return True

# Fills an address from its text; the span is kept as it is.
cdef void address_set(Address *address, Span text) noexcept nogil
# A resource version as a number; 0 when it is none or does not fit.
cdef uint64_t version_parse(Span text) noexcept nogil
# RFC 3339 with any fraction to ns since 1970. 0, or -1 when it is none.
cdef int time_parse(Span text, int64_t *when) noexcept nogil
# Puts what is in the arrays into the struct, with the sentinel ports where the kind has them.
cdef int finish_service(Scratch *scratch, Span cluster_ip, Span type) noexcept nogil
cdef int finish_slice(Scratch *scratch, Span trigger) noexcept nogil
cdef int finish_import(Scratch *scratch, Span type) noexcept nogil
cdef void finish_pod(Scratch *scratch) noexcept nogil
