"""Transfers as a secondary takes them up. The contract is in answer.pxd."""
from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memcmp, memcpy, memset
from fastdns._wire cimport NAME_MAX, load16, load32
from fastdns.plugins.transfer._digest cimport (DIGEST_OCTETS, HASH_PRIVATE, SCHEME_PRIVATE, ZONEMD_OCTETS, ContentDigest, digest_add, digest_remove,
                                               zonemd_read, same_content)
from fastdns.plugins.transfer._source cimport TransferRecord

cdef enum:
    HEADER = 12
    A = 1
    SOA = 6
    ZONEMD = 63

cdef enum:                          # Answer.part: what the next record is
    FIRST                           # the SOA that the transfer leads to
    SECOND                          # an SOA: differences; else the zone
    DELETED
    ADDED
    WHOLE


cdef void answer_begin(Answer *answer) noexcept nogil:
    answer.part = FIRST
    answer.whole = 0
    answer.records = 0
    answer.next = answer.version
    answer.before = answer.content


cdef bint skip_name(const uint8_t *message, uint32_t length, uint32_t *at) noexcept nogil:
    while at[0] < length:
        if message[at[0]] >= 0xC0:
            at[0] += 2
            return at[0] <= length
        if message[at[0]] == 0:
            at[0] += 1
            return True
        at[0] += 1u + message[at[0]]
    return False


cdef bint skip_questions(const uint8_t *message, uint32_t length, uint32_t *at) noexcept nogil:
    cdef uint32_t i
    if length < HEADER:
        return False
    at[0] = HEADER
    for i in range(load16(message + 4)):
        if not skip_name(message, length, at):
            return False
        at[0] += 4
    return at[0] <= length


cdef uint32_t expand(const uint8_t *message, uint32_t length, uint32_t at, uint8_t *out) noexcept nogil:
    """A name without pointers, into NAME_MAX octets: its length. 0: it is none. Pointers go backwards (RFC 1035 4.1.4)."""
    cdef uint32_t used = 0, size, limit = at
    while at < length:
        if message[at] >= 0xC0:
            if at + 2 > length or (load16(message + at) & 0x3FFF) >= limit:
                return 0
            at = limit = load16(message + at) & 0x3FFF
            continue
        size = 1u + message[at]
        if at + size > length or used + size > NAME_MAX:
            return 0
        memcpy(out + used, message + at, size)
        used += size
        at += size
        if size == 1:
            return used
    return 0


cdef bint read_record(const uint8_t *message, uint32_t length, uint32_t *at, TransferRecord *record) noexcept nogil:
    """But for its owner."""
    if not skip_name(message, length, at) or length - at[0] < 10:
        return False
    record.type = load16(message + at[0])
    record.ttl = load32(message + at[0] + 4)
    record.rdlength = load16(message + at[0] + 8)
    record.rdata = message + at[0] + 10
    at[0] += 10u + record.rdlength
    return at[0] <= length


cdef bint answer_serial(const uint8_t *message, uint32_t length, uint32_t *serial) noexcept nogil:
    cdef uint32_t at = 0
    cdef TransferRecord record
    if not skip_questions(message, length, &at) or load16(message + 6) == 0 or not read_record(message, length, &at, &record):
        return False
    if record.type != SOA or record.rdlength < 22:
        return False
    serial[0] = load32(record.rdata + record.rdlength - 20)
    return True


cdef Outcome answer_take(Answer *answer, const uint8_t *message, uint32_t length) noexcept nogil:
    cdef uint8_t owner[NAME_MAX]
    cdef uint32_t at = 0, begin, i, count
    cdef TransferRecord record
    cdef Outcome outcome = MORE
    if not skip_questions(message, length, &at):
        outcome = MALFORMED
    elif message[3] & 15:
        outcome = REFUSED
    count = load16(message + 6) if outcome == MORE else 0
    for i in range(count):
        begin = at
        if outcome != MORE or not read_record(message, length, &at, &record):
            outcome = MALFORMED         # nothing follows the last SOA
            break
        if answer.checked:
            record.owner = owner
            record.owner_length = <uint8_t>expand(message, length, begin, owner)
        answer.records += 1
        outcome = take_record(answer, &record)
        if outcome > APPLIED:
            break
    if outcome == MORE and answer.records == 1:
        outcome = CURRENT
    if outcome == APPLIED and answer.checked and answer.next.digested and not has_digest(answer):
        outcome = OTHER_CONTENT
    if outcome == APPLIED:
        answer.version = answer.next
    elif outcome != MORE:
        answer.content = answer.before
    return outcome


cdef bint has_digest(const Answer *answer) noexcept nogil:
    cdef uint8_t rdata[ZONEMD_OCTETS]
    cdef ContentDigest digest
    memset(rdata, 0, 4)
    rdata[4] = SCHEME_PRIVATE
    rdata[5] = HASH_PRIVATE
    memcpy(rdata + 6, answer.next.digest, DIGEST_OCTETS)
    return zonemd_read(rdata, ZONEMD_OCTETS, &digest) and same_content(&digest, &answer.content)


cdef Outcome take_record(Answer *answer, const TransferRecord *record) noexcept nogil:
    cdef bint deleted = answer.part == DELETED
    if record.type == SOA:
        return take_soa(answer, load32(record.rdata + record.rdlength - 20)) if record.rdlength >= 22 else MALFORMED
    if answer.part == FIRST:
        return MALFORMED
    if answer.part == SECOND:
        begin_whole(answer)
    if record.type == ZONEMD and record.rdlength == ZONEMD_OCTETS and record.rdata[4] == SCHEME_PRIVATE and record.rdata[5] == HASH_PRIVATE:
        if deleted:
            return MORE if answer.next.digested and memcmp(answer.next.digest, record.rdata + 6, DIGEST_OCTETS) == 0 else GAP
        answer.next.digested = 1
        memcpy(answer.next.digest, record.rdata + 6, DIGEST_OCTETS)
        return MORE
    if answer.checked:
        if deleted:
            digest_remove(&answer.content, record)
        else:
            digest_add(&answer.content, record)
    if not deleted and record.type == A and record.rdlength == 4:
        answer.added(answer.data, record.rdata)
    return MORE


cdef void begin_whole(Answer *answer) noexcept nogil:
    answer.part = WHOLE
    answer.whole = 1
    answer.next.digested = 0
    answer.next.serial = answer.serial
    memset(&answer.content, 0, sizeof(ContentDigest))


cdef Outcome take_soa(Answer *answer, uint32_t serial) noexcept nogil:
    if answer.part == FIRST:
        answer.serial = serial
        answer.part = SECOND
    elif answer.part == SECOND and (not answer.version.held or serial == answer.serial):
        return MALFORMED                # a zone without records
    elif answer.part == SECOND or (answer.part == ADDED and answer.next.serial != answer.serial):
        if serial != answer.next.serial:
            return GAP
        answer.part = DELETED
    elif answer.part == DELETED:
        answer.next.serial = serial
        answer.part = ADDED
    else:                               # the last one
        if serial != answer.serial:
            return GAP
        answer.next.held = 1
        return APPLIED
    return MORE
