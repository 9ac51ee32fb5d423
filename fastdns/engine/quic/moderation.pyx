"""Fewer and larger batches of a busy QUIC socket. The contract is in engine/quic/moderation.pxd."""
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memset
from fastdns.engine.io.transport cimport POLL_ALWAYS
from fastdns.engine.io.datagram cimport BATCH
from fastdns.engine.io.udp_socket cimport udp_read
from fastdns.engine.quic.state cimport QuicSocket, QuicWorker, ReadRates
from fastdns.system.socket cimport EPOLLIN
from fastdns.walk.query cimport Source, Worker

cdef enum:
    BEGIN = 8                       # score with which a socket is moderated
    # Of a moderated socket: the score that it gets, the most it may have, and what a batch takes from it that is empty, or of which few share a
    # connection. It ends at 0.
    CREDIT = 32
    CREDIT_MAX = 64
    EMPTY = 2
    APART = 4
    # The score afterwards, if they shared none: of a client that asks again at each reply, within an interval, fewer than one query in 200 is delayed.
    AGAIN = -2048
    SAMPLE_READS = 128              # for which queries are counted
    TRIAL_EVERY = 16                # samples after which the other interval is tried, for one


cdef void moderation_ready(Source *source, Worker *worker, uint32_t events) noexcept nogil:
    cdef QuicSocket *sock = <QuicSocket *>source
    cdef QuicWorker *quic = <QuicWorker *>sock.udp.base.transport
    sock.moderation.joined = 0
    udp_read(&sock.udp, worker)
    if sock.moderation.waiting:             # epoll tells errors of sockets that it does not watch
        return
    if sock.moderation.joined:
        sock.moderation.score += 1
    elif sock.moderation.score > 0:
        sock.moderation.score -= 1
    if sock.moderation.score < BEGIN or worker.ops.rewatch(worker, source, 0) < 0:
        return
    sock.moderation.waiting = 1
    sock.moderation.score = CREDIT
    sock.moderation.next = quic.moderated
    if quic.moderated == NULL:
        memset(&quic.read_rates, 0, sizeof(ReadRates))
        quic.read_rates.samples = TRIAL_EVERY - 1
        quic.read_rates.begun = worker.now
    quic.moderated = sock
    schedule(quic, worker.now + MODERATION_INTERVAL)


cdef inline void schedule(QuicWorker *quic, int64_t resume) noexcept nogil:
    """Not while handshakes are polled for: they come first, and look after it."""
    quic.resume = resume
    if quic.base.poll_at != POLL_ALWAYS:
        quic.base.poll_at = resume


cdef void moderation_run(QuicWorker *quic) noexcept nogil:
    cdef Worker *worker = quic.base.worker
    cdef QuicSocket **at = &quic.moderated
    cdef QuicSocket *sock
    cdef bint more = False
    cdef int n
    if worker.now < quic.resume:
        return
    while at[0] != NULL:
        sock = at[0]
        sock.moderation.joined = 0
        n = udp_read(&sock.udp, worker)
        if n == BATCH:
            more = True
        if n > 0 and 2 * sock.moderation.joined >= <uint32_t>n:
            sock.moderation.score = min(sock.moderation.score + n, <int>CREDIT_MAX)
        else:
            sock.moderation.score -= APART if n > 0 else EMPTY
        if sock.moderation.score > 0 or worker.ops.rewatch(worker, &sock.udp.base.source, EPOLLIN) < 0:
            at = &sock.moderation.next
            continue
        at[0] = sock.moderation.next
        sock.moderation.waiting = 0
        sock.moderation.score = AGAIN if n > 0 else 0
    sample(&quic.read_rates, worker.now)
    quic.resume = worker.now if more else worker.now + (MODERATION_LONGEST if quic.read_rates.rare else MODERATION_INTERVAL)


cdef void sample(ReadRates *rates, int64_t now) noexcept nogil:
    """Counts a read. At the end of a sample: the longer interval is the better one where clients ask more than 7 of 8 of what they ask at the other."""
    rates.reads += 1
    if rates.reads < SAMPLE_READS:
        return
    rates.rates[rates.rare] = rates.asked * 1000000000 // <uint64_t>max(now - rates.begun, <int64_t>1)
    if rates.tried:
        rates.tried = 0
        rates.samples = 0
        rates.rare = 8 * rates.rates[1] > 7 * rates.rates[0]
    else:
        rates.samples += 1
        if rates.samples == TRIAL_EVERY:
            rates.tried = 1
            rates.rare = not rates.rare
    rates.reads = 0
    rates.asked = 0
    rates.begun = now


cdef int64_t moderation_next(const QuicWorker *quic) noexcept nogil:
    return quic.resume if quic.moderated != NULL else 0


cdef void moderation_end(QuicSocket *sock, QuicWorker *quic) noexcept nogil:
    cdef QuicSocket **at = &quic.moderated
    if not sock.moderation.waiting:
        return
    while at[0] != sock:
        at = &at[0].moderation.next
    at[0] = sock.moderation.next
    sock.moderation.waiting = 0
