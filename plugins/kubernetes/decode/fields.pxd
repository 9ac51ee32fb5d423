"""What both decoders share: the typed texts inside objects (addresses, versions, times) and the arrays an object is built in."""
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from fastdns.plugins.kubernetes.decode.objects cimport (CLUSTER_IPS_MAX, CUT_CLUSTER_IPS, CUT_COUNT, CUT_ENDPOINTS, CUT_EXTERNAL_IPS, CUT_LABELS,
                                                        CUT_PORTS, ENDPOINTS_MAX, EXTERNAL_IPS_MAX, LABELS_MAX, PORTS_MAX, Address, Cut, Endpoint,
                                                        Import, Label, Namespace, Pod, Port, Service, Slice, Span)

cdef enum:
    POD_NAME_MAX = 64               # targetRef names of this length and above are not used as endpoint names

cdef enum DecodeResult:                  # of decoding one object
    DECODED = 0
    MALFORMED = -1                  # the object is left out; where its name is known, `*object` has that and its namespace and version
    NO_MEMORY = -2

cdef struct Array:                  # grows by doubling; owned by its Scratch
    void *data
    uint32_t count
    uint32_t capacity

cdef union Spare:                   # takes an element that is beyond a limit
    Address address
    Port port
    Endpoint endpoint
    Label label

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
    uint32_t cut[CUT_COUNT]         # elements that were left out
    uint8_t is_cut                  # some were
    Spare spare

cdef void scratch_init(Scratch *scratch) noexcept nogil
cdef void scratch_free(Scratch *scratch) noexcept nogil
# Begins an object: all arrays are empty, and nothing was cut.
cdef void scratch_begin(Scratch *scratch) noexcept nogil

cdef inline void note_cut(Scratch *scratch, Cut cut, uint32_t count) noexcept nogil:
    scratch.cut[<int>cut] += count
    scratch.is_cut = 1

# One more element, zeroed; NULL when memory ran out. At the limit it is the spare element, which nobody reads, and is noted as cut.
cdef void *array_add(Scratch *scratch, Array *array, uint32_t size, uint32_t limit, Cut cut) noexcept nogil

cdef inline Address *add_cluster_ip(Scratch *scratch) noexcept nogil:
    return <Address *>array_add(scratch, &scratch.cluster_ips, sizeof(Address), CLUSTER_IPS_MAX, CUT_CLUSTER_IPS)

cdef inline Address *add_external_ip(Scratch *scratch) noexcept nogil:
    return <Address *>array_add(scratch, &scratch.external_ips, sizeof(Address), EXTERNAL_IPS_MAX, CUT_EXTERNAL_IPS)

cdef inline Port *add_port(Scratch *scratch) noexcept nogil:
    return <Port *>array_add(scratch, &scratch.ports, sizeof(Port), PORTS_MAX, CUT_PORTS)

cdef inline Label *add_label(Scratch *scratch) noexcept nogil:
    return <Label *>array_add(scratch, &scratch.labels, sizeof(Label), LABELS_MAX, CUT_LABELS)

cdef inline Endpoint *add_endpoint(Scratch *scratch) noexcept nogil:
    return <Endpoint *>array_add(scratch, &scratch.endpoints, sizeof(Endpoint), ENDPOINTS_MAX, CUT_ENDPOINTS)

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
# Puts what is in the arrays into the struct, within its limits and with the sentinel ports where the kind has them. A DecodeResult.
cdef int finish_service(Scratch *scratch, Span cluster_ip, Span type) noexcept nogil
cdef int finish_slice(Scratch *scratch, Span trigger) noexcept nogil
cdef int finish_import(Scratch *scratch, Span type) noexcept nogil
cdef int finish_pod(Scratch *scratch) noexcept nogil
