"""bufsize: the size in the OPT of a query that is too large becomes smaller, for the handlers below and for the reply."""
from libc.stdint cimport uint16_t
from fastdns.api.query cimport NEXT, Handler, NativeHandler, Query, Verdict, handler_init


cdef Verdict bufsize_query(Handler *self, Query *q) noexcept nogil:
    cdef uint16_t size = (<uint16_t *>self.state)[0]
    if q.edns.present and q.edns.udp_size > size:
        q.edns.udp_size = size      # q.message stays as it came, by which forward knows that there is something to write anew
    return NEXT


cdef class BufsizeHandler(NativeHandler):
    cdef uint16_t size          # octets

    def __init__(self, str name, uint16_t size):
        handler_init(self)
        NativeHandler.__init__(self, name)
        self.size = size
        self.handler.state = &self.size
        self.handler.query = bufsize_query
