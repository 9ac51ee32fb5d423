"""The structs of decode/objects.pxd as protobuf that `skim_object` reads back: what the snapshot, and the zone of objects, are made of."""
from libc.stdint cimport uint8_t, uint64_t

from fastdns.plugins.kubernetes.decode.objects cimport Endpoint, Kind, Object

cdef struct Output:                 # a growing buffer; sticky: after a failed allocation nothing is added any more
    uint8_t *data                   # owned
    uint64_t length
    uint64_t capacity
    uint8_t failed

cdef void output_free(Output *out) noexcept nogil
cdef void output_add(Output *out, const void *data, uint64_t length) noexcept nogil
# Appends the message of an object. 0, or -1 when memory ran out.
cdef int encode_object(Output *out, Kind kind, const Object *object) noexcept nogil
# Appends an endpoint as a field of a slice's message; `out` says when memory ran out.
cdef void encode_endpoint(Output *out, const Endpoint *endpoint) noexcept nogil
