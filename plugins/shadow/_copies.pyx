"""Rings of copies. The contract is in the .pxd."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t, int64_t
from libc.string cimport memcmp
from posix.mman cimport MAP_ANONYMOUS, MAP_FAILED, MAP_NORESERVE, MAP_PRIVATE, PROT_READ, PROT_WRITE, mmap

from fastdns.api.comparison cimport question_write
from fastdns.api.memory cimport (atomic_exchange32, atomic_fence, atomic_load64, atomic_load_pointer, atomic_peek32, atomic_store64,
                                 atomic_store_pointer)
from fastdns.api.metrics cimport metric_add
from fastdns.api.network cimport Address, write
from fastdns.api.query cimport TRANSPORT_NONE, TRANSPORT_UDP, Query, query_was_dropped
from fastdns.api.random cimport random_next
from fastdns.api.reply cimport query_write
from fastdns.api.worker cimport WORKERS_MAX, Worker

cdef enum:
    BURST = 100_000_000         # ns: a worker that made no copies for so long may make as many at once


cdef void copy_query(Core *core, Query *q) noexcept nogil:
    cdef uint32_t wanted = atomic_peek32(&core.wanted)
    cdef Ring *ring
    cdef Copy *copy
    cdef uint8_t *at
    if q.parent != NULL or q.transport == TRANSPORT_NONE or q.stream != NULL or query_was_dropped(q) or is_ours(core, &q.client):
        return
    if wanted == NONE:
        metric_add(core.skipped + SKIPPED_SILENT, q.worker.id, 1)
        return
    if core.share != SHARE_ALL and random_next(&q.worker.random) >= core.share:
        return
    if q.reply.message_size > REPLY_MAX:
        metric_add(core.skipped + SKIPPED_LARGE, q.worker.id, 1)
        return
    ring = core.rings[q.worker.id]
    if ring == NULL:
        ring = make_ring(core, q.worker)
    if ring == NULL or ring.head - atomic_load64(&ring.tail) + COPY_MAX > ring.size:
        metric_add(core.skipped + SKIPPED_BUFFER, q.worker.id, 1)
        return
    if q.received < ring.turn - BURST:
        metric_add(core.skipped + SKIPPED_RATE, q.worker.id, 1)
        return
    copy = <Copy *>(ring.data + ring.head % ring.size)
    at = <uint8_t *>copy + sizeof(Copy)
    copy.question_length = <uint16_t>question_write(&q.message, &q.first_name, q.transport != TRANSPORT_UDP, at)
    if not copy.question_length or (wanted == ONE and atomic_exchange32(&core.wanted, NONE) != ONE):
        return
    ring.turn = max(ring.turn, q.received) + core.interval * <int64_t>q.worker.workers
    at += copy.question_length
    copy.reply_length = <uint16_t>query_write(q, at)
    copy.at = q.received
    copy.client = q.client
    copy.size = <uint32_t>(at + copy.reply_length - <uint8_t *>copy + 7) & ~<uint32_t>7
    atomic_store64(&ring.head, ring.head + copy.size)
    wake(core)


cdef inline bint is_ours(const Core *core, const Address *client) noexcept nogil:
    """Whether it is a question of the target, or of ours for it: a copy of it could go round for ever."""
    if client.family != core.target.family or memcmp(client.octets, core.target.octets, 4 if client.family == 4 else 16) != 0:
        return False
    return not core.is_local or client.port == atomic_peek32(&core.own_port)


cdef inline void wake(Core *core) noexcept nogil:
    """The copy must be seen by a thread that is about to sleep, or we must see that it sleeps."""
    cdef uint64_t one = 1
    atomic_fence()
    if atomic_peek32(&core.asleep) and atomic_exchange32(&core.asleep, 0):
        write(core.bell, &one, sizeof(one))


cdef Ring *make_ring(Core *core, Worker *worker) noexcept nogil:
    cdef uint64_t size = (core.octets // worker.workers) & ~<uint64_t>7
    cdef void *memory
    if size < RING_LEAST:
        size = RING_LEAST
    memory = mmap(NULL, sizeof(Ring) + size + COPY_MAX, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
    if memory == MAP_FAILED:
        return NULL
    (<Ring *>memory).size = size
    atomic_store_pointer(<void **>&core.rings[worker.id], memory)
    return <Ring *>memory


# ---- the thread's side ----

cdef const Copy *copy_first(Core *core, uint32_t worker) noexcept nogil:
    cdef Ring *ring = <Ring *>atomic_load_pointer(<void **>&core.rings[worker])
    if ring == NULL or atomic_load64(&ring.head) == ring.tail:
        return NULL
    return <const Copy *>(ring.data + ring.tail % ring.size)


cdef void copy_done(Core *core, uint32_t worker, const Copy *copy) noexcept nogil:
    cdef Ring *ring = core.rings[worker]
    atomic_store64(&ring.tail, ring.tail + copy.size)


cdef bint copies_are_empty(Core *core) noexcept nogil:
    cdef uint32_t i
    for i in range(WORKERS_MAX):
        if copy_first(core, i) != NULL:
            return False
    return True
