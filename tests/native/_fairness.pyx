"""A fair queue, as tests see it."""
from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from fastdns.system.fairness cimport FAIR_LEVELS, FairEntry, FairQueue, fair_add, fair_choose, fair_init, fair_remove

LEVELS = FAIR_LEVELS


cdef class Entries:
    """A queue and its entries; see _fairness.pyi."""
    cdef FairQueue queue
    cdef FairEntry *entries
    cdef readonly uint32_t number

    def __cinit__(self, uint32_t number):
        self.number = number
        self.entries = <FairEntry *>calloc(number, sizeof(FairEntry))
        if self.entries == NULL or fair_init(&self.queue, number) < 0:
            raise MemoryError

    def __dealloc__(self):
        free(self.entries)
        free(self.queue.groups)
        free(self.queue.ranks)
        free(self.queue.table)

    cdef FairEntry *entry(self, uint32_t which) except NULL:
        if which >= self.number:
            raise IndexError(which)
        return &self.entries[which]

    def add(self, uint32_t which, *keys) -> None:
        cdef uint64_t numbers[FAIR_LEVELS]
        cdef int i
        for i in range(FAIR_LEVELS):
            numbers[i] = keys[i]
        fair_add(&self.queue, self.entry(which), numbers)

    def remove(self, uint32_t which) -> None:
        fair_remove(&self.queue, self.entry(which))

    def choose(self):
        cdef FairEntry *chosen = fair_choose(&self.queue)
        return None if chosen == NULL else chosen - self.entries

    def made(self) -> tuple:
        return self.queue.groups_made, self.queue.ranks_made
