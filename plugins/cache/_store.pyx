"""The stores of a cache. The contract is in _store.pxd."""
from libc.stdint cimport uint8_t, uint32_t, uint64_t, int64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memcmp, memset
from fastdns.api.reply cimport Record, Reply
from fastdns.api.wire cimport FLAG_AD, FLAG_RA
from fastdns.api.memory cimport (Sieve, SieveLink, atomic_add_count, atomic_fence, atomic_load32, atomic_peek8, atomic_peek_count, atomic_peek_ns,
                                 atomic_poke64, atomic_poke8, atomic_poke_ns, epoch_passed, epoch_mark, sieve_add, sieve_advance, sieve_hand, sieve_passes,
                                 sieve_remove, spin_free,
                                 spin_try)
from fastdns.api.names cimport wire_is_below
from fastdns.plugins.cache._pool cimport pool_give, pool_init, pool_take, pool_trim

cdef enum:
    BUCKETS_MOST = 4194304


# ---- life ----

cdef int store_open(Store *store, int64_t success, int64_t denial) noexcept nogil:
    cdef int64_t entries = limit_of(success) + limit_of(denial)
    cdef uint64_t buckets = SHARDS
    while <int64_t>buckets < entries and buckets < BUCKETS_MOST:
        buckets *= 2
    store.buckets.heads = <Entry **>calloc(buckets, sizeof(Entry *))
    if store.buckets.heads == NULL:
        return -1
    store.buckets.mask = buckets - 1
    pool_init(&store.pool, 0)
    store_bound(store, success, denial, 1)
    return 0


cdef inline int64_t limit_of(int64_t capacity) noexcept nogil:
    return SHARDS * min(max(capacity // SHARDS, SHARD_LEAST), 1 << 24)


cdef void store_bound(Store *store, int64_t success, int64_t denial, double share) noexcept nogil:
    cdef int64_t ceiling = max(<int64_t>STORE_OCTETS, (limit_of(success) + limit_of(denial)) * ENTRY_OCTETS)
    # Relaxed: a worker that has not seen it yet goes by the former bounds.
    atomic_poke_ns(&store.limits[SUCCESS], limit_of(<int64_t>(success * share)))
    atomic_poke_ns(&store.limits[DENIAL], limit_of(<int64_t>(denial * share)))
    atomic_poke64(&store.pool.ceiling, <uint64_t>max(<int64_t>STORE_LEAST, <int64_t>(ceiling * share)))


cdef int store_open_subtrees(Store *store) noexcept nogil:
    cdef Subtrees *subtrees = <Subtrees *>calloc(1, sizeof(Subtrees))
    if subtrees == NULL:
        return -1
    subtrees.mask = store.buckets.mask
    subtrees.heads = <Entry **>calloc(subtrees.mask + 1, sizeof(Entry *))
    subtrees.changes = <uint32_t *>calloc(CHANGES, sizeof(uint32_t))
    if subtrees.heads == NULL or subtrees.changes == NULL:
        free_subtrees(subtrees)
        return -1
    store.subtrees = subtrees
    return 0


cdef void free_subtrees(Subtrees *subtrees) noexcept nogil:
    if subtrees != NULL:
        free(subtrees.heads)
        free(subtrees.changes)
        free(subtrees)


cdef void store_close(Store *store) noexcept nogil:
    cdef int i, kind
    if store.buckets.heads == NULL:             # it was never opened
        return
    for i in range(SHARDS):
        for kind in range(2):
            free_list(store, store.shards[i].queues[kind].newest)
    free_list(store, store_take(&store.leaving))
    free_list(store, store.waiting)
    pool_trim(&store.pool)
    free_subtrees(store.subtrees)
    free(store.buckets.heads)
    memset(store, 0, sizeof(Store))


cdef void free_entry(Store *store, Entry *entry) noexcept nogil:
    if entry.good != NULL:
        pool_give(&store.pool, entry.good)
    pool_give(&store.pool, entry)


cdef void free_list(Store *store, SieveLink *entry) noexcept nogil:
    """A chain of entries through `older`."""
    cdef SieveLink *older
    while entry != NULL:
        older = entry.older
        free_entry(store, <Entry *>entry)
        entry = older


cdef void reclaim(Store *store) noexcept nogil:
    """Frees what no worker can read any more; the pool's lock is held."""
    if store.waiting != NULL and atomic_load32(&store.readers) == 0 and epoch_passed(&store.mark):
        free_list(store, store.waiting)
        store.waiting = NULL
    if store.waiting == NULL:
        store.waiting = store_take(&store.leaving)
        if store.waiting != NULL:
            if store.subtrees != NULL:
                leave_subtrees(store.waiting)
            epoch_mark(&store.mark)


cdef void store_reclaim(Store *store) noexcept nogil:
    if spin_try(&store.pool.lock):
        reclaim(store)
        spin_free(&store.pool.lock)


# ---- subtrees; under the pool's lock ----

cdef void join_subtree(Store *store, Entry *entry, uint32_t subtree) noexcept nogil:
    cdef Entry **head = subtree_head(store.subtrees, subtree)
    entry.subtree_next = head[0]
    entry.subtree_link = head
    if head[0] != NULL:
        head[0].subtree_link = &entry.subtree_next
    store_publish(head, entry)


cdef void leave_subtree(Entry *entry) noexcept nogil:
    store_publish(entry.subtree_link, entry.subtree_next)
    if entry.subtree_next != NULL:
        entry.subtree_next.subtree_link = entry.subtree_link


cdef void leave_subtrees(SieveLink *link) noexcept nogil:
    """A chain of entries through `older`, with the good ones that they own."""
    cdef Entry *entry
    while link != NULL:
        entry = <Entry *>link
        leave_subtree(entry)
        if entry.good != NULL:
            leave_subtree(entry.good)
        link = link.older


# ---- putting ----

cdef CacheStoreResult store_put(Store *store, const Key *key, int kind, const Reply *reply, uint32_t ttl, bint answering, uint8_t wildcard, int64_t now,
                                int64_t stale, bint keep_good, bint shared, const Asked *asked) noexcept nogil:
    cdef CacheStoreResult outcome
    cdef Shard *shard = &store.shards[key.hash & (SHARDS - 1)]
    cdef Entry *entry
    outcome.stored = False
    outcome.evicted = False
    if not spin_try(&store.pool.lock):
        return outcome
    reclaim(store)
    entry = <Entry *>pool_take(&store.pool, entry_size(key, reply))
    if entry != NULL and store.subtrees != NULL:
        write_entry(entry, key, kind, reply)    # who removes reads its name
        join_subtree(store, entry, asked.subtree)
    spin_free(&store.pool.lock)
    if entry != NULL:
        if store.subtrees == NULL:
            write_entry(entry, key, kind, reply)
        entry.stored = now
        entry.ttl = ttl
        entry.answering = answering
        entry.wildcard = wildcard
        entry.shared = shared
    if not spin_try(&shard.lock):
        if entry != NULL:
            discard(store, entry)
        return outcome
    if entry != NULL and store.subtrees != NULL and has_changed(store.subtrees, asked):
        discard(store, entry)
    elif entry != NULL:
        outcome.evicted = publish(store, shard, key, entry, now, stale, keep_good)
        outcome.stored = True
    else:
        # The ceiling: what was hit least is evicted for a later one.
        outcome.evicted = evict(store, shard, kind, now, stale) or evict(store, shard, 1 - kind, now, stale)
    spin_free(&shard.lock)
    return outcome


cdef inline bint has_changed(const Subtrees *subtrees, const Asked *asked) noexcept nogil:
    """The entry is in its subtree's chain, and its shard is locked."""
    atomic_fence()
    return atomic_load32(subtree_change(subtrees, asked.subtree)) != asked.change


cdef void discard(Store *store, Entry *entry) noexcept nogil:
    """An entry that was in no bucket."""
    atomic_poke8(&entry.state, ENTRY_UNLINKED)
    store_push(&store.leaving, &entry.link)


cdef void store_drop(Store *store, const Key *key, int kind) noexcept nogil:
    cdef Shard *shard = &store.shards[key.hash & (SHARDS - 1)]
    cdef Entry *entry
    if not spin_try(&shard.lock):
        return
    entry = find_kind(store, key, kind)
    if entry != NULL:
        unlink(store, shard, entry)
        store_push(&store.leaving, &entry.link)
    spin_free(&shard.lock)


cdef bint publish(Store *store, Shard *shard, const Key *key, Entry *entry, int64_t now, int64_t stale, bint keep_good) noexcept nogil:
    """Links a new entry, in place of the former one of its key; True when another had to be evicted. The shard's lock is held."""
    cdef Entry *former = find_kind(store, key, entry.kind)
    cdef Entry **head = &store.buckets.heads[entry.hash & store.buckets.mask]
    cdef bint evicted = False
    cdef bint kept = False
    if former == NULL:
        # Shards count together: with a limit of its own, one that got more than its share of the names would drop some while others are not full.
        if atomic_peek_count(&store.counts[entry.kind]) >= atomic_peek_ns(&store.limits[entry.kind]):
            evicted = make_room(store, shard, key.hash, entry.kind, now, stale)
    else:
        entry.visited = atomic_peek8(&former.visited)
        entry.hit = atomic_peek_ns(&former.hit)
        if keep_good and not entry.answering:
            kept = former.answering
            entry.good = former if kept else former.good
            if not kept:
                store_publish(&former.good, NULL)
    entry.next = head[0]
    atomic_poke8(&entry.state, ENTRY_LINKED)
    store_publish(head, entry)
    sieve_add(&shard.queues[entry.kind], &entry.link)
    atomic_add_count(&store.counts[entry.kind], 1)
    if former != NULL:
        unlink(store, shard, former)
        if not kept:
            store_push(&store.leaving, &former.link)
    return evicted


cdef Entry *find_kind(Store *store, const Key *key, int kind) noexcept nogil:
    cdef Entry *found[2]
    store_find(&store.buckets, key, found)
    return found[kind]


cdef void unlink(Store *store, Shard *shard, Entry *entry) noexcept nogil:
    """Out of its bucket and its queue; readers that stand on it go on through its `next`."""
    cdef Entry **at = &store.buckets.heads[entry.hash & store.buckets.mask]
    while at[0] != entry:
        at = &at[0].next
    store_publish(at, entry.next)
    atomic_poke8(&entry.state, ENTRY_UNLINKED)
    sieve_remove(&shard.queues[entry.kind], &entry.link)
    atomic_add_count(&store.counts[entry.kind], -1)


cdef bint evict(Store *store, Shard *shard, int kind, int64_t now, int64_t stale) noexcept nogil:
    """Drops the entry of SIEVE's choice; False where there is none. Alive is what has not expired for good."""
    cdef Sieve *queue = &shard.queues[kind]
    cdef Entry *entry = <Entry *>sieve_hand(queue)
    if entry == NULL:
        return False
    while sieve_passes(&entry.visited, entry_left(entry, now) > -stale):
        entry = <Entry *>sieve_advance(queue)
    unlink(store, shard, entry)
    store_push(&store.leaving, &entry.link)
    return True


cdef bint make_room(Store *store, Shard *shard, uint64_t hash, int kind, int64_t now, int64_t stale) noexcept nogil:
    """Drops an entry of the shard (locked), or of the next one that nobody holds and that has more than its share while this one has less."""
    cdef Shard *other
    cdef uint32_t i, share = <uint32_t>(atomic_peek_ns(&store.limits[kind]) // SHARDS)
    cdef bint evicted = False
    if shard.queues[kind].count < share:
        for i in range(1, SHARDS):
            other = &store.shards[(hash + i) & (SHARDS - 1)]
            if spin_try(&other.lock):
                evicted = other.queues[kind].count > share and evict(store, other, kind, now, stale)
                spin_free(&other.lock)
                if evicted:
                    return True
    return evict(store, shard, kind, now, stale)


# ---- removing names ----

cdef inline bint is_meant(const Entry *entry, const StoreName *name) noexcept nogil:
    cdef const uint8_t *its = entry_name(<Entry *>entry)
    if name.below:
        return wire_is_below(its, entry.name_length, name.wire, name.length)
    return entry.name_length == name.length and memcmp(its, name.wire, name.length) == 0


cdef bint store_remove(Store *store, const StoreName *name, uint32_t subtree, uint32_t *removed, int64_t *budget) noexcept nogil:
    return remove_in_chain(store, subtree_head(store.subtrees, subtree), name, removed, budget)


cdef bint store_sweep(Store *store, const StoreName *names, uint64_t *at, uint32_t *removed, int64_t *budget) noexcept nogil:
    while at[0] <= store.subtrees.mask:
        budget[0] -= 1
        if budget[0] <= 0 or not remove_in_chain(store, &store.subtrees.heads[at[0]], names, removed, budget):
            return False
        at[0] += 1
    return True


cdef bint remove_in_chain(Store *store, Entry **head, const StoreName *names, uint32_t *removed, int64_t *budget) noexcept nogil:
    cdef Entry *entry = store_load(head)
    cdef const StoreName *name
    cdef bint some = False
    while entry != NULL:
        budget[0] -= 1
        name = names if atomic_peek8(&entry.state) != ENTRY_UNLINKED else NULL
        while name != NULL and not is_meant(entry, name):
            budget[0] -= 1
            name = name.next
        if name != NULL:
            # The next turn begins with this chain again, so it must find it shorter.
            if budget[0] <= 0 and some or not remove(store, entry, removed):
                return False
            some = True
        entry = store_load(&entry.subtree_next)
    return True


cdef bint remove(Store *store, Entry *entry, uint32_t *removed) noexcept nogil:
    """Unlinks an entry if it is in its bucket. One that is yet to be put there is newer than the change, or will see it (has_changed). False: locked."""
    cdef Shard *shard = &store.shards[entry.hash & (SHARDS - 1)]
    if not spin_try(&shard.lock):
        return False
    if atomic_peek8(&entry.state) == ENTRY_LINKED:
        unlink(store, shard, entry)
        store_push(&store.leaving, &entry.link)
        removed[entry.kind] += 1
    spin_free(&shard.lock)
    return True


# ---- the octets of an entry ----

cdef inline bint same_owner(const Record *a, const uint8_t *owner, uint32_t length) noexcept nogil:
    return a.owner_length == length and (a.owner == owner or memcmp(a.owner, owner, length) == 0)


cdef uint32_t entry_size(const Key *key, const Reply *reply) noexcept nogil:
    cdef uint32_t i, size = <uint32_t>(sizeof(Entry) + reply.count * sizeof(Record)) + key.name.length
    if key.bits & KEY_SUBNET:
        size += key.subnet_length
    cdef const uint8_t *owner = <const uint8_t *>&key.name.lower[0]
    cdef uint32_t length = key.name.length
    for i in range(reply.count):
        if not same_owner(&reply.records[i], owner, length):
            owner = reply.records[i].owner
            length = reply.records[i].owner_length
            size += length
        size += reply.records[i].rdlength
    return size


cdef void write_entry(Entry *entry, const Key *key, int kind, const Reply *reply) noexcept nogil:
    """Records that follow each other share their owner's octets, the first ones the key's."""
    cdef Record *record
    cdef const Record *source
    cdef uint8_t *at
    cdef const uint8_t *owner
    cdef uint32_t i, length = key.name.length
    memset(entry, 0, sizeof(Entry))
    entry.hash = key.hash
    entry.qtype = key.qtype
    entry.qclass = key.qclass
    entry.bits = key.bits
    entry.kind = <uint8_t>kind
    entry.rcode = reply.rcode
    entry.flags = reply.flags & (FLAG_RA | FLAG_AD)
    entry.count = reply.count
    entry.name_length = key.name.length
    at = <uint8_t *>entry_name(entry)
    owner = at
    memcpy(at, key.name.lower, length)
    at += length
    if key.bits & KEY_SUBNET:
        entry.subnet_length = key.subnet_length
        memcpy(at, key.subnet, key.subnet_length)
        at += key.subnet_length
    for i in range(reply.count):
        source = &reply.records[i]
        record = &entry_records(entry)[i]
        record[0] = source[0]
        record.flags = 0
        if not same_owner(source, owner, length):
            owner = at
            length = source.owner_length
            memcpy(at, source.owner, length)
            at += length
        record.owner = owner
        memcpy(at, source.rdata, source.rdlength)
        record.rdata = at
        at += source.rdlength
