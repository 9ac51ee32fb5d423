"""The native handler of any: one HINFO record for type ANY (RFC 8482 4.2)."""
from libc.stdint cimport uint8_t
from fastdns.api.query cimport ANSWERED, NEXT, Handler, NativeHandler, Query, Verdict, handler_init, query_answer
from fastdns.api.reply cimport RECORD_OWNED, SECTION_ANSWER, Record, reply_add
from fastdns.api.wire cimport CLASS_IN, RCODE_NOERROR, TYPE_ANY, TYPE_HINFO

cdef enum:
    TTL = 8482                  # seconds: the RFC's own number
    RDATA_LENGTH = 27

cdef const char *RDATA = b"\x0dANY obsoleted\x0cSee RFC 8482"


cdef Verdict any_query(Handler *self, Query *q) noexcept nogil:
    cdef Record *record
    if q.qtype != TYPE_ANY:
        return NEXT
    query_answer(q, RCODE_NOERROR, 0)
    record = reply_add(&q.reply, SECTION_ANSWER)
    if record != NULL:
        record.owner = q.name.wire
        record.owner_length = q.name.length
        record.type = TYPE_HINFO
        record.klass = CLASS_IN
        record.ttl = TTL
        record.rdata = <const uint8_t *>RDATA
        record.rdlength = RDATA_LENGTH
        record.flags = RECORD_OWNED     # constant: parking need not copy it
    return ANSWERED


cdef class AnyHandler(NativeHandler):

    def __cinit__(self, *args):
        handler_init(self)
        self.handler.query = any_query
