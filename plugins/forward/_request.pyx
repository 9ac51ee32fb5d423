"""The message that goes upstream. The contract is in _request.pxd."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from libc.stdlib cimport malloc
from libc.string cimport memcmp, memcpy, memset
from fastdns.api.query cimport Query
from fastdns.api.names cimport NAME_MAX, wire_name_equal
from fastdns.api.wire cimport (HEADER_SIZE, MESSAGE_MAX, TYPE_OPT, TYPE_TSIG, Section, WireRecord, store16, store32, wire_begin_records,
                               wire_expand_name, wire_expand_rdata, wire_next_record)
from fastdns.plugins.forward._upstream cimport Exchange, REQUEST_INLINE


cdef bint same_edns(const Query *q) noexcept nogil:
    if not q.edns.present and not q.message.edns.present:
        return True
    return (q.edns.present == q.message.edns.present and q.edns.udp_size == q.message.edns.udp_size and q.edns.flags == q.message.edns.flags
            and q.edns.version == q.message.edns.version and q.edns.extended_rcode == q.message.edns.extended_rcode
            and q.edns.options_length == q.message.edns.options_length
            and (q.edns.options_length == 0 or q.edns.options == q.message.edns.options
                 or memcmp(q.edns.options, q.message.edns.options, q.edns.options_length) == 0))


cdef bint unchanged(const Query *q) noexcept nogil:
    return (q.packet != NULL and q.qtype == q.message.qtype and q.qclass == q.message.qclass
            and q.message.question_length == q.name.length + 4
            and memcmp(q.packet + HEADER_SIZE, q.name.wire, q.name.length) == 0 and same_edns(q))


cdef int request_write(Exchange *e, Query *q) noexcept nogil:
    cdef bint plain = unchanged(q)
    cdef bint others = not plain and q.packet != NULL and (
        q.message.counts[1] + q.message.counts[2] + q.message.counts[3] > (1 if q.message.edns.present else 0))
    cdef uint32_t room
    if plain:
        room = q.packet_length
    elif others:
        room = MESSAGE_MAX
    else:
        room = HEADER_SIZE + NAME_MAX + 4 + 11 + q.edns.options_length
    e.request = e.octets
    if room > REQUEST_INLINE:
        e.large = <uint8_t *>malloc(room)
        if e.large == NULL:
            return -1
        e.request = e.large
    e.question_length = <uint16_t>(q.name.length + 4)
    if plain:
        memcpy(e.request, q.packet, q.packet_length)
        e.size = q.packet_length
        store16(e.request, 0)
        store16(e.request + 2, q.flags & 0x7FFF)
    else:
        write_anew(e, q, others, room)
    return 0


cdef void write_anew(Exchange *e, Query *q, bint others, uint32_t room) noexcept nogil:
    cdef uint8_t *out = e.request
    cdef uint32_t used = HEADER_SIZE
    cdef uint16_t counts[3]
    memset(out, 0, HEADER_SIZE)
    memset(counts, 0, sizeof(counts))
    store16(out + 2, q.flags & 0x7FFF)
    out[5] = 1
    memcpy(out + used, q.name.wire, q.name.length)
    used += q.name.length
    store16(out + used, q.qtype)
    store16(out + used + 2, q.qclass)
    used += 4
    if others:
        used = copy_records(q, out, used, room - 11 - q.edns.options_length, counts)
    if q.edns.present:
        out[used] = 0
        store16(out + used + 1, TYPE_OPT)
        store16(out + used + 3, q.edns.udp_size)
        store32(out + used + 5, (<uint32_t>q.edns.extended_rcode << 24) | (<uint32_t>q.edns.version << 16) | q.edns.flags)
        store16(out + used + 9, q.edns.options_length)
        if q.edns.options_length:
            memcpy(out + used + 11, q.edns.options, q.edns.options_length)
        used += 11 + q.edns.options_length
        counts[2] += 1
    store16(out + 6, counts[0])
    store16(out + 8, counts[1])
    store16(out + 10, counts[2])
    e.size = used


cdef uint32_t copy_records(Query *q, uint8_t *out, uint32_t used, uint32_t room, uint16_t *counts) noexcept nogil:
    """The records of the client's message but OPT and TSIG (which no longer holds), as far as there is room."""
    cdef Section section
    cdef WireRecord record
    cdef uint32_t at
    cdef int owner, rdata
    wire_begin_records(q.packet, q.packet_length, &q.message, &section)
    while wire_next_record(&section, &record) > 0:
        if record.type == TYPE_OPT or record.type == TYPE_TSIG:
            continue
        if used + NAME_MAX + 10 > room:
            break
        at = record.owner
        owner = wire_expand_name(q.packet, q.packet_length, &at, out + used)
        if owner < 0:
            break
        rdata = wire_expand_rdata(q.packet, q.packet_length, &record, out + used + owner + 10, room - used - owner - 10)
        if rdata < 0:
            break
        used += owner
        store16(out + used, record.type)
        store16(out + used + 2, record.klass)
        store32(out + used + 4, record.ttl)
        store16(out + used + 8, rdata)
        used += 10 + rdata
        counts[record.section] += 1
    return used


cdef bint request_equal(const Exchange *a, const Exchange *b) noexcept nogil:
    cdef uint32_t question = HEADER_SIZE + a.question_length - 4
    return (a.size == b.size and a.question_length == b.question_length and a.by_tcp == b.by_tcp and a.limit == b.limit
            and memcmp(a.request + 2, b.request + 2, HEADER_SIZE - 2) == 0
            and wire_name_equal(a.request + HEADER_SIZE, b.request + HEADER_SIZE, a.question_length - 4)
            and memcmp(a.request + question, b.request + question, a.size - question) == 0)
