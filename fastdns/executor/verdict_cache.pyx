"""The tables of remembered verdicts. The contract is in executor/verdict_cache.pxd."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t, int64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memcpy, memset
from fastdns.system.atomic cimport (atomic_bump64, atomic_load32, atomic_peek8, atomic_peek64, atomic_load_pointer, atomic_store32, atomic_poke8, atomic_poke64,
                                    atomic_store_pointer)
from fastdns.system.epoch cimport epoch_passed, epoch_mark
from fastdns.system.eviction cimport sieve_add, sieve_advance, sieve_hand, sieve_hit, sieve_passes, sieve_remove
from fastdns.system.address cimport Address
from fastdns._wire cimport Name, load32, wire_seed

cdef extern from *:
    """
    static inline int highest_bit(uint64_t mask) { return 63 - __builtin_clzll(mask); }
    """
    int highest_bit(uint64_t mask) noexcept nogil     # number of the highest bit set; mask is not 0


# ---- keys ----

cdef inline uint64_t front(uint64_t octets, uint32_t bits) noexcept nogil:
    """The first bits of 64; those behind are zero."""
    return octets if bits >= 64 else octets & ~(~<uint64_t>0 >> bits)


cdef Prefix prefix_of(const Prefix *address, uint32_t bits) noexcept nogil:
    cdef Prefix prefix
    prefix.family = address.family
    prefix.bits = <uint8_t>bits
    prefix.high = front(address.high, bits)
    prefix.low = front(address.low, bits - 64) if bits > 64 else 0
    return prefix


cdef void prefix_load(const Address *address, Prefix *out) noexcept nogil:
    """A link-local address with its zone is in no prefix: the same octets are another host on another link."""
    out.family = address.family
    out.low = 0
    if address.family == 4:
        out.high = <uint64_t>load32(address.octets) << 32
        out.bits = 32
        return
    out.high = <uint64_t>load32(address.octets) << 32 | load32(address.octets + 4)
    out.low = <uint64_t>load32(address.octets + 8) << 32 | load32(address.octets + 12)
    out.bits = 128
    if address.scope and address.octets[0] == 0xFE and address.octets[1] & 0xC0 == 0x80:
        out.family = 0


cdef inline uint64_t shape_of(bint exact, bint typed, uint16_t qtype, uint16_t qclass, const Prefix *client) noexcept nogil:
    return (<uint64_t>qclass << 32) | (<uint64_t>(qtype if typed else 0) << 16) | (<uint64_t>client.bits << 8) | (client.family << 2) | (typed << 1) | exact


cdef inline uint64_t key_hash(const Key *key) noexcept nogil:
    cdef uint64_t h = (<uint64_t>key.branch.hash << 32) ^ wire_seed ^ key.shape
    h = (h ^ (h >> 32)) * 0x9E3779B97F4A7C15ULL
    h = (h ^ (h >> 32) ^ key.high) * 0xD6E8FEB86659FD93ULL
    h = (h ^ (h >> 32) ^ key.low) * 0x9E3779B97F4A7C15ULL
    return h ^ (h >> 32)


cdef inline bint key_is(const Key *a, const Key *b) noexcept nogil:
    return a.branch == b.branch and a.shape == b.shape and a.high == b.high and a.low == b.low


# ---- finding ----

cdef inline Branch *find_branch(const VerdictTable *table, Branch **branches, const Name *name, uint32_t label) noexcept nogil:
    cdef uint32_t h = name.hash[label]
    cdef uint32_t length = name.length - name.offset[label]
    cdef Branch *branch = <Branch *>atomic_load_pointer(<void **>&branches[h & table.mask])
    while branch != NULL:
        if branch.hash == h and branch.length == length and memcmp(branch.name, name.lower + name.offset[label], length) == 0:
            return branch
        branch = <Branch *>atomic_load_pointer(<void **>&branch.next)
    return NULL


cdef CachedVerdict *find_key(const VerdictTable *table, const Key *key) noexcept nogil:
    cdef uint64_t h = key_hash(key)
    cdef CachedVerdict *cached = <CachedVerdict *>atomic_load_pointer(<void **>&table.verdicts[h & table.mask])
    while cached != NULL:
        if cached.hash == h and key_is(&cached.key, key):
            return cached
        cached = <CachedVerdict *>atomic_load_pointer(<void **>&cached.next)
    return NULL


cdef inline CachedVerdict *find_typed(const VerdictTable *table, const Branch *branch, bint exact, uint16_t qtype, uint16_t qclass,
                                      const Prefix *client, int64_t now) noexcept nogil:
    """The verdict for this type, else that for all types, for clients of exactly this prefix."""
    cdef Key key
    cdef CachedVerdict *cached
    cdef int typed = 2
    key.branch = branch
    key.high = client.high
    key.low = client.low
    while typed > 0:
        typed -= 1
        key.shape = shape_of(exact, typed, qtype, qclass, client)
        cached = find_key(table, &key)
        if cached != NULL and cached.expires > now:
            return cached
    return NULL


cdef CachedVerdict *find_scoped(const VerdictTable *table, const Branch *branch, bint exact, uint16_t qtype, uint16_t qclass, const Prefix *client,
                                int64_t now) noexcept nogil:
    """The verdict for the client: that of its longest prefix first, that for all clients last."""
    cdef Prefix prefix
    cdef CachedVerdict *cached
    cdef uint64_t mask
    cdef const uint64_t *masks = branch.v6[exact]
    cdef int bit, word = 0
    if client.family == 4:
        masks = &branch.v4[exact]
        word = 1
    elif client.family == 6:
        word = 3
    while word > 0:
        word -= 1
        mask = atomic_peek64(&masks[word])
        while mask:
            bit = highest_bit(mask)
            mask ^= <uint64_t>1 << bit
            prefix = prefix_of(client, <uint32_t>(64 * word + bit))
            cached = find_typed(table, branch, exact, qtype, qclass, &prefix, now)
            if cached != NULL:
                return cached
    if not atomic_peek8(&branch.whole[exact]):
        return NULL
    memset(&prefix, 0, sizeof(Prefix))
    return find_typed(table, branch, exact, qtype, qclass, &prefix, now)


cdef CachedVerdict *verdict_find(VerdictTable *table, const Name *name, uint16_t qtype, uint16_t qclass, const Address *client, int64_t now) noexcept nogil:
    cdef Branch **branches = <Branch **>atomic_load_pointer(<void **>&table.branches)
    cdef const Branch *branch
    cdef CachedVerdict *cached = NULL
    cdef Prefix address
    cdef uint32_t label, depth
    if branches == NULL or atomic_load32(&table.count) == 0:
        return NULL
    prefix_load(client, &address)
    for label in range(<uint32_t>name.labels + 1):
        depth = name.labels - label
        if label > 0 and not atomic_peek64(&table.depths[depth >> 6]) >> (depth & 63) & 1:
            continue
        branch = find_branch(table, branches, name, label)
        if branch == NULL:
            continue
        if label == 0:
            cached = find_scoped(table, branch, True, qtype, qclass, &address, now)
        if cached == NULL:
            cached = find_scoped(table, branch, False, qtype, qclass, &address, now)
        if cached != NULL:
            sieve_hit(&cached.visited)
            return cached
    return NULL


# ---- memory (the writer's, locked) ----

cdef inline uint32_t rounded(uint64_t size) noexcept nogil:
    """What malloc takes for a block."""
    return <uint32_t>((size + 8 + 15) & ~<uint64_t>15)


cdef void *verdict_block(uint64_t size) noexcept nogil:
    cdef Block *block = <Block *>calloc(1, size)
    if block != NULL:
        block.size = rounded(size)
    return block


cdef void leave(VerdictTable *table, Block *block) noexcept nogil:
    """An unlinked block waits for its readers."""
    table.octets -= block.size
    table.unlinked += block.size
    block.next = table.leaving
    table.leaving = block


cdef void free_blocks(VerdictTable *table, Block *block) noexcept nogil:
    cdef Block *following
    while block != NULL:
        following = block.next
        table.unlinked -= block.size
        free(block)
        block = following


cdef void reclaim(VerdictTable *table) noexcept nogil:
    """Frees what no worker can read any more."""
    if table.waiting != NULL and epoch_passed(&table.mark):
        free_blocks(table, table.waiting)
        table.waiting = NULL
    if table.waiting == NULL and table.leaving != NULL:
        table.waiting = table.leaving
        table.leaving = NULL
        epoch_mark(&table.mark)


cdef int open_table(VerdictTable *table) noexcept nogil:
    """Its buckets, when something is remembered for the first time. -1: no memory."""
    cdef uint32_t size = 16
    cdef void *branches
    if table.branches != NULL:
        return 0
    while size < table.limit:
        size *= 2
    table.verdicts = <CachedVerdict **>calloc(size, sizeof(CachedVerdict *))
    branches = calloc(size, sizeof(Branch *))
    if table.verdicts == NULL or branches == NULL:
        free(table.verdicts)
        free(branches)
        table.verdicts = NULL
        return -1
    table.mask = size - 1
    atomic_store_pointer(<void **>&table.branches, branches)
    return 0


cdef void verdict_table_close(VerdictTable *table) noexcept nogil:
    """No worker may be in it any more."""
    verdicts_withdraw(table, NULL, NULL)
    free_blocks(table, table.leaving)
    free_blocks(table, table.waiting)
    free(table.verdicts)
    free(table.branches)


# ---- linking (the writer's, locked) ----

cdef Branch *make_branch(VerdictTable *table, const Name *name) noexcept nogil:
    """The name's branch, a new one where there is none. NULL: no memory."""
    cdef Branch *branch = find_branch(table, table.branches, name, 0)
    cdef Branch **head = &table.branches[name.hash[0] & table.mask]
    if branch != NULL:
        return branch
    branch = <Branch *>verdict_block(sizeof(Branch) + name.length)
    if branch == NULL:
        return NULL
    branch.hash = name.hash[0]
    branch.labels = name.labels
    branch.length = name.length
    memcpy(branch.name, name.lower, name.length)
    branch.next = head[0]
    table.octets += branch.block.size
    table.at_depth[branch.labels] += 1
    set_depth(table, branch.labels)
    atomic_store_pointer(<void **>head, branch)
    return branch


cdef inline void set_depth(VerdictTable *table, uint32_t labels) noexcept nogil:
    cdef uint64_t bit = <uint64_t>1 << (labels & 63)
    cdef uint64_t *mask = &table.depths[labels >> 6]
    atomic_poke64(mask, mask[0] | bit if table.at_depth[labels] else mask[0] & ~bit)


cdef void drop_branch(VerdictTable *table, Branch *branch) noexcept nogil:
    cdef Branch **at = &table.branches[branch.hash & table.mask]
    while at[0] != branch:
        at = &at[0].next
    atomic_store_pointer(<void **>at, branch.next)
    table.at_depth[branch.labels] -= 1
    set_depth(table, branch.labels)
    leave(table, &branch.block)


cdef void mark_prefix(Branch *branch, bint exact, const Prefix *client) noexcept nogil:
    """A bit that is set stays as long as the branch: it costs its readers one look-up in vain."""
    cdef uint64_t *mask
    if client.family == 0:
        atomic_poke8(&branch.whole[exact], 1)
        return
    mask = &branch.v4[exact] if client.family == 4 else &branch.v6[exact][client.bits >> 6]
    atomic_poke64(mask, mask[0] | <uint64_t>1 << (client.bits & 63))


cdef void link(VerdictTable *table, CachedVerdict *cached) noexcept nogil:
    cdef CachedVerdict **head = &table.verdicts[cached.hash & table.mask]
    cached.next = head[0]
    sieve_add(&table.order, &cached.link)
    table.octets += cached.block.size
    (<Branch *>cached.key.branch).verdicts += 1
    atomic_store_pointer(<void **>head, cached)
    atomic_store32(&table.count, table.count + 1)


cdef void unlink(VerdictTable *table, CachedVerdict *cached) noexcept nogil:
    """Readers that stand on it go on through its `next`."""
    cdef CachedVerdict **at = &table.verdicts[cached.hash & table.mask]
    cdef Branch *branch = <Branch *>cached.key.branch
    while at[0] != cached:
        at = &at[0].next
    atomic_store_pointer(<void **>at, cached.next)
    if table.broom == &cached.link:
        table.broom = cached.link.newer
    sieve_remove(&table.order, &cached.link)
    atomic_store32(&table.count, table.count - 1)
    leave(table, &cached.block)
    branch.verdicts -= 1
    if branch.verdicts == 0:
        drop_branch(table, branch)


cdef void sweep(VerdictTable *table, int64_t now) noexcept nogil:
    """Looks at a few verdicts, in turn: those whose time is over go."""
    cdef CachedVerdict *cached
    cdef int i
    for i in range(SWEEP):
        cached = cached_of(table.broom if table.broom != NULL else table.order.oldest)
        if cached == NULL:
            return
        table.broom = cached.link.newer
        if cached.expires <= now:
            unlink(table, cached)


cdef bint evict(VerdictTable *table, int64_t now) noexcept nogil:
    """Removes a verdict; True when a verdict had to go before its time. There is at least one."""
    cdef CachedVerdict *cached = cached_of(sieve_hand(&table.order))
    cdef bint early
    while sieve_passes(&cached.visited, cached.expires > now):
        cached = cached_of(sieve_advance(&table.order))
    early = cached.expires > now
    unlink(table, cached)
    return early


cdef int verdict_put(VerdictTable *table, CachedVerdict *cached, const Scope *scope, int64_t now) noexcept nogil:
    """Links a verdict under its scope, in place of the former one. How many others had to go before their time; -1: not kept."""
    cdef int early = 0
    cdef uint64_t size
    cdef Branch *branch
    cdef CachedVerdict *former
    reclaim(table)
    sweep(table, now)
    # As much again as is in use may wait for the workers, never more.
    if table.limit == 0 or table.unlinked > table.ceiling or open_table(table) < 0:
        return -1
    size = cached.block.size + rounded(sizeof(Branch) + scope.name.length)
    while table.count and (table.octets + size > table.ceiling or table.count >= table.limit and find_scope(table, scope) == NULL):
        early += evict(table, now)
    branch = make_branch(table, &scope.name)
    if branch == NULL:
        return -1
    cached.key.branch = branch
    cached.key.shape = shape_of(scope.exact, scope.typed, scope.qtype, scope.qclass, &scope.client)
    cached.key.high = scope.client.high
    cached.key.low = scope.client.low
    cached.hash = key_hash(&cached.key)
    former = find_key(table, &cached.key)
    mark_prefix(branch, scope.exact, &scope.client)
    link(table, cached)
    if former != NULL:
        cached.visited = atomic_peek8(&former.visited)
        unlink(table, former)
    return early


cdef CachedVerdict *find_scope(VerdictTable *table, const Scope *scope) noexcept nogil:
    """What stands under exactly this scope."""
    cdef Key key
    key.branch = find_branch(table, table.branches, &scope.name, 0)
    if key.branch == NULL:
        return NULL
    key.shape = shape_of(scope.exact, scope.typed, scope.qtype, scope.qclass, &scope.client)
    key.high = scope.client.high
    key.low = scope.client.low
    return find_key(table, &key)


# ---- withdrawing (the writer's, locked) ----

cdef bint name_is_below(const uint8_t *name, uint32_t length, const uint8_t *above, uint32_t above_length) noexcept nogil:
    """Is a name, in lower case, the other one or below it?"""
    while length > above_length:
        length -= name[0] + 1
        name += name[0] + 1
    return length == above_length and memcmp(name, above, length) == 0


cdef bint meets(const CachedVerdict *cached, const Name *suffix, const Prefix *client) noexcept nogil:
    """Is there a question that both scopes hold? NULL: all names, all clients."""
    cdef const Branch *branch = cached.key.branch
    cdef uint32_t bits = cached.key.shape >> 8 & 255
    cdef uint32_t family = cached.key.shape >> 2 & 7
    if suffix != NULL and not name_is_below(branch.name, branch.length, suffix.lower, suffix.length) and (
            cached.key.shape & 1 or not name_is_below(suffix.lower, suffix.length, branch.name, branch.length)):
        return False
    if client == NULL or family == 0:
        return True
    bits = min(bits, client.bits)
    return family == client.family and front(cached.key.high ^ client.high, bits) == 0 and (
        bits <= 64 or front(cached.key.low ^ client.low, bits - 64) == 0)


cdef int verdicts_withdraw(VerdictTable *table, const Name *suffix, const Prefix *client) noexcept nogil:
    cdef int count = 0
    cdef CachedVerdict *cached = cached_of(table.order.oldest)
    cdef CachedVerdict *newer
    atomic_bump64(&table.forgets, 1)
    while cached != NULL:
        newer = cached_of(cached.link.newer)
        if meets(cached, suffix, client):
            unlink(table, cached)
            count += 1
        cached = newer
    reclaim(table)
    return count
