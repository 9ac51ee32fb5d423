"""Where records are kept: for each worker a ring of the last ones, and bounded lists of the slow, the failed and the dropped.

A worker alone writes and reads its memory. Who wants to see it posts a request to the worker, which copies some of it and goes on (`_memory.pyx`,
`Recording.copy`): so records are whole, and no store needs an order.

A ring holds records one behind the other; positions grow for ever. A record that reaches the end of the ring runs over into the space behind it, and the
next one begins as much further. The oldest ones make room.

A list keeps its records in blocks. If there are not enough, a record of the group goes that holds most (system/fairness): groups are, from the top, the
rcode, the server block's zone, the client's network, and its address. So one client cannot put out what others have met with.
"""
from libc.stdint cimport uint8_t, uint32_t, uint64_t, int64_t
from fastdns.api.memory cimport FairEntry, FairQueue, List, ListNode
from fastdns.api.network cimport Address
from fastdns.api.worker cimport WORKERS_MAX, Worker
from fastdns.plugins.recorder._record cimport KINDS, Kind, Record

cdef enum:
    SHARE_LEAST = 262144        # octets that a worker has at least
    BLOCK = 512

cdef struct Entry:              # of a list
    FairEntry fair              # first
    ListNode node               # of Kept.order or Kept.spare
    uint64_t number             # grows from record to record
    uint32_t length
    uint32_t blocks
    uint32_t first              # its first block

cdef struct Kept:               # a list
    FairQueue fair
    List order                  # entries, the oldest first
    List spare
    Entry *entries
    uint8_t *data
    uint32_t *following         # by block
    uint32_t free_block         # the first of those that are free
    uint32_t free_blocks
    uint32_t blocks
    uint32_t count              # entries in use
    uint64_t number             # of the next

cdef struct Memory:             # of one worker
    uint64_t head               # of the ring
    uint64_t tail
    uint64_t size
    uint64_t count              # records in the ring
    uint8_t *ring
    uint8_t *staging            # LONG_MAX octets, in which a record for a list is put together
    Kept kept[3]                # SLOW, FAILED, DROPPED
    uint64_t octets             # of all this

cdef struct Core:               # what handlers use of a Recording
    uint64_t octets             # of all workers
    int64_t slow                # ns from which on a query is slow
    uint8_t name_hash           # names are hashed, or else cut
    uint8_t name_labels         # labels that stay; 255: all
    uint8_t prefix_ipv4         # bits of addresses that stay
    uint8_t prefix_ipv6
    uint32_t cells[4]           # metric, by Kind
    Memory *memories[WORKERS_MAX]   # made by their worker's first record

# The worker's memory; NULL: there is none.
cdef Memory *core_memory(Core *core, Worker *worker) noexcept nogil
# Room for RECORD_MAX octets; memory_commit follows, once the record and its size are there.
cdef Record *memory_room(Memory *memory) noexcept nogil
cdef void memory_commit(Memory *memory, const Record *record) noexcept nogil
# Copies a record, of staging, into a list.
cdef void memory_keep(Memory *memory, const Record *record, Kind kind, const Address *client) noexcept nogil

cdef class Recording:           # Recording(octets, slow, name_hash, name_labels, prefix_ipv4, prefix_ipv6)
    cdef Core core
    cdef object __weakref__
    cdef tuple _metrics
