"""Queries over HTTP/1.1 in clear text (RFC 8484, RFC 9112), for servers that have no certificate: pipelined, replies in order."""
from fastdns.bench.generator.client cimport Carriage

cdef Carriage HTTP1
