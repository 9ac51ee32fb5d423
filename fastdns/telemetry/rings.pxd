"""Octets on their way from the workers to one thread: a ring for each worker. A worker never waits; the thread sleeps while all rings are empty.

What is put at a time lies in one piece: a piece that reaches the end of its ring runs over into the space behind it, and the next one begins as much
further. A ring's size is a multiple of 8, so that pieces whose lengths are so, too, may begin with a struct.

Memory order. `head` releases pieces to the thread, `tail` their space to the worker; each side loads the other's with acquire. A ring is released by
the pointer to it. The thread sleeps as the consumer of a mailbox does (fastdns/system/mailbox.pxd): a fence in each thread.
"""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from posix.mman cimport MAP_ANONYMOUS, MAP_FAILED, MAP_NORESERVE, MAP_PRIVATE, PROT_READ, PROT_WRITE, mmap, munmap

from fastdns.system.atomic cimport (atomic_exchange32, atomic_fence, atomic_load64, atomic_load_pointer, atomic_peek32, atomic_peek8, atomic_poke8,
                                    atomic_store32, atomic_store64, atomic_store_pointer)
from fastdns.system.socket cimport EFD_CLOEXEC, EFD_NONBLOCK, close, eventfd, write
from fastdns.telemetry.metrics cimport METRIC_CONTROL

cdef struct Ring:                   # one producer, one consumer; positions grow for ever
    uint64_t head                   # atomic; octets put, always at the end of a piece
    uint64_t size                   # octets; constant
    uint64_t padding[6]
    uint64_t tail                   # atomic; octets taken
    uint64_t more_padding[7]
    uint8_t data[1]                 # `size` octets and the overhang

cdef struct Rings:                  # of all workers, and the thread that empties them
    uint64_t octets                 # of all rings
    uint64_t least                  # octets of a ring at least
    uint64_t overhang               # octets of a piece at most
    uint32_t asleep                 # atomic: the thread waits for `bell`
    int bell                        # eventfd; -1: there is none
    uint8_t stopping                # atomic
    Ring *rings[METRIC_CONTROL]     # made by their worker's first piece

cdef inline int rings_open(Rings *rings, uint64_t octets, uint64_t least, uint64_t overhang) noexcept nogil:
    """0, or -1 with errno. The rest is zeroed memory."""
    rings.octets, rings.least, rings.overhang = octets, least, overhang
    rings.bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)
    return 0 if rings.bell >= 0 else -1

cdef inline void rings_close(Rings *rings) noexcept nogil:
    """Nobody uses them any more. Zeroed memory has none."""
    cdef uint32_t i
    if rings.bell > 0:
        close(rings.bell)
    for i in range(METRIC_CONTROL):
        if rings.rings[i] != NULL:
            munmap(rings.rings[i], sizeof(Ring) + rings.rings[i].size + rings.overhang)

# ---- a worker's side ----

cdef inline Ring *rings_make(Rings *rings, uint32_t worker, uint32_t workers) noexcept nogil:
    cdef uint64_t size = max(rings.least, rings.octets // workers) & ~<uint64_t>7
    cdef void *memory = mmap(NULL, sizeof(Ring) + size + rings.overhang, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
    if memory == MAP_FAILED:
        return NULL
    (<Ring *>memory).size = size
    atomic_store_pointer(<void **>&rings.rings[worker], memory)
    return <Ring *>memory

cdef inline Ring *rings_room(Rings *rings, uint32_t worker, uint32_t workers, uint64_t length) noexcept nogil:
    """The worker's ring, with room for so many octets at ring_end; NULL: there is none."""
    cdef Ring *ring = rings.rings[worker]
    if ring == NULL:
        ring = rings_make(rings, worker, workers)
    if ring == NULL or length > ring.size - (ring.head - atomic_load64(&ring.tail)):
        return NULL
    return ring

cdef inline uint8_t *ring_end(Ring *ring) noexcept nogil:
    return ring.data + ring.head % ring.size

cdef inline void rings_put(Rings *rings, Ring *ring, uint64_t length) noexcept nogil:
    """What was written at ring_end goes to the thread. It must be seen by a thread that is about to sleep, or we must see that it sleeps."""
    cdef uint64_t one = 1
    atomic_store64(&ring.head, ring.head + length)
    atomic_fence()
    if atomic_peek32(&rings.asleep) and atomic_exchange32(&rings.asleep, 0):
        write(rings.bell, &one, sizeof(one))

# ---- the thread's side ----

cdef inline Ring *rings_of(Rings *rings, uint32_t worker) noexcept nogil:
    """NULL: the worker has put nothing yet."""
    return <Ring *>atomic_load_pointer(<void **>&rings.rings[worker])

cdef inline bint ring_is_empty(const Ring *ring) noexcept nogil:
    return atomic_load64(&ring.head) == ring.tail

cdef inline uint8_t *ring_begin(Ring *ring) noexcept nogil:
    return ring.data + ring.tail % ring.size

cdef inline void ring_take(Ring *ring, uint64_t length) noexcept nogil:
    """Gives the space of so many octets back."""
    atomic_store64(&ring.tail, ring.tail + length)

cdef inline bint rings_are_empty(Rings *rings) noexcept nogil:
    cdef uint32_t i
    cdef Ring *ring
    for i in range(METRIC_CONTROL):
        ring = rings_of(rings, i)
        if ring != NULL and not ring_is_empty(ring):
            return False
    return True

cdef inline bint rings_may_sleep(Rings *rings) noexcept nogil:
    """From now on workers ring the bell, until rings_awake. Whether the thread may wait for it: all is empty, and it is not to stop."""
    atomic_store32(&rings.asleep, 1)
    atomic_fence()
    return rings_are_empty(rings) and not atomic_peek8(&rings.stopping)

cdef inline void rings_awake(Rings *rings) noexcept nogil:
    atomic_store32(&rings.asleep, 0)

cdef inline void rings_stop(Rings *rings, bint stopping) noexcept nogil:
    """From any thread: the thread is to end, or may begin anew."""
    cdef uint64_t one = 1
    atomic_poke8(&rings.stopping, stopping)
    if stopping:
        write(rings.bell, &one, sizeof(one))
