"""The message that goes upstream. The contract is in _request.pxd."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from libc.stdlib cimport malloc
from libc.string cimport memcmp, memcpy, memmove, memset
from fastdns.api.query cimport Query, query_is_udp
from fastdns.api.names cimport NAME_MAX, wire_name_equal
from fastdns.api.wire cimport (EDNS_DO, EDNS_SIZE, HEADER_SIZE, MESSAGE_MAX, OPTION_ERROR, OPTION_SUBNET, TYPE_OPT, TYPE_TSIG, Edns, Section, WireRecord,
                               load16, option_is_hop_by_hop, store16, store32, wire_begin_records, wire_expand_name, wire_expand_rdata,
                               wire_next_record, wire_option)
from fastdns.plugins.forward._upstream cimport COOKIE_SPACE, Exchange, REQUEST_INLINE


cdef bint same_edns(const Query *q) noexcept nogil:
    if not q.edns.present and not q.message.edns.present:
        return True
    return (q.edns.present == q.message.edns.present and q.edns.udp_size == q.message.edns.udp_size and q.edns.flags == q.message.edns.flags
            and q.edns.version == q.message.edns.version and q.edns.extended_rcode == q.message.edns.extended_rcode
            and q.edns.options_length == q.message.edns.options_length
            and (q.edns.options_length == 0 or q.edns.options == q.message.edns.options
                 or memcmp(q.edns.options, q.message.edns.options, q.edns.options_length) == 0))


cdef bint has_hop_by_hop(const Edns *edns) noexcept nogil:
    cdef uint32_t at = 0
    while at + 4 <= edns.options_length:
        if option_is_hop_by_hop(load16(edns.options + at)):
            return True
        at += 4 + <uint32_t>load16(edns.options + at + 2)
    return False


cdef bint unchanged(const Query *q) noexcept nogil:
    return (q.packet != NULL and q.qtype == q.message.qtype and q.qclass == q.message.qclass
            and q.message.question_length == q.name.length + 4
            and memcmp(q.packet + HEADER_SIZE, q.name.wire, q.name.length) == 0 and same_edns(q))


cdef int request_write(Exchange *e, Query *q) noexcept nogil:
    cdef bint plain = unchanged(q)
    cdef const uint8_t *size = NULL     # of the client's OPT, in the packet; NULL: it stays
    # A signed message that is not for us goes on as it is (RFC 8945 5.5).
    if plain and q.edns.present and not q.message.tsig:
        if q.edns.options_length and has_hop_by_hop(&q.edns):
            plain = False
        elif q.edns.udp_size > EDNS_SIZE:
            size = q.message.edns.options - 8   # class, TTL and length of the rdata stand before it
            plain = q.packet + HEADER_SIZE < size < q.packet + q.packet_length
    cdef bint others = not plain and q.packet != NULL and (
        q.message.counts[1] + q.message.counts[2] + q.message.counts[3] > (1 if q.message.edns.present else 0))
    cdef uint32_t capacity
    if plain:
        capacity = q.packet_length
    elif others:
        capacity = MESSAGE_MAX
    else:
        capacity = HEADER_SIZE + NAME_MAX + 4 + 11 + q.edns.options_length
    e.request = e.octets
    if capacity + COOKIE_SPACE > REQUEST_INLINE:
        e.large = <uint8_t *>malloc(capacity + COOKIE_SPACE)
        if e.large == NULL:
            return -1
        e.request = e.large
    e.question_length = <uint16_t>(q.name.length + 4)
    e.signed = plain and q.message.counts[3] > (1 if q.message.edns.present else 0)      # TSIG or SIG(0), or no telling
    if plain:
        memcpy(e.request, q.packet, q.packet_length)
        e.size = q.packet_length
        store16(e.request, 0)
        store16(e.request + 2, q.flags & 0x7FFF)
        if q.edns.present:
            find_opt(e, q)
        if size != NULL:
            store16(e.request + (size - q.packet), EDNS_SIZE)
    else:
        write_anew(e, q, others, capacity)
    return 0


cdef void find_opt(Exchange *e, Query *q) noexcept nogil:
    cdef const uint8_t *options = q.message.edns.options
    cdef const uint8_t *end = q.packet + q.packet_length
    e.opt_fixed = not (q.packet + HEADER_SIZE < options <= end) or options + q.message.edns.options_length != end
    if not e.opt_fixed:
        e.opt = <uint16_t>(options - 2 - q.packet)


cdef void write_anew(Exchange *e, Query *q, bint others, uint32_t capacity) noexcept nogil:
    cdef uint8_t *out = e.request
    cdef uint32_t used = HEADER_SIZE
    cdef uint32_t length
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
        used = copy_records(q, out, used, capacity - 11 - q.edns.options_length, counts)
    if q.edns.present:
        out[used] = 0
        store16(out + used + 1, TYPE_OPT)
        store16(out + used + 3, min(q.edns.udp_size, <uint16_t>EDNS_SIZE))
        store32(out + used + 5, (<uint32_t>q.edns.extended_rcode << 24) | (<uint32_t>q.edns.version << 16) | q.edns.flags)
        length = copy_options(&q.edns, out + used + 11)
        store16(out + used + 9, length)
        e.opt = <uint16_t>(used + 9)
        used += 11 + length
        counts[2] += 1
    store16(out + 6, counts[0])
    store16(out + 8, counts[1])
    store16(out + 10, counts[2])
    e.size = used


cdef uint32_t copy_options(const Edns *edns, uint8_t *out) noexcept nogil:
    """The options but those that are hop by hop. Returns their octets."""
    cdef uint32_t at = 0, used = 0, size
    while at + 4 <= edns.options_length:
        size = 4 + <uint32_t>load16(edns.options + at + 2)
        if not option_is_hop_by_hop(load16(edns.options + at)):
            memcpy(out + used, edns.options + at, size)
            used += size
        at += size
    return used


cdef uint32_t copy_records(Query *q, uint8_t *out, uint32_t used, uint32_t capacity, uint16_t *counts) noexcept nogil:
    """The records of the client's message but OPT and TSIG (which no longer holds), as far as there is room."""
    cdef Section section
    cdef WireRecord record
    cdef uint32_t at
    cdef int owner, rdata
    wire_begin_records(q.packet, q.packet_length, &q.message, &section)
    while wire_next_record(&section, &record) > 0:
        if record.type == TYPE_OPT or record.type == TYPE_TSIG:
            continue
        if used + NAME_MAX + 10 > capacity:
            break
        at = record.owner
        owner = wire_expand_name(q.packet, q.packet_length, &at, out + used)
        if owner < 0:
            break
        rdata = wire_expand_rdata(q.packet, q.packet_length, &record, out + used + owner + 10, capacity - used - owner - 10)
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


cdef uint32_t request_limit(const Query *q) noexcept nogil:
    if not query_is_udp(q):
        return MESSAGE_MAX
    return max(512, <uint32_t>q.edns.udp_size) if q.edns.present else 512


cdef inline bint is_for_client(const Query *q, uint16_t code) noexcept nogil:
    if code == OPTION_ERROR:
        return True
    # A subnet that a rule has added is none that the client asks about.
    return not option_is_hop_by_hop(code) and wire_option(&q.message.edns if code == OPTION_SUBNET else &q.edns, code) != NULL


cdef void request_clear_options(Query *q) noexcept nogil:
    cdef Edns *edns = &q.reply.edns
    cdef uint8_t *options = <uint8_t *>edns.options     # the reply's own copy
    cdef uint32_t at = 0, used = 0, size
    if not edns.present:
        return
    edns.flags &= EDNS_DO & q.message.edns.flags    # replies are told apart by it
    while at + 4 <= edns.options_length:
        size = 4 + <uint32_t>load16(options + at + 2)
        if is_for_client(q, load16(options + at)):
            memmove(options + used, options + at, size)
            used += size
        at += size
    edns.options_length = <uint16_t>used


cdef bint request_equal(const Exchange *a, const Exchange *b) noexcept nogil:
    cdef uint32_t question = HEADER_SIZE + a.question_length - 4
    cdef uint32_t size = b.bare_size if b.cookie else b.size
    cdef uint32_t first = b.opt if b.cookie and not b.opt_added else size       # octets until the cookie's traces begin
    return (a.size == size and a.question_length == b.question_length and a.by_tcp == b.by_tcp and a.limit == b.limit
            and memcmp(a.request + 2, b.request + 2, HEADER_SIZE - 4) == 0
            and load16(a.request + 10) == load16(b.request + 10) - b.opt_added
            and wire_name_equal(a.request + HEADER_SIZE, b.request + HEADER_SIZE, a.question_length - 4)
            and memcmp(a.request + question, b.request + question, first - question) == 0
            and (first == size or load16(a.request + first) == load16(b.request + first) - b.cookie
                 and memcmp(a.request + first + 2, b.request + first + 2, size - first - 2) == 0))
