"""What clients of a listening address get once they are accepted: with or without TLS, and which transport their queries count as."""
from fastdns.tls.context cimport ServerContext, TlsContext
from fastdns.walk.query cimport Transport

cdef struct StreamService:
    TlsContext *context             # borrowed from the Service; NULL: clear text
    Transport transport

cdef class Service:
    cdef StreamService native       # the sockets of its listener point to it
    cdef readonly ServerContext context
