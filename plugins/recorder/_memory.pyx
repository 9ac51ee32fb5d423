"""Rings and lists of records, and copies of them. The contract is in _memory.pxd.

Memory order. A request for a copy is with the worker from its mail on. Both sides exchange `state`: the second one frees the request.
"""
import time as _time

from libc.stdint cimport uint8_t, uint32_t, uint64_t, int64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset
from posix.mman cimport MAP_ANONYMOUS, MAP_FAILED, MAP_NORESERVE, MAP_PRIVATE, PROT_READ, PROT_WRITE, mmap, munmap

from fastdns.api.memory cimport (FAIR_LEVELS, ListNode, atomic_exchange32, atomic_load32, fair_add, fair_choose, fair_free, fair_init, fair_remove,
                                 list_append, list_container, list_first, list_init, list_next, list_remove)
from fastdns.api.metrics cimport Metric
from fastdns.api.network cimport address_network, address_prefix
from fastdns.api.worker cimport Mail, mux_worker_count, mux_workers
from fastdns.plugins.recorder._record cimport LONG_MAX, RECENT, RECORD_MAX

cdef enum:
    COPY_MAX = 262144           # octets that a worker copies in one piece: some 50 microseconds
    ENTRY_OCTETS = 1536         # of a list for each of its entries, what fairness needs included: some 600
    FAIR_OCTETS = 704

cdef enum CopyState:
    POSTED
    COPIED
    ABANDONED

#: Seconds that a worker may take until it copies.
PATIENCE = 5.0

KIND_NAMES = ("recent", "slow", "failed", "dropped")


# ---- the worker's side ----

cdef Memory *core_memory(Core *core, Worker *worker) noexcept nogil:
    cdef Memory *memory = core.memories[worker.id]
    if memory == NULL:
        memory = make_memory(core, worker.workers)
        core.memories[worker.id] = memory
    return memory


cdef Memory *make_memory(Core *core, uint32_t workers) noexcept nogil:
    """An eighth for each list, the rest for the ring."""
    cdef uint64_t share = core.octets // (workers if workers else 1)
    cdef Memory *memory = <Memory *>calloc(1, sizeof(Memory))
    cdef void *ring
    cdef uint32_t i
    cdef bint made = True
    if memory == NULL:
        return NULL
    if share < SHARE_LEAST:
        share = SHARE_LEAST
    memory.octets = share
    memory.size = (share - 3 * (share // 8)) & ~<uint64_t>7
    ring = mmap(NULL, memory.size + RECORD_MAX + LONG_MAX, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
    for i in range(3):
        made = make_kept(&memory.kept[i], share // 8) and made
    if ring != MAP_FAILED:
        memory.ring = <uint8_t *>ring
        memory.staging = memory.ring + memory.size + RECORD_MAX
    if ring == MAP_FAILED or not made:
        free_memory(memory)
        return NULL
    return memory


cdef bint make_kept(Kept *kept, uint64_t octets) noexcept nogil:
    cdef uint32_t entries = <uint32_t>(octets // ENTRY_OCTETS), i
    kept.blocks = <uint32_t>((octets - <uint64_t>entries * FAIR_OCTETS) // BLOCK)
    kept.entries = <Entry *>calloc(entries, sizeof(Entry))
    kept.data = <uint8_t *>malloc(<uint64_t>kept.blocks * BLOCK)
    kept.following = <uint32_t *>malloc(kept.blocks * sizeof(uint32_t))
    list_init(&kept.order)
    list_init(&kept.spare)
    if fair_init(&kept.fair, entries) < 0 or kept.entries == NULL or kept.data == NULL or kept.following == NULL:
        return False
    for i in range(entries):
        list_append(&kept.spare, &kept.entries[i].node)
    for i in range(kept.blocks):
        kept.following[i] = i + 1
    kept.free_blocks = kept.blocks
    return True


cdef void free_memory(Memory *memory) noexcept nogil:
    cdef uint32_t i
    for i in range(3):
        fair_free(&memory.kept[i].fair)
        free(memory.kept[i].entries)
        free(memory.kept[i].data)
        free(memory.kept[i].following)
    if memory.ring != NULL:
        munmap(memory.ring, memory.size + RECORD_MAX + LONG_MAX)
    free(memory)


cdef inline const Record *record_at(const Memory *memory, uint64_t position) noexcept nogil:
    return <const Record *>(memory.ring + position % memory.size)


cdef Record *memory_room(Memory *memory) noexcept nogil:
    while memory.head + RECORD_MAX - memory.tail > memory.size:
        memory.tail += record_at(memory, memory.tail).size
        memory.count -= 1
    return <Record *>record_at(memory, memory.head)


cdef void memory_commit(Memory *memory, const Record *record) noexcept nogil:
    memory.head += record.size
    memory.count += 1


cdef inline Entry *entry_of(ListNode *node) noexcept nogil:
    return <Entry *>list_container(node, <size_t>&(<Entry *>NULL).node)


cdef void forget(Kept *kept, Entry *entry) noexcept nogil:
    cdef uint32_t last = entry.first, i
    for i in range(entry.blocks - 1):
        last = kept.following[last]
    kept.following[last] = kept.free_block
    kept.free_block = entry.first
    kept.free_blocks += entry.blocks
    fair_remove(&kept.fair, &entry.fair)
    list_remove(&entry.node)
    list_append(&kept.spare, &entry.node)
    kept.count -= 1


cdef void memory_keep(Memory *memory, const Record *record, Kind kind, const Address *client) noexcept nogil:
    cdef Kept *kept = &memory.kept[<uint32_t>kind - 1]
    cdef uint32_t blocks = (record.size + BLOCK - 1) // BLOCK, at, i
    cdef uint64_t keys[FAIR_LEVELS]
    cdef Entry *entry
    if blocks > kept.blocks // 4:
        return
    while kept.free_blocks < blocks or list_first(&kept.spare) == NULL:
        forget(kept, <Entry *>fair_choose(&kept.fair))
    entry = entry_of(list_first(&kept.spare))
    list_remove(&entry.node)
    list_append(&kept.order, &entry.node)
    entry.length = record.size
    entry.blocks = blocks
    entry.first = at = kept.free_block
    for i in range(blocks):
        memcpy(kept.data + <uint64_t>at * BLOCK, <const uint8_t *>record + i * BLOCK, min(<uint32_t>BLOCK, record.size - i * BLOCK))
        at = kept.following[at]
    kept.free_block = at
    kept.free_blocks -= blocks
    kept.number += 1
    entry.number = kept.number
    kept.count += 1
    keys[0] = record.rcode
    keys[1] = record.zone
    keys[2] = address_prefix(client)
    keys[3] = address_network(client)
    fair_add(&kept.fair, &entry.fair, keys)


# ---- copies ----

cdef struct Copy:
    Mail mail                   # first
    Core *core
    uint32_t state              # atomic: a CopyState
    uint32_t kind
    uint64_t position           # where to begin; then where to go on
    uint64_t end                # where the newest record ends
    uint64_t count              # records that are kept
    uint64_t octets             # that they take
    uint64_t capacity           # of the memory
    uint32_t length
    uint8_t data[1]             # COPY_MAX octets, and one long record


cdef void copy_ring(const Memory *memory, Copy *copy) noexcept nogil:
    cdef const Record *record
    cdef uint64_t position = copy.position if copy.position > memory.tail else memory.tail
    while position < memory.head and copy.length < COPY_MAX:
        record = record_at(memory, position)
        memcpy(copy.data + copy.length, record, record.size)
        copy.length += record.size
        position += record.size
    copy.position = position
    copy.end = memory.head
    copy.count = memory.count
    copy.octets = memory.head - memory.tail


cdef void copy_kept(const Kept *kept, Copy *copy) noexcept nogil:
    cdef ListNode *node = list_first(&kept.order)
    cdef const Entry *entry
    cdef uint32_t at, left, piece
    while node != NULL and copy.length < COPY_MAX:
        entry = entry_of(node)
        node = list_next(&kept.order, node)
        if entry.number <= copy.position:
            continue
        at, left = entry.first, entry.length
        while left:
            piece = left if left < BLOCK else <uint32_t>BLOCK
            memcpy(copy.data + copy.length, kept.data + <uint64_t>at * BLOCK, piece)
            copy.length += piece
            left -= piece
            at = kept.following[at]
        copy.position = entry.number
    copy.end = kept.number
    if node == NULL:
        copy.position = kept.number
    copy.count = kept.count
    copy.octets = <uint64_t>(kept.blocks - kept.free_blocks) * BLOCK


cdef void run_copy(Mail *mail, Worker *worker) noexcept nogil:
    cdef Copy *copy = <Copy *>mail
    cdef const Memory *memory = copy.core.memories[worker.id]
    if memory != NULL:
        copy.capacity = memory.octets
        if copy.kind == RECENT:
            copy_ring(memory, copy)
        else:
            copy_kept(&memory.kept[copy.kind - 1], copy)
    if atomic_exchange32(&copy.state, COPIED) == ABANDONED:
        free(copy)


cdef class Recording:

    def __cinit__(self, uint64_t octets, int64_t slow, bint name_hash=False, int name_labels=255, int prefix_ipv4=32, int prefix_ipv6=128):
        cdef Metric counted = Metric("fastdns_recorder_queries_total", "Counter of queries that were recorded, by where they are kept.", "counter", ("kind",))
        memset(&self.core, 0, sizeof(Core))
        self.core.octets = octets
        self.core.slow = slow
        self.core.name_hash = name_hash
        self.core.name_labels = <uint8_t>name_labels
        self.core.prefix_ipv4 = <uint8_t>prefix_ipv4
        self.core.prefix_ipv6 = <uint8_t>prefix_ipv6
        for i, kind in enumerate(KIND_NAMES):
            self.core.cells[<uint32_t>i] = counted.cell((kind,), True)
        self._metrics = (counted,)

    def __dealloc__(self):
        cdef uint32_t i
        for i in range(WORKERS_MAX):
            if self.core.memories[i] != NULL:
                free_memory(self.core.memories[i])

    def copy(self, uint32_t worker, uint32_t kind, uint64_t position):
        cdef Copy *copy
        cdef Worker *target
        if worker >= mux_worker_count or kind >= <uint32_t>len(KIND_NAMES):
            raise ValueError("no such worker or kind")
        copy = <Copy *>malloc(sizeof(Copy) + COPY_MAX + LONG_MAX)
        if copy == NULL:
            raise MemoryError
        memset(copy, 0, sizeof(Copy))
        copy.mail.run = run_copy
        copy.core = &self.core
        copy.kind = kind
        copy.position = position
        target = mux_workers[worker]
        target.ops.post(target, &copy.mail)
        end = _time.monotonic() + PATIENCE
        while atomic_load32(&copy.state) == POSTED and _time.monotonic() < end:
            _time.sleep(0.0002)
        if atomic_exchange32(&copy.state, ABANDONED) == POSTED:
            _abandoned.append(self)     # the worker may still look at it
            raise TimeoutError("worker %d does not answer" % worker)
        try:
            return copy.data[:copy.length], copy.position, copy.end, copy.count, copy.octets, copy.capacity
        finally:
            free(copy)


cdef list _abandoned = []


def workers():
    return mux_worker_count
