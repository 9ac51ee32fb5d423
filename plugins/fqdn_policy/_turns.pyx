"""Turns of clients at the agent. The contract is in _turns.pxd."""
from libc.stdint cimport uint8_t, uint32_t, uint64_t, int64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset
from fastdns.api.memory cimport list_append, list_init, list_is_empty, list_last, list_remove
from fastdns.api.network cimport Address, address_network, address_prefix
from fastdns.api.random cimport hash_octets, hash_seed

cdef enum:
    ONE = 256                   # a message, in Window.size
    SLACK = 4                   # one part in so many of the timeout


# ---- turns ----

cdef void turns_init(Turns *turns) noexcept nogil:
    cdef uint32_t i, j
    memset(turns, 0, sizeof(Turns))
    for i in range(TURN_NETWORKS):
        for j in range(TURN_CLIENTS):
            list_init(&turns.queues[i][j])


cdef void turns_add(Turns *turns, TurnEntry *entry, const Address *client) noexcept nogil:
    cdef uint64_t network = address_prefix(client), address = address_network(client)
    entry.network = <uint8_t>(hash_octets(<const uint8_t *>&network, sizeof(network), hash_seed) % TURN_NETWORKS)
    entry.client = <uint8_t>(hash_octets(<const uint8_t *>&address, sizeof(address), hash_seed) % TURN_CLIENTS)
    entry.queued = 1
    list_append(&turns.queues[entry.network][entry.client], &entry.node)
    turns.clients[entry.network] |= <uint64_t>1 << entry.client
    turns.networks |= <uint64_t>1 << entry.network


cdef void turns_remove(Turns *turns, TurnEntry *entry) noexcept nogil:
    if not entry.queued:
        return
    entry.queued = 0
    list_remove(&entry.node)
    if list_is_empty(&turns.queues[entry.network][entry.client]):
        turns.clients[entry.network] &= ~(<uint64_t>1 << entry.client)
        if not turns.clients[entry.network]:
            turns.networks &= ~(<uint64_t>1 << entry.network)


cdef TurnEntry *turns_next(Turns *turns) noexcept nogil:
    cdef TurnEntry *entry
    cdef uint32_t network = turns.next_network, client
    if not turns.networks:
        return NULL
    while not turns.networks >> network & 1:
        network = (network + 1) % TURN_NETWORKS
    client = turns.next_client[network]
    while not turns.clients[network] >> client & 1:
        client = (client + 1) % TURN_CLIENTS
    turns.next_network = <uint8_t>((network + 1) % TURN_NETWORKS)
    turns.next_client[network] = <uint8_t>((client + 1) % TURN_CLIENTS)
    entry = <TurnEntry *>list_last(&turns.queues[network][client])
    turns_remove(turns, entry)
    return entry


# ---- the window ----

cdef void window_init(Window *window, uint32_t most, int64_t timeout) noexcept nogil:
    memset(window, 0, sizeof(Window))
    window.most = most
    window.size = ONE * min(<uint32_t>WINDOW_FIRST, most)
    window.threshold = ONE * most
    window.slack = timeout // SLACK


cdef bint window_open(Window *window, int64_t now) noexcept nogil:
    cdef uint32_t size = window.size // ONE
    if window.shortest and now - window.measured > MEASURED:
        window.measuring = 1
    if window.measuring:
        size = 1
    if window.outstanding < size:
        if not window.outstanding:
            window.alone = now
        return True
    window.full = 1
    return False


cdef inline void shrink(Window *window, int64_t now) noexcept nogil:
    window.size = max(<uint32_t>ONE, window.size // 4 * 3)
    window.threshold = window.size
    window.reduced = now


cdef void window_taken(Window *window, int64_t sent, int64_t now) noexcept nogil:
    cdef int64_t took = max(<int64_t>1, now - sent)
    window.outstanding -= 1
    if not window.shortest or took <= window.shortest or (window.measuring and sent == window.alone):
        window.shortest = took
        window.measured = now
        window.measuring = 0
    if took - window.shortest > window.slack:
        # What was sent before the window shrank says nothing of the smaller one.
        if sent > window.reduced:
            shrink(window, now)
    elif window.full and not window.measuring and window.size < ONE * window.most:
        window.size += ONE if window.size < window.threshold else ONE * ONE // window.size
    if not window.outstanding:
        window.full = 0


cdef void window_expired(Window *window, int64_t now) noexcept nogil:
    window.outstanding -= 1
    window.measuring = 0
    if now - window.reduced > EXPIRY:
        window.size = ONE
        window.threshold = ONE
        window.reduced = now


cdef bint window_extend(Window *window, int64_t now) noexcept nogil:
    cdef int64_t extended = max(window.extended, now) + EXTEND_EACH
    if extended - now > EXTENDS * <int64_t>EXTEND_EACH:
        return False
    window.extended = extended
    return True


# ---- the Python side: tests ----

cdef struct TestEntry:
    TurnEntry turn              # first
    uint32_t number


cdef class TurnsTest:
    cdef Turns turns
    cdef Window window
    cdef TestEntry *entries
    cdef uint32_t made

    def __cinit__(self, uint32_t most, int64_t timeout):
        turns_init(&self.turns)
        window_init(&self.window, most, timeout)
        self.entries = <TestEntry *>calloc(1 << 20, sizeof(TestEntry))
        if self.entries == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.entries)

    def add(self, bytes address not None) -> int:
        """See fqdn_policy/_turns.pyi."""
        cdef TestEntry *entry
        cdef Address client
        if len(address) not in (4, 16) or self.made == 1 << 20:
            raise ValueError("an address, and a million of entries")
        memset(&client, 0, sizeof(client))
        client.family = 4 if len(address) == 4 else 6
        memcpy(client.octets, <const uint8_t *>address, len(address))
        entry = &self.entries[self.made]
        entry.number = self.made
        self.made += 1
        turns_add(&self.turns, &entry.turn, &client)
        return entry.number

    def queue(self, bytes address not None) -> tuple:
        """See fqdn_policy/_turns.pyi."""
        cdef uint32_t number = self.add(address)
        self.remove(number)
        return self.entries[number].turn.network, self.entries[number].turn.client

    def remove(self, uint32_t number) -> None:
        """See fqdn_policy/_turns.pyi."""
        if number >= self.made:
            raise ValueError("no entry")
        turns_remove(&self.turns, &self.entries[number].turn)

    def next(self) -> int:
        """See fqdn_policy/_turns.pyi."""
        cdef TurnEntry *entry = turns_next(&self.turns)
        return -1 if entry == NULL else (<TestEntry *>entry).number

    def send(self, int64_t now) -> int:
        """See fqdn_policy/_turns.pyi."""
        if not self.turns.networks or not window_open(&self.window, now):
            return -1
        self.window.outstanding += 1
        return self.next()

    def taken(self, int64_t sent, int64_t now) -> None:
        """See fqdn_policy/_turns.pyi."""
        window_taken(&self.window, sent, now)

    def extend(self, int64_t now) -> bool:
        """See fqdn_policy/_turns.pyi."""
        return window_extend(&self.window, now)
