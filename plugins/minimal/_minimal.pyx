"""The native handler of minimal: takes records out of the reply's table."""
from libc.stdint cimport uint16_t
from libc.stdio cimport snprintf
from fastdns.api.query cimport ERROR_MAX, UP, Handler, NativeHandler, Query, Verdict, handler_init
from fastdns.api.reply cimport KIND_META, KIND_NOERROR, SECTION_ANSWER, Reply, ReplyKind, reply_kind
from fastdns.api.names cimport wire_name_text
from fastdns.api.wire cimport flags_opcode

cdef enum:
    NAME_SHOWN = 130            # characters of a name: the text ends at ERROR_MAX


cdef void keep_answers(Reply *reply) noexcept nogil:
    cdef uint16_t i, kept = 0
    for i in range(reply.count):
        if reply.records[i].section == SECTION_ANSWER:
            if kept != i:
                reply.records[kept] = reply.records[i]
            kept += 1
    reply.count = kept


cdef void note_unhandled(Query *q) noexcept nogil:
    """A reply to a transfer or NOTIFY cannot be made smaller. It is sent unchanged and logged as CoreDNS does."""
    cdef char name[1024]
    cdef int length = wire_name_text(q.name.wire, name)
    snprintf(q.error, ERROR_MAX, b'plugin/minimal: unhandled response type "META" for "%.*s"', min(length, NAME_SHOWN), name)


cdef Verdict minimal_reply(Handler *self, Query *q) noexcept nogil:
    cdef ReplyKind kind
    if not q.reply.written:
        return UP
    kind = reply_kind(&q.reply, q.qtype, flags_opcode(q.message.flags))
    if kind == KIND_NOERROR:
        keep_answers(&q.reply)
        q.reply.edns.present = 0        # with its options: the server puts in one of its own
    elif kind == KIND_META:
        note_unhandled(q)
    return UP


cdef class MinimalHandler(NativeHandler):

    def __cinit__(self, *args):
        handler_init(self)
        self.handler.reply = minimal_reply
