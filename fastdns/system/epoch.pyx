"""Quiescent-state reclamation: workers announce, writers take tickets and wait. See the .pxd."""

from fastdns.system.atomic cimport atomic_fence, atomic_load64, atomic_store64
from posix.unistd cimport usleep

cdef EpochSlot epoch_slots[EPOCH_WORKERS]


cdef void epoch_online(uint32_t worker) noexcept nogil:
    cdef EpochSlot *slot = &epoch_slots[worker]
    atomic_store64(&slot.counter, (slot.counter + 1) | 1)
    # The store must be seen before anything that the worker loads next: a writer that still sees it offline would free at once.
    atomic_fence()


cdef void epoch_quiescent(uint32_t worker) noexcept nogil:
    cdef EpochSlot *slot = &epoch_slots[worker]
    atomic_store64(&slot.counter, slot.counter + 2)
    atomic_fence()


cdef void epoch_offline(uint32_t worker) noexcept nogil:
    cdef EpochSlot *slot = &epoch_slots[worker]
    atomic_store64(&slot.counter, (slot.counter + 1) & ~<uint64_t>1)


cdef void epoch_ticket(EpochTicket *ticket) noexcept nogil:
    cdef uint32_t i
    atomic_fence()
    for i in range(EPOCH_WORKERS):
        ticket.seen[i] = atomic_load64(&epoch_slots[i].counter)


cdef bint epoch_passed(const EpochTicket *ticket) noexcept nogil:
    cdef uint32_t i
    for i in range(EPOCH_WORKERS):
        if ticket.seen[i] & 1 and atomic_load64(&epoch_slots[i].counter) == ticket.seen[i]:
            return False
    atomic_fence()
    return True


cdef void epoch_wait() noexcept nogil:
    cdef EpochTicket ticket
    epoch_ticket(&ticket)
    while not epoch_passed(&ticket):
        usleep(100)


def online(uint32_t worker) -> None:
    """Put a worker's slot online, as its thread does before a batch (tests, and threads that stand in for a worker)."""
    if worker >= EPOCH_WORKERS:
        raise ValueError(f"worker {worker} is not below {EPOCH_WORKERS}")
    epoch_online(worker)


def offline(uint32_t worker) -> None:
    """Put a worker's slot offline."""
    if worker >= EPOCH_WORKERS:
        raise ValueError(f"worker {worker} is not below {EPOCH_WORKERS}")
    epoch_offline(worker)


cdef class Ticket:
    """A moment after which the workers seen online must have gone on; ``passed()`` says whether all have."""
    cdef EpochTicket ticket

    def __cinit__(self):
        epoch_ticket(&self.ticket)

    def passed(self) -> bool:
        return epoch_passed(&self.ticket)
