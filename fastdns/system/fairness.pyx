"""Hierarchical fair queueing. The contract is in system/fairness.pxd."""
from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset
from fastdns.system.hash cimport hash_octets, hash_seed
from fastdns.system.list cimport ListNode, list_append, list_container, list_first, list_init, list_insert, list_is_empty, list_last, list_remove


cdef int fair_init(FairQueue *queue, uint32_t entries) noexcept nogil:
    cdef uint32_t size = 1
    memset(queue, 0, sizeof(FairQueue))
    while size < 2 * entries:
        size *= 2
    queue.mask = size - 1
    # The kernel gives the pages when they are first used.
    queue.groups = <FairGroup *>calloc(FAIR_LEVELS * <size_t>entries, sizeof(FairGroup))
    queue.ranks = <FairRank *>calloc(FAIR_LEVELS * <size_t>entries + 1, sizeof(FairRank))
    queue.table = <FairGroup **>calloc(size, sizeof(FairGroup *))
    list_init(&queue.top.ranks)
    list_init(&queue.top.entries)
    return -1 if queue.groups == NULL or queue.ranks == NULL or queue.table == NULL else 0


cdef void fair_free(FairQueue *queue) noexcept nogil:
    free(queue.groups)
    free(queue.ranks)
    free(queue.table)


cdef inline FairRank *rank_of(ListNode *node) noexcept nogil:
    return <FairRank *>node


cdef inline FairGroup *group_of(ListNode *node) noexcept nogil:
    return <FairGroup *>list_container(node, <size_t>&(<FairGroup *>NULL).node)


# ---- ranks: a group has one in its parent, which its size decides ----

cdef inline FairRank *add_rank(FairQueue *queue, ListNode *larger, ListNode *smaller, uint32_t size) noexcept nogil:
    cdef FairRank *rank = queue.free_ranks
    if rank != NULL:
        queue.free_ranks = rank_of(rank.node.next)
    else:
        rank = &queue.ranks[queue.ranks_made]
        queue.ranks_made += 1
    rank.size = size
    list_init(&rank.groups)
    list_insert(&rank.node, larger, smaller)
    return rank


cdef inline void drop_rank(FairQueue *queue, FairRank *rank) noexcept nogil:
    list_remove(&rank.node)
    rank.node.next = <ListNode *>queue.free_ranks
    queue.free_ranks = rank


cdef inline void enter_rank(FairRank *rank, FairGroup *group) noexcept nogil:
    group.rank = rank
    list_append(&rank.groups, &group.node)


cdef inline void leave_rank(FairQueue *queue, FairGroup *group) noexcept nogil:
    list_remove(&group.node)
    if list_is_empty(&group.rank.groups):
        drop_rank(queue, group.rank)


cdef inline void resize(FairQueue *queue, FairGroup *group, uint32_t size) noexcept nogil:
    """One more, or one fewer: the rank is the one beside it, if there is one of that size."""
    cdef FairRank *rank = group.rank
    cdef ListNode *ends = &group.parent.ranks.ends
    cdef ListNode *beside = rank.node.previous if size > group.size else rank.node.next
    cdef bint alone = rank.groups.ends.next == rank.groups.ends.previous
    cdef FairRank *other = NULL
    if beside != ends and rank_of(beside).size == size:
        other = rank_of(beside)
    elif alone:
        rank.size = size
    elif size > group.size:
        other = add_rank(queue, beside, &rank.node, size)
    else:
        other = add_rank(queue, &rank.node, beside, size)
    group.size = size
    if other != NULL:
        leave_rank(queue, group)
        enter_rank(other, group)


# ---- groups ----

cdef inline FairGroup **slot_of(FairQueue *queue, const FairGroup *parent, uint64_t key) noexcept nogil:
    cdef uint64_t octets[2]
    octets[0] = <uint64_t>parent
    octets[1] = key
    return &queue.table[<uint32_t>hash_octets(<const unsigned char *>octets, sizeof(octets), hash_seed) & queue.mask]


cdef FairGroup *take_group(FairQueue *queue, FairGroup *parent, uint64_t key) noexcept nogil:
    """With room for one more entry: it is there, or made with no entry."""
    cdef FairGroup **slot = slot_of(queue, parent, key)
    cdef FairGroup *group = slot[0]
    cdef ListNode *last
    while group != NULL:
        if group.key == key and group.parent == parent:
            resize(queue, group, group.size + 1)
            return group
        group = group.chained
    group = queue.free_groups
    if group != NULL:
        queue.free_groups = group.chained
    else:
        group = &queue.groups[queue.groups_made]
        queue.groups_made += 1
    group.parent = parent
    group.key = key
    group.level = parent.level + 1
    group.size = 1
    list_init(&group.ranks)
    list_init(&group.entries)
    group.chained = slot[0]
    slot[0] = group
    last = list_last(&parent.ranks)
    if last == NULL or rank_of(last).size != 1:
        enter_rank(add_rank(queue, parent.ranks.ends.previous, &parent.ranks.ends, 1), group)
    else:
        enter_rank(rank_of(last), group)
    return group


cdef void drop_group(FairQueue *queue, FairGroup *group) noexcept nogil:
    cdef FairGroup **at = slot_of(queue, group.parent, group.key)
    while at[0] != group:
        at = &at[0].chained
    at[0] = group.chained
    leave_rank(queue, group)
    group.chained = queue.free_groups
    queue.free_groups = group


# ---- entries ----

cdef void fair_add(FairQueue *queue, FairEntry *entry, const uint64_t *keys) noexcept nogil:
    cdef FairGroup *group = &queue.top
    cdef uint32_t level
    queue.top.size += 1
    for level in range(FAIR_LEVELS):
        group = take_group(queue, group, keys[level])
        list_append(&group.entries, &entry.nodes[level])
    entry.group = group


cdef void fair_remove(FairQueue *queue, FairEntry *entry) noexcept nogil:
    cdef FairGroup *group = entry.group
    cdef FairGroup *parent
    cdef uint32_t level = FAIR_LEVELS
    entry.group = NULL
    queue.top.size -= 1
    while level:
        level -= 1
        parent = group.parent
        list_remove(&entry.nodes[level])
        if group.size == 1:
            drop_group(queue, group)
        else:
            resize(queue, group, group.size - 1)
        group = parent


cdef FairEntry *choose_from(FairGroup *group) noexcept nogil:
    cdef FairGroup *largest
    cdef uint32_t level
    for level in range(group.level, FAIR_LEVELS):
        largest = group_of(list_first(&rank_of(list_first(&group.ranks)).groups))
        if level >= FAIR_FORGED and <uint64_t>largest.size * FAIR_SHARE < group.size:
            break
        group = largest
    level = group.level - 1
    return <FairEntry *>list_container(list_first(&group.entries), <size_t>&(<FairEntry *>NULL).nodes[level])


cdef FairEntry *fair_choose(FairQueue *queue) noexcept nogil:
    return choose_from(&queue.top) if queue.top.size else NULL


cdef FairEntry *fair_choose_of(FairQueue *queue, uint64_t key) noexcept nogil:
    cdef FairGroup *group = slot_of(queue, &queue.top, key)[0]
    while group != NULL and (group.key != key or group.parent != &queue.top):
        group = group.chained
    return choose_from(group) if group != NULL else NULL
