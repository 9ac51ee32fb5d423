"""One call on its way to an answer. The contract is in _exchange.pxd."""
from libc.stdint cimport uint8_t, uint32_t, uint64_t, int64_t
from libc.stdio cimport snprintf
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, strncmp
from fastdns.api.memory cimport atomic_add32, list_first
from fastdns.api.metrics cimport metric_add, metric_observe
from fastdns.api.names cimport zones_hold
from fastdns.api.query cimport (ANSWERED, ERROR_MAX, FAILED, NEXT, PARKED, Query, Verdict, query_answer, query_await, query_fail, query_park,
                                query_resume, query_scratch)
from fastdns.api.random cimport random_below
from fastdns.api.reply cimport reply_clear, reply_parse
from fastdns.api.tls cimport session_forget
from fastdns.api.wire cimport (FLAG_CD, FLAG_RD, RCODE_FORMERR, RCODE_NXDOMAIN, RCODE_SERVFAIL, flags_rcode, load16, store16, wire_answers)
from fastdns.api.worker cimport Timer, Worker
from fastdns.plugins.forward.transport.connection cimport connection_begin, connection_forget, connection_sweep
from fastdns.plugins.forward._request cimport request_clear_options, request_write
from fastdns.plugins.forward._shared cimport shared_begin, shared_end, shared_forget, shared_wanted
from fastdns.plugins.forward._upstream cimport (BROKEN, Exchange, Peer, Share, WAY_CONNECTION, WAY_NONE, WAY_SHARED, exchange_give, exchange_take,
                                                exchange_of, exchange_unwait, exchange_wait, first_due, share_begin)
from fastdns.plugins.grpc._call cimport GRPC_NOT_FOUND, GRPC_UNAVAILABLE, call_fail

cdef enum:
    MILLISECOND = 1000000
    TIMEOUT = 5000                  # ms for all attempts together
    PAUSE = 1000                    # ms after a connection that failed, in which calls fail at once
    SWEEP = 10000                   # ms between two looks for idle connections


# ---- a worker's share ----

cdef Share *share_of(void *owner, Worker *worker) noexcept nogil:
    cdef Grpc *grpc = <Grpc *>owner
    cdef GrpcShare *made = grpc.shares[worker.id]
    cdef Share *share
    if made != NULL:
        return &made.share
    made = <GrpcShare *>calloc(1, sizeof(GrpcShare))
    if made == NULL:
        return NULL
    share = &made.share
    if not share_begin(share, worker, &grpc.settings, grpc):
        free(made)
        return NULL
    share.failed = on_failed
    share.answered = on_answered
    share.again = on_again
    share.sent = on_sent
    share.leave = leave
    share.timeout.fire = on_timeout
    share.sweep.fire = on_sweep
    grpc.shares[worker.id] = made
    return share


cdef uint32_t sweep(Share *share, int64_t before) noexcept nogil:
    cdef uint32_t i, left = 0
    for i in range(share.settings.count):
        left += connection_sweep(&share.peers[i], before)
    return left


cdef void on_sweep(Timer *timer, Worker *worker) noexcept nogil:
    cdef Share *share = <Share *>timer.data
    if sweep(share, worker.now - share.settings.expire):
        worker.ops.timer_start(worker, timer, worker.now + SWEEP * <int64_t>MILLISECOND)


cdef bint exchange_close(Grpc *grpc, Worker *worker) noexcept nogil:
    cdef GrpcShare *made = grpc.shares[worker.id]
    cdef uint32_t i
    if made == NULL:
        return True
    if sweep(&made.share, worker.now + 1) or made.share.waiting:
        return False
    for i in range(grpc.settings.count):
        session_forget(&made.share.peers[i].session)
    worker.ops.timer_stop(worker, &made.share.timeout)
    worker.ops.timer_stop(worker, &made.share.sweep)
    grpc.shares[worker.id] = NULL
    free(made.share.peers)
    free(made)
    return True


# ---- a query comes ----

cdef inline bint falls(const Grpc *grpc, const Query *q) noexcept nogil:
    """Whether the plugins below are asked instead."""
    return grpc_has_next(grpc) and zones_hold(grpc.fall, q.name)


cdef Verdict exchange_ask(Grpc *grpc, Query *q) noexcept nogil:
    cdef Waiting *waiting = <Waiting *>query_scratch(grpc.handler, q)
    cdef Share *share = share_of(grpc, q.worker)
    cdef Exchange *e = exchange_take(share) if share != NULL else NULL
    cdef Verdict verdict
    if e == NULL:
        return query_fail(q, RCODE_SERVFAIL, b"out of memory")
    if request_write(e, q) < 0:
        exchange_give(e)
        return query_fail(q, RCODE_SERVFAIL, b"out of memory")
    store16(e.request, q.message.id)
    e.by_tcp = 1
    e.begun = q.worker.now
    set_order(grpc, e)
    snprintf(e.error, ERROR_MAX, b"no healthy gRPC proxies")
    share.waiting += 1
    e.waiters = q
    waiting.exchange = e
    if attempt(e) < 0:
        verdict = fail(e)
        give(e)
        return verdict
    if not e.timed:
        exchange_wait(e, e.begun + TIMEOUT * <int64_t>MILLISECOND)
    if query_park(q, e.begun + (TIMEOUT + PAUSE) * <int64_t>MILLISECOND) < 0:
        give(e)
        return query_fail(q, RCODE_SERVFAIL, b"out of memory")
    query_await(q, e.upstream)
    return PARKED


cdef void exchange_abandon(Grpc *grpc, Query *q) noexcept nogil:
    cdef Exchange *e = (<Waiting *>query_scratch(grpc.handler, q)).exchange
    if e == NULL:
        return
    if q.evicted:
        metric_add(e.upstream.evicted, q.worker.id, 1)
    give(e)


cdef void give(Exchange *e) noexcept nogil:
    """The exchange has ended."""
    (<Waiting *>query_scratch((<Grpc *>e.share.owner).handler, e.waiters)).exchange = NULL
    leave(e)
    if e.timed:
        exchange_unwait(e)
    e.share.waiting -= 1
    exchange_give(e)


cdef Verdict fail(Exchange *e) noexcept nogil:
    cdef Grpc *grpc = <Grpc *>e.share.owner
    return NEXT if falls(grpc, e.waiters) else query_fail(e.waiters, RCODE_SERVFAIL, e.error)


cdef void finish(Exchange *e, Verdict verdict) noexcept nogil:
    cdef Query *q = e.waiters
    (<Waiting *>query_scratch((<Grpc *>e.share.owner).handler, q)).verdict = <uint8_t>verdict
    give(e)
    query_resume(q)


# ---- attempts ----

cdef void set_order(Grpc *grpc, Exchange *e) noexcept nogil:
    cdef uint32_t i, drawn, n = grpc.settings.count, first = 0
    cdef uint8_t swapped
    for i in range(n):
        e.order[i] = <uint8_t>i
    if grpc.policy == POLICY_ROUND_ROBIN:
        first = (atomic_add32(&grpc.turn, 1)) % n
        for i in range(first, 0, -1):
            e.order[i] = e.order[i - 1]
        e.order[0] = <uint8_t>first
    elif grpc.policy == POLICY_RANDOM:
        for i in range(n - 1):
            drawn = i + random_below(&e.share.worker.random, n - i)
            swapped = e.order[i]
            e.order[i] = e.order[drawn]
            e.order[drawn] = swapped


cdef int attempt(Exchange *e) noexcept nogil:
    """Calls the next upstream. -1: there is none, and e.error is of the last."""
    cdef Share *share = e.share
    cdef Refusal *refusal
    while e.step < share.settings.count:
        e.upstream = &share.settings.upstreams[e.order[e.step]]
        e.step += 1
        e.alone = 0
        e.refused = 0
        e.status = 0
        refusal = refusal_of(e)
        if refusal.until > share.worker.now:
            memcpy(e.error, refusal.error, ERROR_MAX)
        elif begin(e) == 0:
            return 0
        else:
            say_failure(e)
    return -1


cdef inline Refusal *refusal_of(Exchange *e) noexcept nogil:
    return &(<GrpcShare *>e.share).refusals[e.upstream - e.share.settings.upstreams]


cdef int begin(Exchange *e) noexcept nogil:
    cdef Share *share = e.share
    cdef Peer *peer = &share.peers[e.upstream - share.settings.upstreams]
    e.asked = share.worker.now
    if not share.sweep.deadline:
        share.worker.ops.timer_start(share.worker, &share.sweep, share.worker.now + SWEEP * <int64_t>MILLISECOND)
    if not e.alone and e.shared == NULL and shared_wanted(peer):
        return shared_begin(e, peer, share_of)
    return connection_begin(e, peer)


cdef void say_failure(Exchange *e) noexcept nogil:
    """The error of a connection as the status that Go's library makes of it. One that could not be made is not tried again for a second."""
    cdef char text[ERROR_MAX]
    cdef const char *what = e.error
    cdef Refusal *refusal
    cdef bint dial = strncmp(e.error, b"dial ", 5) == 0, tls = strncmp(e.error, b"tls: ", 5) == 0
    if strncmp(e.error, b"rpc error", 9) == 0 or strncmp(e.error, b"dns: ", 5) == 0:
        return
    if dial:
        snprintf(text, sizeof(text), b"connection error: desc = \"transport: Error while dialing: %.128s\"", e.error)
    elif tls:
        if strncmp(what, b"tls: credentials", 16) == 0:
            what += 5
        snprintf(text, sizeof(text), b"connection error: desc = \"transport: authentication handshake failed: %.116s\"", what)
    else:
        snprintf(text, sizeof(text), b"error reading from server: %.160s", e.error)
    call_fail(e, GRPC_UNAVAILABLE, text)
    if dial or tls:
        refusal = refusal_of(e)
        refusal.until = e.share.worker.now + PAUSE * <int64_t>MILLISECOND
        memcpy(refusal.error, e.error, ERROR_MAX)


cdef void leave(Exchange *e) noexcept nogil:
    """Takes the exchange from where it is. Its time goes on."""
    if e.way == WAY_CONNECTION:
        connection_forget(e)
    elif e.way == WAY_SHARED:
        shared_forget(e)
    e.way = WAY_NONE


cdef void on_failed(Exchange *e) noexcept nogil:
    cdef Grpc *grpc = <Grpc *>e.share.owner
    leave(e)
    say_failure(e)
    if e.shared != NULL:
        end_shared(e, NULL, 0)
    elif e.status == GRPC_NOT_FOUND and falls(grpc, e.waiters):
        finish(e, NEXT)
    elif e.status == GRPC_NOT_FOUND:
        query_answer(e.waiters, RCODE_NXDOMAIN, 0)
        finish(e, ANSWERED)
    elif attempt(e) < 0:
        finish(e, fail(e))
    else:
        query_await(e.waiters, e.upstream)


cdef void on_again(Exchange *e) noexcept nogil:
    leave(e)
    if begin(e) == BROKEN:
        on_failed(e)


cdef void on_sent(Exchange *e) noexcept nogil:
    """The time of a query began when it came."""
    if not e.timed:
        exchange_wait(e, e.share.worker.now + TIMEOUT * <int64_t>MILLISECOND)


cdef void end_shared(Exchange *e, const uint8_t *packet, uint32_t length) noexcept nogil:
    leave(e)
    if e.timed:
        exchange_unwait(e)
    shared_end(e, packet, length)


cdef void on_timeout(Timer *timer, Worker *worker) noexcept nogil:
    cdef Share *share = <Share *>timer.data
    cdef Exchange *e
    while True:
        e = first_due(&share.pending, worker.now)
        if e == NULL:
            break
        snprintf(e.error, ERROR_MAX, b"rpc error: code = DeadlineExceeded desc = context deadline exceeded")
        if e.shared != NULL:
            end_shared(e, NULL, 0)
        else:
            finish(e, fail(e))
    e = exchange_of(list_first(&share.pending))
    if e != NULL:
        worker.ops.timer_start(worker, timer, e.deadline)


# ---- a reply comes ----

cdef bint on_answered(Exchange *e, const uint8_t *packet, uint32_t length, bint cut) noexcept nogil:
    cdef Grpc *grpc = <Grpc *>e.share.owner
    cdef Query *q = e.waiters
    cdef uint32_t at = <uint32_t>(e.upstream - e.share.settings.upstreams), worker = e.share.worker.id
    cdef uint32_t rcode = flags_rcode(load16(packet + 2))
    if e.shared != NULL:
        end_shared(e, packet, length)
        return True
    metric_add(grpc.requests[at], worker, 1)
    metric_add(grpc.responses[at] + rcode, worker, 1)
    metric_observe(grpc.buckets, grpc.durations[at], worker, <uint64_t>(e.share.worker.now - e.asked))
    if not wire_answers(packet, length, e.request, e.question_length) or reply_parse(&q.reply, packet, length) < 0:
        reply_clear(&q.reply)
        query_answer(q, RCODE_FORMERR, 0)
        finish(e, ANSWERED)
    elif rcode == RCODE_NXDOMAIN and falls(grpc, q):
        reply_clear(&q.reply)
        finish(e, NEXT)
    else:
        request_clear_options(q)
        q.reply.flags |= load16(packet + 2) & (FLAG_RD | FLAG_CD)
        q.reply.verbatim = 1
        finish(e, ANSWERED if q.reply.written else FAILED)
    return True
