"""Query messages, packed. The contract is in _queries.pxd."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcmp, memcpy, memset
from fastdns._wire cimport (CLASS_IN, EDNS_DO, FLAG_RD, FLAG_TC, HEADER_SIZE, MESSAGE_MAX, TYPE_OPT, Message, Section, WireRecord, store16,
                            wire_begin_records, wire_expand_rdata, wire_name_equal, wire_next_record)
from fastdns.protocol.rrtypes cimport rrtype_names
from fastdns._wire import name_wire

cdef enum:
    OPT_SIZE = 11                   # of an OPT record without options
    ANSWERS_MAX = 8192              # records of one answer; more do not fit in a message
    BURST_MAX = 64                  # queries that leave together


cdef class QuerySet:
    def __cinit__(self, workload, *, uint16_t udp_size=0, bint do=False, bint rd=True):
        if workload is None:                # to be filled from what __reduce__ gave
            return
        wires = [name_wire(question.name) for question in workload.questions]
        cdef size_t octets = 0, records = 0
        self.edns = udp_size > 0 or do
        for wire, question in zip(wires, workload.questions, strict=True):
            octets += HEADER_SIZE + len(wire) + 4 + OPT_SIZE
            if question.answers is not None:
                records += len(question.answers)
                octets += sum(map(len, question.answers))
        self.label = workload.label
        self.count = <uint32_t>len(wires)
        self.length = <uint32_t>len(workload.order)
        if not self.length:
            raise ValueError("a workload without questions")
        self.allocate(octets, records)
        self.pack(workload.questions, wires, udp_size or 1232, do, rd)
        self.put_in_order(workload.order, getattr(workload, "bursts", None))

    cdef int allocate(self, size_t octets, size_t records) except -1:
        self.octet_count = octets
        self.rdata_count = records
        self.queries = <PackedQuery *>calloc(self.count, sizeof(PackedQuery))
        self.order = <uint32_t *>calloc(self.length, sizeof(uint32_t))
        self.octets = <uint8_t *>calloc(1, octets)
        self.rdata = <Rdata *>calloc(records + 1, sizeof(Rdata))
        if self.queries == NULL or self.order == NULL or self.octets == NULL or self.rdata == NULL:
            raise MemoryError
        return 0

    cdef int pack(self, questions, list wires, uint16_t udp_size, bint do, bint rd) except -1:
        cdef uint8_t *at = self.octets
        cdef Rdata *record = self.rdata
        cdef PackedQuery *query
        cdef bytes wire, rdata
        cdef uint32_t i = 0
        for question, wire in zip(questions, wires, strict=True):
            query = &self.queries[i]
            i += 1
            query.message = at
            query.type = question.type
            query.question_length = <uint16_t>(len(wire) + 4)
            query.rcode = -1 if question.rcode is None else question.rcode
            memset(at, 0, HEADER_SIZE)
            store16(at + 2, FLAG_RD if rd else 0)
            at[5] = 1
            memcpy(at + HEADER_SIZE, <const uint8_t *>wire, len(wire))
            at += HEADER_SIZE + len(wire)
            store16(at, query.type)
            store16(at + 2, CLASS_IN)
            at += 4
            if self.edns:
                (<uint8_t *>query.message)[11] = 1
                memset(at, 0, OPT_SIZE)
                store16(at + 1, TYPE_OPT)
                store16(at + 3, udp_size)
                store16(at + 7, EDNS_DO if do else 0)
                at += OPT_SIZE
            query.length = <uint16_t>(at - query.message)
            query.answers = -1
            query.expected = record
            if question.answers is None:
                continue
            if len(question.answers) > ANSWERS_MAX:
                raise ValueError(f"{question.name}: no message holds {len(question.answers)} answers")
            query.answers = <int>len(question.answers)
            for rdata in sorted(question.answers):
                memcpy(at, <const uint8_t *>rdata, len(rdata))
                record.octets = at
                record.length = <uint16_t>len(rdata)
                at += len(rdata)
                if find_names(record, query.type) < 0:
                    raise ValueError(f"{question.name}: {rdata!r} is not rdata of type {query.type}")
                record += 1
        return 0

    cdef int put_in_order(self, order, bursts) except -1:
        cdef uint32_t i, number
        cdef uint64_t whole = 0
        for i, number in enumerate(order):
            if number >= self.count:
                raise ValueError(f"question {number} of {self.count} in the order")
            self.order[i] = number
        if bursts is None:
            return 0
        self.burst_count = <uint32_t>len(bursts)
        self.bursts = <uint32_t *>malloc((self.burst_count + 1) * sizeof(uint32_t))
        if self.bursts == NULL:
            raise MemoryError
        for i, number in enumerate(bursts):
            self.bursts[i] = number
            whole += number
            if not 0 < number <= BURST_MAX:
                raise ValueError(f"a burst of {number} queries; 1 to {BURST_MAX} can leave together")
        if whole != self.length:
            raise ValueError("the bursts do not add up to the order")
        return 0

    def __reduce__(self):
        """For a process of the same program: the arrays as they are, and where they were."""
        return restored, (
            (self.label, self.edns, self.count, self.length, self.burst_count),
            (<char *>self.octets)[:self.octet_count],
            (<char *>self.queries)[:self.count * sizeof(PackedQuery)],
            (<char *>self.rdata)[:self.rdata_count * sizeof(Rdata)],
            (<char *>self.order)[:self.length * sizeof(uint32_t)],
            (<char *>self.bursts)[:self.burst_count * sizeof(uint32_t)] if self.bursts != NULL else None,
            (<uintptr_t>self.octets, <uintptr_t>self.rdata),
        )

    def __dealloc__(self):
        free(self.queries)
        free(self.order)
        free(self.bursts)
        free(self.octets)
        free(self.rdata)

    def __len__(self):
        return self.count

    def message(self, uint32_t number):
        if number >= self.count:
            raise IndexError(number)
        return self.queries[number].message[:self.queries[number].length]


def restored(tuple shape, bytes octets, bytes queries, bytes rdata, bytes order, bursts, tuple places):
    cdef QuerySet made = QuerySet(None)
    cdef uintptr_t octets_were, rdata_were
    cdef size_t i
    made.label, made.edns, made.count, made.length, made.burst_count = shape
    octets_were, rdata_were = places
    made.allocate(len(octets), len(rdata) // sizeof(Rdata))
    memcpy(made.octets, <const char *>octets, len(octets))
    memcpy(made.queries, <const char *>queries, len(queries))
    memcpy(made.rdata, <const char *>rdata, len(rdata))
    memcpy(made.order, <const char *>order, len(order))
    if bursts is not None:
        made.bursts = <uint32_t *>calloc(made.burst_count + 1, sizeof(uint32_t))
        if made.bursts == NULL:
            raise MemoryError
        memcpy(made.bursts, <const char *>bursts, len(bursts))
    for i in range(made.count):
        made.queries[i].message = made.octets + (<uintptr_t>made.queries[i].message - octets_were)
        made.queries[i].expected = made.rdata + (<uintptr_t>made.queries[i].expected - rdata_were) // sizeof(Rdata)
    for i in range(made.rdata_count):
        made.rdata[i].octets = made.octets + (<uintptr_t>made.rdata[i].octets - octets_were)
    return made


# ---- answers ----

cdef int find_names(Rdata *record, uint16_t type) noexcept nogil:
    """Notes where the names of rdata are; -1 when they run out of it."""
    cdef uint32_t start
    cdef int end = rrtype_names(type, record.octets, record.length, &start)
    record.names = <uint16_t>(start if end > 0 else record.length)
    record.names_end = <uint16_t>(end if end > 0 else record.length)
    return -1 if end < 0 else 0


cdef inline bint rdata_equal(const Rdata *expected, const uint8_t *octets, uint32_t length) noexcept nogil:
    cdef uint32_t names = expected.names, end = expected.names_end
    return (length == expected.length and memcmp(octets, expected.octets, names) == 0
            and wire_name_equal(octets + names, expected.octets + names, <int>(end - names))
            and memcmp(octets + end, expected.octets + end, length - end) == 0)


cdef int query_check_answers(const PackedQuery *query, const uint8_t *packet, uint32_t length, const Message *message) noexcept nogil:
    cdef uint8_t found[ANSWERS_MAX]
    cdef uint8_t rdata[MESSAGE_MAX]
    cdef Section section
    cdef WireRecord record
    cdef int status, size, i, tried, at = 0, left = query.answers
    memset(found, 0, <size_t>query.answers)
    wire_begin_records(packet, length, message, &section)
    while True:
        status = wire_next_record(&section, &record)
        if status < 0:
            return -1
        if status == 0 or record.section > 0:
            break
        if record.type != query.type or record.klass != CLASS_IN:
            continue
        size = wire_expand_rdata(packet, length, &record, rdata, MESSAGE_MAX)
        if size < 0:
            return -1
        # Servers send records in the order that they have them, perhaps rotated: look from behind the one found last.
        for tried in range(query.answers):
            i = at + tried
            if i >= query.answers:
                i -= query.answers
            if not found[i] and rdata_equal(&query.expected[i], rdata, <uint32_t>size):
                break
        else:
            return 0
        found[i] = 1
        left -= 1
        at = i + 1
    return left == 0 or message.flags & FLAG_TC != 0
