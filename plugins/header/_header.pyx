"""The native handler of header: two masks for queries and two for replies."""
from libc.stdint cimport uint16_t
from fastdns.api.query cimport NEXT, UP, Handler, NativeHandler, Query, Verdict, handler_init
from fastdns.api.wire cimport FLAG_CD, FLAG_RD, OPCODE_QUERY, flags_opcode

cdef struct HeaderState:
    uint16_t query_set
    uint16_t query_clear
    uint16_t response_set
    uint16_t response_clear


cdef inline uint16_t changed(uint16_t flags, uint16_t cleared, uint16_t added) noexcept nogil:
    return (flags & ~cleared) | added


cdef Verdict header_query(Handler *self, Query *q) noexcept nogil:
    """For the handlers below, and for every reply that is made from this query, above too."""
    cdef const HeaderState *state = <const HeaderState *>self.state
    q.flags = changed(q.flags, state.query_clear, state.query_set)
    q.message.flags = changed(q.message.flags, state.query_clear, state.query_set)
    return NEXT


cdef Verdict header_reply(Handler *self, Query *q) noexcept nogil:
    cdef const HeaderState *state = <const HeaderState *>self.state
    if not q.reply.written:
        return UP
    if not q.reply.verbatim:        # RD and CD would be the query's: from here on they are the reply's own
        q.reply.verbatim = 1
        q.reply.flags &= ~<uint16_t>(FLAG_RD | FLAG_CD)
        if flags_opcode(q.message.flags) == OPCODE_QUERY:
            q.reply.flags |= q.message.flags & (FLAG_RD | FLAG_CD)
    q.reply.flags = changed(q.reply.flags, state.response_clear, state.response_set)
    return UP


cdef class HeaderHandler(NativeHandler):
    cdef HeaderState state

    def __init__(self, str name, tuple query, tuple response):
        handler_init(self)
        NativeHandler.__init__(self, name)
        self.state.query_set, self.state.query_clear = query
        self.state.response_set, self.state.response_clear = response
        self.handler.state = &self.state
        if any(query):
            self.handler.query = header_query
        if any(response):
            self.handler.reply = header_reply
