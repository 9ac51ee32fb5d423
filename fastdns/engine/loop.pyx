"""The worker loop. The contract is in engine/loop.pxd."""
import os
import threading
import time as _time

from libc.stdint cimport uint8_t, uint32_t, int64_t
from libc.stdlib cimport calloc, free, malloc
from libc.errno cimport errno
from fastdns.system.atomic cimport atomic_load32, atomic_load_pointer, atomic_peek32, atomic_peek64, atomic_poke_ns, atomic_store32
from fastdns.system.epoch cimport epoch_offline, epoch_online
from fastdns.system.mailbox cimport (MailboxItem, mailbox_begin_sleep, mailbox_clear, mailbox_empty, mailbox_end_sleep, mailbox_interrupt,
                                     mailbox_open, mailbox_post, mailbox_take)
from fastdns.walk.query cimport Flush, Mail, Timer, WorkerOps
from fastdns.system.fairness cimport FairQueue, fair_init
from fastdns._mux cimport mux_register
from fastdns.system.random cimport random_init
from fastdns.system.scheduler cimport scheduler_set_slack, scheduler_set_slice
from fastdns.system.socket cimport (EPOLLIN, EPOLL_CLOEXEC, EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD, epoll_create1, epoll_ctl, epoll_event,
                                    epoll_wait, socket_clock)
from fastdns.system.thread cimport thread_name
from fastdns.engine.timer cimport wheel_init, wheel_start, wheel_stop, wheel_timeout, wheel_turn
from fastdns.engine.io.tcp cimport tcp_connections_max, tcp_transport
from fastdns.engine.io.udp cimport udp_transport
from fastdns.engine.quic.endpoint cimport quic_transport
from fastdns._wire cimport MESSAGE_MAX

cdef extern from * nogil:
    """
    #include <poll.h>
    #include <time.h>
    /* poll of one descriptor for input, for so many nanoseconds. */
    static int poll_readable(int fd, long long ns) {
        struct pollfd ready = {fd, POLLIN, 0};
        struct timespec timeout = {ns / 1000000000, ns % 1000000000};
        return ppoll(&ready, 1, &timeout, NULL);
    }
    """
    int poll_readable(int fd, int64_t ns) noexcept

cdef enum:
    EVENTS_MAX = 64
    SLICE = 100000                  # ns: the shortest scheduler slice that the kernel gives
    SLACK = 5000                    # ns

transport_count = 0


cdef void register_transport(const TransportOps *ops):
    global transport_count
    transports[transport_count] = ops
    transport_count += 1

register_transport(&tcp_transport)  # first: of a port that the kernel chooses fewer are taken in UDP than in TCP
register_transport(&udp_transport)
register_transport(&quic_transport)     # behind UDP, whose buffers it shares


# ---- services of the loop (WorkerOps) ----

cdef int control(Worker *worker, int operation, Source *source, uint32_t events) noexcept nogil:
    cdef epoll_event event
    event.events = events
    event.data.ptr = source
    return 0 if epoll_ctl((<Loop *>worker).epoll, operation, source.fd, &event) == 0 else -errno


cdef int watch(Worker *worker, Source *source, uint32_t events) noexcept nogil:
    return control(worker, EPOLL_CTL_ADD, source, events)


cdef int rewatch(Worker *worker, Source *source, uint32_t events) noexcept nogil:
    return control(worker, EPOLL_CTL_MOD, source, events)


cdef void unwatch(Worker *worker, Source *source) noexcept nogil:
    control(worker, EPOLL_CTL_DEL, source, 0)


cdef void timer_start(Worker *worker, Timer *timer, int64_t deadline) noexcept nogil:
    wheel_start(&(<Loop *>worker).wheel, timer, deadline)


cdef void timer_stop(Worker *worker, Timer *timer) noexcept nogil:
    wheel_stop(&(<Loop *>worker).wheel, timer)


cdef void post(Worker *worker, Mail *mail) noexcept nogil:
    mailbox_post(&(<Loop *>worker).mailbox, &mail.item)

cdef WorkerOps OPS
OPS.watch = watch
OPS.rewatch = rewatch
OPS.unwatch = unwatch
OPS.timer_start = timer_start
OPS.timer_stop = timer_stop
OPS.post = post


cdef void on_wake(Source *source, Worker *worker, uint32_t events) noexcept nogil:
    mailbox_clear(&(<Loop *>worker).mailbox)


# ---- a turn of the loop ----

cdef int wait_until(Loop *loop, epoll_event *events, int64_t at) noexcept nogil:
    """As epoll_wait, until a time in nanoseconds: epoll_pwait2 is not in kernels before 5.11."""
    cdef int64_t left = at - socket_clock()
    if left > 0 and poll_readable(loop.epoll, left) == 0:
        return 0
    return epoll_wait(loop.epoll, events, EVENTS_MAX, 0)


cdef void run_mail(Loop *loop) noexcept nogil:
    cdef MailboxItem *item = mailbox_take(&loop.mailbox)
    cdef MailboxItem *following
    while item != NULL:
        following = item.next
        (<Mail *>item).run(<Mail *>item, &loop.base)
        item = following


cdef void run_flushes(Loop *loop) noexcept nogil:
    cdef Flush *flush
    while loop.base.flushes != NULL:
        flush = loop.base.flushes
        loop.base.flushes = flush.next
        flush.queued = 0
        flush.run(flush, &loop.base)


cdef inline int64_t next_poll(const Loop *loop) noexcept nogil:
    """When a transport is to be polled, as its `poll_at` says; 0: none."""
    cdef uint32_t i
    cdef int64_t at, first = 0
    for i in range(transport_count):
        at = loop.transports[i].poll_at
        if at and (first == 0 or at < first):
            first = at
    return first


cdef inline void poll_transports(Loop *loop) noexcept nogil:
    cdef uint32_t i
    for i in range(transport_count):
        if loop.transports[i].poll_at and loop.transports[i].poll_at <= loop.base.now:
            loop.transports[i].ops.poll(loop.transports[i])


cdef inline void flush_transports(Loop *loop) noexcept nogil:
    cdef uint32_t i
    for i in range(transport_count):
        if loop.transports[i].ops.flush != NULL:
            loop.transports[i].ops.flush(loop.transports[i])


cdef void run_worker(Loop *loop) noexcept nogil:
    cdef epoll_event events[EVENTS_MAX]
    cdef Source *source
    cdef int n, i, timeout
    cdef int64_t poll_at
    cdef uint32_t id = loop.base.id
    while not atomic_load32(&loop.stopping):
        timeout = wheel_timeout(&loop.wheel, loop.base.now)
        poll_at = next_poll(loop)
        epoch_offline(id)
        if not mailbox_begin_sleep(&loop.mailbox):
            timeout = 0
        if poll_at and timeout:
            n = wait_until(loop, events, poll_at)
        else:
            n = epoll_wait(loop.epoll, events, EVENTS_MAX, timeout)
        mailbox_end_sleep(&loop.mailbox)
        epoch_online(id)
        atomic_poke_ns(&loop.base.now, socket_clock())
        loop.base.set = <ChainSet *>atomic_load_pointer(<void **>loop.published)
        poll_transports(loop)
        for i in range(n):
            source = <Source *>events[i].data.ptr
            source.ready(source, &loop.base, events[i].events)
        if not mailbox_empty(&loop.mailbox):
            run_mail(loop)
        wheel_turn(&loop.wheel, &loop.base, loop.base.now)
        run_flushes(loop)
        flush_transports(loop)
    epoch_offline(id)


cdef Loop *make_loop(uint32_t id, uint32_t workers, ChainSet **published) except NULL:
    cdef Loop *loop = <Loop *>calloc(1, sizeof(Loop))
    cdef uint32_t i
    if loop == NULL:
        raise MemoryError
    loop.base.message = <uint8_t *>malloc(MESSAGE_MAX + 1024)
    if loop.base.message == NULL:
        raise MemoryError
    loop.base.id = id
    loop.base.workers = workers
    loop.base.ops = &OPS
    loop.base.now = socket_clock()
    loop.base.pool_limit = max(64, QUERIES_MAX // workers)
    loop.base.park_limit = loop.base.pool_limit - loop.base.pool_limit // 16
    loop.base.fair = <FairQueue *>malloc(sizeof(FairQueue))
    if loop.base.fair == NULL or fair_init(loop.base.fair, loop.base.pool_limit) < 0:
        raise MemoryError
    loop.base.large.limit = max(4, LARGE_MAX // workers)
    loop.published = published
    random_init(&loop.base.random)
    wheel_init(&loop.wheel, loop.base.now)
    loop.epoll = epoll_create1(EPOLL_CLOEXEC)
    if loop.epoll < 0 or mailbox_open(&loop.mailbox) < 0:
        raise OSError(errno, os.strerror(errno))
    loop.wake_source.fd = loop.mailbox.wake
    loop.wake_source.ready = on_wake
    watch(&loop.base, &loop.wake_source, EPOLLIN)
    for i in range(transport_count):
        loop.transports[i] = transports[i].init(&loop.base)
        if loop.transports[i] == NULL:
            raise MemoryError
    return loop


cdef void run_call(Mail *mail, Worker *worker) noexcept nogil:
    cdef WorkerCall *call = <WorkerCall *>mail
    call.run(call, worker)
    atomic_store32(&call.done, 1)


cdef void close_connections(WorkerCall *call, Worker *worker) noexcept nogil:
    cdef Loop *loop = <Loop *>worker
    cdef uint32_t i
    for i in range(transport_count):
        if transports[i].close_all != NULL:
            transports[i].close_all(loop.transports[i])


# ---- the threads ----

cdef class Workers:
    """Made by an Engine, whose `published` they read at the start of each turn."""

    @staticmethod
    cdef Workers make(uint32_t count, ChainSet **published):
        cdef Workers workers = Workers.__new__(Workers)
        cdef uint32_t i
        workers.count = count
        workers.threads = []
        workers.loops = <Loop **>calloc(count, sizeof(Loop *))
        workers.closing = <WorkerCall *>calloc(1, sizeof(WorkerCall))
        if workers.loops == NULL or workers.closing == NULL:
            raise MemoryError
        workers.closing.run = close_connections
        for i in range(count):
            workers.loops[i] = make_loop(i, count, published)
            mux_register(i, &workers.loops[i].base)
        return workers

    def __dealloc__(self):
        # The loops themselves are known to the process.
        free(self.loops)
        free(self.closing)

    def start(self) -> None:
        if self.running:
            return
        self.running = True
        for i in range(self.count):
            thread = threading.Thread(target=self._run, args=(i,), name="worker-%d" % i, daemon=True)
            self.threads.append(thread)
            thread.start()

    def _run(self, uint32_t i):
        cdef Loop *loop = self.loops[i]
        thread_name(b"worker-%d" % i)
        with nogil:
            scheduler_set_slice(SLICE)
            scheduler_set_slack(SLACK)
            run_worker(loop)

    def stop(self) -> None:
        cdef uint32_t i
        for i in range(self.count):
            atomic_store32(&self.loops[i].stopping, 1)
            mailbox_interrupt(&self.loops[i].mailbox)
        for thread in self.threads:
            thread.join()
        self.running = False
        self.threads = []

    cdef bint call(self, uint32_t i, WorkerCall *call) except -1:
        if not self.running:
            return False
        call.mail.run = run_call
        call.done = 0
        post(&self.loops[i].base, &call.mail)
        while self.running and not atomic_load32(&call.done):
            _time.sleep(0.0005)
        return call.done != 0

    def close_connections(self) -> None:
        """On all workers, whatever is under way on them."""
        for i in range(self.count):
            self.call(i, self.closing)

    def parked(self) -> int:
        """Queries that wait, of all configurations."""
        return sum(atomic_peek32(&self.loops[i].base.parked) for i in range(self.count))

    def statistics(self) -> dict:
        """Sums over the workers: parked, evicted, dropped, send_errors, connections, slots, large_refused, and the bounds of slots and connections."""
        cdef uint32_t i, j
        cdef Loop *loop
        totals = dict.fromkeys(("parked", "evicted", "dropped", "send_errors", "connections", "slots", "large_refused", "slots_most", "connections_most"), 0)
        for i in range(self.count):
            loop = self.loops[i]
            totals["parked"] += atomic_peek32(&loop.base.parked)
            totals["evicted"] += atomic_peek64(&loop.base.evicted)
            totals["dropped"] += atomic_peek64(&loop.base.dropped)
            totals["slots"] += atomic_peek32(&loop.base.pool_made)
            totals["slots_most"] += loop.base.pool_limit
            totals["connections_most"] += tcp_connections_max
            totals["large_refused"] += atomic_peek32(&loop.base.large.refused)
            for j in range(transport_count):
                totals["send_errors"] += atomic_peek64(&loop.transports[j].send_errors)
                totals["connections"] += atomic_peek32(&loop.transports[j].connections)
        return totals
