"""The native handler of whoami: two records in the additional section, made in the query's own memory."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from libc.string cimport memcpy, memset
from fastdns.api.query cimport ANSWERED, Handler, NativeHandler, Query, Verdict, handler_init, query_answer, query_is_udp
from fastdns.api.reply cimport RECORD_OWNED, SECTION_ADDITIONAL, Record, reply_add, reply_alloc
from fastdns.api.names cimport NAME_MAX
from fastdns.api.wire cimport FLAG_AA, RCODE_NOERROR, TYPE_A, TYPE_AAAA, TYPE_SRV, store16

cdef enum:
    PROTO_LABEL = 5             # octets of "_udp" or "_tcp" with its length


cdef void add_address(Query *q) noexcept nogil:
    """The client's address, owned by the name as asked."""
    cdef uint16_t length = 4 if q.client.family == 4 else 16
    cdef uint8_t *octets = reply_alloc(&q.reply, length)
    cdef Record *record
    if octets == NULL:
        return
    record = reply_add(&q.reply, SECTION_ADDITIONAL)
    if record == NULL:
        return
    memcpy(octets, q.client.octets, length)
    record.owner = q.name.wire
    record.owner_length = q.name.length
    record.type = TYPE_A if length == 4 else TYPE_AAAA
    record.klass = q.qclass
    record.rdata = octets
    record.rdlength = length
    record.flags = RECORD_OWNED


cdef void add_port(Query *q) noexcept nogil:
    """The client's port as ``_udp.NAME SRV 0 0 PORT .``; left out for a name that would be too long with one more label."""
    cdef uint32_t length = q.name.length + PROTO_LABEL
    cdef const char *proto
    cdef uint8_t *octets
    cdef Record *record
    if length > NAME_MAX:
        return
    octets = reply_alloc(&q.reply, length + 7)
    if octets == NULL:
        return
    record = reply_add(&q.reply, SECTION_ADDITIONAL)
    if record == NULL:
        return
    proto = b"\x04_udp" if query_is_udp(q) else b"\x04_tcp"
    memcpy(octets, proto, PROTO_LABEL)
    memcpy(octets + PROTO_LABEL, q.name.wire, q.name.length)
    memset(octets + length, 0, 7)                       # priority 0, weight 0, port, target "."
    store16(octets + length + 4, q.client.port)
    record.owner = octets
    record.owner_length = <uint8_t>length
    record.type = TYPE_SRV
    record.klass = q.qclass
    record.rdata = octets + length
    record.rdlength = 7
    record.flags = RECORD_OWNED


cdef Verdict whoami_query(Handler *self, Query *q) noexcept nogil:
    query_answer(q, RCODE_NOERROR, FLAG_AA)
    add_address(q)
    add_port(q)
    return ANSWERED


cdef class Whoami(NativeHandler):

    def __cinit__(self, *args):
        handler_init(self)
        self.handler.query = whoami_query
