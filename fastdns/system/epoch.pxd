"""When memory that workers may read can be freed (quiescent-state reclamation).

Each worker announces quiescence once a batch, goes offline before it blocks and online after. A writer unlinks, asks for a ticket, and frees what it
unlinked once the ticket has passed: every worker has since been offline or quiescent. Parked queries hold no borrowed memory, so they do not matter.
"""
from libc.stdint cimport uint32_t, uint64_t

cdef enum:
    EPOCH_WORKERS = 64

cdef struct EpochSlot:              # a worker's; a cache line each
    uint64_t counter                # odd: online; even: offline. Grows with every announcement
    uint64_t padding[7]

cdef struct EpochTicket:
    uint64_t seen[EPOCH_WORKERS]

cdef EpochSlot epoch_slots[EPOCH_WORKERS]

cdef void epoch_online(uint32_t worker) noexcept nogil      # before the first borrowed pointer of a batch
cdef void epoch_quiescent(uint32_t worker) noexcept nogil   # between two batches
cdef void epoch_offline(uint32_t worker) noexcept nogil     # before blocking
cdef void epoch_ticket(EpochTicket *ticket) noexcept nogil  # after unlinking (full barrier)
cdef bint epoch_passed(const EpochTicket *ticket) noexcept nogil
cdef void epoch_wait() noexcept nogil                       # ticket and wait, for control threads; naps of 100 us
