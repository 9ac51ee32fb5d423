"""What is taken out of a reply; see _strip.pxd."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from libc.string cimport memcpy
from fastdns.api.names cimport wire_name_equal
from fastdns.api.reply cimport SECTION_ADDITIONAL, SECTION_ANSWER, SECTION_AUTHORITY, Record, Reply, reply_alloc, reply_has
from fastdns.api.wire cimport TYPE_HTTPS, TYPE_RRSIG, TYPE_SOA, TYPE_SVCB, load16, store16

cdef enum:
    KEY_MANDATORY = 0           # RFC 9460 8
    COMPARISONS = 8192          # of owners in one reply: of a reply beyond any use the rest of the addresses stays


# ---- what a reply has ----

cdef inline bint is_service(const Record *record) noexcept nogil:
    return record.type == TYPE_HTTPS or record.type == TYPE_SVCB


cdef inline uint16_t covered_by(const Record *record) noexcept nogil:
    """The type that an RRSIG is for (RFC 4034 3.1.1), or 0."""
    return load16(record.rdata) if record.type == TYPE_RRSIG and record.rdlength >= 2 else 0


cdef bint strip_has(const Reply *reply, const AddressFamily *family) noexcept nogil:
    cdef uint32_t i
    for i in range(reply.count):
        if reply.records[i].type == family.type or is_service(&reply.records[i]):
            return True
    return False


cdef bint strip_is_signed(const Reply *reply) noexcept nogil:
    return reply_has(reply, SECTION_ANSWER, TYPE_RRSIG)


# ---- what is removed ----

cdef Stripped strip_reply(Reply *reply, const AddressFamily *family, bint always) noexcept nogil:
    cdef Stripped found
    cdef Record *record
    cdef const Record *last = NULL
    cdef Record judged              # the last owner: records of one RRset stand together
    cdef bint remove = False
    cdef uint32_t i, kept = 0, left = COMPARISONS
    found.records = found.hints = 0
    for i in range(reply.count):
        record = &reply.records[i]
        if record.type == family.type or covered_by(record) == family.type:
            if last == NULL or not has_owner(last, record):
                judged = record[0]
                last = &judged
                remove = always or has_other(reply, record, family.other, &left)
            if remove:
                found.records += record.type == family.type
                continue
        elif is_service(record):
            found.hints += remove_hint(reply, record, family.hint)
        reply.records[kept] = record[0]
        kept += 1
    reply.count = <uint16_t>kept
    if found.hints:
        remove_signatures(reply)
    return found


cdef inline bint has_owner(const Record *one, const Record *other) noexcept nogil:
    return one.owner_length == other.owner_length and wire_name_equal(one.owner, other.owner, one.owner_length)


cdef bint has_other(const Reply *reply, const Record *record, uint16_t type, uint32_t *left) noexcept nogil:
    """Whether the reply has a record of the type for the same owner; `left`: how many owners may be compared yet."""
    cdef uint32_t i
    for i in range(reply.count):
        if reply.records[i].type == type:
            if left[0] == 0:
                return False
            left[0] -= 1
            if has_owner(&reply.records[i], record):
                return True
    return False


cdef void remove_signatures(Reply *reply) noexcept nogil:
    """Those of HTTPS and SVCB records, which are not right any more."""
    cdef uint32_t i, kept = 0
    cdef uint16_t covered
    for i in range(reply.count):
        covered = covered_by(&reply.records[i])
        if covered != TYPE_HTTPS and covered != TYPE_SVCB:
            reply.records[kept] = reply.records[i]
            kept += 1
    reply.count = <uint16_t>kept


cdef void strip_to_nodata(Reply *reply, uint16_t type) noexcept nogil:
    cdef const Record *record
    cdef uint32_t i, kept = 0
    for i in range(reply.count):
        record = &reply.records[i]
        if record.section == SECTION_ADDITIONAL:
            continue
        if record.section == SECTION_ANSWER and (record.type == type or covered_by(record) == type):
            continue
        # NS records without a SOA would make it a referral (RFC 2308 2.1.2).
        if record.section == SECTION_AUTHORITY and record.type != TYPE_SOA and covered_by(record) != TYPE_SOA:
            continue
        reply.records[kept] = record[0]
        kept += 1
    reply.count = <uint16_t>kept


# ---- hints ----

cdef bint remove_hint(Reply *reply, Record *record, uint16_t hint) noexcept nogil:
    """Whether it had one. rdata is others' memory, so it gets a copy; without room for that the record stays as it is."""
    cdef uint8_t *made
    cdef int length = strip_hint(record.rdata, record.rdlength, hint, NULL)
    if length < 0:
        return False
    made = reply_alloc(reply, <uint32_t>length)
    if made == NULL:
        return False
    strip_hint(record.rdata, record.rdlength, hint, made)
    record.rdata = made
    record.rdlength = <uint16_t>length
    return True


cdef int strip_hint(const uint8_t *rdata, uint32_t length, uint16_t hint, uint8_t *out) noexcept nogil:
    """`out` may be NULL: only the length is of interest. Returns that of what is left."""
    cdef uint32_t at = 2, used, size
    cdef uint16_t key
    cdef bint found = False
    while at < length and rdata[at]:            # the target's name, which is never compressed
        at += rdata[at] + 1u
    at += 1
    if at > length:
        return -1
    used = put(out, 0, rdata, at)
    while at < length:
        if length - at < 4:
            return -1
        key, size = load16(rdata + at), load16(rdata + at + 2)
        if length - at - 4 < size:
            return -1
        if key == hint:
            found = True
        elif key == KEY_MANDATORY:
            used += put_mandatory(out, used, rdata + at, size, hint)
        else:
            used += put(out, used, rdata + at, 4 + size)
        at += 4 + size
    return <int>used if found else -1


cdef inline uint32_t put(uint8_t *out, uint32_t at, const uint8_t *octets, uint32_t count) noexcept nogil:
    if out != NULL:
        memcpy(out + at, octets, count)
    return count


cdef uint32_t put_mandatory(uint8_t *out, uint32_t at, const uint8_t *parameter, uint32_t size, uint16_t hint) noexcept nogil:
    """The list without the hint: a mandatory key that a record lacks would make it malformed, and so would an empty list."""
    cdef uint32_t i, used = 4
    for i in range(0, size - size % 2, 2):
        if load16(parameter + 4 + i) != hint:
            used += put(out, at + used, parameter + 4 + i, 2)
    if used == 4:
        return 0
    if out != NULL:
        store16(out + at, KEY_MANDATORY)
        store16(out + at + 2, <uint16_t>(used - 4))
    return used
