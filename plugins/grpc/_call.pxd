"""Calls of ``coredns.dns.DnsService/Query`` on streams of HTTP/2.

A body is a flag, a length in four octets, and the protobuf message ``DnsPacket { bytes msg = 1; }``
(https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md).
"""
from fastdns.plugins.forward._upstream cimport Exchange, HttpService

cdef enum:
    GRPC_UNKNOWN = 2
    GRPC_NOT_FOUND = 5
    GRPC_RESOURCE_EXHAUSTED = 8
    GRPC_INTERNAL = 13
    GRPC_UNAVAILABLE = 14

cdef const HttpService *GRPC_SERVICE

# The exchange's status, and as its error "rpc error: code = ... desc = TEXT".
cdef void call_fail(Exchange *e, int status, const char *text) noexcept nogil
