"""The native handler of loadbalance: reorders the records of a reply on its way up, in the query's own table.

Only the table of records changes place; what they point at (index, cache) is shared and is never touched.
"""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memcpy
from fastdns.api.query cimport UP, Handler, NativeHandler, Query, Verdict, handler_init
from fastdns.api.reply cimport RECORDS_MAX, SECTION_ADDITIONAL, SECTION_ANSWER, Record, Reply
from fastdns.api.names cimport wire_name_hash
from fastdns.api.wire cimport RCODE_NOERROR, TYPE_A, TYPE_AAAA, TYPE_AXFR, TYPE_CNAME, TYPE_IXFR, TYPE_MX, TYPE_SRV
from fastdns.api.memory cimport atomic_load_pointer, atomic_store_pointer, epoch_wait
from fastdns.api.random cimport Random, random_below

cdef enum:
    PREFIXES_MAX = 64           # of `prefer`: each is a pass over the addresses of a reply

cdef struct Prefix:
    uint8_t octets[16]
    uint8_t bits
    uint8_t size                # of an address: 4 or 16

cdef struct Weight:
    uint8_t octets[16]
    uint8_t size
    uint8_t value

cdef struct Domain:             # a name of the weight file
    uint32_t hash
    uint32_t length             # 0: a free slot
    uint8_t wire[255]           # case kept: compared as it is
    uint32_t first              # of its weights
    uint32_t count

cdef struct Weights:            # one block, never changed; replaced as a whole
    uint32_t mask
    Domain *domains             # open addressing
    Weight *weights

cdef struct LoadbalanceState:
    uint8_t weighted
    uint32_t prefixes
    Prefix prefix[PREFIXES_MAX]
    Weights *weights            # atomic; NULL: none read yet

cdef enum Kind:                 # in the order in which round_robin puts them
    KIND_CNAME
    KIND_REST
    KIND_ADDRESS
    KIND_MX

cdef struct Order:              # one section of a reply
    uint32_t count
    uint16_t place[RECORDS_MAX]     # where its records stand in the table
    uint16_t wanted[RECORDS_MAX]    # which of them (0 to count - 1) is to stand there


# ---- reordering ----

cdef inline Kind kind_of(const Record *record) noexcept nogil:
    if record.type == TYPE_A or record.type == TYPE_AAAA:
        return KIND_ADDRESS
    if record.type == TYPE_CNAME:
        return KIND_CNAME
    return KIND_MX if record.type == TYPE_MX else KIND_REST


cdef inline void shuffle_records(Record *records, uint32_t count, Random *random) noexcept nogil:
    """Fisher-Yates, uniform; two records change places in half of all cases."""
    cdef uint32_t i = count, j
    cdef Record record
    while i > 1:
        j = random_below(random, i)
        i -= 1
        if j != i:
            record = records[i]
            records[i] = records[j]
            records[j] = record


cdef inline void shuffle_numbers(uint16_t *numbers, uint32_t count, Random *random) noexcept nogil:
    cdef uint32_t i = count, j
    cdef uint16_t number
    while i > 1:
        j = random_below(random, i)
        i -= 1
        number = numbers[i]
        numbers[i] = numbers[j]
        numbers[j] = number


cdef void take_section(const Reply *reply, int section, Order *order) noexcept nogil:
    cdef uint32_t i
    order.count = 0
    for i in range(reply.count):
        if reply.records[i].section == section:
            order.place[order.count] = <uint16_t>i
            order.count += 1


cdef uint32_t append_kind(const Reply *reply, Order *order, uint32_t used, Kind kind) noexcept nogil:
    """Records of one kind, in their order, behind the `used` that have their place. Returns how many have it now."""
    cdef uint32_t i
    for i in range(order.count):
        if kind_of(&reply.records[order.place[i]]) == kind:
            order.wanted[used] = <uint16_t>i
            used += 1
    return used


cdef void apply(Reply *reply, Order *order) noexcept nogil:
    """Moves the records, each cycle of the permutation once around."""
    cdef uint32_t i, at, following
    cdef Record record
    for i in range(order.count):
        if order.wanted[i] == i:
            continue
        record = reply.records[order.place[i]]
        at = i
        while order.wanted[at] != i:
            following = order.wanted[at]
            reply.records[order.place[at]] = reply.records[order.place[following]]
            order.wanted[at] = <uint16_t>at
            at = following
        reply.records[order.place[at]] = record
        order.wanted[at] = <uint16_t>at


# ---- round_robin ----

cdef bint one_address_type(const Reply *reply) noexcept nogil:
    """The common reply: one section, all A or all AAAA."""
    cdef uint32_t i
    cdef uint16_t type = reply.records[0].type
    if type != TYPE_A and type != TYPE_AAAA:
        return False
    for i in range(reply.count):
        if reply.records[i].type != type or reply.records[i].section != reply.records[0].section:
            return False
    return True


cdef void round_robin(Reply *reply, int section, Random *random) noexcept nogil:
    """CNAMEs, what is neither address nor MX, addresses shuffled, MX shuffled."""
    cdef Order order
    cdef uint32_t addresses, exchanges, used
    take_section(reply, section, &order)
    if order.count < 2:
        return
    used = append_kind(reply, &order, 0, KIND_CNAME)
    addresses = append_kind(reply, &order, used, KIND_REST)
    exchanges = append_kind(reply, &order, addresses, KIND_ADDRESS)
    used = append_kind(reply, &order, exchanges, KIND_MX)
    shuffle_numbers(&order.wanted[addresses], exchanges - addresses, random)
    shuffle_numbers(&order.wanted[exchanges], used - exchanges, random)
    apply(reply, &order)


# ---- prefer ----

cdef inline bint in_prefix(const Prefix *prefix, const Record *record) noexcept nogil:
    cdef uint32_t whole = prefix.bits >> 3, rest = prefix.bits & 7
    if record.rdlength != prefix.size or memcmp(record.rdata, prefix.octets, whole) != 0:
        return False
    return rest == 0 or (record.rdata[whole] ^ prefix.octets[whole]) >> (8 - rest) == 0


cdef uint32_t first_prefix(const LoadbalanceState *state, const Record *record) noexcept nogil:
    cdef uint32_t i
    for i in range(state.prefixes):
        if in_prefix(&state.prefix[i], record):
            return i
    return state.prefixes


cdef void prefer(const LoadbalanceState *state, Reply *reply, int section) noexcept nogil:
    """CNAMEs, addresses by the first network that holds them, MX, the rest; otherwise in their order."""
    cdef Order order
    cdef uint32_t i, used, rank
    take_section(reply, section, &order)
    if order.count < 2:
        return
    used = append_kind(reply, &order, 0, KIND_CNAME)
    for rank in range(state.prefixes + 1):
        for i in range(order.count):
            if kind_of(&reply.records[order.place[i]]) == KIND_ADDRESS and first_prefix(state, &reply.records[order.place[i]]) == rank:
                order.wanted[used] = <uint16_t>i
                used += 1
    used = append_kind(reply, &order, used, KIND_MX)
    append_kind(reply, &order, used, KIND_REST)
    apply(reply, &order)


# ---- weighted ----

cdef const Domain *find_domain(const Weights *weights, const Record *record) noexcept nogil:
    cdef uint32_t hash = wire_name_hash(record.owner)
    cdef uint32_t slot = hash & weights.mask
    cdef const Domain *domain = &weights.domains[slot]
    while domain.length:
        if domain.hash == hash and domain.length == record.owner_length and memcmp(domain.wire, record.owner, domain.length) == 0:
            return domain
        slot = (slot + 1) & weights.mask
        domain = &weights.domains[slot]
    return NULL


cdef uint32_t weight_of(const Weights *weights, const Domain *domain, const Record *record) noexcept nogil:
    """What the file says for owner and address, else 1."""
    cdef uint32_t i
    cdef const Weight *weight
    if domain != NULL:
        for i in range(domain.count):
            weight = &weights.weights[domain.first + i]
            if weight.size == record.rdlength and memcmp(weight.octets, record.rdata, weight.size) == 0:
                return weight.value
    return 1


cdef void weighted(const Weights *weights, Reply *reply, int section, Random *random) noexcept nogil:
    """CNAMEs, the rest, addresses, MX; of the addresses one, drawn by its weight, changes places with the first."""
    cdef Order order
    cdef uint32_t i, addresses, exchanges, drawn = 0
    cdef uint64_t sum = 0
    cdef const Domain *domain = NULL
    cdef const uint8_t *owner = NULL
    cdef const Record *record
    cdef uint16_t first
    cdef uint16_t value[RECORDS_MAX]
    take_section(reply, section, &order)
    addresses = append_kind(reply, &order, 0, KIND_CNAME)
    addresses = append_kind(reply, &order, addresses, KIND_REST)
    exchanges = append_kind(reply, &order, addresses, KIND_ADDRESS)
    if exchanges == addresses:
        return
    append_kind(reply, &order, exchanges, KIND_MX)
    for i in range(addresses, exchanges):
        record = &reply.records[order.place[order.wanted[i]]]
        if weights != NULL and record.owner != owner:
            owner = record.owner
            domain = find_domain(weights, record)
        value[i] = <uint16_t>weight_of(weights, domain, record)
        sum += value[i]
    drawn = random_below(random, <uint32_t>sum)
    i = addresses
    while drawn >= value[i]:
        drawn -= value[i]
        i += 1
    first = order.wanted[addresses]
    order.wanted[addresses] = order.wanted[i]
    order.wanted[i] = first
    apply(reply, &order)


# ---- the handler ----

cdef Verdict loadbalance_reply(Handler *self, Query *q) noexcept nogil:
    cdef LoadbalanceState *state = <LoadbalanceState *>self.state
    cdef Reply *reply = &q.reply
    cdef const Weights *weights
    cdef int section
    if not reply.written or reply.rcode != RCODE_NOERROR or reply.count < 2 or q.qtype == TYPE_AXFR or q.qtype == TYPE_IXFR:
        return UP
    if state.weighted:
        if q.qtype == TYPE_A or q.qtype == TYPE_AAAA or q.qtype == TYPE_SRV:
            weights = <const Weights *>atomic_load_pointer(<void **>&state.weights)
            weighted(weights, reply, SECTION_ANSWER, &q.worker.random)
            weighted(weights, reply, SECTION_ADDITIONAL, &q.worker.random)
        return UP
    if one_address_type(reply):
        shuffle_records(reply.records, reply.count, &q.worker.random)
    else:
        for section in range(3):
            round_robin(reply, section, &q.worker.random)
    if state.prefixes:
        prefer(state, reply, SECTION_ANSWER)
        prefer(state, reply, SECTION_ADDITIONAL)
    return UP


cdef Weights *make_weights(dict domains) except NULL:
    """One block for the table: {owner in wire form: [(packed address, weight)]}."""
    cdef uint32_t slots = 4, at = 0, slot
    cdef Weights *weights
    cdef Domain *domain
    cdef bytes wire, packed
    total = sum(len(found) for found in domains.values())
    while slots < 2 * len(domains):
        slots *= 2
    weights = <Weights *>calloc(1, sizeof(Weights) + slots * sizeof(Domain) + (total + 1) * sizeof(Weight))
    if weights == NULL:
        raise MemoryError
    weights.mask = slots - 1
    weights.domains = <Domain *>(weights + 1)
    weights.weights = <Weight *>(weights.domains + slots)
    for wire, found in domains.items():
        slot = wire_name_hash(wire) & weights.mask
        while weights.domains[slot].length:
            slot = (slot + 1) & weights.mask
        domain = &weights.domains[slot]
        domain.hash = wire_name_hash(wire)
        domain.length = <uint32_t>len(wire)
        memcpy(domain.wire, <const uint8_t *>wire, len(wire))
        domain.first = at
        for packed, value in found:
            memcpy(weights.weights[at].octets, <const uint8_t *>packed, len(packed))
            weights.weights[at].size = <uint8_t>len(packed)
            weights.weights[at].value = value
            at += 1
        domain.count = at - domain.first
    return weights


cdef class LoadbalanceHandler(NativeHandler):
    cdef LoadbalanceState state

    def __init__(self, str name, bint weighted, list networks):
        handler_init(self)
        NativeHandler.__init__(self, name)
        cdef bytes octets
        if len(networks) > PREFIXES_MAX:
            raise ValueError(f"more than {PREFIXES_MAX} preferred networks")
        self.state.weighted = weighted
        for octets, bits in networks:
            memcpy(self.state.prefix[self.state.prefixes].octets, <const uint8_t *>octets, len(octets))
            self.state.prefix[self.state.prefixes].size = <uint8_t>len(octets)
            self.state.prefix[self.state.prefixes].bits = bits
            self.state.prefixes += 1
        self.handler.state = &self.state
        self.handler.reply = loadbalance_reply

    def __dealloc__(self):
        free(self.state.weights)

    def set_weights(self, dict domains not None):
        cdef Weights *weights = make_weights(domains)
        cdef Weights *old = self.state.weights
        atomic_store_pointer(<void **>&self.state.weights, weights)
        if old != NULL:
            with nogil:
                epoch_wait()
            free(old)
