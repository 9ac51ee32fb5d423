"""Rings of copies. The contract is in the .pxd."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, int64_t
from libc.string cimport memcmp

from fastdns.api.comparison cimport question_write
from fastdns.api.memory cimport atomic_exchange32, atomic_peek32
from fastdns.api.metrics cimport metric_add
from fastdns.api.network cimport Address
from fastdns.api.query cimport TRANSPORT_NONE, TRANSPORT_UDP, Query, query_was_dropped
from fastdns.api.random cimport random_next
from fastdns.api.reply cimport query_write
from fastdns.api.rings cimport Ring, ring_begin, ring_end, ring_is_empty, ring_take, rings_of, rings_put, rings_room

cdef enum:
    BURST = 100_000_000         # ns: a worker that made no copies for so long may make as many at once


cdef void copy_query(Core *core, Query *q) noexcept nogil:
    cdef uint32_t wanted = atomic_peek32(&core.wanted)
    cdef int64_t *turn = &core.turns[q.worker.id]
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
    ring = rings_room(&core.rings, q.worker.id, q.worker.workers, COPY_MAX)
    if ring == NULL:
        metric_add(core.skipped + SKIPPED_BUFFER, q.worker.id, 1)
        return
    if q.received < turn[0] - BURST:
        metric_add(core.skipped + SKIPPED_RATE, q.worker.id, 1)
        return
    copy = <Copy *>ring_end(ring)
    at = <uint8_t *>copy + sizeof(Copy)
    copy.question_length = <uint16_t>question_write(&q.message, &q.first_name, q.transport != TRANSPORT_UDP, at)
    if not copy.question_length or (wanted == ONE and atomic_exchange32(&core.wanted, NONE) != ONE):
        return
    turn[0] = max(turn[0], q.received) + core.interval * <int64_t>q.worker.workers
    at += copy.question_length
    copy.reply_length = <uint16_t>query_write(q, at)
    copy.at = q.received
    copy.client = q.client
    copy.size = <uint32_t>(at + copy.reply_length - <uint8_t *>copy + 7) & ~<uint32_t>7
    rings_put(&core.rings, ring, copy.size)


cdef inline bint is_ours(const Core *core, const Address *client) noexcept nogil:
    """Whether it is a question of the target, or of ours for it: a copy of it could go round for ever."""
    if client.family != core.target.family or memcmp(client.octets, core.target.octets, 4 if client.family == 4 else 16) != 0:
        return False
    return not core.is_local or client.port == atomic_peek32(&core.own_port)


# ---- the thread's side ----

cdef const Copy *copy_first(Core *core, uint32_t worker) noexcept nogil:
    cdef Ring *ring = rings_of(&core.rings, worker)
    return <const Copy *>ring_begin(ring) if ring != NULL and not ring_is_empty(ring) else NULL


cdef void copy_done(Core *core, uint32_t worker, const Copy *copy) noexcept nogil:
    ring_take(core.rings.rings[worker], copy.size)
