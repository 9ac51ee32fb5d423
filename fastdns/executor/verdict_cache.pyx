"""The tables of remembered verdicts. The contract is in executor/verdict_cache.pxd."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t, int64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memcpy, memset
from fastdns.system.atomic cimport (atomic_load32, atomic_peek8, atomic_peek64, atomic_load_pointer, atomic_store32, atomic_poke8, atomic_poke64,
                                    atomic_store_pointer)
from fastdns.system.epoch cimport epoch_passed, epoch_ticket
from fastdns.system.eviction cimport sieve_add, sieve_advance, sieve_hand, sieve_hit, sieve_passes, sieve_remove
from fastdns.system.address cimport Address
from fastdns._wire cimport Name, load32, wire_seed

cdef extern from *:
    """
    static inline int memos_highest(uint64_t mask) { return 63 - __builtin_clzll(mask); }
    """
    int memos_highest(uint64_t mask) noexcept nogil     # number of the highest bit set; mask is not 0


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

cdef inline Branch *find_branch(const MemoTable *table, Branch **branches, const Name *name, uint32_t label) noexcept nogil:
    cdef uint32_t h = name.hash[label]
    cdef uint32_t length = name.length - name.offset[label]
    cdef Branch *branch = <Branch *>atomic_load_pointer(<void **>&branches[h & table.mask])
    while branch != NULL:
        if branch.hash == h and branch.length == length and memcmp(branch.name, name.lower + name.offset[label], length) == 0:
            return branch
        branch = <Branch *>atomic_load_pointer(<void **>&branch.next)
    return NULL


cdef Memo *find_key(const MemoTable *table, const Key *key) noexcept nogil:
    cdef uint64_t h = key_hash(key)
    cdef Memo *memo = <Memo *>atomic_load_pointer(<void **>&table.memos[h & table.mask])
    while memo != NULL:
        if memo.hash == h and key_is(&memo.key, key):
            return memo
        memo = <Memo *>atomic_load_pointer(<void **>&memo.next)
    return NULL


cdef inline Memo *find_typed(const MemoTable *table, const Branch *branch, bint exact, uint16_t qtype, uint16_t qclass, const Prefix *client,
                             int64_t now) noexcept nogil:
    """What is said for this type, else for all types; to clients of exactly this prefix."""
    cdef Key key
    cdef Memo *memo
    cdef int typed = 2
    key.branch = branch
    key.high = client.high
    key.low = client.low
    while typed > 0:
        typed -= 1
        key.shape = shape_of(exact, typed, qtype, qclass, client)
        memo = find_key(table, &key)
        if memo != NULL and memo.expires > now:
            return memo
    return NULL


cdef Memo *find_scoped(const MemoTable *table, const Branch *branch, bint exact, uint16_t qtype, uint16_t qclass, const Prefix *client,
                       int64_t now) noexcept nogil:
    """What is said to the client: for its longest prefix first, for all clients last."""
    cdef Prefix prefix
    cdef Memo *memo
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
            bit = memos_highest(mask)
            mask ^= <uint64_t>1 << bit
            prefix = prefix_of(client, <uint32_t>(64 * word + bit))
            memo = find_typed(table, branch, exact, qtype, qclass, &prefix, now)
            if memo != NULL:
                return memo
    if not atomic_peek8(&branch.whole[exact]):
        return NULL
    memset(&prefix, 0, sizeof(Prefix))
    return find_typed(table, branch, exact, qtype, qclass, &prefix, now)


cdef Memo *memos_find(MemoTable *table, const Name *name, uint16_t qtype, uint16_t qclass, const Address *client, int64_t now) noexcept nogil:
    cdef Branch **branches = <Branch **>atomic_load_pointer(<void **>&table.branches)
    cdef const Branch *branch
    cdef Memo *memo = NULL
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
            memo = find_scoped(table, branch, True, qtype, qclass, &address, now)
        if memo == NULL:
            memo = find_scoped(table, branch, False, qtype, qclass, &address, now)
        if memo != NULL:
            sieve_hit(&memo.visited)
            return memo
    return NULL


# ---- memory (the writer's, locked) ----

cdef inline uint32_t rounded(uint64_t size) noexcept nogil:
    """What malloc takes for a block."""
    return <uint32_t>((size + 8 + 15) & ~<uint64_t>15)


cdef void *memos_block(uint64_t size) noexcept nogil:
    cdef Block *block = <Block *>calloc(1, size)
    if block != NULL:
        block.size = rounded(size)
    return block


cdef void leave(MemoTable *table, Block *block) noexcept nogil:
    """An unlinked block waits for its readers."""
    table.octets -= block.size
    table.unlinked += block.size
    block.next = table.leaving
    table.leaving = block


cdef void free_blocks(MemoTable *table, Block *block) noexcept nogil:
    cdef Block *following
    while block != NULL:
        following = block.next
        table.unlinked -= block.size
        free(block)
        block = following


cdef void reclaim(MemoTable *table) noexcept nogil:
    """Frees what no worker can read any more."""
    if table.waiting != NULL and epoch_passed(&table.ticket):
        free_blocks(table, table.waiting)
        table.waiting = NULL
    if table.waiting == NULL and table.leaving != NULL:
        table.waiting = table.leaving
        table.leaving = NULL
        epoch_ticket(&table.ticket)


cdef int open_table(MemoTable *table) noexcept nogil:
    """Its buckets, when something is remembered for the first time. -1: no memory."""
    cdef uint32_t size = 16
    cdef void *branches
    if table.branches != NULL:
        return 0
    while size < table.limit:
        size *= 2
    table.memos = <Memo **>calloc(size, sizeof(Memo *))
    branches = calloc(size, sizeof(Branch *))
    if table.memos == NULL or branches == NULL:
        free(table.memos)
        free(branches)
        table.memos = NULL
        return -1
    table.mask = size - 1
    atomic_store_pointer(<void **>&table.branches, branches)
    return 0


cdef void memos_close(MemoTable *table) noexcept nogil:
    """No worker may be in it any more."""
    memos_withdraw(table, NULL, NULL)
    free_blocks(table, table.leaving)
    free_blocks(table, table.waiting)
    free(table.memos)
    free(table.branches)


# ---- linking (the writer's, locked) ----

cdef Branch *make_branch(MemoTable *table, const Name *name) noexcept nogil:
    """The name's branch, a new one where there is none. NULL: no memory."""
    cdef Branch *branch = find_branch(table, table.branches, name, 0)
    cdef Branch **head = &table.branches[name.hash[0] & table.mask]
    if branch != NULL:
        return branch
    branch = <Branch *>memos_block(sizeof(Branch) + name.length)
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


cdef inline void set_depth(MemoTable *table, uint32_t labels) noexcept nogil:
    cdef uint64_t bit = <uint64_t>1 << (labels & 63)
    cdef uint64_t *mask = &table.depths[labels >> 6]
    atomic_poke64(mask, mask[0] | bit if table.at_depth[labels] else mask[0] & ~bit)


cdef void drop_branch(MemoTable *table, Branch *branch) noexcept nogil:
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


cdef void link(MemoTable *table, Memo *memo) noexcept nogil:
    cdef Memo **head = &table.memos[memo.hash & table.mask]
    memo.next = head[0]
    sieve_add(&table.order, &memo.link)
    table.octets += memo.block.size
    (<Branch *>memo.key.branch).memos += 1
    atomic_store_pointer(<void **>head, memo)
    atomic_store32(&table.count, table.count + 1)


cdef void unlink(MemoTable *table, Memo *memo) noexcept nogil:
    """Readers that stand on it go on through its `next`."""
    cdef Memo **at = &table.memos[memo.hash & table.mask]
    cdef Branch *branch = <Branch *>memo.key.branch
    while at[0] != memo:
        at = &at[0].next
    atomic_store_pointer(<void **>at, memo.next)
    if table.broom == &memo.link:
        table.broom = memo.link.newer
    sieve_remove(&table.order, &memo.link)
    atomic_store32(&table.count, table.count - 1)
    leave(table, &memo.block)
    branch.memos -= 1
    if branch.memos == 0:
        drop_branch(table, branch)


cdef void sweep(MemoTable *table, int64_t now) noexcept nogil:
    """Looks at a few memos, in turn: those whose time is over go."""
    cdef Memo *memo
    cdef int i
    for i in range(SWEEP):
        memo = memo_of(table.broom if table.broom != NULL else table.order.oldest)
        if memo == NULL:
            return
        table.broom = memo.link.newer
        if memo.expires <= now:
            unlink(table, memo)


cdef bint evict(MemoTable *table, int64_t now) noexcept nogil:
    """Makes room; True when a verdict had to go before its time. There is at least one memo."""
    cdef Memo *memo = memo_of(sieve_hand(&table.order))
    cdef bint early
    while sieve_passes(&memo.visited, memo.expires > now):
        memo = memo_of(sieve_advance(&table.order))
    early = memo.expires > now
    unlink(table, memo)
    return early


cdef int memos_keep(MemoTable *table, Memo *memo, const Scope *scope, int64_t now) noexcept nogil:
    """Links a memo under its scope, in place of what was said for that. How many others had to go before their time; -1: not kept."""
    cdef int early = 0
    cdef uint64_t size
    cdef Branch *branch
    cdef Memo *former
    reclaim(table)
    sweep(table, now)
    # As much again as is in use may wait for the workers, never more.
    if table.limit == 0 or table.unlinked > table.ceiling or open_table(table) < 0:
        return -1
    size = memo.block.size + rounded(sizeof(Branch) + scope.name.length)
    while table.count and (table.octets + size > table.ceiling or table.count >= table.limit and find_memo(table, scope) == NULL):
        early += evict(table, now)
    branch = make_branch(table, &scope.name)
    if branch == NULL:
        return -1
    memo.key.branch = branch
    memo.key.shape = shape_of(scope.exact, scope.typed, scope.qtype, scope.qclass, &scope.client)
    memo.key.high = scope.client.high
    memo.key.low = scope.client.low
    memo.hash = key_hash(&memo.key)
    former = find_key(table, &memo.key)
    mark_prefix(branch, scope.exact, &scope.client)
    link(table, memo)
    if former != NULL:
        memo.visited = atomic_peek8(&former.visited)
        unlink(table, former)
    return early


cdef Memo *find_memo(MemoTable *table, const Scope *scope) noexcept nogil:
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

cdef bint memos_below(const uint8_t *name, uint32_t length, const uint8_t *above, uint32_t above_length) noexcept nogil:
    """Is a name, in lower case, the other one or below it?"""
    while length > above_length:
        length -= name[0] + 1
        name += name[0] + 1
    return length == above_length and memcmp(name, above, length) == 0


cdef bint meets(const Memo *memo, const Name *suffix, const Prefix *client) noexcept nogil:
    """Is there a question that both scopes hold? NULL: all names, all clients."""
    cdef const Branch *branch = memo.key.branch
    cdef uint32_t bits = memo.key.shape >> 8 & 255
    cdef uint32_t family = memo.key.shape >> 2 & 7
    if suffix != NULL and not memos_below(branch.name, branch.length, suffix.lower, suffix.length) and (
            memo.key.shape & 1 or not memos_below(suffix.lower, suffix.length, branch.name, branch.length)):
        return False
    if client == NULL or family == 0:
        return True
    bits = min(bits, client.bits)
    return family == client.family and front(memo.key.high ^ client.high, bits) == 0 and (
        bits <= 64 or front(memo.key.low ^ client.low, bits - 64) == 0)


cdef int memos_withdraw(MemoTable *table, const Name *suffix, const Prefix *client) noexcept nogil:
    cdef int count = 0
    cdef Memo *memo = memo_of(table.order.oldest)
    cdef Memo *newer
    table.forgets += 1
    while memo != NULL:
        newer = memo_of(memo.link.newer)
        if meets(memo, suffix, client):
            unlink(table, memo)
            count += 1
        memo = newer
    reclaim(table)
    return count
