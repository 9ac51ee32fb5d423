"""Quiescent-state reclamation: workers announce quiescent states, writers take marks and wait. The contract is in system/epoch.pxd.

Memory order. A worker stores its counter, has a full fence, and loads pointers; a writer stores a pointer (unlinks), has a full fence, and loads the
counters. One of the two sees the other: the worker finds the pointer changed, or the writer waits for the worker. What a worker read before it
announced is released by the announcement and acquired by epoch_mark or epoch_passed, so freeing comes after it. Where one thread unlinks and another
one takes the mark, a release and acquire pair lies between them (a lock, a list).
"""

from fastdns.system.atomic cimport atomic_fence, atomic_load64, atomic_store64
from posix.unistd cimport usleep

cdef EpochSlot epoch_slots[EPOCH_WORKERS]


cdef void epoch_online(uint32_t worker) noexcept nogil:
    cdef EpochSlot *slot = &epoch_slots[worker]
    atomic_store64(&slot.counter, (slot.counter + 1) | 1)
    # The store must be visible before the worker's next load: a writer that still reads "offline" would free at once.
    atomic_fence()


cdef void epoch_quiescent(uint32_t worker) noexcept nogil:
    cdef EpochSlot *slot = &epoch_slots[worker]
    atomic_store64(&slot.counter, slot.counter + 2)
    atomic_fence()


cdef void epoch_offline(uint32_t worker) noexcept nogil:
    cdef EpochSlot *slot = &epoch_slots[worker]
    atomic_store64(&slot.counter, (slot.counter + 1) & ~<uint64_t>1)


cdef void epoch_mark(EpochMark *mark) noexcept nogil:
    cdef uint32_t i
    atomic_fence()
    for i in range(EPOCH_WORKERS):
        mark.seen[i] = atomic_load64(&epoch_slots[i].counter)


cdef bint epoch_passed(const EpochMark *mark) noexcept nogil:
    cdef uint32_t i
    for i in range(EPOCH_WORKERS):
        if mark.seen[i] & 1 and atomic_load64(&epoch_slots[i].counter) == mark.seen[i]:
            return False
    return True


cdef void epoch_wait() noexcept nogil:
    cdef EpochMark mark
    epoch_mark(&mark)
    while not epoch_passed(&mark):
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


cdef class Mark:
    """The counters of all workers at the time of construction; ``passed()`` is true when each has been offline or quiescent since."""
    cdef EpochMark mark

    def __cinit__(self):
        epoch_mark(&self.mark)

    def passed(self) -> bool:
        return epoch_passed(&self.mark)
