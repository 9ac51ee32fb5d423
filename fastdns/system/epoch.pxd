"""When memory that workers may read can be freed (quiescent-state reclamation).

Each worker announces a quiescent state once per batch. It goes offline before it blocks and online afterwards. A writer unlinks a block, takes a
mark, and frees the block once the mark has passed, that is, once every worker has been offline or quiescent since. Parked queries hold no borrowed
memory and need no protection.
"""
from libc.stdint cimport uint32_t, uint64_t

cdef enum:
    EPOCH_WORKERS = 64

cdef struct EpochSlot:              # one per worker, a cache line each
    uint64_t counter                # odd: online; even: offline. Each announcement increases it
    uint64_t padding[7]

cdef struct EpochMark:
    uint64_t seen[EPOCH_WORKERS]    # each worker's counter when the mark was taken

cdef EpochSlot epoch_slots[EPOCH_WORKERS]

cdef void epoch_online(uint32_t worker) noexcept nogil      # before the first borrowed pointer of a batch
cdef void epoch_quiescent(uint32_t worker) noexcept nogil   # between two batches
cdef void epoch_offline(uint32_t worker) noexcept nogil     # before blocking
cdef void epoch_mark(EpochMark *mark) noexcept nogil  # after unlinking (full barrier)
cdef bint epoch_passed(const EpochMark *mark) noexcept nogil    # every worker has been offline or quiescent since the mark
cdef void epoch_wait() noexcept nogil                       # takes a mark and polls it every 100 us; for control threads only
