"""DNS over gRPC: calls of ``coredns.dns.DnsService/Query`` as requests of HTTP/2.

A body is a flag, a length in four octets, and the protobuf message ``DnsPacket { bytes msg = 1; }``
(https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md).
"""
from fastdns.engine.http.request cimport HttpService

cdef HttpService grpc_service
