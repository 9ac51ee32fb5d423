"""Which of many that wait is evicted when all places are taken: the oldest of the group that holds most.

This is hierarchical fair queueing, which drops from the head of the longest queue. An entry has a key for each level, and belongs to one group of each: groups
of a level with the same key lie in one group of the level above. From the top the choice goes down to the largest group at each level, and takes the
oldest entry of the last one.

Keys of the levels from FAIR_FORGED on are chosen by whom is to be bounded, and may be forged: who has many keys can make groups as small as he likes, and
the largest is an honest one then. So there only a group that has at least a FAIR_SHARE of the group above is singled out. Where no group has, the
oldest entry of the group above is taken.

Adding, removing and choosing take constant time. Groups are found by a keyed hash. There is memory for as many groups as entries can have, so nothing is
allocated and two keys never share a group. No locks: one thread uses a queue.
"""
from libc.stdint cimport uint32_t, uint64_t
from fastdns.system.list cimport List, ListNode

cdef enum:
    FAIR_LEVELS = 4
    FAIR_FORGED = 2
    FAIR_SHARE = 16

cdef struct FairGroup:
    FairGroup *parent           # NULL: the top
    FairGroup *chained          # of the same slot of the table, or of the free ones
    uint64_t key
    uint32_t level
    uint32_t size               # entries
    FairRank *rank
    ListNode node               # of rank.groups
    List ranks                  # of the groups in it, the largest first
    List entries                # the oldest first

cdef struct FairRank:           # the groups of one size in one group
    ListNode node               # first; of FairGroup.ranks
    List groups
    uint32_t size

cdef struct FairEntry:          # in what waits
    FairGroup *group            # of the last level; NULL: in no queue
    ListNode nodes[FAIR_LEVELS]     # of FairGroup.entries, by level

cdef struct FairQueue:
    FairGroup top
    FairGroup *groups           # owned, as the ranks and the table
    FairRank *ranks
    FairGroup **table
    FairGroup *free_groups      # a stack through FairGroup.chained
    FairRank *free_ranks        # a stack through FairRank.node.next
    uint32_t groups_made
    uint32_t ranks_made
    uint32_t mask               # of the table

# For so many entries. The queue never moves. -1: out of memory; fair_free follows all the same.
cdef int fair_init(FairQueue *queue, uint32_t entries) noexcept nogil
# What fair_init has allocated; the entries are their owner's.
cdef void fair_free(FairQueue *queue) noexcept nogil
# The newest entry, in the groups of FAIR_LEVELS keys.
cdef void fair_add(FairQueue *queue, FairEntry *entry, const uint64_t *keys) noexcept nogil
cdef void fair_remove(FairQueue *queue, FairEntry *entry) noexcept nogil
# Who is to go; NULL: the queue is empty.
cdef FairEntry *fair_choose(FairQueue *queue) noexcept nogil
# Likewise, of the group of the first level with this key alone.
cdef FairEntry *fair_choose_of(FairQueue *queue, uint64_t key) noexcept nogil
