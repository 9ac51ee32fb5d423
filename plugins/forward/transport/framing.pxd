"""Messages of DNS on a connection, each behind its length (RFC 1035 4.2.2, RFC 7858)."""
from libc.stdint cimport uint32_t
from fastdns.plugins.forward._upstream cimport Connection, Framing

cdef const Framing *DNS_FRAMING

# Room for so many more octets to be sent. False: there is none.
cdef bint framing_reserve(Connection *c, uint32_t size) noexcept nogil
