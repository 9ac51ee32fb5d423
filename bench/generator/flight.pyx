"""Queries under way, and what their replies are worth. The contract is in _flight.pxd."""
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memset
from fastdns._wire cimport FLAG_TC, HEADER_SIZE, TYPE_OPT, Message, load16, wire_name_equal, wire_parse_reply
from fastdns.bench.generator.histogram cimport latencies_record
from fastdns.bench.generator.queries cimport query_check_answers
from fastdns.protocol.header cimport OPCODE_QUERY, flags_opcode, flags_rcode


cdef int flight_open(Flight *flight, uint32_t capacity) noexcept nogil:
    cdef uint32_t slots = 16, i
    memset(flight, 0, sizeof(Flight))
    while slots < capacity and slots < FLIGHT_SLOTS_MAX:
        slots *= 2
    flight.slots = <Slot *>calloc(slots, sizeof(Slot))
    if flight.slots == NULL:
        return -1
    flight.mask = slots - 1
    for i in range(slots):
        flight.slots[i].id = <uint16_t>i
        flight.slots[i].next = <uint16_t>(i + 1) if i + 1 < slots else NO_SLOT
    flight.last_free = slots - 1
    flight.oldest = flight.newest = NO_SLOT
    return 0


cdef void flight_close(Flight *flight) noexcept nogil:
    free(flight.slots)
    flight.slots = NULL


cdef inline void release(Flight *flight, uint32_t at) noexcept nogil:
    """Takes a slot out of those under way and puts it behind the free ones."""
    cdef Slot *slot = &flight.slots[at]
    if slot.previous == NO_SLOT:
        flight.oldest = slot.next
    else:
        flight.slots[slot.previous].next = slot.next
    if slot.next == NO_SLOT:
        flight.newest = slot.previous
    else:
        flight.slots[slot.next].previous = slot.previous
    slot.busy = 0
    slot.next = NO_SLOT
    if flight.last_free == NO_SLOT:
        flight.first_free = at
    else:
        flight.slots[flight.last_free].next = <uint16_t>at
    flight.last_free = at
    flight.under_way -= 1


cdef void flight_undo(Flight *flight, uint32_t slot) noexcept nogil:
    release(flight, slot)


cdef bint flight_expire(Flight *flight, int64_t limit, Counters *counters) noexcept nogil:
    cdef Slot *slot
    cdef uint32_t at = flight.oldest
    if at == NO_SLOT or flight.slots[at].due >= limit:
        return False
    while at != NO_SLOT and flight.slots[at].due < limit:
        slot = &flight.slots[at]
        flight.expired[slot.id >> 6] |= <uint64_t>1 << (slot.id & 63)
        counters.lost += slot.counted
        release(flight, at)
        at = flight.oldest
    return True


cdef void flight_lose(Flight *flight, uint32_t at, Counters *counters) noexcept nogil:
    counters.lost += flight.slots[at].counted
    release(flight, at)


cdef inline int extended_rcode(const uint8_t *packet, uint32_t length) noexcept nogil:
    """The rcode's upper 8 bits from an OPT at the end; -1 when the message must be parsed for it."""
    cdef const uint8_t *opt = packet + length - 11
    if packet[10] == 0 and packet[11] == 0:
        return 0
    if length < HEADER_SIZE + 16 or opt[0] != 0 or load16(opt + 1) != TYPE_OPT or opt[9] | opt[10] != 0:
        return -1
    return opt[5]


cdef inline bint same_question(const uint8_t *packet, uint32_t length, const PackedQuery *query) noexcept nogil:
    """As wire_answers, but for the id, which the caller has seen to; servers leave the name as it is, so that one comparison mostly does."""
    return (length >= <uint32_t>HEADER_SIZE + query.question_length and flags_opcode(load16(packet + 2)) == OPCODE_QUERY and packet[4] == 0 and packet[5] == 1
            and (memcmp(packet + HEADER_SIZE, query.message + HEADER_SIZE, query.question_length) == 0
                 or (memcmp(packet + HEADER_SIZE + query.question_length - 4, query.message + HEADER_SIZE + query.question_length - 4, 4) == 0
                     and wire_name_equal(packet + HEADER_SIZE, query.message + HEADER_SIZE, query.question_length - 4))))


cdef int judge(const PackedQuery *query, const uint8_t *packet, uint32_t length, bint answers, bint edns, Counters *counters) noexcept nogil:
    """Checks a reply whose id is right, and counts its rcode."""
    cdef Message message
    cdef int upper, verdict
    cdef uint32_t rcode
    if length < HEADER_SIZE or packet[2] & 0x80 == 0:
        return MALFORMED
    if not same_question(packet, length, query):
        return WRONG_QUESTION
    rcode = flags_rcode(load16(packet + 2))
    if answers or edns:
        upper = extended_rcode(packet, length) if edns and not answers else -1
        if upper < 0:
            if wire_parse_reply(packet, length, &message, NULL) < 0:
                return MALFORMED
            upper = message.edns.extended_rcode if message.edns.present else 0
        rcode |= <uint32_t>upper << 4
    counters.rcodes[rcode if rcode < RCODES else RCODES - 1] += 1
    if query.rcode >= 0 and rcode != <uint32_t>query.rcode:
        return WRONG_RCODE
    if answers:
        verdict = query_check_answers(query, packet, length, &message)
        if verdict <= 0:
            return WRONG_ANSWER if verdict == 0 else MALFORMED
    return RIGHT


cdef uint32_t flight_reply(Flight *flight, const PackedQuery *queries, const uint8_t *packet, uint32_t length, int64_t now, Check check, bint edns,
                           Counters *counters) noexcept nogil:
    cdef uint16_t id
    cdef uint32_t at
    cdef Slot *slot
    if length < 2:
        counters.wrong[MALFORMED] += 1
        return NO_SLOT
    id = load16(packet)
    at = id & flight.mask
    slot = &flight.slots[at]
    if not slot.busy or slot.id != id:
        if flight.expired[id >> 6] >> (id & 63) & 1:
            flight.expired[id >> 6] &= ~(<uint64_t>1 << (id & 63))
            counters.late += 1
        else:
            counters.wrong[WRONG_ID] += 1
        return NO_SLOT
    flight_complete(flight, at, RIGHT, queries, packet, length, now, check, edns, counters)
    return at


cdef void flight_complete(Flight *flight, uint32_t at, int verdict, const PackedQuery *queries, const uint8_t *packet, uint32_t length, int64_t now,
                          Check check, bint edns, Counters *counters) noexcept nogil:
    cdef Slot *slot = &flight.slots[at]
    cdef const PackedQuery *query
    cdef bint answers = False
    release(flight, at)
    if not slot.counted:
        return
    query = &queries[slot.query]
    if verdict == RIGHT and query.answers >= 0:
        flight.replies += 1
        answers = check == CHECK_ALL or (check == CHECK_SAMPLE and flight.replies % SAMPLE == 0)
    if verdict == RIGHT:
        verdict = judge(query, packet, length, answers, edns, counters)
    if verdict != RIGHT:
        counters.wrong[verdict] += 1
    elif packet[2] & (FLAG_TC >> 8):
        counters.truncated += 1
    counters.answered += 1
    counters.octets += length
    latencies_record(&counters.latencies, <uint64_t>(now - slot.due) if now > slot.due else 0)
