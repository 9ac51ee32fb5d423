"""The sockets of a listening address. The contract is in engine/listener.pxd."""
import os
import socket
from errno import EADDRINUSE, EADDRNOTAVAIL, EAFNOSUPPORT

from libc.stdint cimport uint32_t
from libc.stdlib cimport calloc, free
from fastdns.system.epoch cimport epoch_wait
from fastdns.system.socket cimport EPOLLIN, SOCK_DGRAM, SOCK_STREAM
from fastdns.engine.handshake cimport handshake_end, handshake_open
from fastdns.engine.io.tcp cimport tcp_serve, tcp_transport
from fastdns.engine.io.transport cimport TransportOps
from fastdns.engine.loop cimport Loop, transport_count, transports
from fastdns.engine.quic.endpoint cimport quic_transport

cdef extern from *:
    """
    #include <sys/socket.h>
    #include <linux/filter.h>

    /* Spreads what a reuseport group gets over its first n sockets at random, so that one busy client reaches all workers. */
    static int reuseport_spread(int fd, unsigned n) {
        struct sock_filter code[] = {
            {BPF_LD | BPF_W | BPF_ABS, 0, 0, (unsigned)(SKF_AD_OFF + SKF_AD_RANDOM)},
            {BPF_ALU | BPF_MOD | BPF_K, 0, 0, n},
            {BPF_RET | BPF_A, 0, 0, 0},
        };
        struct sock_fprog program = {sizeof code / sizeof code[0], code};
        return setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof program);
    }

    #ifndef SO_DETACH_REUSEPORT_BPF
    #define SO_DETACH_REUSEPORT_BPF 68
    #endif
    /* The kernel's own choice from now on: by a hash of both addresses and ports. */
    static int reuseport_hash(int fd) {
        int zero = 0;
        return setsockopt(fd, SOL_SOCKET, SO_DETACH_REUSEPORT_BPF, &zero, sizeof zero);
    }
    """
    int reuseport_spread(int fd, unsigned n) noexcept nogil
    int reuseport_hash(int fd) noexcept nogil

cdef enum:
    BACKLOG = 1024                  # connections that wait to be accepted
    PORT_ATTEMPTS = 32              # where the kernel chooses the port


cdef void end_listening(WorkerCall *call, Worker *worker) noexcept nogil:
    cdef ListenEnd *ending = <ListenEnd *>call
    cdef uint32_t i
    for i in range(transport_count):
        if ending.sockets[i] != NULL:
            transports[i].listen_end(ending.sockets[i])


cdef uint32_t most_of_a_kind(list descriptors) except? 0:
    """Of the descriptors of UDP and TCP sockets, how many are of the type that more of them are."""
    kinds = []
    for fd in descriptors:
        with socket.socket(fileno=os.dup(fd)) as sock:
            kinds.append(sock.type)
    return max([kinds.count(kind) for kind in kinds], default=0)


cdef class Listener:
    """See engine/listener.pyi."""

    def __init__(self, Workers workers not None, forget, uint32_t index, uint32_t generation, str host, int port, list reuse, uint32_t count,
                 Service service=None):
        cdef uint32_t i, j
        if service is not None and service.context is not None:
            handshake_open()
        self.workers = workers
        self.forget = forget
        self.index = index
        self.generation = generation
        self.host = host
        self.port = port
        # All that is handed over is served, also by fewer workers: what waits in a socket must not be lost.
        self.count = max(count, workers.count, most_of_a_kind(reuse))
        self.service = service
        self.sockets = []
        self.ending = <ListenEnd *>calloc(1, sizeof(ListenEnd))
        if self.ending == NULL:
            raise MemoryError
        self.ending.call.run = end_listening
        for i in range(transport_count):
            if not self.has(i):
                continue
            self.rows[i] = <ListenSocket **>calloc(self.count, sizeof(ListenSocket *))
            if self.rows[i] == NULL:
                raise MemoryError
            for j in range(self.count):
                self.rows[i][j] = transports[i].socket_new()
                if self.rows[i][j] == NULL:
                    raise MemoryError
        for attempts_left in reversed(range(1 if port else PORT_ATTEMPTS)):
            try:
                for i in range(transport_count):
                    if self.rows[i] != NULL:
                        self._open(i, list(reuse))
                return
            except OSError as error:
                self._close_sockets()
                # The port that the kernel chose for one transport may be taken in another.
                if error.errno != EADDRINUSE or not attempts_left:
                    raise
                self.port = port

    def __dealloc__(self):
        cdef uint32_t i, j
        for i in range(transport_count):
            if self.rows[i] == NULL:
                continue
            for j in range(self.count):
                if self.rows[i][j] != NULL:
                    transports[i].socket_free(self.rows[i][j])
            free(self.rows[i])
        free(self.ending)

    cdef bint has(self, uint32_t which) noexcept:
        return transports[which] == &tcp_transport or self.service is None and transports[which] != &quic_transport

    cdef Worker *worker_of(self, uint32_t i) noexcept:
        return &self.workers.loops[i % self.workers.count].base

    # ---- opening ----

    def _open(self, uint32_t which, list reuse):
        """The sockets of one transport, handed-over ones first. Their order is the reuseport group's, by which queries are spread."""
        cdef int kind = transports[which].socket_type
        family = socket.AF_INET6 if ":" in self.host or not self.host else socket.AF_INET
        host = self.host or "::"
        own = []
        for fd in reuse:
            given = socket.socket(fileno=os.dup(fd))
            if given.type == kind:
                transports[which].options(given, self._is_wildcard())
                own.append(given)
            else:
                given.close()
        while len(own) < self.count:
            try:
                own.append(self._bound(which, family, host))
            except OSError as error:
                if self.host or family == socket.AF_INET or error.errno not in (EAFNOSUPPORT, EADDRNOTAVAIL):
                    for made in own:
                        made.close()
                    raise
                family, host = socket.AF_INET, "0.0.0.0"        # no IPv6 on this machine
        self.sockets += own
        if self.count > 1:
            self._spread(which, own[0].fileno())
        for i, sock in enumerate(own):
            sock.setblocking(False)
            self._describe(which, i, sock)

    def _spread(self, uint32_t which, int fd):
        """Without the filter, the kernel spreads by a hash of the addresses."""
        if transports[which].spread != NULL:
            transports[which].spread(fd, self.count)
        else:
            reuseport_spread(fd, self.count)

    def _bound(self, uint32_t which, int family, str host):
        cdef const TransportOps *ops = transports[which]
        address, _, zone = host.partition("%")
        sock = socket.socket(family, ops.socket_type | socket.SOCK_CLOEXEC)
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if not self.host else 1)
            if ops.socket_type == SOCK_STREAM:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            ops.options(sock, self._is_wildcard())
            scope = socket.if_nametoindex(zone) if zone else 0
            sock.bind((address, self.port, 0, scope) if family == socket.AF_INET6 else (address, self.port))
            if self.port == 0:
                self.port = sock.getsockname()[1]
            if ops.socket_type == SOCK_STREAM:
                sock.listen(BACKLOG)
        except OSError:
            sock.close()
            raise
        return sock

    def _is_wildcard(self):
        return self.host in ("", "0.0.0.0", "::")

    def _describe(self, uint32_t which, uint32_t i, sock):
        cdef ListenSocket *native = self.rows[which][i]
        cdef Loop *loop = self.workers.loops[i % self.workers.count]
        native.source.fd = sock.fileno()
        native.transport = loop.transports[which]
        native.listener = self.index
        native.generation = self.generation
        if self.service is not None:
            tcp_serve(native, self.service.native)
        transports[which].describe(native, 6 if sock.family == socket.AF_INET6 else 4, self._is_wildcard())

    def _close_sockets(self):
        for sock in self.sockets:
            sock.close()
        self.sockets = []

    def keep_flows(self, bint wanted) -> None:
        """See engine/listener.pyi."""
        cdef uint32_t i
        if self.count < 2:
            return
        for i in range(transport_count):
            if self.rows[i] != NULL and transports[i].socket_type == SOCK_DGRAM:
                if wanted:
                    reuseport_hash(self.rows[i][0].source.fd)
                else:
                    self._spread(i, self.rows[i][0].source.fd)

    def filenos(self) -> list:
        """Descriptors of all sockets, for a successor process."""
        return [sock.fileno() for sock in self.sockets]

    def adopt(self, Service service not None) -> None:
        """Clients get this from now on; connections go on as they are. For an address that was opened with a service."""
        cdef uint32_t i, j
        cdef Service former = self.service
        if service is former:
            return
        service.follow(former)
        if service.context is not None:
            handshake_open()
        for i in range(transport_count):
            if self.rows[i] != NULL:
                for j in range(self.count):
                    tcp_serve(self.rows[i][j], service.native)
        self.service = service
        with nogil:
            epoch_wait()                # workers may be accepting for the former one, which goes on return
        del former

    # ---- what the engine calls as configurations come and go ----

    def _prepare(self):
        """Makes the sockets known to the workers: what can fail of `_watch`, without a query yet. OSError, and nothing is done."""
        cdef uint32_t i, j
        cdef int status
        for i in range(self.count):
            for j in range(transport_count):
                status = transports[j].listen_begin(self.rows[j][i]) if self.rows[j] != NULL else 0
                if status < 0:
                    self._forget_sockets()
                    raise OSError(-status, os.strerror(-status))

    def _forget_sockets(self):
        """The end of a `_prepare` that no `_watch` followed."""
        cdef uint32_t i, j
        cdef Worker *worker
        for i in range(self.count):
            worker = self.worker_of(i)
            for j in range(transport_count):
                if self.rows[j] != NULL:
                    worker.ops.unwatch(worker, &self.rows[j][i].source)
        with nogil:
            epoch_wait()

    def _watch(self):
        cdef uint32_t i, j
        cdef Worker *worker
        for i in range(self.count):
            worker = self.worker_of(i)
            for j in range(transport_count):
                if self.rows[j] != NULL:
                    worker.ops.rewatch(worker, &self.rows[j][i].source, EPOLLIN)
        self.watched = True

    def _unwatch(self):
        """Takes no more queries; connections that exist go on. On return no worker is in the sockets' code."""
        cdef uint32_t i, j
        if not self.watched:
            return
        for i in range(self.count):
            for j in range(transport_count):
                self.ending.sockets[j] = self.rows[j][i] if self.rows[j] != NULL else NULL
            if not self.workers.call(i % self.workers.count, &self.ending.call) and not self.workers.running:
                end_listening(&self.ending.call, self.worker_of(i))
        self.watched = False
        with nogil:
            handshake_end(self.generation)
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
        self.forget(self)
