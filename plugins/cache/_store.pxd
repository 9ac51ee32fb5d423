"""The two stores of a cache, success and denial, in one hash table whose readers take no lock.

Entries never change once published, but for the few fields that readers write with atomic operations. Writers (workers that insert) take the
lock of a shard, or give up soon and do not insert. What is unlinked is freed when every worker has passed a quiescent state. Eviction is SIEVE
(_eviction), for each shard and kind.

A store from which names are removed (_contents.pxd) also has its entries in chains by subtree, which no hit walks. They stand there before they stand in
a bucket, until what was unlinked is made ready to be freed. A subtree's chain changes under the pool's lock, and is walked without it.

Memory order. The head of a bucket, `next` and `good` release an entry; readers acquire them. So do the head of a subtree and `subtree_next`. The locks
order writers. A push onto `leaving` releases what its worker unlinked to the one that takes the list and the mark (fastdns/system/epoch.pyx). Marks and
times of hits are relaxed: a lost one does no harm. So is `state`: who acts on it holds the shard's lock. A number of `changes` is raised before the chain
of its subtree is looked at, and read after an entry was put into that chain, with a full fence between the two on each side: one of the two sees the
other, so no entry whose question went down before the change stays. A thread that is no worker is counted in `readers` while it reads: it counts itself, has a
full fence, and loads heads; who frees has unlinked, has the full fence of the mark, and loads `readers`. One of the two sees the other.
"""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t, int64_t
from libc.string cimport memcmp
from fastdns.api.reply cimport Record, Reply
from fastdns.api.names cimport Name
from fastdns.api.memory cimport (EpochMark, Sieve, SieveLink, atomic_add32, atomic_fence, atomic_load_pointer, atomic_peek8, atomic_poke8,
                                 atomic_store_pointer, atomic_swap_pointer, atomic_take_pointer)
from fastdns.plugins.cache._pool cimport Pool

cdef struct Entry

cdef enum:
    SHARDS = 256                # as in CoreDNS, whose capacities follow from it
    SHARD_LEAST = 4             # entries
    STORE_OCTETS = 33554432     # what a cache of the default capacities may take: 32 MiB
    STORE_LEAST = 4194304       # octets that each store may take
    ENTRY_OCTETS = 1680         # the same for one entry: larger capacities may take more

cdef enum:
    CHANGES = 4096              # numbers of changes; subtrees that share one cost each other a miss at most

cdef enum:                      # kinds
    SUCCESS = 0
    DENIAL = 1

cdef enum:                      # Key.bits
    KEY_DO = 1
    KEY_CD = 2
    KEY_SUBNET = 4              # the key has a subnet

cdef enum:                      # Entry.state
    ENTRY_NEW = 0               # in no bucket yet
    ENTRY_LINKED = 1
    ENTRY_UNLINKED = 2

cdef struct Key:
    uint64_t hash
    const Name *name            # borrowed from the query
    uint16_t qtype
    uint16_t qclass
    uint8_t bits
    uint8_t subnet_length       # these two with KEY_SUBNET only
    const uint8_t *subnet       # as subnet_write made it, borrowed from the query

cdef struct Entry:              # what a hit reads comes first, in one cache line
    SieveLink link              # first; of its queue; once unlinked: `older` is of the list that waits to be freed
    uint64_t hash
    Entry *next                 # of its bucket; readers follow it, also after the entry was unlinked
    int64_t stored              # ns, monotonic
    uint32_t ttl                # seconds
    uint16_t qtype
    uint16_t qclass
    uint16_t rcode
    uint16_t flags              # RA and AD as they came
    uint16_t count              # records
    uint8_t bits                # of the key
    uint8_t kind                # SUCCESS or DENIAL
    uint8_t name_length
    uint8_t answering           # it answers its question
    uint8_t wildcard            # Query.wildcard of the query that it answered
    uint8_t visited             # atomic: mark of SIEVE
    uint8_t subnet_length       # of the key; 0 without KEY_SUBNET
    uint8_t shared              # the upstream said that it is for all clients
    uint8_t state               # atomic; written under the shard's lock
    int64_t quiet               # atomic: until then (ns) no refresh is started: one is under way, or failed
    Entry *good                 # the last answer of this key that answered the question, owned, or NULL (prefer_positive)
    int64_t hit                 # atomic: ns of the last hit (prefetch)
    int64_t hits                # atomic (prefetch)
    Entry *subtree_next         # of its subtree; who removes follows it, also after the entry was taken out
    Entry **subtree_link        # the pointer that points to it
    # Behind it: Record[count], then the key's name in lower case, its subnet, owners and rdata.

cdef inline Entry *store_load(Entry **at) noexcept nogil:
    return <Entry *>atomic_load_pointer(<void **>at)

cdef inline void store_publish(Entry **at, Entry *entry) noexcept nogil:
    atomic_store_pointer(<void **>at, entry)

cdef inline SieveLink *store_take(SieveLink **leaving) noexcept nogil:
    """The whole list of entries that wait to be freed."""
    return <SieveLink *>atomic_take_pointer(<void **>leaving)

cdef inline void store_push(SieveLink **leaving, SieveLink *entry) noexcept nogil:
    """Onto that list, which is linked through `older`."""
    while True:
        entry.older = <SieveLink *>atomic_load_pointer(<void **>leaving)
        if atomic_swap_pointer(<void **>leaving, entry.older, entry):
            break

cdef struct Shard:
    uint32_t lock
    Sieve queues[2]             # entries by kind

cdef struct Buckets:            # constant
    Entry **heads               # the low 8 bits of an index are those of its shard
    uint64_t mask

cdef struct Subtrees:
    Entry **heads               # atomic; by hash of the subtree's name
    uint32_t *changes           # atomic; CHANGES numbers, likewise: how often a name of the subtree was to be removed
    uint64_t mask               # of heads

cdef struct Asked:              # when a question went down
    uint32_t subtree            # hash of its name's subtree
    uint32_t change             # the subtree's number at that time

cdef struct Store:
    Buckets buckets
    Subtrees *subtrees          # NULL: no names are removed
    int64_t counts[2]           # atomic: entries, by kind
    int64_t limits[2]           # atomic: of them
    Pool pool
    SieveLink *leaving          # atomic: unlinked since the mark was taken
    SieveLink *waiting          # for the mark; this and the mark under the pool's lock
    EpochMark mark
    uint32_t readers            # atomic: threads that read and are no workers; nothing is freed meanwhile
    Shard shards[SHARDS]

cdef struct StoreName:          # that is to be removed
    const StoreName *next       # of several
    const uint8_t *wire         # lower case
    uint8_t length
    uint8_t below               # with all names below it

cdef struct CacheStoreResult:            # of store_put
    bint stored
    bint evicted                # another key's entry had to go

cdef inline Record *entry_records(Entry *entry) noexcept nogil:
    return <Record *>(entry + 1)

cdef inline const uint8_t *entry_name(Entry *entry) noexcept nogil:
    return <const uint8_t *>(entry_records(entry) + entry.count)

cdef inline const uint8_t *entry_subnet(Entry *entry) noexcept nogil:
    return entry_name(entry) + entry.name_length

cdef inline int64_t entry_left(const Entry *entry, int64_t now) noexcept nogil:
    """Whole seconds left to live; from 0 downwards it is expired."""
    return <int64_t>entry.ttl - (now - entry.stored) // 1000000000

cdef inline void key_set(Key *key, const Name *name, uint16_t qtype, uint16_t qclass, uint8_t bits) noexcept nogil:
    cdef uint64_t h = (<uint64_t>name.hash[0] << 32) | (<uint64_t>qtype << 16) | qclass
    h = (h ^ bits) * 0x9E3779B97F4A7C15ULL
    h ^= h >> 32
    h *= 0xD6E8FEB86659FD93ULL
    key.hash = h ^ (h >> 32)
    key.name = name
    key.qtype = qtype
    key.qclass = qclass
    key.bits = bits
    key.subnet = NULL
    key.subnet_length = 0

cdef inline void key_add_subnet(Key *key, const uint8_t *subnet, uint8_t length) noexcept nogil:
    """Makes it another key; length is not 0."""
    cdef uint64_t h = key.hash
    cdef uint32_t i
    for i in range(length):
        h = (h ^ subnet[i]) * 0x9E3779B97F4A7C15ULL
        h ^= h >> 32
    key.hash = h
    key.bits |= KEY_SUBNET
    key.subnet = subnet
    key.subnet_length = length

cdef inline bint entry_is(Entry *entry, const Key *key) noexcept nogil:
    """The whole key is compared: a collision of hashes never answers."""
    return (entry.hash == key.hash and entry.qtype == key.qtype and entry.qclass == key.qclass and entry.bits == key.bits
            and entry.name_length == key.name.length and memcmp(entry_name(entry), key.name.lower, key.name.length) == 0
            and (not key.bits & KEY_SUBNET or (entry.subnet_length == key.subnet_length
                                               and memcmp(entry_subnet(entry), key.subnet, key.subnet_length) == 0)))

cdef inline uint32_t *subtree_change(const Subtrees *subtrees, uint32_t subtree) noexcept nogil:
    return &subtrees.changes[subtree & (CHANGES - 1)]

cdef inline Entry **subtree_head(const Subtrees *subtrees, uint32_t subtree) noexcept nogil:
    return &subtrees.heads[subtree & subtrees.mask]

cdef inline void store_find(const Buckets *buckets, const Key *key, Entry **found) noexcept nogil:
    """Fills found[SUCCESS] and found[DENIAL]; what it gives is borrowed until the worker's batch ends."""
    cdef Entry *entry = store_load(&buckets.heads[key.hash & buckets.mask])
    found[SUCCESS] = NULL
    found[DENIAL] = NULL
    while entry != NULL:
        if entry_is(entry, key) and found[entry.kind] == NULL:
            found[entry.kind] = entry
        entry = store_load(&entry.next)

cdef inline void store_begin_reading(Store *store) noexcept nogil:
    """A thread that is no worker may follow pointers of the store until store_end_reading; for a short time, since nothing is freed meanwhile."""
    atomic_add32(&store.readers, 1)
    atomic_fence()

cdef inline void store_end_reading(Store *store) noexcept nogil:
    atomic_add32(&store.readers, <uint32_t>-1)

# Readies a zeroed store for these capacities, in CoreDNS's counting. -1: no memory.
cdef int store_open(Store *store, int64_t success, int64_t denial) noexcept nogil
# From now on it holds this share (up to 1) of the entries and octets that a store of these capacities may have. Any thread.
cdef void store_bound(Store *store, int64_t success, int64_t denial, double share) noexcept nogil
# Has its entries in chains by subtree from now on; before anything is put. -1: no memory.
cdef int store_open_subtrees(Store *store) noexcept nogil
# Frees everything; no worker may be in it any more.
cdef void store_close(Store *store) noexcept nogil
# Puts a copy of the reply under the key, in place of what is there, unless a name of its subtree was to be removed since it was asked for (looked at
# where the store has subtrees). stale: seconds for which an expired entry is still worth keeping. keep_good: an entry that does not answer its question
# keeps the last one that did. shared: the upstream said that it is for all clients.
cdef CacheStoreResult store_put(Store *store, const Key *key, int kind, const Reply *reply, uint32_t ttl, bint answering, uint8_t wildcard, int64_t now,
                                int64_t stale, bint keep_good, bint shared, const Asked *asked) noexcept nogil
cdef void store_drop(Store *store, const Key *key, int kind) noexcept nogil
# Removes what has a name of this subtree, in a worker's batch; adds to `removed`, by kind, and takes what it looks at from `budget`.
# False: some may be left, since a lock was not free or the budget is spent.
cdef bint store_remove(Store *store, const StoreName *name, uint32_t subtree, uint32_t *removed, int64_t *budget) noexcept nogil
# Removes what has one of these names, whatever its subtree, likewise. Begins at head `at[0]`, and leaves there where to go on.
cdef bint store_sweep(Store *store, const StoreName *names, uint64_t *at, uint32_t *removed, int64_t *budget) noexcept nogil
# Frees what no worker can read any more, if the lock for that is free.
cdef void store_reclaim(Store *store) noexcept nogil
