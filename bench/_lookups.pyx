"""Look-ups in an index as a worker does them: without the GIL, one batch after the other, announcing quiescence between them."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t, int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy
from fastdns._atomic cimport atomic_bump64, atomic_peek64
from fastdns._epoch cimport EPOCH_WORKERS, epoch_offline, epoch_online, epoch_quiescent
from fastdns._index cimport FOUND_HIT, Index, IndexResult, index_find
from fastdns._nodes cimport IndexRecord, rrset_record
from fastdns._wire cimport Name, wire_read_name

cdef extern from *:
    """
    #include <stdint.h>
    #include <time.h>
    static inline int64_t lookups_now(void) {
        struct timespec t;
        clock_gettime(CLOCK_MONOTONIC, &t);
        return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
    }
    static inline int lookups_load(const int *p) { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }
    static inline void lookups_store(int *p, int v) { __atomic_store_n(p, v, __ATOMIC_RELEASE); }
    """
    int64_t lookups_now() noexcept nogil
    int lookups_load(const int *p) noexcept nogil
    void lookups_store(int *p, int v) noexcept nogil

cdef enum:
    BATCH = 32


cdef class Reader:
    cdef Index index
    cdef Name *names
    cdef uint32_t count
    cdef uint32_t worker
    cdef bint checked
    cdef int stopping
    cdef readonly uint64_t lookups
    cdef uint64_t found
    cdef readonly uint64_t torn
    cdef readonly int64_t elapsed

    def __cinit__(self, Index index not None, names, uint32_t worker=0, bint checked=False):
        cdef uint32_t at, i = 0
        cdef bytes wire
        if worker >= EPOCH_WORKERS:
            raise ValueError(f"worker {worker} is not below {EPOCH_WORKERS}")
        if not names:
            raise ValueError("no names to look up")
        self.index = index
        self.worker = worker
        self.checked = checked
        self.names = <Name *>malloc(len(names) * sizeof(Name))
        if self.names == NULL:
            raise MemoryError
        for wire in names:
            at = 0
            if wire_read_name(wire, <uint32_t>len(wire), &at, &self.names[i]) < 0:
                raise ValueError(f"not a name in wire form: {wire!r}")
            i += 1
        self.count = i

    def __dealloc__(self):
        free(self.names)

    @property
    def hits(self):
        return atomic_peek64(&self.found)

    def stop(self):
        lookups_store(&self.stopping, 1)

    def run(self, uint64_t most=0, uint16_t qtype=1):
        """Looks all names up in turn until `most` look-ups are done or stop() is called."""
        cdef IndexResult result
        cdef uint32_t at = 0, _i
        cdef int64_t began
        with nogil:
            began = lookups_now()
            epoch_online(self.worker)
            while not lookups_load(&self.stopping) and (most == 0 or self.lookups < most):
                for _i in range(BATCH):
                    if index_find(self.index.core, &self.names[at], qtype, &result) == FOUND_HIT:
                        atomic_bump64(&self.found, 1)
                        if self.checked:
                            self.check(&result)
                    at += 1
                    if at == self.count:
                        at = 0
                self.lookups += BATCH
                epoch_quiescent(self.worker)
            epoch_offline(self.worker)
            self.elapsed += lookups_now() - began

    cdef void check(self, const IndexResult *result) noexcept nogil:
        """Records of a checked reader hold a number and its complement: whatever was freed or half written under the reader shows."""
        cdef IndexRecord record
        cdef const uint8_t *entry = NULL
        cdef uint32_t _i
        cdef uint32_t word[2]
        for _i in range(result.rrset.count):
            entry = rrset_record(result.node, result.rrset, entry, &record)
            if record.rdlength != 8:
                self.torn += 1
                return
            memcpy(word, record.rdata, 8)
            if word[0] != ~word[1]:
                self.torn += 1
