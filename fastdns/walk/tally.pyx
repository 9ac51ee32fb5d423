"""Counts of both configurations. The contract is in tally.pxd."""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset
from fastdns.system.address cimport Address, address_network, address_prefix
from fastdns.system.atomic cimport (atomic_bump32, atomic_fence, atomic_load64, atomic_load_pointer, atomic_peek32, atomic_peek64, atomic_poke32,
                                    atomic_poke64, atomic_store64)
from fastdns.system.hash cimport hash_octets, hash_seed
from fastdns.walk.canary cimport canary_count
from fastdns.walk.query cimport COOKIE_VALID, TALLY_DROPPED, TALLY_OTHERS, TALLY_PLACES, TRANSPORT_UDP, Query, Tally


cdef void tally_reply(const Query *q) noexcept nogil:
    count(q, min(q.reply.rcode, TALLY_OTHERS))


cdef void tally_dropped(const Query *q) noexcept nogil:
    count(q, TALLY_DROPPED)


cdef inline void count(const Query *q, uint32_t place) noexcept nogil:
    cdef Tally *tallies = <Tally *>atomic_load_pointer(<void **>&q.set.tallies)
    if tallies == NULL:
        return
    canary_count(q, place)
    tally_client(tally_clients(tallies, q.worker.workers, q.worker.id), &q.client, q.transport != TRANSPORT_UDP or q.cookie & COOKIE_VALID, place)


cdef void tally_client(ClientTallies *tallies, const Address *client, bint proven, uint32_t place) noexcept nogil:
    cdef uint64_t address = address_network(client)
    # Two bits of the hash make room: a key is never 0.
    cdef uint64_t key = (hash_octets(<const uint8_t *>&address, sizeof(address), hash_seed) & ~<uint64_t>3) | 2 | <uint64_t>proven
    cdef ClientTally *bucket = &tallies.clients[TALLY_WAYS * ((key >> 32) % (TALLY_CLIENTS // TALLY_WAYS))]
    cdef ClientTally *entry = NULL
    cdef uint32_t i, round = atomic_peek32(&tallies.round)
    for i in range(TALLY_WAYS):
        if bucket[i].key == key and bucket[i].round == round:
            entry = &bucket[i]
            break
    if entry == NULL:
        entry = choose(bucket, proven, round)
        if entry == NULL:
            return
        begin_entry(entry, key, address_prefix(client) ^ <uint64_t>client.family << 56, round)
    atomic_bump32(&entry.counts[place], 1)
    atomic_bump32(&entry.total, 1)


cdef ClientTally *choose(ClientTally *bucket, bint proven, uint32_t round) noexcept nogil:
    """The entry that a new client gets; NULL: none, since all others have proven their addresses and this one has not."""
    cdef ClientTally *chosen = NULL
    cdef uint32_t i
    cdef bint weak, chosen_weak = False
    for i in range(TALLY_WAYS):
        if bucket[i].key == 0 or bucket[i].round != round:
            return &bucket[i]
        weak = not bucket[i].key & 1
        if (weak or proven) and (chosen == NULL or weak > chosen_weak or (weak == chosen_weak and bucket[i].total < chosen.total)):
            chosen, chosen_weak = &bucket[i], weak
    return chosen


cdef void begin_entry(ClientTally *entry, uint64_t key, uint64_t network, uint32_t round) noexcept nogil:
    cdef uint32_t i
    atomic_poke64(&entry.key, 0)
    atomic_fence()      # a reader that sees what follows sees that the key is gone
    atomic_poke64(&entry.network, network)
    atomic_poke32(&entry.round, round)
    atomic_poke32(&entry.total, 0)
    for i in range(TALLY_PLACES):
        atomic_poke32(&entry.counts[i], 0)
    atomic_store64(&entry.key, key)


cdef int tally_rows(ClientTallies *tallies, uint32_t place, list rows) except -1:
    cdef const ClientTally *entry
    cdef uint64_t key, network
    cdef uint32_t i, bad, total, own, round = atomic_peek32(&tallies.round)
    for i in range(TALLY_CLIENTS):
        entry = &tallies.clients[i]
        key = atomic_load64(&entry.key)
        network, own = atomic_peek64(&entry.network), atomic_peek32(&entry.round)
        bad, total = atomic_peek32(&entry.counts[place]), atomic_peek32(&entry.total)
        atomic_fence()
        # `total` is counted last: for a moment it may lack an answer.
        if key and own == round and atomic_peek64(&entry.key) == key:
            rows.append((network, key >> 2, bool(key & 1), bad, max(bad, total)))
    return 0


# ---- the Python side: tests ----

cdef class ClientCounts:
    cdef ClientTallies *tallies

    def __cinit__(self):
        self.tallies = <ClientTallies *>calloc(1, sizeof(ClientTallies))
        if self.tallies == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.tallies)

    def count(self, bytes address not None, bint proven, uint32_t place) -> None:
        """See walk/tally.pyi."""
        cdef Address client
        if len(address) not in (4, 16) or place >= TALLY_PLACES:
            raise ValueError("an address and a place")
        memset(&client, 0, sizeof(client))
        client.family = 4 if len(address) == 4 else 6
        memcpy(client.octets, <const uint8_t *>address, len(address))
        tally_client(self.tallies, &client, proven, place)

    def begin(self) -> None:
        """See walk/tally.pyi."""
        self.tallies.round += 1

    def rows(self, uint32_t place) -> list:
        """See walk/tally.pyi."""
        rows = []
        tally_rows(self.tallies, place, rows)
        return rows
