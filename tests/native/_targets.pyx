"""Fuzz targets over single native functions: what reads the messages of clients, upstreams and proxies.

A target gets octets of its own, with nothing readable behind them, and returns NULL, or what is wrong beside a crash. tests/fuzz/targets.py has the table.
"""
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t
from libc.stdlib cimport free, malloc
from libc.string cimport memchr, memcmp, memcpy, memset

from fastdns._wire cimport (ACCEPT, FLAG_QR, FLAG_TC, HEADER_SIZE, IGNORE, MESSAGE_MAX, NAME_MAX, OPCODE_UPDATE,
                            RCODE_FORMERR, RCODE_SERVFAIL, REJECTION_MAX, TYPE_OPT, TYPE_TSIG, Acceptance, Message,
                            Name, Section, WireRecord, flags_opcode, flags_rcode, load16, store16, store32, wire_accept,
                            wire_accept_sections, wire_begin_records, wire_expand_name, wire_expand_rdata,
                            wire_name_copy, wire_name_equal, wire_name_hash, wire_name_length, wire_name_text,
                            wire_next_record, wire_option, wire_parse_reply, wire_read_name, wire_reject,
                            wire_skip_name, wire_subnet)
from fastdns.message.reply cimport RECORD_OWNED, LargeReplyBuffer, reply_append, reply_begin, reply_end, reply_own, reply_parse
from fastdns.message.text cimport text_read_name
from fastdns.message.tsig cimport Tsig, tsig_read
from fastdns.plugins.forward.transport.http1 cimport Response, http1_read
from fastdns.plugins.forward._upstream cimport ResponsePlace
from fastdns.proxy.header cimport PROXY_ABSENT, PROXY_PARTIAL, PROXY_PRESENT, ProxyHeader, ProxyStatus, proxy_parse
from fastdns.proxy.tlvs cimport ProxyTlvs, tlvs_new, tlvs_unref
from fastdns.telemetry.metrics cimport METRIC_CONTROL
from fastdns.walk.finish cimport finish_fit, finish_write
from fastdns.walk.query cimport TRANSPORT_TCP, TRANSPORT_UDP, Query, Worker, query_note_client, query_size

ctypedef const char *(*Target)(const uint8_t *octets, size_t size) noexcept nogil

cdef enum:
    TEXT_MAX = 1100             # octets of a name's presentation form
    QUERY_MAX = 4096            # octets of a query that a target makes
    PREFIXES = 16               # of an input that are tried besides the whole

cdef uint8_t expanded[2][MESSAGE_MAX + 1]
cdef uint8_t sent[MESSAGE_MAX + 1]
cdef Worker worker
cdef Query queries[2]
memset(&worker, 0, sizeof(worker))
worker.message = <uint8_t *>malloc(MESSAGE_MAX + 1024)
worker.large.limit = 2
if worker.message == NULL:
    raise MemoryError


cdef const uint8_t *copied(const uint8_t *octets, size_t size) noexcept nogil:
    """A copy, whose end a sanitizer watches; the caller frees it."""
    cdef uint8_t *copy = <uint8_t *>malloc(size if size else 1)
    if size:
        memcpy(copy, octets, size)
    return copy


# ---- messages ----

cdef const char *check_packet(const uint8_t *octets, size_t size) noexcept nogil:
    """A message from a client: a rejection is itself a message, and what is accepted has all its parts inside."""
    cdef Message message, same
    cdef Name name
    cdef uint8_t rcode = 0
    cdef uint8_t *out
    cdef const char *failure = NULL
    cdef uint32_t length
    cdef Acceptance how
    if size > MESSAGE_MAX:
        return NULL
    how = wire_accept(octets, <uint32_t>size, &message, &name, &rcode)
    if how != ACCEPT and how != IGNORE and flags_opcode(message.flags) == OPCODE_UPDATE and message.counts[0] == 1:  # for a server that takes it
        rcode = RCODE_FORMERR
        how = wire_accept_sections(octets, <uint32_t>size, &message, &name, &rcode)
    if how == IGNORE:
        return NULL
    if how == ACCEPT:
        if wire_parse_reply(octets, <uint32_t>size, &same, NULL) < 0 or same.records != message.records or same.tsig != message.tsig:
            return b"a message that is accepted is none"
        failure = check_name(&name)
        return failure if failure != NULL else check_parts(octets, <uint32_t>size, &message)
    out = <uint8_t *>malloc(REJECTION_MAX)
    length = wire_reject(octets, &message, how, rcode, out)
    if length > REJECTION_MAX or wire_parse_reply(out, length, &same, NULL) < 0 or same.id != message.id or not same.flags & FLAG_QR:
        failure = b"a rejection is no reply"
    free(out)
    return failure


cdef const char *check_parts(const uint8_t *octets, uint32_t size, const Message *message) noexcept nogil:
    cdef Section section
    cdef WireRecord record
    cdef uint8_t address[16]
    cdef const uint8_t *option
    cdef uint32_t code
    cdef int status
    wire_begin_records(octets, size, message, &section)
    while True:
        status = wire_next_record(&section, &record)
        if status < 0:
            return b"a record of a message that was checked is malformed"
        if status == 0:
            break
        if record.rdata + record.rdlength > size:
            return b"a record ends behind its message"
        wire_expand_rdata(octets, size, &record, expanded[0], MESSAGE_MAX)
    wire_subnet(&message.edns, address)
    for code in range(20):
        option = wire_option(&message.edns, <uint16_t>code)
        if option != NULL and (option < octets or option + 4 + load16(option + 2) > octets + size or load16(option) != code):
            return b"an option is not in its message"
    return check_tsig(octets, size, message)


cdef const char *check_tsig(const uint8_t *octets, uint32_t size, const Message *message) noexcept nogil:
    cdef Tsig tsig
    if message.tsig == 0 or tsig_read(octets, size, message, message.tsig, &tsig) < 0:
        return NULL
    if tsig.mac < octets or tsig.mac + tsig.mac_length > octets + size or tsig.other < octets or tsig.other + tsig.other_length > octets + size:
        return b"a MAC is not in its message"
    if wire_name_length(tsig.key) != tsig.key_length or wire_name_length(tsig.algorithm) != tsig.algorithm_length:
        return b"a name of a TSIG is none"
    return NULL


cdef uint32_t put_query(uint8_t *out, uint16_t additional) noexcept nogil:
    """Header and question of a query for www.example.org, A."""
    memset(out, 0, HEADER_SIZE)
    out[2] = out[5] = 1
    store16(out + 10, additional)
    memcpy(out + HEADER_SIZE, b"\3www\7example\3org\0\0\1\0\1", 21)
    return HEADER_SIZE + 21


cdef const char *check_edns(const uint8_t *octets, size_t size) noexcept nogil:
    """Size, flags and options of an OPT (RFC 6891): the query is accepted or rejected, and its reply has an OPT and fits."""
    cdef uint8_t *query
    cdef uint32_t used
    cdef const char *failure
    if size < 6 or size > QUERY_MAX - 64:
        return NULL
    query = <uint8_t *>malloc(HEADER_SIZE + 21 + 5 + size)
    used = put_query(query, 1)
    query[used] = 0
    store16(query + used + 1, TYPE_OPT)
    memcpy(query + used + 3, octets, 6)
    store16(query + used + 9, <uint32_t>size - 6)
    memcpy(query + used + 11, octets + 6, size - 6)
    used += 5 + <uint32_t>size
    failure = check_packet(query, used)
    if failure == NULL:
        failure = answer(query, used, b"\0\0\x84\0\0\0\0\0\0\0\0\0", HEADER_SIZE, octets[0] & 3)
    free(query)
    return failure


cdef const char *check_signed(const uint8_t *octets, size_t size) noexcept nogil:
    """The records of a signed message (RFC 8945): first the octet that says whether the last one is a TSIG whose owner and rdata follow, or all as it is."""
    cdef uint8_t *query
    cdef Name name
    cdef uint32_t used, at = 1, length
    cdef const char *failure
    if size < 1 or size > QUERY_MAX - 64:
        return NULL
    query = <uint8_t *>malloc(HEADER_SIZE + 21 + 10 + size)
    used = put_query(query, 1 + (octets[0] & 1))
    if octets[0] & 2 and wire_read_name(octets, <uint32_t>size, &at, &name) == 0 and name.length == at - 1:
        memcpy(query + used, octets + 1, at - 1)
        used += at - 1
        length = <uint32_t>size - at
        store16(query + used, TYPE_TSIG)
        store16(query + used + 2, 255)
        store32(query + used + 4, 0)
        store16(query + used + 8, length)
        used += 10
        memcpy(query + used, octets + at, length)
        used += length
        query[11] = 1
    else:
        memcpy(query + used, octets + 1, size - 1)
        used += <uint32_t>size - 1
    octets = copied(query, used)
    failure = check_packet(octets, used)
    free(<void *>octets)
    free(query)
    return failure


# ---- replies ----

cdef const char *check_reply(const uint8_t *octets, size_t size) noexcept nogil:
    """A reply of an upstream, for a query that its first octet chooses: what the client gets are the same records, or the first of them with TC."""
    cdef uint8_t query[HEADER_SIZE + 21 + 11]
    cdef uint32_t used
    if size < 1 or size > MESSAGE_MAX:
        return NULL
    used = put_query(query, 1 if octets[0] & 8 else 0)
    if octets[0] & 8:
        memcpy(query + used, b"\0\0\x29\x04\xd0\0\0\x80\0\0\0", 11)
        store16(query + used + 3, 512 + 16 * (octets[0] & 0xF0))
        used += 11
    return answer(query, used, octets + 1, <uint32_t>size - 1, octets[0] & 7)


cdef const char *answer(const uint8_t *query, uint32_t query_length, const uint8_t *reply, uint32_t length, uint8_t how) noexcept nogil:
    """how: 1 over TCP, 2 as if the query had been parked, 4 as if a child had the reply."""
    cdef Query *q = &queries[0]
    cdef Query *made = &queries[1] if how & 4 else &queries[0]
    cdef LargeReplyBuffer *large
    cdef uint8_t rcode
    cdef uint32_t i
    cdef const char *failure = NULL
    q.worker = &worker
    q.transport = TRANSPORT_TCP if how & 1 else TRANSPORT_UDP
    q.client.family = 4
    q.packet = query
    q.packet_length = query_length
    if wire_accept(query, query_length, &q.message, &q.first_name, &rcode) != ACCEPT:
        return NULL
    q.edns = q.message.edns
    query_note_client(q)
    q.name = &q.first_name
    q.flags = q.message.flags
    reply_begin(&queries[0].reply, &worker.large)
    reply_begin(&queries[1].reply, &worker.large)
    if reply_parse(&made.reply, reply, length) == 0:
        if how & 4:
            q.reply.rcode = made.reply.rcode
            q.reply.flags = made.reply.flags
            how |= <uint8_t>(0 if reply_append(&q.reply, &made.reply, -1) == 0 else 0x80)
        elif how & 2:
            for i in range(q.reply.count):
                q.reply.records[i].flags &= ~RECORD_OWNED
            how |= <uint8_t>(0 if reply_own(&q.reply) == 0 else 0x80)
        q.reply.written = 1
        if not how & 0x80:
            finish_fit(q)
            failure = check_sent(q, reply, length)
    reply_end(&queries[0].reply)
    reply_end(&queries[1].reply)
    while worker.large.free != NULL:
        large = worker.large.free
        worker.large.free = large.next
        worker.large.made -= 1
        free(large)
    return failure


cdef const char *check_sent(Query *q, const uint8_t *reply, uint32_t length) noexcept nogil:
    cdef Message message, original
    cdef uint32_t records, size = finish_write(q, sent)
    if size > q.reply.message_size or size > query_size(q):
        return b"a message is larger than it may be"
    if wire_parse_reply(sent, size, &message, NULL) < 0 or message.id != q.message.id or not message.flags & FLAG_QR:
        return b"what is sent is no reply"
    if wire_parse_reply(reply, length, &original, NULL) < 0:
        return b"a reply that was read is none"
    if (q.client_edns != 0) != (message.edns.present != 0):
        return b"a reply has an OPT, and its query none, or the other way round"
    if original.edns.present and original.edns.extended_rcode and not q.client_edns:
        # An extended rcode needs an OPT record (RFC 6891 6.1.3). Without one the reply is SERVFAIL and has no records.
        records = message.counts[1] + message.counts[2] + message.counts[3]
        if flags_rcode(message.flags) != RCODE_SERVFAIL or message.flags & FLAG_TC or records:
            return b"an extended rcode without an OPT is no bare SERVFAIL"
        return NULL
    return check_records(&message, size, &original, reply, length)


cdef const char *check_records(const Message *message, uint32_t size, const Message *original, const uint8_t *reply, uint32_t length) noexcept nogil:
    """The records of `sent` are those of the reply, in order, or the first of them. OPT is of each hop (RFC 6891 6.1.1)."""
    cdef Section ours, theirs
    cdef WireRecord mine, other
    cdef uint8_t names[2][NAME_MAX]
    cdef uint32_t at
    cdef int n
    wire_begin_records(sent, size, message, &ours)
    wire_begin_records(reply, length, original, &theirs)
    while next_of(&ours, &mine):
        if not next_of(&theirs, &other):
            return b"a record more than the upstream has sent"
        if mine.type != other.type or mine.klass != other.klass or mine.section != other.section:
            return b"another record than the upstream has sent"
        if mine.ttl != (other.ttl if other.ttl < 0x80000000u else 0):
            return b"another TTL than the upstream has sent"
        at = mine.owner
        n = wire_expand_name(sent, size, &at, names[0])
        at = other.owner
        if n < 0 or wire_expand_name(reply, length, &at, names[1]) != n or memcmp(names[0], names[1], n) != 0:
            return b"another owner than the upstream has sent"
        n = wire_expand_rdata(sent, size, &mine, expanded[0], MESSAGE_MAX)
        if n < 0 or wire_expand_rdata(reply, length, &other, expanded[1], MESSAGE_MAX) != n or memcmp(expanded[0], expanded[1], n) != 0:
            return b"other rdata than the upstream has sent"
    if next_of(&theirs, &other) and not message.flags & FLAG_TC:
        return b"records are lost without TC"
    return NULL


cdef bint next_of(Section *section, WireRecord *record) noexcept nogil:
    while wire_next_record(section, record) > 0:
        if record.section != 2 or record.type != TYPE_OPT:
            return True
    return False


# ---- names ----

cdef const char *check_name(const Name *name) noexcept nogil:
    """All fields of a name agree, and its presentation form is read as the same name."""
    cdef char text[TEXT_MAX]
    cdef uint8_t back[NAME_MAX]
    cdef Name copy
    cdef int length = wire_name_text(name.wire, text)
    if length >= TEXT_MAX or memchr(text, 0, length) != NULL:
        return b"a name has a strange presentation form"
    if text_read_name(text, <uint32_t>length, back) != name.length or memcmp(back, name.wire, name.length) != 0:
        return b"the presentation form of a name is another name"
    wire_name_copy(&copy, name.lower, name.length)
    if copy.labels != name.labels or memcmp(copy.hash, name.hash, (name.labels + 1) * sizeof(uint32_t)) != 0 or wire_name_hash(name.lower) != name.hash[0]:
        return b"a name in lower case has another hash"
    if not wire_name_equal(name.wire, name.lower, name.length) or memcmp(copy.offset, name.offset, name.labels + 1) != 0:
        return b"a name in lower case is another name"
    return NULL


cdef const char *check_names(const uint8_t *octets, size_t size) noexcept nogil:
    """Two octets of offset, and a message with a name there; and all of it as the presentation form of a name."""
    cdef uint8_t wire[NAME_MAX]
    cdef Name name
    cdef uint32_t begin, at, length
    cdef int n
    cdef const char *failure
    n = text_read_name(<const char *>octets, <uint32_t>size, wire)
    at = 0
    if n >= 0:
        if wire_read_name(wire, <uint32_t>n, &at, &name) < 0 or name.length != n:
            return b"a presentation form is read as no name"
        failure = check_name(&name)
        if failure != NULL:
            return failure
    if size < 2 or size > MESSAGE_MAX:
        return NULL
    begin = load16(octets) % <uint32_t>size
    length = <uint32_t>size - 2
    at = begin
    n = wire_expand_name(octets + 2, length, &at, wire)
    if (wire_read_name(octets + 2, length, &begin, &name) == 0) != (n >= 0):
        return b"a name is read by one function and not by the other"
    if n < 0:
        return NULL
    if n != name.length or begin != at or memcmp(wire, name.wire, n) != 0:
        return b"a name is read in two ways"
    at = load16(octets) % <uint32_t>size
    if wire_skip_name(octets + 2, length, &at) < 0 or at != begin:
        return b"a name ends elsewhere"
    return check_name(&name)


# ---- what comes before a message ----

cdef const char *check_tlvs(const uint8_t *octets, uint32_t length) noexcept nogil:
    """The TLVs of a header: what is kept of them is kept again as it is, one TLV after the other."""
    cdef const uint8_t *copy = copied(octets, length)
    cdef ProxyTlvs *kept = tlvs_new(copy, length, METRIC_CONTROL)
    cdef ProxyTlvs *again = NULL
    cdef const char *failure = NULL
    cdef uint32_t at = 0
    if kept != NULL:
        while at + 3 <= kept.length:
            at += 3 + load16(kept.octets + at + 1)
        again = tlvs_new(kept.octets, kept.length, METRIC_CONTROL)
        if at != kept.length or kept.length > length:
            failure = b"TLVs that are kept are malformed"
        elif again == NULL or again.length != kept.length or memcmp(again.octets, kept.octets, kept.length) != 0:
            failure = b"TLVs are kept otherwise a second time"
    free(<void *>copy)
    tlvs_unref(kept, METRIC_CONTROL)
    tlvs_unref(again, METRIC_CONTROL)
    return failure


cdef const char *check_proxy(const uint8_t *octets, size_t size) noexcept nogil:
    """A PROXY header: it ends where it ends, whatever follows, and no part of it is a header."""
    cdef ProxyHeader header, part
    cdef ProxyStatus whole = proxy_parse(octets, <uint32_t>size, &header), status
    cdef uint32_t i, length, last = header.length if whole == PROXY_PRESENT else <uint32_t>size
    cdef const uint8_t *copy
    if whole == PROXY_PRESENT and header.length > size:
        return b"a header ends behind its octets"
    if whole == PROXY_PRESENT and check_tlvs(octets + header.length - header.tlvs, header.tlvs) != NULL:
        return check_tlvs(octets + header.length - header.tlvs, header.tlvs)
    for i in range(PREFIXES + 1):
        length = last * i // PREFIXES
        copy = copied(octets, length)
        status = proxy_parse(copy, length, &part)
        free(<void *>copy)
        if length == last:
            if status != whole or part.length != header.length:
                return b"a header is another one without what follows"
        elif status == PROXY_PRESENT:
            return b"a part of a header is a header"
        elif status == PROXY_PARTIAL and part.wanted <= length:
            return b"a part of a header wants nothing more"
        elif whole == PROXY_PRESENT and status != PROXY_PARTIAL:
            return b"a part of a header cannot become one"
        elif whole == PROXY_ABSENT and status != PROXY_PARTIAL and status != PROXY_ABSENT:
            return b"a part of what is no header is malformed"
    return NULL


cdef const char *check_http_response(const uint8_t *octets, size_t size) noexcept nogil:
    """A response of an upstream over HTTP/1.1: it ends where it ends, whatever follows, and is not whole before."""
    cdef Response response, part
    cdef ResponsePlace place, none
    cdef uint8_t *copy = <uint8_t *>copied(octets, size)
    cdef int64_t whole, status
    cdef uint32_t i, length, last
    cdef const char *failure = NULL
    memset(&place, 0, sizeof(place))
    whole = http1_read(copy, <uint32_t>size, True, &place, &response)
    last = <uint32_t>whole if whole > 0 else <uint32_t>size
    memset(&place, 0, sizeof(place))
    if whole > <int64_t>size or whole > 0 and (response.body < copy or response.body + response.size > copy + whole):
        failure = b"a response ends behind its octets"
    free(copy)
    for i in range(PREFIXES):
        length = last * i // PREFIXES
        copy = <uint8_t *>copied(octets, length)
        memset(&none, 0, sizeof(none))
        status = http1_read(copy, length, False, &none, &part)
        free(copy)
        # With what was seen of fewer octets it is the same.
        copy = <uint8_t *>copied(octets, length)
        if (http1_read(copy, length, False, &place, &part) > 0) != (status > 0):
            failure = b"a response that comes in pieces ends elsewhere"
        free(copy)
        if status != 0:
            memset(&place, 0, sizeof(place))
        if status > 0 or status < 0 and whole >= 0:
            failure = b"a part of a response is a response, or cannot become one"
    return failure


# ---- Python ----

cdef dict made = {}


cdef int add(str name, Target target) except -1:
    made[name] = <size_t>target
    return 0


add("packet", check_packet)
add("name", check_names)
add("edns", check_edns)
add("tsig", check_signed)
add("reply", check_reply)
add("proxy", check_proxy)
add("http-response", check_http_response)


def addresses() -> dict:
    """Name of a target -> its address, for `call` and for libFuzzer."""
    return dict(made)


def call(size_t address, bytes octets not None) -> str:
    """What a target says of octets: "" where nothing is wrong."""
    cdef const uint8_t *copy = copied(octets, len(octets))
    cdef size_t size = len(octets)
    cdef const char *failure
    with nogil:
        failure = (<Target>address)(copy, size)
    free(<void *>copy)
    return failure.decode() if failure != NULL else ""
