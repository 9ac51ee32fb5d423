"""One question on its way to an answer. The contract is in _exchange.pxd.

An exchange lives as long as a query waits for it. It is in one place at a time: on a socket, on a connection, with another worker, or pausing. What
goes wrong there comes back through `on_failed`, which begins the next attempt; a reply comes through `on_answered`, which decides whether it is the
last word.
"""
from libc.stdint cimport uint8_t, uint32_t, uint64_t, int64_t
from libc.stdio cimport snprintf
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp
from fastdns.api.query cimport (ANSWERED, ERROR_MAX, FAILED, NEXT, PARKED, Query, Verdict, query_answer, query_await, query_fail, query_is_udp, query_park,
                                query_resume, query_scratch)
from fastdns.api.worker cimport Timer, Worker
from fastdns.api.reply cimport Record, reply_clear, reply_parse
from fastdns.api.wire cimport (FLAG_AA, FLAG_AD, FLAG_CD, FLAG_RA, FLAG_RD, FLAG_TC, HEADER_SIZE, RCODE_NOERROR, RCODE_NOTIMP, RCODE_REFUSED,
                               RCODE_SERVFAIL, TYPE_AXFR, TYPE_IXFR, flags_rcode, load16)
from fastdns.api.metrics cimport metric_add, metric_observe
from fastdns.api.memory cimport (atomic_add32, atomic_load32, atomic_store32, list_append, list_first, list_is_empty, list_next,
                                 list_remove)
from fastdns.api.random cimport random_below
from fastdns.api.quic cimport quic_forget_ticket
from fastdns.api.tls cimport session_forget
from fastdns.plugins.forward.transport.connection cimport connection_begin, connection_forget, connection_suspect, connection_sweep
from fastdns.plugins.forward._cookies cimport COOKIE_ACCEPT, COOKIE_IGNORE, COOKIE_PLAIN, COOKIE_TCP, CookieVerdict, cookies_judge, cookies_strip, cookies_write
from fastdns.plugins.forward.transport.datagram cimport datagram_begin, datagram_flush, datagram_forget, datagram_repeat
from fastdns.plugins.forward._shared cimport shared_begin, shared_end, shared_forget, shared_wanted
from fastdns.plugins.forward._health cimport health_answered, health_begin, health_end, health_failed, health_init
from fastdns.plugins.forward._hedge cimport (hedge_abandon, hedge_drop, hedge_fill, hedge_end, hedge_expect, hedge_forget, hedge_free, hedge_init, hedge_learn,
                                             hedge_promote, hedge_wins)
from fastdns.plugins.forward._instance cimport Forward, Waiting, rcodes_have
from fastdns.plugins.forward._letters cimport letters_judge, letters_lost, letters_match, letters_reset, letters_restore, letters_rewrite, letters_write
from fastdns.plugins.forward._order cimport is_down, next_upstream, set_order, silent
from fastdns.plugins.forward._pair cimport pair_end, pair_join
from fastdns.plugins.forward._request cimport request_clear_options, request_limit, request_write
from fastdns.plugins.forward.transport.sockets cimport sockets_sweep
from fastdns.plugins.forward._taps cimport taps_tell
from fastdns.plugins.forward._waiters cimport (EQUAL_SLOTS, add_equal, add_waiter, discount, find_equal, remove_equal, remove_waiter, tell_waiters,
                                               waiting_of)
from fastdns.plugins.forward._upstream cimport (BROKEN, HEDGE_DUE, MILLISECOND, PROTOCOL_DNS, RCODE_CELLS, Exchange, Peer, Settings, Share, Upstream,
                                                WAY_SHARED, WAY_CONNECTION, WAY_NONE, WAY_PAUSE, WAY_UDP, exchange_give, exchange_take, exchange_of,
                                                exchange_unwait, exchange_wait, first_due, share_begin, upstream_error, upstream_network, upstream_peer)
from fastdns.plugins.recorder._asked cimport FATE_ANSWERED, FATE_FAILED, FATE_REPLIED, FATE_TIMEOUT

cdef enum:
    GIVE_UP = 5000                  # ms from the first attempt, after which no other begins
    PATIENCE = 12000                # ms that a query may wait in all: a last attempt may begin just before GIVE_UP
    PAUSE = 50                      # ms between attempts once all upstreams failed twice and no cap ends it
    SWEEP = 10000                   # ms between two looks for idle sockets, or `expire` where that is less,
    SWEEP_LEAST = 1000              # and at least
    REPEAT = 400                    # ms until a datagram is sent again,
    REPEAT_STEP = 400               # and until the next time: with the second attempt ten in all, of which half may be lost
    REPEATS = 4
    REPEAT_TICK = 200
    SPARE_MAX = 512                 # at most one repetition for each question, and so many more at first


# ---- a worker's share ----

cdef Share *share_of(Forward *forward, Worker *worker) noexcept nogil:
    cdef Share *share = forward.shares[worker.id]
    cdef uint32_t i
    if share != NULL:
        return share
    share = <Share *>calloc(1, sizeof(Share))
    if share == NULL:
        return NULL
    share.equal = <Exchange **>calloc(EQUAL_SLOTS, sizeof(Exchange *))
    if share.equal == NULL or not share_begin(share, worker, &forward.settings, forward):
        free(share.equal)
        free(share)
        return NULL
    share.failed = on_failed
    share.answered = on_answered
    share.again = on_again
    share.sent = on_sent
    share.leave = leave
    share.begin = begin
    share.timeout.fire = on_timeout
    share.spare = SPARE_MAX
    share.repeat.fire = on_repeat
    share.repeat.data = share
    share.pause.fire = on_pause
    share.pause.data = share
    share.sweep.fire = on_sweep
    for i in range(forward.settings.count):
        share.peers[i].flush.run = datagram_flush
        share.peers[i].flush.data = &share.peers[i]
        health_init(&share.peers[i])
    if forward.settings.hedge_percent and not hedge_init(share):
        free(share.peers)
        free(share.equal)
        free(share)
        return NULL
    forward.shares[worker.id] = share
    return share


cdef Share *share_for(void *owner, Worker *worker) noexcept nogil:
    return share_of(<Forward *>owner, worker)


cdef void on_sweep(Timer *timer, Worker *worker) noexcept nogil:
    """Closes what was idle for the time that `expire` gives."""
    cdef Share *share = <Share *>timer.data
    cdef uint32_t i, left = 0
    cdef int64_t before = worker.now - share.settings.expire
    for i in range(share.settings.count):
        left += sockets_sweep(&share.peers[i], before) + connection_sweep(&share.peers[i], before)
    if left:
        worker.ops.timer_start(worker, timer, worker.now + sweep_interval(share.settings))


cdef inline int64_t sweep_interval(const Settings *settings) noexcept nogil:
    cdef int64_t most = SWEEP * <int64_t>MILLISECOND
    if settings.expire >= most:
        return most
    return settings.expire if settings.expire > SWEEP_LEAST * <int64_t>MILLISECOND else SWEEP_LEAST * <int64_t>MILLISECOND


cdef bint exchange_close(Forward *forward, Worker *worker) noexcept nogil:
    cdef Share *share = forward.shares[worker.id]
    cdef uint32_t i, left = 0
    if share == NULL:
        return True
    for i in range(forward.settings.count):
        health_end(&share.peers[i])
        if share.peers[i].flush.queued:
            return False
        left += sockets_sweep(&share.peers[i], worker.now + 1) + connection_sweep(&share.peers[i], worker.now + 1)
    if left or share.waiting:
        return False
    for i in range(forward.settings.count):
        session_forget(&share.peers[i].session)
        quic_forget_ticket(&share.peers[i].ticket)
    worker.ops.timer_stop(worker, &share.timeout)
    worker.ops.timer_stop(worker, &share.repeat)
    worker.ops.timer_stop(worker, &share.pause)
    worker.ops.timer_stop(worker, &share.sweep)
    hedge_free(share)
    forward.shares[worker.id] = NULL
    free(share.peers)
    free(share.equal)
    free(share)
    return True


# ---- a query comes ----

cdef Verdict exchange_ask(Forward *forward, Query *q) noexcept nogil:
    cdef Worker *worker = q.worker
    cdef Waiting *waiting = <Waiting *>query_scratch(forward.handler, q)
    cdef Share *share = share_of(forward, worker)
    cdef Exchange *e
    cdef Exchange *standing
    cdef int64_t deadline = worker.now + PATIENCE * <int64_t>MILLISECOND
    cdef Verdict verdict
    waiting.exchange = NULL
    waiting.counted = 0
    if forward.has_quic and (q.qtype == TYPE_AXFR or q.qtype == TYPE_IXFR):
        waiting.upstream = NULL
        query_answer(q, RCODE_NOTIMP, 0)        # a transfer takes several messages on its stream
        return ANSWERED
    if forward.max_concurrent:
        if atomic_add32(&forward.concurrent, 1) > forward.max_concurrent:
            atomic_add32(&forward.concurrent, <uint32_t>-1)
            metric_add(forward.rejects_cell, worker.id, 1)
            return fail_concurrent(forward, q)
        waiting.counted = 1
    e = exchange_take(share) if share != NULL else NULL
    if e == NULL:
        discount(forward, waiting)
        return query_fail(q, RCODE_SERVFAIL, b"out of memory")
    e.by_tcp = forward.settings.force_tcp or not (forward.prefer_udp or query_is_udp(q))
    e.limit = request_limit(q)
    if request_write(e, q) < 0:
        exchange_give(e)
        discount(forward, waiting)
        return query_fail(q, RCODE_SERVFAIL, b"out of memory")
    e.hash = q.name.hash[0] ^ (q.qtype * <uint32_t>0x9E3779B1)
    standing = find_equal(share, e)
    if q.deadline and q.deadline < deadline:
        deadline = q.deadline
    if standing != NULL:
        exchange_give(e)
        e = standing
    else:
        e.begun = worker.now
        if share.hedge_buckets != NULL:
            hedge_fill(e, q)
        set_order(forward, e)
        add_equal(share, e)
        if attempt(forward, e, False) < 0:
            remove_equal(share, e)
            waiting.upstream = e.upstream
            verdict = fail(e, q)
            exchange_give(e)
            discount(forward, waiting)
            return verdict
    add_waiter(e, q, waiting)
    if e.second != NULL:
        e.second.waiters = q
        pair_join(e, q, waiting)
    waiting.upstream = e.upstream
    if query_park(q, deadline) < 0:
        exchange_abandon(forward, q)
        return query_fail(q, RCODE_SERVFAIL, b"out of memory")
    query_await(q, e.upstream)
    return PARKED


cdef inline Verdict fail(Exchange *e, Query *q) noexcept nogil:
    if e.error[0]:
        return query_fail(q, RCODE_SERVFAIL, e.error)
    return query_fail(q, RCODE_SERVFAIL, b"no healthy proxies")


cdef Verdict fail_concurrent(Forward *forward, Query *q) noexcept nogil:
    cdef char text[64]
    snprintf(text, sizeof(text), b"concurrent queries exceeded maximum %u", forward.max_concurrent)
    return query_fail(q, RCODE_REFUSED, text)


cdef void exchange_abandon(Forward *forward, Query *q) noexcept nogil:
    cdef Waiting *waiting = <Waiting *>query_scratch(forward.handler, q)
    cdef Exchange *e = waiting.exchange
    discount(forward, waiting)
    if e == NULL:
        return
    if q.evicted:
        metric_add(e.upstream.evicted, q.worker.id, 1)
    remove_waiter(e, q, waiting)
    if e.second != NULL:
        if e.waiters == NULL:
            hedge_abandon(e, q)
        else:
            e.second.waiters = e.waiters
    if e.waiters == NULL and not e.finishing:
        leave(e)
        remove_equal(e.share, e)
        exchange_give(e)


# ---- attempts ----

cdef int attempt(Forward *forward, Exchange *e, bint rested) noexcept nogil:
    """Begins the next attempt. 0: under way; -1: there is none, e.error says why (or is empty: no healthy upstream). rested: it comes from a pause."""
    cdef Worker *worker = e.share.worker
    cdef uint32_t n = forward.settings.count
    cdef Upstream *upstream
    while worker.now - e.begun < GIVE_UP * <int64_t>MILLISECOND and (forward.max_attempts == 0 or e.failed < forward.max_attempts):
        if forward.max_attempts == 0 and e.failed >= 2 * n and not rested:
            start_pause(e)
            return 0
        rested = False
        upstream = next_upstream(forward, e)
        if is_down(&forward.settings, upstream):
            e.known_down += 1
            if e.known_down < n:
                continue
            metric_add(forward.broken_cell, worker.id, 1)
            if forward.failfast:
                return -1
            upstream = &forward.settings.upstreams[random_below(&worker.random, n)]
        elif n > 1 and e.passed + 1 < n and silent(e.share, upstream):
            e.passed += 1
            continue
        e.upstream = upstream
        e.way_tcp = 0
        e.alone = 0
        e.refused = 0
        if begin(e) == 0:
            tell_waiters(e)
            return 0
        note_failure(forward, e)
        if e.known_down >= n:
            return -1
    return -1


cdef int begin(Exchange *e) noexcept nogil:
    """Sends the question to e.upstream. BEGUN or BROKEN."""
    cdef Share *share = e.share
    cdef Peer *peer = upstream_peer(share, e.upstream)
    e.asked = share.worker.now
    e.repeats = 0
    if peer.quiet == 0:
        peer.quiet = e.asked
    if share.hedge_buckets != NULL:
        hedge_expect(e, peer)
    if not share.sweep.deadline:
        share.worker.ops.timer_start(share.worker, &share.sweep, share.worker.now + sweep_interval(share.settings))
    if e.by_tcp or e.way_tcp or e.upstream.protocol != PROTOCOL_DNS:
        letters_restore(e)
        cookies_strip(e)
        if not e.alone and shared_wanted(peer):
            return shared_begin(e, peer, share_for)
        return connection_begin(e, peer)
    if datagram_begin(e, peer) < 0:
        return BROKEN
    if share.settings.cookies:
        cookies_write(e, peer)
    letters_write(e, peer)          # it is queued: the datagram leaves at the end of the batch
    share.spare += share.spare < SPARE_MAX
    start_waiting(e)
    return 0


cdef void note_failure(Forward *forward, Exchange *e) noexcept nogil:
    e.failed += 1
    if forward.settings.max_fails:
        health_begin(upstream_peer(e.share, e.upstream))


cdef void leave(Exchange *e) noexcept nogil:
    """Takes the exchange from where it is."""
    if e.hedging & HEDGE_DUE:
        hedge_forget(e)
    if e.timed:
        exchange_unwait(e)
    if e.way == WAY_UDP:
        datagram_forget(e)
    elif e.way == WAY_CONNECTION:
        connection_forget(e)
    elif e.way == WAY_SHARED:
        shared_forget(e)
    elif e.way == WAY_PAUSE:
        list_remove(&e.node)
    e.way = WAY_NONE


cdef void on_failed(Exchange *e) noexcept nogil:
    cdef Forward *forward = <Forward *>e.share.owner
    if e.probe:
        health_failed(upstream_peer(e.share, e.upstream))
        return
    if forward.tap_count:
        taps_tell(forward.taps, forward.tap_count, e, NULL, 0)
    leave(e)
    if e.shared != NULL:
        shared_end(e, NULL, 0)
        return
    note_failure(forward, e)
    if e.hedging:
        pair_end(e, FATE_FAILED, 0)
    if e.first != NULL:
        hedge_end(e)                    # the first question may still be answered
    elif e.second != NULL:
        hedge_promote(e)
    elif e.known_down >= forward.settings.count or attempt(forward, e, False) < 0:
        finish(e, FAILED, NULL, 0, False)


cdef void ask_plainly(Exchange *e) noexcept nogil:
    """Once more, to the same upstream, as the client wrote it."""
    reply_clear(&e.waiters.reply)
    e.plain = 1
    leave(e)
    if begin(e) < 0:
        on_failed(e)


cdef void ask_for_cookie(Exchange *e, CookieVerdict cookie) noexcept nogil:
    """Once more, to the same upstream, in the way that its cookies want."""
    reply_clear(&e.waiters.reply)
    e.trial = 0
    e.plain = e.plain or cookie == COOKIE_PLAIN
    e.way_tcp = cookie == COOKIE_TCP
    leave(e)
    if begin(e) < 0:
        on_failed(e)


cdef void on_again(Exchange *e) noexcept nogil:
    leave(e)
    if begin(e) < 0:
        on_failed(e)


cdef void on_sent(Exchange *e) noexcept nogil:
    start_waiting(e)


# ---- time ----

cdef void start_waiting(Exchange *e) noexcept nogil:
    cdef Share *share = e.share
    exchange_wait(e, share.worker.now + share.settings.read_timeout)
    if not share.repeat.deadline:
        share.worker.ops.timer_start(share.worker, &share.repeat, share.worker.now + REPEAT * <int64_t>MILLISECOND)


cdef void on_timeout(Timer *timer, Worker *worker) noexcept nogil:
    cdef Share *share = <Share *>timer.data
    cdef Exchange *e
    while True:
        e = first_due(&share.pending, worker.now)
        if e == NULL:
            break
        if e.trial and letters_lost(e, upstream_peer(share, e.upstream)):
            ask_plainly(e)
            continue
        if e.way == WAY_CONNECTION:
            if e.upstream.service != NULL:
                snprintf(e.error, ERROR_MAX, b"Post \"https://%s/dns-query\": context deadline exceeded", e.upstream.text)
            else:
                upstream_error(e, b"read", upstream_network(e.upstream), e.connection.source.fd, b"", 0)
            connection_suspect(e)
        else:
            upstream_error(e, b"read", b"udp", e.socket.source.fd, b"", 0)
        if e.hedging:
            pair_end(e, FATE_TIMEOUT, 0)
        on_failed(e)
    e = exchange_of(list_first(&share.pending))
    if e != NULL:
        worker.ops.timer_start(worker, timer, e.deadline)


cdef void on_repeat(Timer *timer, Worker *worker) noexcept nogil:
    """Sends again what may have been lost: the same datagram, so that nobody can guess more; only to upstreams that have replied of late."""
    cdef Share *share = <Share *>timer.data
    cdef Exchange *e = exchange_of(list_first(&share.pending))
    cdef Peer *peer
    cdef int64_t age
    while e != NULL:
        age = worker.now - (e.deadline - share.settings.read_timeout)
        if age < REPEAT * <int64_t>MILLISECOND:
            break
        if e.way == WAY_UDP and e.repeats < REPEATS and age >= (REPEAT + e.repeats * REPEAT_STEP) * <int64_t>MILLISECOND and share.spare:
            peer = upstream_peer(share, e.upstream)
            if peer.replied and worker.now - peer.replied < GIVE_UP * <int64_t>MILLISECOND:
                e.repeats += 1
                share.spare -= 1
                datagram_repeat(e)
        e = exchange_of(list_next(&share.pending, &e.node))
    if not list_is_empty(&share.pending):
        worker.ops.timer_start(worker, timer, worker.now + REPEAT_TICK * <int64_t>MILLISECOND)


cdef void start_pause(Exchange *e) noexcept nogil:
    cdef Share *share = e.share
    e.way = WAY_PAUSE
    e.deadline = share.worker.now + PAUSE * <int64_t>MILLISECOND
    list_append(&share.paused, &e.node)
    if not share.pause.deadline:
        share.worker.ops.timer_start(share.worker, &share.pause, e.deadline)


cdef void on_pause(Timer *timer, Worker *worker) noexcept nogil:
    cdef Share *share = <Share *>timer.data
    cdef Exchange *e
    while True:
        e = first_due(&share.paused, worker.now)
        if e == NULL:
            break
        leave(e)
        if attempt(<Forward *>share.owner, e, True) < 0:
            finish(e, FAILED, NULL, 0, False)
    e = exchange_of(list_first(&share.paused))
    if e != NULL:
        worker.ops.timer_start(worker, timer, e.deadline)


# ---- a reply comes ----

cdef bint on_answered(Exchange *e, const uint8_t *packet, uint32_t length, bint cut) noexcept nogil:
    """A message from the upstream with the id and the question. False when it is no message after all: the wait goes on."""
    cdef Forward *forward = <Forward *>e.share.owner
    cdef Query *q = e.waiters
    cdef uint32_t rcode = flags_rcode(load16(packet + 2))
    cdef Peer *peer = upstream_peer(e.share, e.upstream)
    cdef Verdict verdict = ANSWERED
    cdef CookieVerdict cookie = COOKIE_ACCEPT
    cdef int status
    if e.probe:
        health_answered(peer)
        return True
    if e.shared != NULL:
        if forward.tap_count:
            taps_tell(forward.taps, forward.tap_count, e, packet, length)
        leave(e)
        shared_end(e, packet, length)
        return True
    if e.way == WAY_UDP:
        if e.exact and not letters_match(e, peer, packet):
            ask_plainly(e)
            return True
        if e.mixed:
            letters_rewrite(e, packet)
    if not cut:
        status = reply_parse(&q.reply, packet, length)
        if status == -1:
            reply_clear(&q.reply)
            return False
        cut = status < 0                # no room for it
        rcode = q.reply.rcode
    if e.cookie and e.way == WAY_UDP:
        cookie = cookies_judge(e, peer, rcode, cut)
        if cookie == COOKIE_IGNORE:
            reply_clear(&q.reply)
            return False
    if forward.tap_count:
        letters_reset(e, packet)
        taps_tell(forward.taps, forward.tap_count, e, packet, length)
        letters_rewrite(e, packet)
    peer.replied = e.share.worker.now
    peer.quiet = 0
    if atomic_load32(&e.upstream.fails):
        atomic_store32(&e.upstream.fails, 0)    # as good a sign of life as the reply to a probe, which may be lost time and again
    if rcode < RCODE_CELLS:
        metric_observe(forward.settings.buckets, e.upstream.duration + rcode * forward.settings.stride, e.share.worker.id,
                       <uint64_t>(e.share.worker.now - e.asked))
    if e.share.hedge_buckets != NULL:
        hedge_learn(peer, e.share.worker.now - e.asked)
    if cookie != COOKIE_ACCEPT:
        ask_for_cookie(e, cookie)
        return True
    if e.way == WAY_UDP and letters_judge(e, peer, packet, rcode):
        ask_plainly(e)
        return True
    if forward.prefer_udp and e.way == WAY_UDP and (cut or load16(packet + 2) & FLAG_TC):
        leave(e)
        reply_clear(&q.reply)
        e.way_tcp = 1
        if begin(e) < 0:
            on_failed(e)
        return True
    if e.first != NULL:
        if not hedge_wins(e, rcode, forward.failover.any and rcodes_have(&forward.failover, rcode)):
            pair_end(e, FATE_REPLIED, rcode)
            reply_clear(&q.reply)
            hedge_end(e)
            return True
        hedge_promote(e.first)
    if forward.failover.any and rcodes_have(&forward.failover, rcode):
        e.failovers += 1
        if e.failovers < forward.settings.count:
            leave(e)
            if e.hedging:
                pair_end(e, FATE_REPLIED, rcode)
            reply_clear(&q.reply)
            if e.second != NULL:
                hedge_promote(e)
            elif attempt(forward, e, False) < 0:
                finish(e, FAILED, NULL, 0, False)
            return True
    if (forward.next.any and rcodes_have(&forward.next, rcode)
            or forward.next_on_nodata and rcode == RCODE_NOERROR and load16(packet + 6) == 0 and not cut) and has_next(forward):
        verdict = NEXT
    finish(e, verdict, packet, length, cut)
    return True


cdef bint has_next(Forward *forward) noexcept nogil:
    """Whether the handler below is another forward: nobody else is asked after a reply."""
    cdef uint32_t below = forward.handler.index + 1
    return below < forward.handler.chain.count and forward.handler.chain.handlers[below].query == forward.handler.query


cdef void finish(Exchange *e, Verdict verdict, const uint8_t *packet, uint32_t length, bint cut) noexcept nogil:
    """Everybody who waits goes on. The first in the list has the reply already."""
    cdef Forward *forward = <Forward *>e.share.owner
    cdef Query *q
    cdef Query *first = e.waiters
    cdef Waiting *waiting
    if e.hedging:
        if e.second != NULL:
            hedge_drop(e)
        pair_end(e, FATE_ANSWERED if verdict == ANSWERED else FATE_REPLIED, first.reply.rcode)
    leave(e)
    remove_equal(e.share, e)
    e.finishing = 1
    while e.waiters != NULL:
        q = e.waiters
        waiting = waiting_of(e, q)
        remove_waiter(e, q, waiting)
        waiting.upstream = e.upstream
        discount(forward, waiting)
        if verdict == FAILED:
            fail(e, q)
        elif verdict == ANSWERED and cut:
            query_answer(q, flags_rcode(load16(packet + 2)), load16(packet + 2) & (FLAG_AA | FLAG_RA | FLAG_AD) | FLAG_TC)
        elif verdict == NEXT:
            reply_clear(&q.reply)
        elif q != first and reply_parse(&q.reply, packet, length) < 0:
            query_fail(q, RCODE_SERVFAIL, b"out of memory")
        if verdict == ANSWERED and q.reply.written:
            restore_case(e, q, packet)
            if e.opt_added:
                q.reply.edns.present = 0        # nor has the client's message one
            request_clear_options(q)
            q.reply.flags |= load16(packet + 2) & (FLAG_RD | FLAG_CD)
            q.reply.verbatim = 1
        waiting.verdict = <uint8_t>verdict if verdict != ANSWERED or q.reply.written else <uint8_t>FAILED
        query_resume(q)
    exchange_give(e)


cdef void restore_case(Exchange *e, Query *q, const uint8_t *packet) noexcept nogil:
    """The reply repeats the letters of the question that was sent, or after letters_rewrite of the first client's; this one may have asked in others."""
    cdef uint32_t i
    cdef Record *record
    cdef const uint8_t *replied = packet + HEADER_SIZE
    cdef const uint8_t *sent = e.request + HEADER_SIZE
    if not e.mixed and memcmp(q.name.wire, sent, q.name.length) == 0:
        return
    for i in range(q.reply.count):
        record = &q.reply.records[i]
        if (record.owner_length == q.name.length
                and (memcmp(record.owner, sent, q.name.length) == 0 or e.mixed and memcmp(record.owner, replied, q.name.length) == 0)):
            record.owner = q.name.wire
