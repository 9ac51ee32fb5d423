"""Queries over TCP (RFC 7766) and TLS (RFC 7858): pipelined on standing connections, which are made anew when they break."""
from fastdns.bench.generator.client cimport Carriage

cdef Carriage STREAM
