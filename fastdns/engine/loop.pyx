"""The workers: their loop, their listeners, their configuration. The contract is in engine/loop.pxd; UDP is in _udp, TCP in _tcp."""
import os
import socket
import threading
import time as _time
from errno import EADDRINUSE, EADDRNOTAVAIL, EAFNOSUPPORT

from libc.stdint cimport uint8_t, uint32_t, uint64_t, int64_t
from libc.stdlib cimport calloc, malloc, free
from libc.errno cimport errno
from fastdns.system.atomic cimport (atomic_load_pointer, atomic_store_pointer, atomic_take_pointer, atomic_swap_pointer, atomic_load32,
                                    atomic_store32, atomic_exchange32, atomic_load_ns, atomic_fence, atomic_peek32, atomic_peek64, atomic_peek_ns,
                                    atomic_poke_ns)
from fastdns.engine.chains cimport Chains
from fastdns.system.epoch cimport epoch_online, epoch_offline, epoch_wait
from fastdns.telemetry.metrics cimport metrics_prepare
from fastdns.walk.query cimport Handler, Timer, WorkerOps, LISTENERS_MAX, WORKERS_MAX
from fastdns._mux cimport NativeHandler, mux_register
from fastdns.system.random cimport random_init
from fastdns.system.scheduler cimport wish_slice
from fastdns.system.socket cimport (EFD_CLOEXEC, EFD_NONBLOCK, EPOLLIN, EPOLL_CLOEXEC, EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD, epoll_create1,
                                    epoll_ctl, epoll_event, epoll_wait, eventfd, read, socket_clock, write)
from fastdns.engine.io.tcp cimport TcpListener, tcp_close_all, tcp_listen_begin, tcp_listen_end, tcp_options
from fastdns.engine.timer cimport wheel_init, wheel_start, wheel_stop, wheel_timeout, wheel_turn
from fastdns.engine.io.udp cimport UdpSocket, udp_describe, udp_flush, udp_free, udp_init, udp_options, udp_poll, udp_unwatch
from fastdns._wire cimport MESSAGE_MAX

cdef extern from *:
    """
    #include <sys/socket.h>
    #include <linux/filter.h>

    /* Spreads what a reuseport group gets over its first n sockets at random, so that one busy client reaches all workers. */
    static int loop_steer(int fd, unsigned n) {
        struct sock_filter code[] = {
            {BPF_LD | BPF_W | BPF_ABS, 0, 0, (unsigned)(SKF_AD_OFF + SKF_AD_RANDOM)},
            {BPF_ALU | BPF_MOD | BPF_K, 0, 0, n},
            {BPF_RET | BPF_A, 0, 0, 0},
        };
        struct sock_fprog program = {sizeof code / sizeof code[0], code};
        return setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof program);
    }
    """
    int loop_steer(int fd, unsigned n) noexcept nogil

cdef enum:
    EVENTS_MAX = 64


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
    cdef Loop *loop = <Loop *>worker
    cdef uint64_t one = 1
    while True:
        mail.next = <Mail *>atomic_load_pointer(<void **>&loop.inbox)
        if atomic_swap_pointer(<void **>&loop.inbox, mail.next, mail):
            break
    atomic_fence()
    if atomic_load32(&loop.asleep) and atomic_exchange32(&loop.asleep, 0):
        write(loop.wake, &one, 8)

cdef WorkerOps OPS
OPS.watch = watch
OPS.rewatch = rewatch
OPS.unwatch = unwatch
OPS.timer_start = timer_start
OPS.timer_stop = timer_stop
OPS.post = post


cdef void on_wake(Source *source, Worker *worker, uint32_t events) noexcept nogil:
    cdef uint64_t count
    read(source.fd, &count, 8)


# ---- a worker's life ----

cdef void run_inbox(Loop *loop) noexcept nogil:
    """Takes all mail at once and runs it in the order in which it was posted."""
    cdef Mail *mail = <Mail *>atomic_take_pointer(<void **>&loop.inbox)
    cdef Mail *reversed = NULL
    cdef Mail *following
    while mail != NULL:
        following = mail.next
        mail.next = reversed
        reversed = mail
        mail = following
    while reversed != NULL:
        following = reversed.next
        reversed.run(reversed, &loop.base)
        reversed = following


cdef void run_flushes(Loop *loop) noexcept nogil:
    cdef Flush *flush
    while loop.base.flushes != NULL:
        flush = loop.base.flushes
        loop.base.flushes = flush.next
        flush.queued = 0
        flush.run(flush, &loop.base)


cdef void run_worker(Loop *loop) noexcept nogil:
    cdef epoll_event events[EVENTS_MAX]
    cdef Source *source
    cdef int n, i, timeout
    cdef uint32_t id = loop.base.id
    while not atomic_load32(&loop.stopping):
        timeout = wheel_timeout(&loop.wheel, loop.base.now)
        epoch_offline(id)
        atomic_store32(&loop.asleep, 1)
        atomic_fence()
        if loop.udp.polled != NULL or atomic_load_pointer(<void **>&loop.inbox) != NULL:
            timeout = 0
        n = epoll_wait(loop.epoll, events, EVENTS_MAX, timeout)
        atomic_store32(&loop.asleep, 0)
        epoch_online(id)
        atomic_poke_ns(&loop.base.now, socket_clock())
        loop.base.set = <ChainSet *>atomic_load_pointer(<void **>loop.published)
        udp_poll(&loop.udp, &loop.base)
        for i in range(n):
            source = <Source *>events[i].data.ptr
            source.ready(source, &loop.base, events[i].events)
        if atomic_load_pointer(<void **>&loop.inbox) != NULL:
            run_inbox(loop)
        wheel_turn(&loop.wheel, &loop.base, loop.base.now)
        run_flushes(loop)
        udp_flush(&loop.udp)
    epoch_offline(id)


cdef Loop *make_loop(uint32_t id, uint32_t workers, ChainSet **published) except NULL:
    cdef Loop *loop = <Loop *>calloc(1, sizeof(Loop))
    if loop == NULL:
        raise MemoryError
    loop.base.message = <uint8_t *>malloc(MESSAGE_MAX + 1024)
    if loop.base.message == NULL or udp_init(&loop.udp) < 0:
        raise MemoryError
    loop.base.id = id
    loop.base.workers = workers
    loop.base.ops = &OPS
    loop.base.now = socket_clock()
    loop.base.pool_limit = max(64, QUERIES_MAX // workers)
    loop.base.large.limit = max(4, LARGE_MAX // workers)
    loop.published = published
    random_init(&loop.base.random)
    wheel_init(&loop.wheel, loop.base.now)
    loop.epoll = epoll_create1(EPOLL_CLOEXEC)
    loop.wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)
    if loop.epoll < 0 or loop.wake < 0:
        raise OSError(errno, os.strerror(errno))
    loop.wake_source.fd = loop.wake
    loop.wake_source.ready = on_wake
    watch(&loop.base, &loop.wake_source, EPOLLIN)
    return loop


# ---- mail that the engine sends to its workers ----

cdef struct Detach:                 # a retired configuration leaves a worker
    Mail mail
    uint32_t count
    uint32_t left                   # handlers that are not through on this worker
    uint32_t done                   # atomic: the worker has answered
    Handler *handlers[1]


cdef void detach_handlers(Mail *mail, Worker *worker) noexcept nogil:
    cdef Detach *detach = <Detach *>mail
    cdef uint32_t i, kept = 0
    for i in range(detach.count):
        if not detach.handlers[i].detach(detach.handlers[i], worker):
            detach.handlers[kept] = detach.handlers[i]
            kept += 1
    detach.left = kept
    atomic_store32(&detach.done, 1)


cdef struct Ask:                    # something that listeners need done on the worker's thread; made with who asks
    Mail mail
    UdpSocket *udp
    TcpListener *tcp                # NULL: all connections are to be closed
    uint32_t done


cdef void end_listening(Mail *mail, Worker *worker) noexcept nogil:
    cdef Ask *ask = <Ask *>mail
    if ask.tcp != NULL:
        udp_unwatch(ask.udp, worker)
        tcp_listen_end(ask.tcp, worker)
    else:
        tcp_close_all(worker)
    atomic_store32(&ask.done, 1)


# ---- sockets ----

cdef class Listener:
    """A listening address: UDP and TCP sockets, one or more of each for each worker."""

    def __init__(self, engine, uint32_t index, uint32_t generation, str host, int port, list reuse, uint32_t count):
        self.engine = engine
        self.index = index
        self.generation = generation
        self.host = host
        self.port = port
        self.workers = engine.workers
        self.count = max(count, self.workers)
        self.sockets = []
        self.udp = <UdpSocket *>calloc(self.count, sizeof(UdpSocket))
        self.tcp = calloc(self.count, sizeof(TcpListener))
        self.ask = calloc(1, sizeof(Ask))
        if self.udp == NULL or self.tcp == NULL or self.ask == NULL:
            raise MemoryError
        for attempts_left in reversed(range(1 if port else 32)):
            try:
                self._open(socket.SOCK_STREAM, list(reuse))
                self._open(socket.SOCK_DGRAM, list(reuse))
                return
            except OSError as error:
                self._close_sockets()
                # The port that the kernel chose for TCP may be somebody's in UDP.
                if error.errno != EADDRINUSE or not attempts_left:
                    raise
                self.port = port

    def __dealloc__(self):
        cdef uint32_t i
        if self.udp != NULL:
            for i in range(self.count):
                udp_free(&self.udp[i])
        free(self.udp)
        free(self.tcp)
        free(self.ask)

    def _open(self, int kind, list reuse):
        """The sockets of one kind, handed-over ones first. The order is the reuseport group's, which the steering counts in."""
        family = socket.AF_INET6 if ":" in self.host or not self.host else socket.AF_INET
        host = self.host or "::"
        own = []
        for fd in reuse:
            given = socket.socket(fileno=os.dup(fd))
            if given.type == kind and len(own) < self.count:
                own.append(given)
            else:
                given.close()
        while len(own) < self.count:
            try:
                own.append(self._bound(family, kind, host))
            except OSError as error:
                if self.host or family == socket.AF_INET or error.errno not in (EAFNOSUPPORT, EADDRNOTAVAIL):
                    for made in own:
                        made.close()
                    raise
                family, host = socket.AF_INET, "0.0.0.0"        # no IPv6 on this machine
        self.sockets += own
        if self.count > 1:
            loop_steer(own[0].fileno(), self.count)
        for i, sock in enumerate(own):
            sock.setblocking(False)
            self._describe(i, sock, kind)

    def _bound(self, int family, int kind, str host):
        address, _, zone = host.partition("%")
        sock = socket.socket(family, kind | socket.SOCK_CLOEXEC)
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if not self.host else 1)
            if kind == socket.SOCK_STREAM:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            else:
                udp_options(sock, self._is_wildcard())
            scope = socket.if_nametoindex(zone) if zone else 0
            sock.bind((address, self.port, 0, scope) if family == socket.AF_INET6 else (address, self.port))
            if self.port == 0:
                self.port = sock.getsockname()[1]
            if kind == socket.SOCK_STREAM:
                tcp_options(sock)
                sock.listen(1024)
        except OSError:
            sock.close()
            raise
        return sock

    def _is_wildcard(self):
        return self.host in ("", "0.0.0.0", "::")

    def _describe(self, uint32_t i, sock, int kind):
        cdef Engine engine = self.engine
        cdef TcpListener *tcp = &(<TcpListener *>self.tcp)[i]
        if kind == socket.SOCK_STREAM:
            tcp.source.fd = sock.fileno()
            tcp.listener = self.index
            tcp.generation = self.generation
        else:
            udp_describe(&self.udp[i], &engine.loops[i % self.workers].udp, sock.fileno(), self.index, 6 if sock.family == socket.AF_INET6 else 4,
                         self._is_wildcard())

    def _close_sockets(self):
        for sock in self.sockets:
            sock.close()
        self.sockets = []

    def filenos(self) -> list:
        """Descriptors of all sockets, for a successor process."""
        return [sock.fileno() for sock in self.sockets]

    def _prepare(self):
        """Makes the sockets known to the workers: what can fail of `_watch`, without a query yet. OSError, and nothing is done."""
        cdef uint32_t i
        cdef int status = 0
        cdef Engine engine = self.engine
        for i in range(self.count):
            status = watch(&engine.loops[i % self.workers].base, &self.udp[i].source, 0)
            if status == 0:
                status = tcp_listen_begin(&(<TcpListener *>self.tcp)[i], &engine.loops[i % self.workers].base)
            if status < 0:
                self._forget_sockets()
                raise OSError(-status, os.strerror(-status))

    def _forget_sockets(self):
        """The end of a `_prepare` that no `_watch` followed."""
        cdef uint32_t i
        cdef Engine engine = self.engine
        for i in range(self.count):
            unwatch(&engine.loops[i % self.workers].base, &self.udp[i].source)
            unwatch(&engine.loops[i % self.workers].base, &(<TcpListener *>self.tcp)[i].source)
        with nogil:
            epoch_wait()

    def _watch(self):
        cdef uint32_t i
        cdef Engine engine = self.engine
        for i in range(self.count):
            rewatch(&engine.loops[i % self.workers].base, &self.udp[i].source, EPOLLIN)
            rewatch(&engine.loops[i % self.workers].base, &(<TcpListener *>self.tcp)[i].source, EPOLLIN)
        self.watched = True

    def _unwatch(self):
        """Takes no more queries; connections that exist go on. On return no worker is in the sockets' code."""
        cdef uint32_t i
        cdef Engine engine = self.engine
        if not self.watched:
            return
        for i in range(self.count):
            engine._end_listening(i % self.workers, &self.udp[i], &(<TcpListener *>self.tcp)[i], self.ask)
        self.watched = False
        with nogil:
            epoch_wait()

    def _ended(self, double deadline) -> bool:
        """Whether all replies have left by then: what workers send they have sent."""
        return True

    def pause(self) -> None:
        """Takes no more queries; replies under way still leave. For good: close follows."""
        self._unwatch()

    def close(self) -> None:
        """Stops and closes the sockets. Only once no parked query can still answer through them."""
        self._unwatch()
        self._close_sockets()
        self.engine._forget(self)

# ---- the engine ----

cdef class Engine:
    """The workers of this process and the configuration they serve; see engine/loop.pyi."""

    def __cinit__(self, uint32_t workers):
        cdef uint32_t i
        if not 1 <= workers <= WORKERS_MAX:
            raise ValueError("1 to %d workers" % WORKERS_MAX)
        metrics_prepare(workers)
        self.workers = workers
        self.published = NULL
        self.threads = []
        self.listeners = set()
        self.indexes = set()
        self.retired = []
        self.lock = threading.Lock()
        self.loops = <Loop **>calloc(workers, sizeof(Loop *))
        self.ask = calloc(1, sizeof(Ask))
        if self.loops == NULL or self.ask == NULL:
            raise MemoryError
        for i in range(workers):
            self.loops[i] = make_loop(i, workers, &self.published)
            mux_register(i, &self.loops[i].base)
        self.chains = Chains([])
        self.published = self.chains.set

    def bind(self, str host, int port, reuse=(), int sockets=0) -> Listener:
        return self.place(lambda index, generation: Listener(self, index, generation, host, port, list(reuse), sockets))

    def place(self, make):
        index = next(i for i in range(LISTENERS_MAX) if i not in self.indexes)
        self.bound += 1
        listener = make(index, self.bound)
        self.indexes.add(index)
        self.listeners.add(listener)
        return listener

    def _forget(self, listener):
        self.listeners.discard(listener)
        self.indexes.discard(listener.index)

    def prepare(self, list servers) -> Chains:
        """Builds chains that nobody is served by yet. Either `publish` or `dismiss` follows."""
        cdef Chains chains = Chains(servers)
        chains.retiring = calloc(1, sizeof(Detach) + len(chains.handlers) * sizeof(Handler *))
        if chains.retiring == NULL:
            raise MemoryError
        return chains

    def dismiss(self, Chains chains not None) -> None:
        """The end of chains that were prepared and will not be published: no worker is in them any more."""
        self._empty(chains)

    def publish(self, servers) -> Chains:
        """Has the workers take up chains, prepared or to be built, between two batches, and lets the former ones drain in the background.

        What it raises leaves everything as it was."""
        cdef Chains chains = servers if isinstance(servers, Chains) else self.prepare(servers)
        cdef Chains former = self.chains
        fresh = [listener for listener in chains.listeners if not listener.watched]
        prepared = []
        try:
            for listener in fresh:
                listener._prepare()
                prepared.append(listener)
        except OSError:
            for listener in prepared:
                listener._forget_sockets()
            raise
        chains.served = True
        self.chains = chains
        atomic_store_pointer(<void **>&self.published, chains.set)
        for listener in fresh:
            listener._watch()
        if self.running:            # even one without handlers: a worker may be looking at its zones
            self.retired.append(former)
            threading.Thread(target=self._retire, args=(former,), name="retire", daemon=True).start()
        else:
            for handler in former.handlers:
                handler.close()
        return chains

    def start(self) -> None:
        if self.running:
            return
        self.running = True
        for i in range(self.workers):
            thread = threading.Thread(target=self._run, args=(i,), name="worker-%d" % i, daemon=True)
            self.threads.append(thread)
            thread.start()

    def _run(self, uint32_t i):
        cdef Loop *loop = self.loops[i]
        with nogil:
            wish_slice(100_000)     # the shortest there is
            run_worker(loop)

    cdef int64_t _parked(self, Chains chains):
        """Queries that hold a configuration; exact once the workers have passed a batch with the next one."""
        cdef uint32_t i
        cdef int64_t count = 0
        for i in range(self.workers):
            count += atomic_load_ns(&chains.set.parked[i])
        return count

    def parked(self) -> int:
        """Queries that wait, of all configurations."""
        cdef uint32_t i
        cdef int64_t count = 0
        for i in range(self.workers):
            count += atomic_peek32(&self.loops[i].base.parked)
        return count

    def _retire(self, Chains chains):
        self._empty(chains)
        for handler in chains.handlers:
            handler.close()
        self.retired.remove(chains)

    def _empty(self, Chains chains):
        """Waits until no query is in the chains, and has every worker leave them."""
        left = True
        while self.running and left:
            with nogil:
                epoch_wait()
            # A query may have left a detached child behind in the very batch that it ended in: only a count of
            # nothing that outlasts a batch is the end.
            left = self._parked(chains)
            if not left:
                with nogil:
                    epoch_wait()
                left = self._parked(chains)
            if left:
                _time.sleep(0.005)
        for i in range(self.workers):
            self._detach(chains, i)
        with nogil:
            epoch_wait()

    def _detach(self, Chains chains, uint32_t i):
        cdef Detach *detach = <Detach *>chains.retiring
        cdef NativeHandler native
        if detach == NULL:              # the configuration of the beginning, which has no handlers
            return
        detach.mail.run = detach_handlers
        detach.count = 0
        for native in chains.handlers:
            if native.handler.detach != NULL:
                detach.handlers[detach.count] = &native.handler
                detach.count += 1
        while self.running and detach.count:
            detach.done = 0
            post(&self.loops[i].base, &detach.mail)
            while self.running and not atomic_load32(&detach.done):
                _time.sleep(0.001)
            if not detach.done:
                return              # the workers have ended
            detach.count = detach.left
            if detach.count:
                _time.sleep(0.01)

    cdef int _end_listening(self, uint32_t i, UdpSocket *udp, TcpListener *tcp, void *mail) except -1:
        """Has worker i stop listening on these sockets (NULL: close all its connections). On return the mail is at rest, or the workers have ended."""
        cdef Ask *ask = <Ask *>mail
        if not self.running:
            if udp != NULL:
                udp_unwatch(udp, &self.loops[i].base)
            return 0
        ask.mail.run = end_listening
        ask.udp = udp
        ask.tcp = tcp
        ask.done = 0
        post(&self.loops[i].base, &ask.mail)
        while self.running and not atomic_load32(&ask.done):
            _time.sleep(0.0005)
        return 0

    def drain(self, double seconds) -> bool:
        """Takes no more queries and waits for those under way; False when some were left."""
        deadline = _time.monotonic() + seconds
        for listener in list(self.listeners):
            listener._unwatch()
        while self.parked() and _time.monotonic() < deadline:
            _time.sleep(0.005)
        done = not self.parked()
        for listener in list(self.listeners):
            done = listener._ended(deadline) and done
        for i in range(self.workers):
            self._end_listening(i, NULL, NULL, self.ask)
        return done

    def stop(self) -> None:
        """Ends the worker threads; sockets are closed."""
        cdef uint32_t i
        cdef uint64_t one = 1
        for i in range(self.workers):
            atomic_store32(&self.loops[i].stopping, 1)
            write(self.loops[i].wake, &one, 8)
        for thread in self.threads:
            thread.join()
        self.running = False
        self.threads = []
        for listener in list(self.listeners):
            listener._close_sockets()

    def statistics(self) -> dict:
        """Sums over the workers: parked, evicted, dropped, send_errors, connections, slots."""
        cdef uint32_t i
        cdef Loop *loop
        totals = dict.fromkeys(("parked", "evicted", "dropped", "send_errors", "connections", "slots", "large_refused"), 0)
        for i in range(self.workers):
            loop = self.loops[i]
            totals["parked"] += atomic_peek32(&loop.base.parked)
            totals["evicted"] += atomic_peek64(&loop.base.evicted)
            totals["dropped"] += atomic_peek64(&loop.base.dropped)
            totals["send_errors"] += atomic_peek64(&loop.udp.send_errors)
            totals["connections"] += atomic_peek32(&loop.connection_count)
            totals["slots"] += atomic_peek32(&loop.base.pool_made)
            totals["large_refused"] += atomic_peek32(&loop.base.large.refused)
        return totals
