"""From a finished reply to a message. The contract is in walk/finish.pxd."""
from libc.stdint cimport int8_t, int64_t, uint8_t, uint16_t, uint32_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memcmp, memmove, memset, strlen
from fastdns.system.atomic cimport atomic_peek8, atomic_poke8
from fastdns._wire cimport (Edns, HEADER_SIZE, MESSAGE_MAX, FLAG_QR, FLAG_AA, FLAG_RA, FLAG_AD, FLAG_TC, FLAG_RD, FLAG_CD, OPT_SIZE, TYPE_OPT,
                            TYPE_TSIG, EDNS_DO, OPTION_ERROR, OPTION_EXPIRE, OPTION_NSID, RCODE_NOERROR, RCODE_SERVFAIL, ACCEPT,
                            copy_octets, load16, option_is_hop_by_hop, store16, store32, wire_accept,
                            wire_name_length, wire_option)
from fastdns.message.reply cimport (LargeReplyBuffer, Reply, Record, Signer, RECORD_OWNED, RECORD_SIGNER, SECTION_ADDITIONAL, reply_alloc, reply_append,
                                    reply_begin, reply_end, reply_own, reply_parse)
from fastdns.walk.query cimport COOKIE_IN_REPLY, COOKIE_OPTION, Query, Worker, TRANSPORT_TCP, TRANSPORT_UDP, query_is_udp, query_note_client, query_size
from fastdns.protocol.header cimport FLAGS_OPCODE, OPCODE_QUERY, flags_opcode, flags_rcode
from fastdns.protocol.rrtypes cimport BLOCK_COMPRESSIBLE, BLOCK_STRING, block_is_name, rrtype_get, rrtype_names

cdef enum:
    SUFFIX_SLOTS = 2048         # of the compression table; names beyond half of it are no longer remembered
    POINTER_REACH = 0x3FFF

cdef struct Compressor:         # names already written, by suffix
    uint16_t count
    uint32_t last_length        # the owner written last: most records share it
    const uint8_t *last
    uint16_t last_offset
    uint16_t slots[SUFFIX_SLOTS]    # offset in the message; 0: free

cdef struct Writer:
    uint8_t *out
    uint32_t used
    uint32_t limit
    Compressor *compressor      # NULL: only owners equal to the question become pointers


# ---- OPT (RFC 6891) ----

cdef uint8_t echoed[65536]


cdef inline bint option_is_echoed(uint16_t code) noexcept nogil:
    """NSID, and what rules name. Options that are hop by hop are answered by who knows them, or not at all."""
    return code == OPTION_NSID or (atomic_peek8(&echoed[code]) and not option_is_hop_by_hop(code))


cdef void finish_echo(uint16_t code) noexcept nogil:
    atomic_poke8(&echoed[code], 1)


cdef void set_reply_edns(Query *q) noexcept nogil:
    """The OPT of the reply: the plugin's made to fit the client's, else the client's with its echoed options. DO and size are the client's at most."""
    cdef Edns *own = &q.reply.edns
    cdef const Edns *asked = &q.message.edns    # with the options that handlers gave it
    cdef uint32_t at = 0, size, used = 0
    cdef uint8_t *kept = NULL
    if not q.client_edns:
        own.present = 0                 # RFC 6891 7
        return
    if not asked.present:
        return
    if not own.present:
        own.present = 1
        own.flags = asked.flags & 0xFF00
        own.options_length = 0
        if asked.options_length:
            while at + 4 <= asked.options_length:
                size = 4 + load16(asked.options + at + 2)
                if option_is_echoed(load16(asked.options + at)):
                    if kept == NULL:
                        kept = reply_alloc(&q.reply, asked.options_length)
                        if kept == NULL:
                            break
                    memcpy(kept + used, asked.options + at, size)
                    used += size
                at += size
            own.options = kept
            own.options_length = <uint16_t>used
    own.version = 0
    own.flags = (own.flags & 0xFF00 & ~EDNS_DO) | (q.client_edns & EDNS_DO)     # RFC 3225 3
    own.udp_size = min(q.edns.udp_size, q.client_size)      # bufsize may have made it smaller


cdef void query_option(Query *q, uint16_t code, const uint8_t *data, uint16_t length) noexcept nogil:
    cdef Edns *edns = &q.reply.edns
    cdef uint32_t others = edns.options_length if edns.present else 0
    cdef uint8_t *options
    if not q.message.edns.present or others + 4 + length > 0xFFFF:
        return
    options = reply_alloc(&q.reply, others + 4 + length)
    if options == NULL:
        return
    if others:
        memcpy(options, edns.options, others)
    store16(options + others, code)
    store16(options + others + 2, length)
    memcpy(options + others + 4, data, length)
    if not edns.present:
        edns.present = 1
        edns.flags = q.message.edns.flags
    edns.options = options
    edns.options_length = <uint16_t>(others + 4 + length)


cdef void query_error(Query *q, uint16_t code, const char *text) noexcept nogil:
    cdef uint8_t data[2 + 256]
    cdef size_t length = min(strlen(text), sizeof(data) - 2)
    store16(data, code)
    memcpy(data + 2, text, length)
    query_option(q, OPTION_ERROR, data, <uint16_t>(2 + length))


cdef void query_expire(Query *q, uint32_t expire, int64_t age) noexcept nogil:
    cdef uint8_t left[4]
    if q.message.edns.options_length and wire_option(&q.message.edns, OPTION_EXPIRE) != NULL:
        store32(left, <uint32_t>max(<int64_t>0, expire - age // 1000000000))
        query_option(q, OPTION_EXPIRE, left, sizeof(left))


# ---- fitting ----

cdef void finish_fit(Query *q) noexcept nogil:
    cdef Reply *reply = &q.reply
    cdef uint32_t i, length, opt = 0, size = query_size(q)
    cdef bint signed = False
    if reply.rcode > 15 and not q.client_edns:
        fail_extended(reply)
    length = HEADER_SIZE + q.first_name.length + 4
    for i in range(reply.count):
        length += <uint32_t>reply.records[i].owner_length + 10 + reply.records[i].rdlength
        if reply.records[i].type == TYPE_TSIG:
            signed = True
    # Metrics and log tell the size of what the plugins made: before the server's OPT and before cutting.
    reply.size = length + (11 + reply.edns.options_length if reply.edns.present else 0)
    set_reply_edns(q)
    if reply.edns.present:
        # Options that alone do not fit behind the question are left out, echoed ones and an upstream's: records can be cut, an OPT cannot.
        opt = HEADER_SIZE + q.first_name.length + 4 + OPT_SIZE + reply.edns.options_length
        if opt > size:
            reply.edns.options_length = 0
        opt = OPT_SIZE + reply.edns.options_length
        if q.cookie & COOKIE_IN_REPLY:
            if length + opt + COOKIE_OPTION > size and not signed:
                fit_with_cookie(q, size, opt)
                return
            opt += add_cookie(q)
    length += opt
    if reply.overflow:
        reply.flags |= FLAG_TC
    signed = signed and is_signed(reply)
    if signed and sign(q, size, opt):
        return
    if length <= size:
        reply.message_size = length
        reply.compress = query_is_udp(q) and length > <uint32_t>(1480 if q.client.family == 4 else 1220)
        if not reply.compress:
            return
    reply.compress = 1
    if not write_compressed(q, size, opt) and signed:
        empty(q, size, opt)


cdef void empty(Query *q, uint32_t size, uint32_t opt) noexcept nogil:
    """A signed message is whole or has no records (RFC 8945 5.3): the client asks again over TCP."""
    q.reply.count = 0
    q.reply.rcode = RCODE_NOERROR
    write_compressed(q, size, opt)


cdef void fail_extended(Reply *reply) noexcept nogil:
    """An extended rcode has its upper bits in the OPT (RFC 6891 6.1.3): its lower ones alone would be another rcode. The signature stays."""
    cdef uint32_t i, kept = 0
    for i in range(reply.count):
        if reply.records[i].flags & RECORD_SIGNER:
            reply.records[kept] = reply.records[i]
            kept += 1
    reply.count = <uint16_t>kept
    reply.rcode = RCODE_SERVFAIL
    reply.overflow = 0
    reply.flags &= FLAG_RA | FLAG_RD | FLAG_CD


# ---- cookies (RFC 7873) ----

cdef uint32_t add_cookie(Query *q) noexcept nogil:
    """Adds the option to those of the reply, which is not encoded yet. Returns its octets; 0: no memory."""
    cdef Edns *edns = &q.reply.edns
    cdef uint8_t *options = reply_alloc(&q.reply, <uint32_t>edns.options_length + COOKIE_OPTION)
    if options == NULL:
        return 0
    if edns.options_length:
        memcpy(options, edns.options, edns.options_length)
    memcpy(options + edns.options_length, q.cookie_option, COOKIE_OPTION)
    edns.options = options
    edns.options_length += COOKIE_OPTION
    return COOKIE_OPTION


cdef void fit_with_cookie(Query *q, uint32_t size, uint32_t opt) noexcept nogil:
    """Fits the reply without the option, and adds it to the encoded message, whose OPT is last, where there is room: no record goes for a cookie."""
    cdef Reply *reply = &q.reply
    cdef uint8_t *end
    if reply.overflow:
        reply.flags |= FLAG_TC
    reply.compress = 1
    write_compressed(q, size, opt)
    if reply.message_size + COOKIE_OPTION > size:
        return
    end = q.worker.message + reply.message_size
    store16(end - reply.edns.options_length - 2, reply.edns.options_length + COOKIE_OPTION)
    memcpy(end, q.cookie_option, COOKIE_OPTION)
    reply.message_size += COOKIE_OPTION


# ---- signatures ----

cdef bint is_signed(const Reply *reply) noexcept nogil:
    """Whether one of its TSIG records signs it: the last record (RFC 8945 5.1), or one that is made here. An upstream may send others anywhere."""
    cdef uint32_t i
    cdef bint last = False
    for i in range(reply.count):
        if reply.records[i].flags & RECORD_SIGNER:
            return True
        if reply.records[i].section == SECTION_ADDITIONAL:
            last = reply.records[i].type == TYPE_TSIG
    return last


cdef bint sign(Query *q, uint32_t size, uint32_t opt) noexcept nogil:
    """Writes the message into the worker's scratch and has it signed there; False where no handler here signs it."""
    cdef Reply *reply = &q.reply
    cdef Record record
    cdef Signer *signer
    cdef uint32_t i, room
    for i in range(reply.count):
        if reply.records[i].flags & RECORD_SIGNER:
            break
    else:
        return False
    record = reply.records[i]
    signer = <Signer *>(record.rdata - sizeof(Signer))
    reply.count -= 1
    memmove(&reply.records[i], &reply.records[i + 1], (reply.count - i) * sizeof(Record))
    reply.compress = 1
    room = size - min(size, <uint32_t>record.owner_length + 10 + record.rdlength)
    if not write_compressed(q, room, opt):
        empty(q, room, opt)
    reply.message_size = signer.sign(signer, q.worker.message, reply.message_size)
    return True


cdef bint write_compressed(Query *q, uint32_t size, uint32_t opt) noexcept nogil:
    """Writes the message into the worker's scratch, and cuts it at the limit: False. finish_write copies it from there."""
    cdef Compressor compressor
    cdef Writer writer
    cdef Reply *reply = &q.reply
    cdef uint32_t i, mark
    cdef uint16_t kept[3]
    cdef int section
    cdef bint full = False
    memset(&compressor, 0, sizeof(compressor))
    writer.out = q.worker.message
    writer.compressor = &compressor
    writer.used = write_head(q, writer.out)
    writer.limit = size - opt if size > opt else 0
    remember_suffixes(&writer, q.first_name.wire, HEADER_SIZE)
    memset(kept, 0, sizeof(kept))
    for section in range(3):
        for i in range(reply.count):
            if reply.records[i].section != section:
                continue
            mark = writer.used
            if full or not write_record(&writer, q, &reply.records[i]):
                writer.used = mark
                full = True
                reply.flags |= FLAG_TC
                break
            kept[section] += 1
    write_opt(q, &writer)
    write_counts(writer.out, q, kept)
    reply.message_size = writer.used
    return not full


# ---- writing ----

cdef inline uint32_t write_head(Query *q, uint8_t *out) noexcept nogil:
    """Header (its counts and TC come later) and question, with the case as received."""
    cdef uint32_t used = HEADER_SIZE, n = q.first_name.length
    store16(out, q.message.id)
    copy_octets(out + used, q.first_name.wire, n)
    used += n
    store16(out + used, q.message.qtype)
    store16(out + used + 2, q.message.qclass)
    return used + 4


cdef inline void write_counts(uint8_t *out, Query *q, const uint16_t *counts) noexcept nogil:
    cdef uint16_t flags = FLAG_QR | (q.message.flags & FLAGS_OPCODE) | (q.reply.flags & (FLAG_AA | FLAG_TC | FLAG_RA | FLAG_AD)) | flags_rcode(q.reply.rcode)
    if q.reply.verbatim:
        flags |= q.reply.flags & (FLAG_RD | FLAG_CD)
    elif flags_opcode(q.message.flags) == OPCODE_QUERY:
        flags |= q.message.flags & (FLAG_RD | FLAG_CD)
    store16(out + 2, flags)
    store16(out + 4, 1)
    store16(out + 6, counts[0])
    store16(out + 8, counts[1])
    store16(out + 10, counts[2] + (1 if q.reply.edns.present else 0))


cdef inline void write_opt(Query *q, Writer *writer) noexcept nogil:
    cdef const Edns *edns = &q.reply.edns
    cdef uint8_t *out = writer.out + writer.used
    if not edns.present:
        return
    out[0] = 0
    store16(out + 1, TYPE_OPT)
    store16(out + 3, edns.udp_size)
    store32(out + 5, (<uint32_t>(q.reply.rcode >> 4) << 24) | (<uint32_t>edns.version << 16) | edns.flags)
    store16(out + 9, edns.options_length)
    if edns.options_length:
        memcpy(out + 11, edns.options, edns.options_length)
    writer.used += OPT_SIZE + edns.options_length


cdef uint32_t finish_write(Query *q, uint8_t *out) noexcept nogil:
    cdef Writer writer
    cdef Reply *reply = &q.reply
    cdef const Record *record
    cdef uint32_t i, used, done = 0
    cdef uint16_t counts[3]
    cdef int section
    if reply.compress:
        memcpy(out, q.worker.message, reply.message_size)
        return reply.message_size
    used = write_head(q, out)
    memset(counts, 0, sizeof(counts))
    for section in range(3):
        if done == reply.count:
            break
        for i in range(reply.count):
            record = &reply.records[i]
            if record.section != section:
                continue
            counts[section] += 1
            done += 1
            # The question's name stands at octet 12: the one compression that costs nothing.
            if record.owner == q.first_name.wire or (
                    record.owner_length == q.first_name.length and memcmp(record.owner, q.first_name.wire, record.owner_length) == 0):
                if record.owner_length > 1:
                    store16(out + used, 0xC000 | HEADER_SIZE)
                    used += 2
                else:
                    out[used] = 0
                    used += 1
            else:
                copy_octets(out + used, record.owner, record.owner_length)
                used += record.owner_length
            store16(out + used, record.type)
            store16(out + used + 2, record.klass)
            store32(out + used + 4, record.ttl)
            store16(out + used + 8, record.rdlength)
            copy_octets(out + used + 10, record.rdata, record.rdlength)
            used += 10 + record.rdlength
    writer.out = out
    writer.used = used
    write_opt(q, &writer)
    write_counts(out, q, counts)
    reply.message_size = writer.used
    return writer.used


# ---- compression (RFC 1035 4.1.4) ----

cdef inline uint32_t suffix_hash(uint32_t right, const uint8_t *label) noexcept nogil:
    cdef uint32_t i, h = right
    for i in range(<uint32_t>label[0] + 1):
        h = (h ^ label[i]) * 0x01000193
    return h ^ (h >> 15)


cdef int split(const uint8_t *name, uint8_t *offset, uint32_t *hashes) noexcept nogil:
    """Offsets and hashes of all suffixes, longest first. Returns the number of labels."""
    cdef int labels = 0, i
    cdef uint32_t at = 0, h = 0x811C9DC5
    while name[at] != 0:
        offset[labels] = <uint8_t>at
        labels += 1
        at += name[at] + 1
    i = labels
    while i > 0:
        i -= 1
        h = suffix_hash(h, name + offset[i])
        hashes[i] = h
    return labels


cdef bint same_name(const uint8_t *message, uint32_t at, const uint8_t *name) noexcept nogil:
    """Is the name that we wrote at `at` (its pointers are ours and go backwards) equal to name, letter case included?"""
    while True:
        while message[at] >= 0xC0:
            at = load16(message + at) & POINTER_REACH
        if message[at] != name[0]:
            return False
        if name[0] == 0:
            return True
        if memcmp(message + at + 1, name + 1, name[0]) != 0:
            return False
        at += name[0] + 1
        name += name[0] + 1


cdef void remember_suffixes(Writer *writer, const uint8_t *name, uint32_t start) noexcept nogil:
    """Notes a name that was written in full at `start`."""
    cdef uint8_t offset[128]
    cdef uint32_t hashes[128]
    cdef int i, labels = split(name, offset, hashes)
    for i in range(labels):
        remember(writer.compressor, hashes[i], start + offset[i])


cdef inline void remember(Compressor *compressor, uint32_t h, uint32_t offset) noexcept nogil:
    if offset > POINTER_REACH or compressor.count >= SUFFIX_SLOTS // 2:
        return
    cdef uint32_t slot = h & (SUFFIX_SLOTS - 1)
    while compressor.slots[slot] != 0:
        slot = (slot + 1) & (SUFFIX_SLOTS - 1)
    compressor.slots[slot] = <uint16_t>offset
    compressor.count += 1


cdef uint32_t recall(Writer *writer, uint32_t h, const uint8_t *suffix) noexcept nogil:
    """Offset of this suffix in the message, or 0. At most eight candidates are compared."""
    cdef uint32_t slot = h & (SUFFIX_SLOTS - 1), tries = 0
    while writer.compressor.slots[slot] != 0 and tries < 8:
        if same_name(writer.out, writer.compressor.slots[slot], suffix):
            return writer.compressor.slots[slot]
        slot = (slot + 1) & (SUFFIX_SLOTS - 1)
        tries += 1
    return 0


cdef bint write_name(Writer *writer, const uint8_t *name, uint32_t length, bint compressible) noexcept nogil:
    """Writes a name, a compressible one with its longest known suffix as a pointer; False when it passes the limit.

    Later names may point to either: to write a pointer needs a type of RFC 1035, to be its target does not.
    """
    cdef uint8_t offset[128]
    cdef uint32_t hashes[128]
    cdef uint32_t found = 0, front = 0, start = writer.used
    cdef int i, j, labels = split(name, offset, hashes)
    if labels == 0:
        if start + 1 > writer.limit:
            return False
        writer.out[start] = 0
        writer.used = start + 1
        return True
    for i in range(labels):
        found = recall(writer, hashes[i], name + offset[i])
        if found:
            break
    else:
        i = labels
    front = offset[i] if found and compressible else length
    if start + front + (2 if front < length else 0) > writer.limit:
        return False
    memcpy(writer.out + start, name, front)
    writer.used = start + front
    if front < length:
        store16(writer.out + writer.used, 0xC000 | <uint16_t>found)
        writer.used += 2
    for j in range(i):
        remember(writer.compressor, hashes[j], start + offset[j])
    return True


cdef bint write_owner(Writer *writer, Query *q, const Record *record) noexcept nogil:
    cdef Compressor *compressor = writer.compressor
    cdef uint32_t start = writer.used, known = 0
    if record.owner == q.first_name.wire and record.owner_length > 1:
        known = HEADER_SIZE
    elif compressor.last_length == record.owner_length and record.owner_length > 1 and (
            compressor.last == record.owner or memcmp(compressor.last, record.owner, record.owner_length) == 0):
        known = compressor.last_offset
    if known:
        if start + 2 > writer.limit:
            return False
        store16(writer.out + start, 0xC000 | <uint16_t>known)
        writer.used = start + 2
        return True
    if not write_name(writer, record.owner, record.owner_length, True):
        return False
    # A name that became one pointer as a whole is repeated by that pointer; one written (partly) in full by its start.
    if writer.used == start + 2 and writer.out[start] >= 0xC0:
        compressor.last_offset = load16(writer.out + start) & POINTER_REACH
    elif start <= POINTER_REACH:
        compressor.last_offset = <uint16_t>start
    else:
        return True
    compressor.last = record.owner
    compressor.last_length = record.owner_length
    return True


cdef bint write_record(Writer *writer, Query *q, const Record *record) noexcept nogil:
    """False when the record does not fit: what was written of it is then to be taken back."""
    cdef uint32_t length_at, at = 0, n
    cdef int end
    cdef const int8_t *block = <const int8_t *>rrtype_get(record.type).blocks
    if not write_owner(writer, q, record) or writer.used + 10 > writer.limit:
        return False
    store16(writer.out + writer.used, record.type)
    store16(writer.out + writer.used + 2, record.klass)
    store32(writer.out + writer.used + 4, record.ttl)
    length_at = writer.used + 8
    writer.used += 10
    while block[0] > 0 or block[0] == BLOCK_STRING:
        block += 1
    if block_is_name(block[0]):
        end = rrtype_names(record.type, record.rdata, record.rdlength, &at)
        if writer.used + at > writer.limit:
            return False
        memcpy(writer.out + writer.used, record.rdata, at)
        writer.used += at
        while <int>at < end:
            n = wire_name_length(record.rdata + at)
            if not write_name(writer, record.rdata + at, n, block[0] == BLOCK_COMPRESSIBLE):
                return False
            at += n
    n = record.rdlength - at
    if writer.used + n > writer.limit:
        return False
    memcpy(writer.out + writer.used, record.rdata + at, n)
    writer.used += n
    store16(writer.out + length_at, writer.used - length_at - 2)
    return True


# ---- the Python side: tests ----

def finished(bytes query not None, bytes reply not None, bint tcp=False, bint ipv6=False, str copied="") -> tuple:
    """What leaves for `query` when a plugin answers `reply`; see walk/finish.pyi."""
    cdef Worker *worker = <Worker *>calloc(1, sizeof(Worker))
    cdef Query *q = <Query *>calloc(2, sizeof(Query))
    cdef uint8_t *out = <uint8_t *>malloc(MESSAGE_MAX + 1)
    cdef LargeReplyBuffer *large
    if worker == NULL or q == NULL or out == NULL:
        raise MemoryError
    try:
        worker.message = <uint8_t *>malloc(MESSAGE_MAX + 1024)
        if worker.message == NULL:
            raise MemoryError
        worker.large.limit = 2
        q.worker = worker
        q.transport = TRANSPORT_TCP if tcp else TRANSPORT_UDP
        q.client.family = 6 if ipv6 else 4
        reply_begin(&q.reply, &worker.large)
        reply_begin(&q[1].reply, &worker.large)
        return finish_as(q, query, reply, copied, out)
    finally:
        reply_end(&q.reply)
        reply_end(&q[1].reply)
        while worker.large.free != NULL:
            large = worker.large.free
            worker.large.free = large.next
            free(large)
        free(worker.message)
        free(worker)
        free(q)
        free(out)


cdef tuple finish_as(Query *q, bytes query, bytes reply, str copied, uint8_t *out):
    cdef uint8_t rcode
    cdef uint32_t i, size
    cdef int status
    cdef Query *made = q + 1 if copied == "append" else q
    if wire_accept(query, <uint32_t>len(query), &q.message, &q.first_name, &rcode) != ACCEPT:
        raise ValueError("the query is none that the server accepts")
    q.edns = q.message.edns
    query_note_client(q)
    q.name = &q.first_name
    status = reply_parse(&made.reply, reply, <uint32_t>len(reply))
    if status < 0:
        raise ValueError("the reply is malformed" if status == -1 else "the reply is too big")
    if copied == "append":
        q.reply.rcode = made.reply.rcode
        q.reply.flags = made.reply.flags
        if reply_append(&q.reply, &made.reply, -1) < 0:
            raise ValueError("the reply is too big")
    elif copied == "own":
        for i in range(q.reply.count):
            q.reply.records[i].flags &= ~RECORD_OWNED
        if reply_own(&q.reply) < 0:
            raise ValueError("the reply is too big")
    q.reply.written = 1
    finish_fit(q)
    size = q.reply.message_size
    status = <int>finish_write(q, out)
    if <uint32_t>status > size:
        raise AssertionError("%d octets written into %d" % (status, size))
    return out[:status], q.reply.size
