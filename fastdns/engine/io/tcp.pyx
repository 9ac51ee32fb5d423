"""Listening, accepting and evicting for DNS over TCP. The contract is in engine/io/tcp.pxd."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, int64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memset
from libc.errno cimport errno, EINTR, EMFILE, ENFILE, ENOBUFS, ENOMEM
from fastdns.system.address cimport Address, address_from_socket
from fastdns.system.atomic cimport atomic_load_pointer, atomic_peek32, atomic_store_pointer
from fastdns.engine.handshake cimport (HANDSHAKE_SOON, HANDSHAKE_STOPPED, Handshake, HandshakePlace, handshake_begin, handshake_is_behind,
                                       handshake_make_place)
from fastdns.engine.io.connection cimport (MILLISECOND, NETWORKS, OUTPUT_PAUSE, AddressCount, StreamProtocol, TcpConnection, TcpWorker, connection_begin,
                                           connection_end, connection_finish, connection_forget, connection_of, connection_read_decrypted, service_leave_place,
                                           service_ref, service_take_place, service_unref)
from fastdns.engine.io.framing cimport dns_framing
from fastdns.engine.io.proxied cimport proxied_begin
from fastdns.engine.io.transport cimport ListenSocket, TransportWorker
from fastdns.proxy.policy cimport ProxyPolicy
from fastdns.proxy.tlvs cimport ProxyTlvs, tlvs_unref
from fastdns.tls.record cimport TlsStream, tls_end, tls_pending, tls_protocol
from fastdns.walk.query cimport WORKERS_MAX, Mail, ServerTable, Source, Timer, Worker, worker_flush
from fastdns.system.list cimport list_first, list_init, list_is_empty, list_last, list_next, list_previous
from fastdns.system.socket cimport (EPOLLIN, IPPROTO_TCP, SHUT_RDWR, SOCK_CLOEXEC, SOCK_NONBLOCK, SOCK_STREAM, TCP_NODELAY, TCP_NOTSENT_LOWAT,
                                    accept4, close, setsockopt, shutdown, sockaddr, sockaddr_in6, socklen_t)

cdef extern from *:
    """
    #include <sys/resource.h>

    static inline uint32_t descriptors_max(void) {
        struct rlimit limit;
        return getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < UINT32_MAX ? (uint32_t)limit.rlim_cur : UINT32_MAX;
    }
    """
    uint32_t descriptors_max() noexcept nogil

# No descriptor is left for a new client, and another worker has more connections: it evicts one and passes the descriptor on. Otherwise a worker that
# starts late is starved of descriptors.
cdef struct DescriptorRequest:              # one for each worker, which owns it; the mail is under way while `pending`
    Mail mail                               # first: to the other worker and back
    TcpWorker *requester
    TcpListener *listener                   # that accepts with the descriptor, or NULL: it has closed meanwhile
    int fd                                  # of the evicted connection, shut down but open, so that nobody else takes the number; -1: none to evict
    uint8_t pending
    uint8_t refused                         # the last one came back without a descriptor

# All places of an address are taken, and none of them is to be had here: another worker is asked for one.
cdef struct PlaceRequest:                   # one for each worker, which owns it; the mail is under way while `pending`
    Mail mail                               # first: to the other worker and back
    Worker *requester
    StreamService *service                  # a reference
    uint8_t waited                          # see make_place
    uint8_t pending
    uint32_t next                           # the worker that is asked next

cdef TcpWorker *workers[WORKERS_MAX]        # by Worker.id
cdef DescriptorRequest requests[WORKERS_MAX]
cdef PlaceRequest place_requests[WORKERS_MAX]


# ---- accepting ----

cdef int options(object sock, bint wildcard) except -1:
    """Connections inherit it: the kernel holds little that was not sent yet, instead of megabytes, so that a client that does not read is seen."""
    try:
        sock.setsockopt(IPPROTO_TCP, TCP_NOTSENT_LOWAT, OUTPUT_PAUSE)
    except OSError:
        pass
    return 0


cdef TransportWorker *init(Worker *worker) noexcept nogil:
    global tcp_connections_max
    cdef TcpWorker *tcp = <TcpWorker *>calloc(1, sizeof(TcpWorker))
    if tcp == NULL:
        return NULL
    tcp.base.ops = &tcp_transport
    tcp.base.worker = worker
    list_init(&tcp.connections)
    # Upstreams, probes and files want descriptors, too.
    tcp_connections_max = max(min(<uint32_t>CONNECTIONS_MAX, descriptors_max() // 4 * 3) // worker.workers, <uint32_t>1)
    workers[worker.id] = tcp
    return &tcp.base


cdef ListenSocket *socket_new() noexcept nogil:
    return <ListenSocket *>calloc(1, sizeof(TcpListener))


cdef void socket_free(ListenSocket *sock) noexcept nogil:
    free(sock)


cdef void describe(ListenSocket *sock, uint8_t family, bint wildcard) noexcept nogil:
    cdef TcpListener *listener = <TcpListener *>sock
    sock.source.ready = on_connections
    listener.pause.fire = on_pause_over
    listener.pause.data = listener


cdef int listen_begin(ListenSocket *sock) noexcept nogil:
    cdef int one = 1
    setsockopt(sock.source.fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one))     # connections inherit it
    (<TcpListener *>sock).open = 1
    return sock.transport.worker.ops.watch(sock.transport.worker, &sock.source, 0)


cdef void listen_end(ListenSocket *sock) noexcept nogil:
    cdef TcpListener *listener = <TcpListener *>sock
    cdef TcpWorker *tcp = <TcpWorker *>sock.transport
    cdef Worker *worker = tcp.base.worker
    worker.ops.timer_stop(worker, &listener.pause)
    if listener.open:
        worker.ops.unwatch(worker, &sock.source)
    listener.open = 0
    if requests[worker.id].listener == listener:
        requests[worker.id].listener = NULL
    # What they asked is answered; then they end. Those that take longer find no server any more (server_of).
    cdef TcpConnection *connection = connection_of(list_first(&tcp.connections))
    while connection != NULL:
        if connection.generation == sock.generation:
            connection_finish(connection)
        connection = connection_of(list_next(&tcp.connections, &connection.node))


cdef void tcp_serve(ListenSocket *sock, StreamService *service) noexcept nogil:
    atomic_store_pointer(<void **>&(<TcpListener *>sock).service, <void *>service)


cdef void on_pause_over(Timer *timer, Worker *worker) noexcept nogil:
    resume_accepting(<TcpListener *>timer.data, worker)


cdef void resume_accepting(TcpListener *listener, Worker *worker) noexcept nogil:
    worker.ops.timer_stop(worker, &listener.pause)
    worker.ops.watch(worker, &listener.base.source, EPOLLIN)
    listener.open = 1


cdef void pause_accepting(TcpListener *listener, Worker *worker, int64_t pause) noexcept nogil:
    """Out of descriptors, memory or places: the socket stays ready, so it is not watched for `pause` ns."""
    worker.ops.unwatch(worker, &listener.base.source)
    listener.open = 0
    worker.ops.timer_start(worker, &listener.pause, worker.now + pause)


cdef inline bint is_full(const TcpWorker *tcp) noexcept nogil:
    return tcp.base.connections >= tcp_connections_max


cdef void on_connections(Source *source, Worker *worker, uint32_t events) noexcept nogil:
    cdef TcpListener *listener = <TcpListener *>source
    cdef TcpWorker *tcp = <TcpWorker *>listener.base.transport
    cdef StreamService *service = <StreamService *>atomic_load_pointer(<void **>&listener.service)
    cdef bint encrypted = service != NULL and service.context != NULL
    cdef const ServerTable *server = worker.set.servers[listener.base.listener]
    cdef const ProxyPolicy *policy = server.proxy if server != NULL else NULL
    cdef Address client
    cdef sockaddr_in6 peer
    cdef int fd, i
    for i in range(ACCEPT_BATCH):
        if encrypted and handshake_is_behind():
            pause_accepting(listener, worker, PLACE_PAUSE)
            return
        if is_full(tcp) and (policy != NULL or not encrypted):      # a client in its handshake takes no worker's place
            # Only a client that is surely there makes another one's connection end: the one that woke us.
            if i:
                return
            if not evict(tcp):
                pause_accepting(listener, worker, ACCEPT_PAUSE)
                return
        if service != NULL and not service_take_place(service):
            if i:
                return
            if not take_place_of_another(listener, tcp, service):
                pause_accepting(listener, worker, PLACE_PAUSE)
                return
        elif i == 0:
            listener.waiting_at = 0
        fd = accept_client(listener, tcp, &peer, i == 0)
        if fd < 0:
            if service != NULL:
                service_leave_place(service)
            if fd == -EINTR:
                continue
            return
        if policy != NULL:
            proxied_begin(tcp, &listener.base, service, policy, fd, &peer, open_client)
        else:
            address_from_socket(&client, &peer)
            open_client(&listener.base, service, fd, &client, NULL, worker.now, NULL)


cdef int accept_client(TcpListener *listener, TcpWorker *tcp, sockaddr_in6 *peer, bint surely) noexcept nogil:
    """A descriptor, or -errno. surely: a client is there, for which another one's connection may end."""
    cdef socklen_t length = sizeof(sockaddr_in6)
    cdef int fd = accept4(listener.base.source.fd, <sockaddr *>peer, &length, SOCK_NONBLOCK | SOCK_CLOEXEC)
    if fd < 0 and surely and errno in (EMFILE, ENFILE, ENOBUFS, ENOMEM):
        if not find_descriptor(tcp, listener):
            pause_accepting(listener, tcp.base.worker, ACCEPT_PAUSE)
            return -ENFILE
        length = sizeof(sockaddr_in6)
        fd = accept4(listener.base.source.fd, <sockaddr *>peer, &length, SOCK_NONBLOCK | SOCK_CLOEXEC)
    return fd if fd >= 0 else -errno


cdef void open_client(ListenSocket *sock, StreamService *service, int fd, const Address *client, const Address *local, int64_t since,
                      ProxyTlvs *tlvs) noexcept nogil:
    """It gets what its listening address offers."""
    if begin_client(sock, service, fd, client, local, since, tlvs):
        return
    tlvs_unref(tlvs, sock.transport.worker.id)
    if service != NULL:
        service_leave_place(service)
    close(fd)


cdef bint begin_client(ListenSocket *sock, StreamService *service, int fd, const Address *client, const Address *local, int64_t since,
                       ProxyTlvs *tlvs) noexcept nogil:
    """False when the address is not served, or memory is out: descriptor, place and TLVs are the caller's still."""
    cdef TcpWorker *tcp = <TcpWorker *>sock.transport
    cdef Worker *worker = tcp.base.worker
    cdef const ServerTable *server = worker.set.servers[sock.listener]
    cdef TcpConnection *connection
    if service != NULL and service.context != NULL:
        return server != NULL and handshake_begin(worker, fd, service, sock.listener, sock.generation, client, local, since,
                                                  since + <int64_t>server.read_timeout * MILLISECOND, tlvs, on_handshake) == 0
    if service != NULL:
        service_ref(service)
    connection = connection_begin(tcp, &dns_framing if service == NULL else service.protocol, service, NULL, sock.listener, sock.generation, fd, client,
                                  local, since)
    if connection != NULL:
        connection.tlvs = tlvs
    elif service != NULL:
        service_unref(service)
    return connection != NULL


cdef void on_handshake(Handshake *handshake, Worker *worker) noexcept nogil:
    tcp_adopt(worker, handshake.service, handshake.fd, handshake.tls, handshake.listener, handshake.generation, &handshake.client,
              &handshake.local if handshake.local.family else NULL, handshake.since, handshake.tlvs)


cdef const StreamProtocol *protocol_of(const StreamService *service, const TlsStream *tls) noexcept nogil:
    cdef uint32_t length = 0
    cdef const uint8_t *name
    if service.http2 == NULL:
        return service.protocol
    name = tls_protocol(tls, &length)
    return service.http2 if length == 2 and memcmp(name, b"h2", 2) == 0 else service.protocol


cdef void tcp_adopt(Worker *worker, StreamService *service, int fd, TlsStream *tls, uint32_t listener, uint32_t generation, const Address *client,
                    const Address *local, int64_t since, ProxyTlvs *tlvs) noexcept nogil:
    cdef TcpWorker *tcp = workers[worker.id]
    cdef TcpConnection *connection = NULL
    if worker.set.listeners[listener] == generation and (not is_full(tcp) or evict(tcp)):
        connection = connection_begin(tcp, protocol_of(service, tls), service, tls, listener, generation, fd, client, local, since)
    if connection == NULL:
        tlvs_unref(tlvs, worker.id)
        tls_end(tls)
        close(fd)
        service_leave_place(service)
        service_unref(service)
        return
    connection.tlvs = tlvs
    if tls_pending(tls):        # queries that came with the end of the handshake
        connection_read_decrypted(tcp, connection)
    if not connection.broken:
        worker_flush(worker, &connection.flush)


# ---- no place of the address for a new client: a handshake or connection of it ends ----

cdef bint take_place_of_another(TcpListener *listener, TcpWorker *tcp, StreamService *service) noexcept nogil:
    """False: none is to be had yet. Other workers are asked then, too."""
    cdef Worker *worker = tcp.base.worker
    cdef HandshakePlace place = handshake_make_place(listener.base.generation, worker.now)
    cdef bint waited
    if worker.now - listener.waiting_at >= WORK_GRACE:
        listener.waiting_since = worker.now
    listener.waiting_at = worker.now
    waited = worker.now - listener.waiting_since >= WORK_GRACE
    if place == HANDSHAKE_SOON:         # it goes before connections
        return False
    if (place == HANDSHAKE_STOPPED or make_place(tcp, service, waited)) and service_take_place(service):
        return True
    ask_for_place(worker, service, waited)
    return False


cdef bint make_place(TcpWorker *tcp, const StreamService *service, bint waited) noexcept nogil:
    """waited: if all are at work, one of them ends, of the client network that holds most."""
    cdef TcpConnection *connection = find_evictable(tcp, service.address)
    if connection == NULL and waited:
        connection = find_at_work(tcp, service.address)
    elif connection != NULL and tcp.base.worker.now - connection.idle_since < EVICT_GRACE:
        connection = NULL
    if connection == NULL:
        return False
    connection_end(tcp, connection)
    return True


cdef inline bint is_of(const TcpConnection *connection, const AddressCount *address) noexcept nogil:
    return connection.service != NULL and connection.service.address == address


cdef TcpConnection *find_at_work(TcpWorker *tcp, const AddressCount *address) noexcept nogil:
    """The oldest connection of the client network that has more than half of the address's, and many; NULL: none has."""
    cdef TcpConnection *connection = connection_of(list_last(&tcp.connections))
    cdef uint16_t held[NETWORKS]
    cdef uint32_t count = 0
    cdef uint8_t most = 0
    memset(held, 0, sizeof(held))
    while connection != NULL and count < WORK_SEARCH:
        if is_of(connection, address):
            count += 1
            held[connection.network] += 1
            if held[connection.network] > held[most]:
                most = connection.network
        connection = connection_of(list_previous(&tcp.connections, &connection.node))
    if held[most] <= WORK_MANY or 2 * held[most] <= count:
        return NULL
    connection = connection_of(list_last(&tcp.connections))
    while not is_of(connection, address) or connection.network != most:
        connection = connection_of(list_previous(&tcp.connections, &connection.node))
    return connection


cdef void ask_for_place(Worker *worker, StreamService *service, bint waited) noexcept nogil:
    """Of the other workers in turn."""
    cdef PlaceRequest *request = &place_requests[worker.id]
    cdef Worker *other
    if request.pending or worker.workers < 2:
        return
    request.next = (request.next + 1) % worker.workers
    if request.next == worker.id:
        request.next = (request.next + 1) % worker.workers
    service_ref(service)
    request.mail.run = on_place_request
    request.requester = worker
    request.service = service
    request.waited = waited
    request.pending = 1
    other = workers[request.next].base.worker
    other.ops.post(other, &request.mail)


cdef void on_place_request(Mail *mail, Worker *worker) noexcept nogil:
    """On the other worker."""
    cdef PlaceRequest *request = <PlaceRequest *>mail
    make_place(workers[worker.id], request.service, request.waited)
    request.mail.run = on_place_reply
    request.requester.ops.post(request.requester, &request.mail)


cdef void on_place_reply(Mail *mail, Worker *worker) noexcept nogil:
    """The listener accepts again when its pause is over, and finds the place."""
    cdef PlaceRequest *request = <PlaceRequest *>mail
    service_unref(request.service)
    request.service = NULL
    request.pending = 0


# ---- no place or no descriptor for a new client: another connection ends ----

cdef inline int evict_rank(const TcpConnection *connection) noexcept nogil:
    """The lowest is evicted first: 0 never sent a query, 1 idle, 2 does not read its replies, 3 nor its transfer; 4 at work, never evicted."""
    if connection.blocked_since:
        return 2 if connection.transfer == NULL else 3
    if connection.output_used != connection.output_sent or connection.outstanding or connection.transfer != NULL:
        return 4
    return 1 if connection.queries else 0


cdef TcpConnection *find_evictable(TcpWorker *tcp, const AddressCount *address) noexcept nogil:
    """Of the oldest connections (of an address, or of all: NULL) the one with the lowest rank, of equals that which is idle longest; NULL when all are
    at work."""
    cdef TcpConnection *connection = connection_of(list_last(&tcp.connections))
    cdef TcpConnection *chosen = NULL
    cdef int least = 4, rank, left = EVICT_SEARCH
    while connection != NULL and left:
        if address != NULL and not is_of(connection, address):
            connection = connection_of(list_previous(&tcp.connections, &connection.node))
            continue
        left -= 1
        rank = evict_rank(connection)
        if rank < least or rank == least < 4 and connection.idle_since < chosen.idle_since:
            chosen = connection
            least = rank
        connection = connection_of(list_previous(&tcp.connections, &connection.node))
    return chosen


cdef bint evict(TcpWorker *tcp) noexcept nogil:
    """Ends a connection of this worker; False when all are at work."""
    cdef TcpConnection *connection = find_evictable(tcp, NULL)
    if connection == NULL:
        return False
    connection_end(tcp, connection)
    return True


cdef bint find_descriptor(TcpWorker *tcp, TcpListener *listener) noexcept nogil:
    """A descriptor for the next client, from the worker that has the most connections. False when there is none, or none yet."""
    cdef DescriptorRequest *request = &requests[tcp.base.worker.id]
    if request.pending:
        return False
    if not request.refused and request_descriptor(tcp, listener):
        return False
    request.refused = 0
    return evict(tcp)


cdef bint request_descriptor(TcpWorker *tcp, TcpListener *listener) noexcept nogil:
    """False when no other worker has more connections."""
    cdef DescriptorRequest *request = &requests[tcp.base.worker.id]
    cdef uint32_t i, count, most = tcp.base.connections
    cdef TcpWorker *largest = NULL
    cdef Worker *worker
    for i in range(tcp.base.worker.workers):
        count = atomic_peek32(&workers[i].base.connections)
        if count > most:
            most = count
            largest = workers[i]
    if largest == NULL:
        return False
    request.mail.run = on_descriptor_request
    request.requester = tcp
    request.listener = listener
    request.fd = -1
    request.pending = 1
    worker = largest.base.worker
    worker.ops.post(worker, &request.mail)
    return True


cdef void on_descriptor_request(Mail *mail, Worker *worker) noexcept nogil:
    """On the other worker: a connection ends, and its descriptor stays open for the requester."""
    cdef DescriptorRequest *request = <DescriptorRequest *>mail
    cdef TcpWorker *tcp = workers[worker.id]
    cdef TcpConnection *connection = find_evictable(tcp, NULL)
    cdef Worker *requester = request.requester.base.worker
    if connection != NULL and worker.now - connection.idle_since >= EVICT_GRACE:
        request.fd = connection.source.fd
        shutdown(request.fd, SHUT_RDWR)
        connection_forget(tcp, connection)
    request.mail.run = on_descriptor_reply
    requester.ops.post(requester, &request.mail)


cdef void on_descriptor_reply(Mail *mail, Worker *worker) noexcept nogil:
    """On the requester, whose listener pauses, has closed, or accepts again since its pause is over."""
    cdef DescriptorRequest *request = <DescriptorRequest *>mail
    cdef TcpListener *listener = request.listener
    request.listener = NULL
    request.pending = 0
    request.refused = request.fd < 0
    if request.fd >= 0:
        close(request.fd)
    if listener != NULL:
        if not listener.open:
            resume_accepting(listener, worker)
        on_connections(&listener.base.source, worker, EPOLLIN)


cdef void close_all(TransportWorker *transport) noexcept nogil:
    cdef TcpWorker *tcp = <TcpWorker *>transport
    while not list_is_empty(&tcp.connections):
        connection_end(tcp, connection_of(list_first(&tcp.connections)))

tcp_transport.socket_type = SOCK_STREAM
tcp_transport.init = init
tcp_transport.poll = NULL
tcp_transport.flush = NULL
tcp_transport.close_all = close_all
tcp_transport.socket_new = socket_new
tcp_transport.socket_free = socket_free
tcp_transport.options = options
tcp_transport.describe = describe
tcp_transport.listen_begin = listen_begin
tcp_transport.listen_end = listen_end
