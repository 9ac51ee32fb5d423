"""DNS over gRPC: calls of ``coredns.dns.DnsService/Query`` as requests of HTTP/2.

A body is a flag, a length in four octets, and the protobuf message ``DnsPacket { bytes msg = 1; }``
(https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md).
"""
from libc.stdint cimport uint8_t, uint32_t, int64_t
from fastdns.engine.http.request cimport HttpRequest

cdef enum:
    GRPC_BODY_MAX = 5 + 65535 + 4   # octets: the prefix, the largest message, and the packet around it

# A request that is whole, or too large. It is answered now or later.
cdef void grpc_ask(HttpRequest *request) noexcept nogil
# Refuses one whose fields are too large.
cdef void grpc_refuse_fields(HttpRequest *request) noexcept nogil
# Its time is over.
cdef void grpc_expire(HttpRequest *request) noexcept nogil
# Takes one of the fields that a call has, with its name in lower case.
cdef void grpc_field(HttpRequest *request, const uint8_t *name, uint32_t name_length, const uint8_t *value, uint32_t length) noexcept nogil
