"""The DNS wire format on raw buffers. The contract is in _wire.pxd."""
from libc.stdint cimport int8_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset
from fastdns.protocol.header cimport FLAGS_OPCODE_SHIFT
from fastdns.protocol.rrtypes cimport BLOCK_END, BLOCK_REMAINDER, RR_RECEIVED, RRType, block_is_name, rrtype_get

cdef extern from "<sys/random.h>" nogil:
    ssize_t getrandom(void *buf, size_t buflen, unsigned int flags)

cdef extern from *:
    """
    static inline uint64_t wire_fold(uint64_t a, uint64_t b) {
        unsigned __int128 p = (unsigned __int128)a * b;
        return (uint64_t)p ^ (uint64_t)(p >> 64);
    }

    /* 16 octets as they are and in lower case; a length octet (<= 63) is below 'A' and stays. Gives a mask of what is in upper case. */
    typedef uint8_t wire_octets __attribute__((vector_size(16)));
    static inline wire_octets wire_lower16(const uint8_t *from, uint8_t *same, uint8_t *lower) {
        wire_octets v, upper;
        __builtin_memcpy(&v, from, 16);
        __builtin_memcpy(same, &v, 16);
        upper = (wire_octets)((uint8_t)26 > (wire_octets)(v - (uint8_t)'A')) & (uint8_t)32;
        v |= upper;
        __builtin_memcpy(lower, &v, 16);
        return upper;
    }

    /* n octets likewise, in blocks of 16 of which the last one overlaps; where n < 16, 16 octets. Is any of them in upper case? */
    static inline int wire_lower(const uint8_t *from, uint8_t *same, uint8_t *lower, uint32_t n) {
        wire_octets upper = {0};
        uint64_t half[2];
        uint32_t i = 0;
        for (; i + 16 < n; i += 16)
            upper |= wire_lower16(from + i, same + i, lower + i);
        i = n < 16 ? 0 : n - 16;
        upper |= wire_lower16(from + i, same + i, lower + i);
        __builtin_memcpy(half, &upper, 16);
        return (half[0] | half[1]) != 0;
    }
    """
    uint64_t wire_fold(uint64_t a, uint64_t b) noexcept nogil
    bint wire_lower(const uint8_t *source, uint8_t *same, uint8_t *lower, uint32_t n) noexcept nogil

cdef uint64_t wire_seed = 0
cdef uint64_t wire_multiplier = 0

cdef int seed_hash() except -1:
    """Sets the key of the name hash to random numbers, so that a client cannot choose names that fall into one bucket."""
    global wire_seed, wire_multiplier
    cdef uint64_t words[2]
    if getrandom(words, sizeof(words), 0) != sizeof(words):
        raise OSError("getrandom gave no randomness")
    wire_seed = words[0]
    wire_multiplier = words[1] | 1
    return 0

seed_hash()


# ---- names ----

cdef inline uint64_t hash_label(uint64_t state, const uint8_t *label, bint upper) noexcept nogil:
    """Hashes one label, length octet included, with the hash of the labels to its right. Reads up to 7 octets beyond the label."""
    cdef uint32_t left = <uint32_t>label[0] + 1
    cdef uint64_t chunk
    while left > 8:
        memcpy(&chunk, label, 8)
        state = wire_fold(state ^ (lower8(chunk) if upper else chunk), wire_multiplier)
        label += 8
        left -= 8
    memcpy(&chunk, label, 8)
    chunk <<= (0u - 8 * left) & 63  # discards the octets behind the label
    return wire_fold(state ^ (lower8(chunk) if upper else chunk), wire_multiplier)


cdef inline void hash_labels(Name *name, const uint8_t *octets, bint upper) noexcept nogil:
    cdef uint64_t state = wire_seed
    cdef uint32_t i = name.labels
    name.hash[i] = <uint32_t>(state >> 32)
    while i > 0:
        i -= 1
        state = hash_label(state, octets + name.offset[i], upper)
        name.hash[i] = <uint32_t>(state >> 32)


cdef inline void hash_suffixes(Name *name, const uint8_t *octets, bint upper) noexcept nogil:
    """Fills the hashes of a name whose labels are known. 7 octets behind its wire form are readable. Letters may be in upper case."""
    if upper:
        hash_labels(name, octets, True)
    else:
        hash_labels(name, octets, False)


cdef void wire_name_index(Name *name) noexcept nogil:
    cdef uint32_t at = 0, labels = 0
    while name.wire[at] != 0:
        name.offset[labels] = <uint8_t>at
        labels += 1
        at += name.wire[at] + 1
    name.offset[labels] = <uint8_t>at
    name.length = <uint8_t>(at + 1)
    name.labels = <uint8_t>labels
    hash_suffixes(name, name.wire, wire_lower(name.wire, name.wire, name.lower, at + 1))


cdef int wire_expand_name(const uint8_t *message, uint32_t length, uint32_t *offset, uint8_t *out) noexcept nogil:
    cdef uint32_t at = offset[0], segment = offset[0], target
    cdef uint32_t used = 0, hops = 0
    cdef uint8_t octet
    cdef bint jumped = False
    while True:
        if at >= length:
            return -1
        octet = message[at]
        if octet == 0:
            if used + 1 > NAME_MAX:
                return -1
            out[used] = 0
            if not jumped:
                offset[0] = at + 1
            return used + 1
        if octet < 64:
            if at + 1 + octet > length or used + 1 + octet + 1 > NAME_MAX:
                return -1
            memcpy(out + used, message + at, octet + 1)
            used += octet + 1
            at += octet + 1
        elif octet >= 0xC0:
            if at + 2 > length:
                return -1
            target = ((octet & 0x3F) << 8) | message[at + 1]
            hops += 1
            # A pointer must point to before the labels that it follows: the loop ends for any pointers.
            if target >= segment or hops > POINTER_HOPS:
                return -1
            if not jumped:
                offset[0] = at + 2
                jumped = True
            at = target
            segment = target
        else:
            return -1


cdef int wire_read_name(const uint8_t *message, uint32_t length, uint32_t *offset, Name *name) noexcept nogil:
    cdef const uint8_t *wire = message + offset[0]
    cdef uint32_t left = length - offset[0] if offset[0] < length else 0
    cdef uint32_t limit = min(left, <uint32_t>NAME_MAX)
    cdef uint32_t at = 0, labels = 0, last, size
    cdef bint upper
    # Fast path: the name of a question is not compressed, and type and class follow it. One pass over the packet.
    while at < limit:
        size = wire[at]
        if size - 1 >= 63:
            break
        name.offset[labels] = <uint8_t>at       # at most 128 of them: each takes two octets
        labels += 1
        at += size + 1
    if at + 5 > left or left < 16 or at >= NAME_MAX or wire[at] != 0:
        if wire_expand_name(message, length, offset, name.wire) < 0:
            return -1
        wire_name_index(name)
        return 0
    last = name.offset[labels - 1] if labels else 0
    name.offset[labels] = <uint8_t>at
    name.length = <uint8_t>(at + 1)
    name.labels = <uint8_t>labels
    offset[0] += at + 1
    upper = wire_lower(wire, name.wire, name.lower, at + 1)
    # The last label's last load reads beyond the name: these octets must be initialised.
    hash_suffixes(name, wire if last + ((at - last + 7) & ~<uint32_t>7) <= left else name.wire, upper)
    return 0


cdef int wire_skip_name(const uint8_t *message, uint32_t length, uint32_t *offset) noexcept nogil:
    cdef uint8_t scratch[NAME_MAX]
    return -1 if wire_expand_name(message, length, offset, scratch) < 0 else 0


cdef void wire_name_copy(Name *name, const uint8_t *wire, int length) noexcept nogil:
    memcpy(name.wire, wire, length)
    wire_name_index(name)


cdef int wire_name_length(const uint8_t *wire) noexcept nogil:
    cdef int at = 0
    while wire[at] != 0:
        at += wire[at] + 1
    return at + 1


cdef bint wire_name_equal(const uint8_t *a, const uint8_t *b, int length) noexcept nogil:
    cdef uint64_t x, y
    cdef uint8_t p, q
    while length >= 8:
        memcpy(&x, a, 8)
        memcpy(&y, b, 8)
        if x != y and lower8(x) != lower8(y):
            return False
        a += 8
        b += 8
        length -= 8
    while length > 0:
        p = a[0]
        q = b[0]
        if p != q:
            if c'A' <= p <= c'Z':
                p += 32
            if c'A' <= q <= c'Z':
                q += 32
            if p != q:
                return False
        a += 1
        b += 1
        length -= 1
    return True


cdef uint32_t wire_name_hash(const uint8_t *lower) noexcept nogil:
    cdef uint8_t copy[NAME_MAX + 9]         # hash_label reads beyond labels
    cdef uint8_t offset[LABELS_MAX + 1]
    cdef uint32_t at = 0, labels = 0
    cdef uint64_t state = wire_seed
    while lower[at] != 0:
        offset[labels] = <uint8_t>at
        labels += 1
        at += lower[at] + 1
    memcpy(copy, lower, at)
    while labels > 0:
        labels -= 1
        state = hash_label(state, copy + offset[labels], False)
    return <uint32_t>(state >> 32)


cdef int wire_name_text(const uint8_t *wire, char *out) noexcept nogil:
    cdef int used = 0, i, n
    cdef uint8_t octet
    if wire[0] == 0:
        out[0] = c'.'
        return 1
    while wire[0] != 0:
        n = wire[0]
        for i in range(1, n + 1):
            octet = wire[i]
            if octet < 33 and octet != 32 or octet > 126:
                out[used] = c'\\'
                out[used + 1] = c'0' + octet // 100
                out[used + 2] = c'0' + octet // 10 % 10
                out[used + 3] = c'0' + octet % 10
                used += 4
                continue
            if octet in (c'.', c' ', c"'", c'@', c';', c'(', c')', c'"', c'\\'):
                out[used] = c'\\'
                used += 1
            out[used] = <char>octet
            used += 1
        out[used] = c'.'
        used += 1
        wire += n + 1
    return used


# ---- bounded reads ----

cdef inline uint16_t read16(Cursor *cursor) noexcept nogil:
    cdef uint32_t at = cursor.offset
    if cursor.bad or at + 2 > cursor.length:
        cursor.bad = 1
        return 0
    cursor.offset = at + 2
    return load16(cursor.base + at)


cdef inline uint32_t read32(Cursor *cursor) noexcept nogil:
    cdef uint32_t at = cursor.offset
    if cursor.bad or at + 4 > cursor.length:
        cursor.bad = 1
        return 0
    cursor.offset = at + 4
    return load32(cursor.base + at)


cdef inline void read_skip(Cursor *cursor, uint32_t octets) noexcept nogil:
    if cursor.bad or octets > cursor.length - cursor.offset:
        cursor.bad = 1
        return
    cursor.offset += octets


cdef inline void read_over_name(Cursor *cursor) noexcept nogil:
    if cursor.bad or wire_skip_name(cursor.base, cursor.length, &cursor.offset) < 0:
        cursor.bad = 1


# ---- records ----

cdef bint rdata_valid(const uint8_t *message, uint32_t end, uint32_t at, uint16_t type) noexcept nogil:
    """Whether the rdata at [at, end) fits its type's layout. Names in it may be compressed."""
    cdef uint32_t size = end - at, left
    cdef const RRType *known
    cdef const int8_t *block
    if size == 0:                                       # a record without rdata (RFC 2136): accepted for any type
        return True
    if type == TYPE_A:
        return size == 4
    if type == TYPE_AAAA:
        return size == 16
    if type == TYPE_OPT:
        while at < end:
            if end - at < 4:
                return False
            left = load16(message + at + 2)
            if left > end - at - 4:
                return False
            at += 4 + left
        return True
    if type == TYPE_TSIG:
        if wire_skip_name(message, end, &at) < 0 or end - at < 16:
            return False
        left = 10 + load16(message + at + 8)
        return end - at >= left + 6 and end - at == left + 6 + load16(message + at + left + 4)
    known = rrtype_get(type)
    if not known.flags & RR_RECEIVED:
        return True
    block = <const int8_t *>known.blocks
    while block[0] != BLOCK_END and block[0] != BLOCK_REMAINDER:
        if block_is_name(block[0]):
            if wire_skip_name(message, end, &at) < 0:
                return False
        else:
            if at == end:
                return False
            left = <uint32_t>block[0] if block[0] > 0 else <uint32_t>message[at] + 1
            if left > end - at:
                return False
            at += left
        block += 1
    return block[0] == BLOCK_REMAINDER or at == end


cdef void wire_begin_records(const uint8_t *packet, uint32_t length, const Message *message, Section *section) noexcept nogil:
    cdef int i
    section.cursor.base = packet
    section.cursor.length = length
    section.cursor.offset = message.records
    section.cursor.bad = 0
    section.index = 0
    for i in range(3):
        section.left[i] = message.counts[i + 1]


cdef int wire_next_record(Section *section, WireRecord *record) noexcept nogil:
    cdef Cursor *cursor = &section.cursor
    while section.index < 3 and section.left[section.index] == 0:
        section.index += 1
    # A message that ends between two records is accepted even if its counts are higher, as CoreDNS does.
    if section.index == 3 or cursor.offset == cursor.length:
        return 0
    section.left[section.index] -= 1
    record.section = section.index
    record.owner = cursor.offset
    read_over_name(cursor)
    record.type = read16(cursor)
    record.klass = read16(cursor)
    record.ttl = read32(cursor)
    record.rdlength = read16(cursor)
    record.rdata = cursor.offset
    read_skip(cursor, record.rdlength)
    if cursor.bad or not rdata_valid(cursor.base, cursor.offset, record.rdata, record.type):
        return -1
    return 1


cdef int wire_expand_rdata(const uint8_t *packet, uint32_t length, const WireRecord *record, uint8_t *out, uint32_t capacity) noexcept nogil:
    cdef const RRType *known = rrtype_get(record.type)
    cdef const int8_t *block = <const int8_t *>known.blocks
    cdef uint32_t at = record.rdata, end = record.rdata + record.rdlength, used = 0, size
    cdef uint8_t name[NAME_MAX]
    cdef const uint8_t *octets
    cdef int n
    if known.flags & RR_RECEIVED:
        while at < end and block[0] != BLOCK_END and block[0] != BLOCK_REMAINDER:
            if block_is_name(block[0]):
                n = wire_expand_name(packet, end, &at, name)
                if n < 0:
                    return -1
                size = <uint32_t>n
                octets = name
            else:
                size = <uint32_t>block[0] if block[0] > 0 else <uint32_t>packet[at] + 1
                if size > end - at:
                    return -1
                octets = packet + at
                at += size
            if size > capacity - used:
                return -2
            memcpy(out + used, octets, size)
            used += size
            block += 1
    if end - at > capacity - used:
        return -2
    memcpy(out + used, packet + at, end - at)
    return <int>(used + (end - at))


# ---- messages ----

cdef inline void read_header(const uint8_t *packet, Message *message) noexcept nogil:
    cdef int i
    message.id = load16(packet)
    message.flags = load16(packet + 2)
    for i in range(4):
        message.counts[i] = load16(packet + 4 + 2 * i)
    message.qtype = 0
    message.qclass = 0
    message.question_length = 0
    message.records = HEADER_SIZE
    message.soa_serial_found = 0
    message.soa_serial = 0
    message.tsig = 0
    message.edns.present = 0
    message.edns.options_length = 0
    message.edns.options = NULL


cdef inline int read_question(const uint8_t *packet, uint32_t length, Message *message, Name *name) noexcept nogil:
    """Reads the question; the message may end behind its name or its type. 0, 1: the message ends before the question, -1: malformed."""
    cdef uint32_t at = HEADER_SIZE
    if at == length:
        message.counts[0] = 0
        return 1
    if wire_read_name(packet, length, &at, name) < 0:
        return -1
    if at + 4 <= length:
        message.qtype = load16(packet + at)
        message.qclass = load16(packet + at + 2)
        at += 4
    elif at < length:
        if at + 2 != length:
            return -1
        message.qtype = load16(packet + at)
        at += 2
    message.question_length = <uint16_t>(at - HEADER_SIZE)
    message.records = <uint16_t>at
    return 0


cdef void note_edns(Message *message, const uint8_t *packet, const WireRecord *record) noexcept nogil:
    message.edns.present = 1
    message.edns.udp_size = record.klass
    message.edns.extended_rcode = <uint8_t>(record.ttl >> 24)
    message.edns.version = <uint8_t>(record.ttl >> 16)
    message.edns.flags = <uint16_t>record.ttl
    message.edns.options_length = record.rdlength
    message.edns.options = packet + record.rdata


cdef const uint8_t *wire_option(const Edns *edns, uint16_t code) noexcept nogil:
    cdef const uint8_t *option = edns.options
    cdef uint32_t left = edns.options_length if edns.present else 0, size
    while left >= 4:
        size = 4u + load16(option + 2)
        if size > left:
            break
        if load16(option) == code:
            return option
        option += size
        left -= size
    return NULL


cdef uint8_t wire_subnet(const Edns *edns, uint8_t *octets) noexcept nogil:
    cdef const uint8_t *option = wire_option(edns, OPTION_SUBNET)
    cdef uint32_t size, family, most
    if option == NULL:
        return 0
    size = load16(option + 2)
    family = load16(option + 4) if size >= 4 else 3
    most = 16 if family == 2 else 4 if family == 1 else 0
    if family > 2 or option[6] > 8 * most or size - 4 > most:
        return 0
    memset(octets, 0, 16)
    memcpy(octets, option + 8, size - 4)
    return 6 if family == 2 else 4


cdef bint subnet_is_asked_well(const uint8_t *data, uint32_t size) noexcept nogil:
    """A client's subnet (RFC 7871 6): a known family, no scope, as many octets of the address as the prefix needs, and zeros behind it."""
    cdef uint32_t family = load16(data) if size >= 4 else 3, bits = data[2] if size >= 4 else 0
    if family > 2 or bits > (128u if family == 2 else 32u if family == 1 else 0u) or data[3] != 0 or size != 4 + ((bits + 7) >> 3):
        return False
    return bits & 7 == 0 or data[size - 1] & (0xFF >> (bits & 7)) == 0


cdef bint options_are_asked_well(const Edns *edns) noexcept nogil:
    """Whether the options of a query, whose lengths rdata_valid has checked, have the form that their RFC asks for."""
    cdef const uint8_t *option = edns.options
    cdef const uint8_t *end = option + edns.options_length
    cdef uint32_t size
    while option < end:
        size = load16(option + 2)
        # A client's cookie of 8 octets, and a server's of 8 to 32 behind it (RFC 7873 4).
        if load16(option) == OPTION_COOKIE and size != 8 and not 16 <= size <= 40:
            return False
        if load16(option) == OPTION_SUBNET and not subnet_is_asked_well(option + 4, size):
            return False
        option += 4 + size
    return True


cdef inline bint has_rest(uint32_t length, const Message *message) noexcept nogil:
    return message.records != length and (message.counts[1] | message.counts[2] | message.counts[3]) != 0


cdef int read_rest(const uint8_t *packet, uint32_t length, Message *message) noexcept nogil:
    """Checks all records behind the question; stores EDNS, TSIG offset and SOA serial in message."""
    cdef Section section
    cdef WireRecord record
    cdef int status
    wire_begin_records(packet, length, message, &section)
    while True:
        status = wire_next_record(&section, &record)
        if status <= 0:
            return status
        if record.section == 2:
            if record.type == TYPE_OPT:
                if message.edns.present and not message.flags & FLAG_QR:
                    return -1           # a query has one (RFC 6891 6.1.1)
                note_edns(message, packet, &record)
            elif record.type == TYPE_TSIG:
                message.tsig = <uint16_t>record.owner
        elif record.section == 1 and record.type == TYPE_SOA and record.rdlength > 20:
            message.soa_serial_found += 1
            message.soa_serial = load32(packet + record.rdata + record.rdlength - 20)


cdef Acceptance wire_accept(const uint8_t *packet, uint32_t length, Message *message, Name *name, uint8_t *rcode) noexcept nogil:
    if length < HEADER_SIZE or packet[2] & 0x80:
        return IGNORE
    read_header(packet, message)
    # Neither QUERY (0) nor NOTIFY (4).
    rcode[0] = RCODE_NOTIMP if message.flags & FLAGS_OPCODE & ~(OPCODE_NOTIFY << FLAGS_OPCODE_SHIFT) else RCODE_FORMERR
    if rcode[0] == RCODE_NOTIMP or message.counts[0] != 1 or message.counts[1] | message.counts[2] > 1 or message.counts[3] > 2:
        return REJECT_HEADER
    return wire_accept_sections(packet, length, message, name, rcode)


cdef Acceptance wire_accept_sections(const uint8_t *packet, uint32_t length, Message *message, Name *name, uint8_t *rcode) noexcept nogil:
    cdef int status = read_question(packet, length, message, name)
    if status == 1:
        rcode[0] = RCODE_SERVFAIL
    if status != 0:
        return REJECT_HEADER
    if has_rest(length, message):
        if read_rest(packet, length, message) < 0:
            return REJECT_QUESTION
        if message.edns.options_length and message.edns.version == 0 and not options_are_asked_well(&message.edns):
            return REJECT_QUESTION
    return ACCEPT


cdef uint32_t wire_reject(const uint8_t *packet, const Message *message, Acceptance how, uint8_t rcode, uint8_t *out) noexcept nogil:
    cdef uint32_t used = HEADER_SIZE, at = HEADER_SIZE
    store16(out, message.id)
    # RFC 1035 4.1.1 and RFC 4035 3.1.6: what a reply copies of the query; all other bits are the server's own to set.
    store16(out + 2, FLAG_QR | rcode | (message.flags & (FLAGS_OPCODE | FLAG_RD | FLAG_CD)))
    store32(out + 4, 0)
    store32(out + 8, 0)
    if how == REJECT_QUESTION and message.question_length >= 5 and message.question_length <= NAME_MAX + 4:
        # A compressed question name can only point into the header: such a question is not echoed.
        while packet[at] != 0 and packet[at] < 64:
            at += packet[at] + 1
        if packet[at] == 0:
            memcpy(out + used, packet + HEADER_SIZE, message.question_length)
            used += message.question_length
            out[5] = 1
    if message.edns.present:                    # RFC 6891 6.1.1
        out[11] = 1
        out[used] = 0
        store16(out + used + 1, TYPE_OPT)
        store16(out + used + 3, EDNS_SIZE)
        store32(out + used + 5, message.edns.flags & EDNS_DO)
        store16(out + used + 9, 0)
        used += OPT_SIZE
    return used


cdef int wire_parse_reply(const uint8_t *packet, uint32_t length, Message *message, Name *name) noexcept nogil:
    cdef Name own
    if length < HEADER_SIZE:
        return -1
    read_header(packet, message)
    if message.counts[0] > 1:
        return -1
    if message.counts[0] == 1 and read_question(packet, length, message, name if name != NULL else &own) < 0:
        return -1
    return read_rest(packet, length, message) if has_rest(length, message) else 0


# ---- Python ----

def name_text(bytes wire not None) -> str:
    """Presentation form of an uncompressed name in wire form. Raises ValueError when the octets are not a name."""
    cdef Name name
    cdef char out[1100]
    cdef uint32_t at = 0
    if wire_expand_name(wire, <uint32_t>len(wire), &at, name.wire) < 0:
        raise ValueError("not a name in wire form")
    return out[:wire_name_text(name.wire, out)].decode("ascii")


def name_wire(str text not None) -> bytes:
    """Wire form of a presentation-form name (RFC 1035 5.1; `\\DDD` and `\\X` escapes; case kept; relative names are taken as absolute).

    ValueError for an empty label, a label over 63 octets, a bad escape or a name over 255 octets."""
    data = text.encode("utf-8", "surrogateescape")
    if data == b"." or data == b"":
        return b"\0"
    out = bytearray()
    label = bytearray()
    i, n = 0, len(data)
    while i < n:
        octet = data[i]
        i += 1
        if octet == 0x5C:
            if i >= n:
                raise ValueError("name ends in a backslash: " + text)
            if data[i:i + 3].isdigit() and len(data[i:i + 3]) == 3:
                value = int(data[i:i + 3])
                if value > 255:
                    raise ValueError("bad escape in name: " + text)
                label += bytes([value])
                i += 3
            else:
                label += data[i:i + 1]
                i += 1
        elif octet == 0x2E:
            if not label:
                raise ValueError("empty label in name: " + text)
            out += bytes([len(label)]) + label
            label.clear()
        else:
            label += data[i - 1:i]
        if len(label) > 63:
            raise ValueError("label over 63 octets in name: " + text)
    if label:
        out += bytes([len(label)]) + label
    out += b"\0"
    if len(out) > NAME_MAX:
        raise ValueError("name over 255 octets: " + text)
    return bytes(out)


def accept(bytes packet not None) -> tuple:
    """`wire_accept` of a message: (acceptance, rcode, question name or None, qtype, qclass), acceptance as in _wire.pxd."""
    cdef Message message
    cdef Name name
    cdef uint8_t rcode = 0
    cdef char out[1100]
    cdef Acceptance how = wire_accept(packet, <uint32_t>len(packet), &message, &name, &rcode)
    if how != ACCEPT:
        return int(how), int(rcode), None, 0, 0
    return int(how), 0, out[:wire_name_text(name.wire, out)].decode("ascii"), message.qtype, message.qclass


def suffix_hashes(bytes wire not None) -> list:
    """The hashes of all suffixes of a name, the whole name first; equal for names that differ in case only."""
    cdef Name name
    cdef uint32_t at = 0
    if wire_read_name(wire, <uint32_t>len(wire), &at, &name) < 0:
        raise ValueError("not a name in wire form")
    return [name.hash[i] for i in range(name.labels + 1)]


def records(bytes packet not None) -> list:
    """All records of a message as (section, owner, type, class, ttl, rdata with names expanded). ValueError when it is malformed."""
    cdef Message message
    cdef Section section
    cdef WireRecord record
    cdef uint8_t out[65535]
    cdef int status, n
    cdef uint32_t at
    cdef Name owner
    found = []
    if wire_parse_reply(packet, <uint32_t>len(packet), &message, NULL) < 0:
        raise ValueError("malformed message")
    wire_begin_records(packet, <uint32_t>len(packet), &message, &section)
    while True:
        status = wire_next_record(&section, &record)
        if status == 0:
            return found
        if status < 0:
            raise ValueError("malformed record")
        at = record.owner
        wire_read_name(packet, <uint32_t>len(packet), &at, &owner)
        n = wire_expand_rdata(packet, <uint32_t>len(packet), &record, out, 65535)
        if n < 0:
            raise ValueError("malformed rdata")
        found.append((record.section, owner.wire[:owner.length], record.type, record.klass, record.ttl, out[:n]))
