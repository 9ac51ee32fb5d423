"""Queries over TCP (RFC 7766) and TLS (RFC 7858): pipelined on standing connections, which are made anew when they break."""
from fastdns.bench._client cimport Carriage, Driver

cdef Carriage STREAM

# The context of TLS connections in driver.tls. 0, -1 when there is no libssl, -2 when it has no memory.
cdef int tls_open(Driver *driver) noexcept nogil
cdef void tls_close(Driver *driver) noexcept nogil
