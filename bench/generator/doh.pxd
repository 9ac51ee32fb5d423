"""Queries over HTTPS (RFC 8484) by HTTP/2 (RFC 9113): a stream each, many at once on standing connections, replies in any order."""
from fastdns.bench.generator.client cimport Carriage

cdef Carriage DOH
