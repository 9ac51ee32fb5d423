"""The native handler of nsid: one option in the OPT of a reply (RFC 5001)."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from libc.string cimport memcpy
from fastdns.api.query cimport NEXT, UP, Handler, NativeHandler, Query, Verdict, handler_init, query_scratch
from fastdns.api.reply cimport reply_alloc
from fastdns.api.wire cimport OPTION_NSID, Edns, load16, store16, wire_option

cdef enum:
    DATA_MAX = 2048             # octets: what surely fits a reply

cdef struct NsidState:
    uint16_t length
    uint8_t option[4 + DATA_MAX]    # code, length, data


cdef void put_option(const NsidState *state, Query *q) noexcept nogil:
    """Writes the reply's options anew: ours in place of each NSID, at the end where there is none."""
    cdef Edns *edns = &q.reply.edns
    cdef uint32_t at = 0, used = 0, size, wanted = 4 + state.length, total = edns.options_length + wanted
    cdef bint there = False
    cdef uint8_t *options
    while at + 4 <= edns.options_length:
        if load16(edns.options + at) == OPTION_NSID:
            total += wanted
        at += 4 + load16(edns.options + at + 2)
    if total > 0xFFFF:
        return
    options = reply_alloc(&q.reply, total)
    if options == NULL:
        return
    at = 0
    while at + 4 <= edns.options_length:
        size = 4 + load16(edns.options + at + 2)
        if at + size > edns.options_length:
            break
        if load16(edns.options + at) == OPTION_NSID:
            memcpy(options + used, state.option, wanted)
            used += wanted
            there = True
        else:
            memcpy(options + used, edns.options + at, size)
            used += size
        at += size
    if not there:
        memcpy(options + used, state.option, wanted)
        used += wanted
    edns.options = options
    edns.options_length = <uint16_t>used


cdef Verdict nsid_query(Handler *self, Query *q) noexcept nogil:
    if q.edns.options_length and wire_option(&q.edns, OPTION_NSID) != NULL:
        (<uint8_t *>query_scratch(self, q))[0] = 1
    return NEXT


cdef Verdict nsid_reply(Handler *self, Query *q) noexcept nogil:
    if not (<uint8_t *>query_scratch(self, q))[0] or not q.reply.written:
        return UP
    if not q.reply.edns.present:
        q.reply.edns.present = 1
        q.reply.edns.flags = 0
        q.reply.edns.options_length = 0
    put_option(<const NsidState *>self.state, q)
    return UP


cdef class NsidHandler(NativeHandler):
    cdef NsidState state

    MOST = DATA_MAX

    def __init__(self, str name, bytes data not None):
        handler_init(self)
        NativeHandler.__init__(self, name)
        if len(data) > DATA_MAX:
            raise ValueError(f"an identifier of more than {DATA_MAX} octets")
        self.state.length = <uint16_t>len(data)
        store16(self.state.option, OPTION_NSID)
        store16(self.state.option + 2, self.state.length)
        memcpy(self.state.option + 4, <const uint8_t *>data, len(data))
        self.handler.state = &self.state
        self.handler.scratch_size = 8
        self.handler.query = nsid_query
        self.handler.reply = nsid_reply
