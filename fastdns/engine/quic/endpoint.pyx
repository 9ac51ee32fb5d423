"""QUIC as a transport of the workers. The contract is in engine/quic/endpoint.pxd."""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy
from fastdns.engine.call cimport WorkerCall
from fastdns.engine.io.transport cimport POLL_ALWAYS, ListenSocket, TransportWorker
from fastdns.engine.io.datagram cimport RECEIVE_STRIDE, UdpSocket, udp_addresses
from fastdns.engine.io.udp_socket cimport udp_batch, udp_describe, udp_listen_begin, udp_listen_end, udp_options
from fastdns.engine.quic.connection cimport (connection_begin, connection_close, connection_drop, connection_feed, connection_finish, connection_id,
                                             connection_reset_token, connections_run)
from fastdns.engine.quic.handover cimport HANDOVER_ENDED, handover_left, handover_receive, handover_send
from fastdns.engine.quic.moderation cimport moderation_end, moderation_next, moderation_ready, moderation_run
from fastdns.engine.quic.output cimport PACKET_SIZE, is_same, output_add, output_flush, output_init, output_room
from fastdns.engine.quic.quiche cimport CONNECTION_ID_MAX, PACKET_INITIAL, quiche
from fastdns.engine.quic.state cimport (ARENA_SIZE, HANDSHAKES_MAX, ID_LENGTH, NETWORKS, REPLY_SIZE, QuicConnection, QuicGroup, QuicPath, QuicSocket,
                                        QuicWorker, quic_connection_of)
from fastdns.engine.quic.stream cimport streams_next
from fastdns.engine.quic.table cimport table_find
from fastdns.engine.quic.token cimport TOKEN_MAX, token_check, token_write
from fastdns.proxy.policy cimport ProxyPolicy, proxy_datagram_tlvs, proxy_session, proxy_strip
from fastdns.proxy.tlvs cimport ProxyTlvs, tlvs_unref
from fastdns.system.atomic cimport atomic_add32, atomic_load32, atomic_load_pointer, atomic_peek32, atomic_store_pointer
from fastdns.system.hash cimport hash_octets, hash_seed
from fastdns.system.list cimport ListNode, list_container, list_first, list_init, list_next
from fastdns.system.random cimport random_next
from fastdns.system.socket cimport SOCK_DGRAM
from fastdns.walk.query cimport LISTENERS_MAX, WORKERS_MAX, Flush, Mail, ServerTable, Worker

cdef extern from *:
    """
    #include <sys/socket.h>
    #include <linux/filter.h>

    /* The socket that the destination's first octet names, in packets with a long header (RFC 8999 5.1) and with a short one. A PROXY header of
       version 2, whose first octet begins no QUIC packet, is passed over: X is its length, 16 octets and what its octets 14 and 15 say. */
    static int quic_spread(int fd, unsigned n) {
        struct sock_filter code[] = {
            {BPF_LDX | BPF_W | BPF_IMM, 0, 0, 0},
            {BPF_LD | BPF_W | BPF_ABS, 0, 0, 0},
            {BPF_JMP | BPF_JEQ | BPF_K, 0, 3, 0x0D0A0D0A},
            {BPF_LD | BPF_H | BPF_ABS, 0, 0, 14},
            {BPF_ALU | BPF_ADD | BPF_K, 0, 0, 16},
            {BPF_MISC | BPF_TAX, 0, 0, 0},
            {BPF_LD | BPF_B | BPF_IND, 0, 0, 0},
            {BPF_JMP | BPF_JSET | BPF_K, 2, 0, 0x80},
            {BPF_LD | BPF_B | BPF_IND, 0, 0, 1},
            {BPF_JMP | BPF_JA, 0, 0, 1},
            {BPF_LD | BPF_B | BPF_IND, 0, 0, 6},
            {BPF_ALU | BPF_MOD | BPF_K, 0, 0, n},
            {BPF_RET | BPF_A, 0, 0, 0},
        };
        struct sock_fprog program = {sizeof code / sizeof code[0], code};
        return setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof program);
    }
    """
    int quic_spread(int fd, unsigned n) noexcept nogil

cdef enum:
    LONG_HEADER = 0x80
    INITIAL_LEAST = 1200                # octets of a client's first datagram
    RESET_LEAST = 43                    # octets of a datagram that is answered with a stateless reset (RFC 9000 10.3.3)
    RESET_SIZE = 42
    RESETS_MAX = 16                     # of a turn
    POSTED_MAX = 4096                   # datagrams on their way to a worker

cdef struct Pending:                    # a first datagram that waits for its turn
    QuicSocket *sock
    uint32_t generation
    QuicPath path
    ProxyTlvs *tlvs                     # of its PROXY header: a reference, or NULL
    uint32_t length
    uint8_t octets[PENDING_SIZE]

cdef struct Endpoint:                   # of a worker
    QuicWorker quic                     # first
    Pending *pending                    # a ring
    uint32_t first
    uint32_t count
    uint32_t begun                      # handshakes in this turn
    uint32_t resets                     # in this turn
    uint32_t header                     # octets of the PROXY header right before the datagram at work
    uint32_t posted                     # datagrams on their way here; atomic

cdef struct Posted:                     # a datagram that came to another worker
    Mail mail                           # first
    uint32_t listener
    uint32_t generation
    QuicPath path
    uint8_t passed                      # it came from another process
    uint32_t header                     # octets of its PROXY header
    uint32_t length
    uint8_t octets[1]                   # `header`, then `length`

cdef struct Header:                     # of a packet with a long header
    uint32_t version
    uint8_t kind
    uint8_t source[CONNECTION_ID_MAX]
    size_t source_length
    uint8_t destination[CONNECTION_ID_MAX]
    size_t destination_length
    uint8_t token[TOKEN_MAX]
    size_t token_length

cdef Endpoint *endpoints[WORKERS_MAX]   # by Worker.id
cdef QuicGroup *groups[LISTENERS_MAX]   # atomic; by index of the listener


# ---- datagrams in ----

cdef void take(UdpSocket *sock, Worker *worker, int n) noexcept nogil:
    cdef Endpoint *endpoint = endpoints[worker.id]
    cdef const ServerTable *server = worker.set.servers[sock.base.listener]
    cdef const ProxyPolicy *policy = server.proxy if server != NULL else NULL
    cdef QuicPath path
    cdef uint8_t *octets
    cdef uint32_t length
    cdef int i, header
    for i in range(n):
        octets = sock.batch.received_octets + <size_t>i * RECEIVE_STRIDE
        length = sock.batch.received[i].msg_len
        udp_addresses(sock, i, &path.peer, &path.local)
        path.client = path.peer
        path.proxied = False
        if policy != NULL:
            header = proxy_strip(policy, octets, length, &path.peer, worker.now, worker.id, &path.client, NULL)
            if header < 0:
                continue
            path.proxied = not is_same(&path.client, &path.peer)
            endpoint.header = <uint32_t>header
            octets += header
            length -= header
        on_datagram(endpoint, <QuicSocket *>sock, octets, length, &path, False)
    endpoint.header = 0
    connections_run(&endpoint.quic)
    begin_pending(endpoint)


cdef void on_datagram(Endpoint *endpoint, QuicSocket *sock, uint8_t *octets, uint32_t length, const QuicPath *path, bint passed) noexcept nogil:
    """passed: it came from another process, which has begun no connection by it."""
    cdef QuicConnection *connection
    cdef uint64_t key
    if length <= ID_LENGTH:
        return
    if octets[0] & LONG_HEADER:
        on_long_header(endpoint, sock, octets, length, path, passed)
        return
    memcpy(&key, octets + 1, ID_LENGTH)
    connection = <QuicConnection *>table_find(&endpoint.quic.ids, key)
    if connection != NULL:
        if connection.generation == sock.group.generation:
            connection_feed(connection, path, octets, length)
        return
    if octets[2] != sock.group.tag:
        if passed or handover_send(octets[2], sock.group.name, path, octets, length) != HANDOVER_ENDED:
            return
    elif is_other(endpoint, sock, octets[1]):
        post(endpoint, sock, octets[1], octets, length, path, passed)
        return
    if length >= RESET_LEAST and endpoint.resets < RESETS_MAX:
        endpoint.resets += 1
        send_reset(endpoint, sock, octets + 1, path)


cdef inline uint32_t worker_of(const QuicSocket *sock, uint8_t octet) noexcept nogil:
    return (octet % sock.group.count) % sock.udp.batch.base.worker.workers


cdef inline bint is_other(const Endpoint *endpoint, const QuicSocket *sock, uint8_t octet) noexcept nogil:
    """Does a connection id with this first octet belong to another worker?"""
    return worker_of(sock, octet) != endpoint.quic.base.worker.id


cdef void on_long_header(Endpoint *endpoint, QuicSocket *sock, uint8_t *octets, uint32_t length, const QuicPath *path, bint passed) noexcept nogil:
    cdef QuicConnection *connection
    cdef Header header
    cdef uint64_t key
    cdef bint ours = False
    header.source_length = header.destination_length = CONNECTION_ID_MAX
    header.token_length = TOKEN_MAX
    if quiche.header_info(octets, length, ID_LENGTH, &header.version, &header.kind, header.source, &header.source_length,
                          header.destination, &header.destination_length, header.token, &header.token_length) < 0:
        return
    connection = NULL
    if header.destination_length == ID_LENGTH:
        memcpy(&key, header.destination, ID_LENGTH)
        connection = <QuicConnection *>table_find(&endpoint.quic.ids, key)
        ours = header.destination[1] == sock.group.tag
    if connection == NULL:
        key = hash_octets(header.destination, <uint32_t>header.destination_length, hash_seed) | 1
        connection = <QuicConnection *>table_find(&endpoint.quic.ids, key)
    if connection != NULL:
        if connection.generation == sock.group.generation:
            connection_feed(connection, path, octets, length)
        return
    if ours and is_other(endpoint, sock, header.destination[0]):
        post(endpoint, sock, header.destination[0], octets, length, path, passed)
        return
    if passed:
        return
    # A client's first destination is random, and may look like an id of another process: such a datagram may begin a connection here all the same.
    if not ours and header.destination_length == ID_LENGTH:
        handover_send(header.destination[1], sock.group.name, path, octets, length)
    if length < INITIAL_LEAST or header.version == 0:
        return
    if not quiche.version_is_supported(header.version):
        negotiate(endpoint, sock, &header, path)
    elif header.kind == PACKET_INITIAL and header.destination_length >= ID_LENGTH:
        await_turn(endpoint, sock, &header, octets, length, path)


# ---- datagrams that came to another worker, or to another process ----

cdef void post(Endpoint *endpoint, QuicSocket *sock, uint8_t octet, const uint8_t *octets, uint32_t length, const QuicPath *path,
               bint passed) noexcept nogil:
    cdef Endpoint *other = endpoints[worker_of(sock, octet)]
    cdef Worker *worker = other.quic.base.worker
    cdef Posted *posted
    if atomic_load32(&other.posted) >= POSTED_MAX:
        return
    posted = <Posted *>malloc(sizeof(Posted) + endpoint.header + length)
    if posted == NULL:
        return
    posted.mail.run = on_posted
    posted.listener = sock.group.listener
    posted.generation = sock.group.generation
    posted.path = path[0]
    posted.passed = passed
    posted.header = endpoint.header
    posted.length = length
    memcpy(posted.octets, octets - endpoint.header, endpoint.header + length)
    atomic_add32(&other.posted, 1)
    worker.ops.post(worker, &posted.mail)


cdef void on_posted(Mail *mail, Worker *worker) noexcept nogil:
    cdef Endpoint *endpoint = endpoints[worker.id]
    cdef Posted *posted = <Posted *>mail
    cdef QuicGroup *group = <QuicGroup *>atomic_load_pointer(<void **>&groups[posted.listener])
    atomic_add32(&endpoint.posted, <uint32_t>-1)
    if group != NULL and group.generation == posted.generation:
        endpoint.header = posted.header
        on_datagram(endpoint, socket_of(group, worker), posted.octets + posted.header, posted.length, &posted.path, posted.passed)
        endpoint.header = 0
        connections_run(&endpoint.quic)
        begin_pending(endpoint)
    free(posted)


cdef void on_passed(Worker *worker, uint64_t listener, const QuicPath *path, uint8_t *octets, uint32_t length) noexcept nogil:
    cdef Endpoint *endpoint = endpoints[worker.id]
    cdef const ServerTable *server
    cdef QuicGroup *group
    cdef QuicPath own = path[0]
    cdef uint32_t i
    for i in range(LISTENERS_MAX):
        group = <QuicGroup *>atomic_load_pointer(<void **>&groups[i])
        if group != NULL and group.name == listener:
            server = worker.set.servers[i]
            if server != NULL and server.proxy != NULL and not own.proxied:     # of a session that the other process does not know, maybe
                proxy_session(server.proxy, &own.peer, worker.now, worker.id, &own.client, NULL)
                own.proxied = not is_same(&own.client, &own.peer)
            on_datagram(endpoint, socket_of(group, worker), octets, length, &own, True)
            connections_run(&endpoint.quic)
            return


cdef inline QuicSocket *socket_of(QuicGroup *group, const Worker *worker) noexcept nogil:
    return group.sockets[worker.id]


# ---- answers without a connection ----

cdef void negotiate(Endpoint *endpoint, QuicSocket *sock, const Header *header, const QuicPath *path) noexcept nogil:
    cdef uint8_t *out = output_room(&endpoint.quic.output)
    cdef ssize_t n = quiche.negotiate_version(header.source, header.source_length, header.destination, header.destination_length, out, PACKET_SIZE)
    if n > 0:
        output_add(&endpoint.quic.output, &sock.udp, &path.peer, &path.local, <uint32_t>n)


cdef void send_retry(Endpoint *endpoint, QuicSocket *sock, const Header *header, const QuicPath *path) noexcept nogil:
    """Whoever answers it has the address that the first packet came from."""
    cdef uint8_t *out = output_room(&endpoint.quic.output)
    cdef uint8_t id[ID_LENGTH]
    cdef uint8_t token[TOKEN_MAX]
    cdef uint32_t length
    cdef ssize_t n
    connection_id(sock, id)
    length = token_write(token, &path.client, id, header.destination, <uint32_t>header.destination_length, endpoint.quic.base.worker.now)
    n = quiche.retry(header.source, header.source_length, header.destination, header.destination_length, id, ID_LENGTH, token, length, header.version,
                     out, PACKET_SIZE)
    if n > 0:
        output_add(&endpoint.quic.output, &sock.udp, &path.peer, &path.local, <uint32_t>n)


cdef void send_reset(Endpoint *endpoint, QuicSocket *sock, const uint8_t *id, const QuicPath *path) noexcept nogil:
    """RFC 9000 10.3: looks like a packet with a short header; its end is the token of the connection id."""
    cdef uint8_t *out = output_room(&endpoint.quic.output)
    cdef uint32_t i, bits
    for i in range(0, RESET_SIZE, 4):
        bits = random_next(&endpoint.quic.base.worker.random)
        memcpy(out + i, &bits, 4)
    out[0] = 0x40 | out[0] & 0x3F
    connection_reset_token(id, out + RESET_SIZE - 16)
    output_add(&endpoint.quic.output, &sock.udp, &path.peer, &path.local, RESET_SIZE)


# ---- handshakes ----

cdef inline uint32_t share(const Endpoint *endpoint, uint32_t most) noexcept nogil:
    """Of a worker, of a bound of the process."""
    return max(<uint32_t>4, most // endpoint.quic.base.worker.workers)


cdef void await_turn(Endpoint *endpoint, QuicSocket *sock, const Header *header, const uint8_t *octets, uint32_t length,
                     const QuicPath *path) noexcept nogil:
    cdef Pending *pending
    cdef const Worker *worker = endpoint.quic.base.worker
    cdef const ServerTable *server = worker.set.servers[sock.group.listener]
    cdef uint8_t original[CONNECTION_ID_MAX]
    if worker.set.listeners[sock.group.listener] != sock.group.generation or length > PENDING_SIZE:
        return
    if endpoint.quic.handshake_count + endpoint.count >= share(endpoint, RETRY_ABOVE) and token_check(
            header.token, <uint32_t>header.token_length, &path.client, header.destination, <uint32_t>header.destination_length,
            endpoint.quic.base.worker.now, original) == 0:
        send_retry(endpoint, sock, header, path)
        return
    if endpoint.count == PENDING_MAX:       # the one that waits longest has lost its patience first
        tlvs_unref(endpoint.pending[endpoint.first].tlvs, worker.id)
        endpoint.first = (endpoint.first + 1) % PENDING_MAX
        endpoint.count -= 1
    pending = &endpoint.pending[(endpoint.first + endpoint.count) % PENDING_MAX]
    endpoint.count += 1
    pending.sock = sock
    pending.generation = sock.group.generation
    pending.path = path[0]
    pending.tlvs = NULL
    if server != NULL and server.proxy != NULL:
        pending.tlvs = proxy_datagram_tlvs(server.proxy, octets - endpoint.header, endpoint.header, &path.peer, worker.now, worker.id)
    pending.length = length
    memcpy(pending.octets, octets, length)
    endpoint.quic.base.poll_at = POLL_ALWAYS


cdef void begin_pending(Endpoint *endpoint) noexcept nogil:
    """The next of those that wait, if none has begun in this turn."""
    cdef Pending *pending
    if endpoint.count == 0 or endpoint.begun:
        return
    endpoint.begun += 1
    pending = &endpoint.pending[endpoint.first]
    endpoint.first = (endpoint.first + 1) % PENDING_MAX
    endpoint.count -= 1
    if endpoint.count == 0:
        endpoint.quic.base.poll_at = moderation_next(&endpoint.quic)
    if pending.sock != NULL:
        begin(endpoint, pending)
        connections_run(&endpoint.quic)
    tlvs_unref(pending.tlvs, endpoint.quic.base.worker.id)


cdef void begin(Endpoint *endpoint, Pending *pending) noexcept nogil:
    cdef QuicConnection *connection
    cdef Header header
    cdef uint8_t original[CONNECTION_ID_MAX]
    cdef uint32_t original_length
    cdef uint64_t key
    header.source_length = header.destination_length = CONNECTION_ID_MAX
    header.token_length = TOKEN_MAX
    quiche.header_info(pending.octets, pending.length, ID_LENGTH, &header.version, &header.kind, header.source, &header.source_length,
                       header.destination, &header.destination_length, header.token, &header.token_length)
    # A ClientHello may take several datagrams, and a client sends its first one again.
    memcpy(&key, header.destination, ID_LENGTH)
    connection = <QuicConnection *>table_find(&endpoint.quic.ids, key) if header.destination_length == ID_LENGTH else NULL
    if connection == NULL:
        key = hash_octets(header.destination, <uint32_t>header.destination_length, hash_seed) | 1
        connection = <QuicConnection *>table_find(&endpoint.quic.ids, key)
    if connection != NULL:
        connection_feed(connection, &pending.path, pending.octets, pending.length)
        return
    original_length = token_check(header.token, <uint32_t>header.token_length, &pending.path.client, header.destination, <uint32_t>header.destination_length,
                                  endpoint.quic.base.worker.now, original)
    if endpoint.quic.handshake_count >= share(endpoint, HANDSHAKES_MAX):
        evict_handshake(&endpoint.quic)
    connection = connection_begin(&endpoint.quic, pending.sock, header.destination, <uint32_t>header.destination_length, original, original_length,
                                  &pending.path, pending.octets, pending.length)
    if connection != NULL:
        connection.tlvs = pending.tlvs
        pending.tlvs = NULL


cdef inline QuicConnection *handshake_of(ListNode *node) noexcept nogil:
    return <QuicConnection *>list_container(node, <size_t>&(<QuicConnection *>NULL).handshake_node)


cdef void evict_handshake(QuicWorker *quic) noexcept nogil:
    """The oldest of the network that has most under way."""
    cdef QuicConnection *connection = handshake_of(list_first(&quic.handshakes))
    cdef QuicConnection *chosen = NULL
    cdef uint32_t most = 0
    while connection != NULL:           # the newest first: of equals the last one is taken
        if quic.holding[connection.prefix] >= most:
            most = quic.holding[connection.prefix]
            chosen = connection
        connection = handshake_of(list_next(&quic.handshakes, &connection.handshake_node))
    if chosen != NULL:
        connection_drop(chosen)


# ---- the transport ----

cdef TransportWorker *init(Worker *worker) noexcept nogil:
    cdef Endpoint *endpoint = <Endpoint *>calloc(1, sizeof(Endpoint))
    if endpoint == NULL:
        return NULL
    endpoint.quic.base.ops = &quic_transport
    endpoint.quic.base.worker = worker
    list_init(&endpoint.quic.connections)
    list_init(&endpoint.quic.handshakes)
    endpoint.quic.output.transport = &endpoint.quic.base
    endpoints[worker.id] = endpoint
    return &endpoint.quic.base


cdef int prepare(Endpoint *endpoint) noexcept nogil:
    """Buffers, for the first listener: a worker without one has none."""
    if endpoint.pending == NULL:
        endpoint.quic.arena = <uint8_t *>malloc(ARENA_SIZE)
        endpoint.quic.reply = <uint8_t *>malloc(REPLY_SIZE)
        endpoint.pending = <Pending *>calloc(PENDING_MAX, sizeof(Pending))
        if endpoint.quic.arena == NULL or endpoint.quic.reply == NULL or endpoint.pending == NULL:
            return -1
        return output_init(&endpoint.quic.output, &endpoint.quic.base)
    return 0


cdef void poll(TransportWorker *transport) noexcept nogil:
    cdef Endpoint *endpoint = <Endpoint *>transport
    begin_pending(endpoint)
    moderation_run(&endpoint.quic)
    if endpoint.count == 0:
        transport.poll_at = moderation_next(&endpoint.quic)


cdef void flush(TransportWorker *transport) noexcept nogil:
    cdef Endpoint *endpoint = <Endpoint *>transport
    endpoint.begun = 0
    endpoint.resets = 0
    if endpoint.quic.output.count:
        output_flush(&endpoint.quic.output)


cdef void close_all(TransportWorker *transport) noexcept nogil:
    cdef QuicWorker *quic = <QuicWorker *>transport
    cdef QuicConnection *connection = quic_connection_of(list_first(&quic.connections))
    cdef QuicConnection *following
    while connection != NULL:
        following = quic_connection_of(list_next(&quic.connections, &connection.node))
        connection.finishing = 1
        connection_close(connection, connection.protocol.no_error, b"")
        connection = following


cdef ListenSocket *socket_new() noexcept nogil:
    return <ListenSocket *>calloc(1, sizeof(QuicSocket))


cdef void socket_free(ListenSocket *sock) noexcept nogil:
    free(sock)


cdef void describe(ListenSocket *listening, uint8_t family, bint wildcard) noexcept nogil:
    cdef QuicSocket *sock = <QuicSocket *>listening
    cdef uint32_t i
    udp_describe(&sock.udp, udp_batch(listening.transport.worker.id), family, wildcard, take)
    sock.udp.base.source.ready = moderation_ready
    sock.flush.run = next_queries
    sock.flush.data = sock
    list_init(&sock.waiting)
    for i in range(NETWORKS):
        list_init(&sock.networks[i].waiting)


cdef void next_queries(Flush *flush, Worker *worker) noexcept nogil:
    streams_next(<QuicSocket *>flush.data)


cdef void listen_end(ListenSocket *listening) noexcept nogil:
    cdef Endpoint *endpoint = <Endpoint *>listening.transport
    cdef QuicConnection *connection = quic_connection_of(list_first(&endpoint.quic.connections))
    cdef QuicConnection *following
    cdef uint32_t i
    moderation_end(<QuicSocket *>listening, &endpoint.quic)
    udp_listen_end(listening)
    if handover_left():
        return
    for i in range(endpoint.count):
        if endpoint.pending[(endpoint.first + i) % PENDING_MAX].sock == <QuicSocket *>listening:
            endpoint.pending[(endpoint.first + i) % PENDING_MAX].sock = NULL
    while connection != NULL:
        following = quic_connection_of(list_next(&endpoint.quic.connections, &connection.node))
        if connection.generation == listening.generation:
            connection_finish(connection)
        connection = following


cdef void finish_all(WorkerCall *call, Worker *worker) noexcept nogil:
    cdef QuicWorker *quic = &endpoints[worker.id].quic
    cdef QuicConnection *connection = quic_connection_of(list_first(&quic.connections))
    cdef QuicConnection *following
    while connection != NULL:
        following = quic_connection_of(list_next(&quic.connections, &connection.node))
        connection_finish(connection)
        connection = following


# ---- listeners ----

cdef int endpoint_add(QuicGroup *group) except -1:
    cdef uint32_t i
    for i in range(WORKERS_MAX):
        if endpoints[i] != NULL and prepare(endpoints[i]) < 0:
            raise MemoryError
    atomic_store_pointer(<void **>&groups[group.listener], group)
    return 0


cdef uint32_t endpoint_connections() noexcept:
    cdef uint32_t i, count = 0
    for i in range(WORKERS_MAX):
        if endpoints[i] != NULL:
            count += atomic_peek32(&endpoints[i].quic.base.connections)
    return count


cdef void endpoint_finish(WorkerCall *call) noexcept:
    call.run = finish_all


cdef void endpoint_remove(QuicGroup *group) noexcept:
    if groups[group.listener] == group:
        atomic_store_pointer(<void **>&groups[group.listener], NULL)

handover_receive(on_passed)
quic_transport.socket_type = SOCK_DGRAM
quic_transport.init = init
quic_transport.poll = poll
quic_transport.flush = flush
quic_transport.close_all = close_all
quic_transport.socket_new = socket_new
quic_transport.socket_free = socket_free
quic_transport.options = udp_options
quic_transport.spread = quic_spread
quic_transport.describe = describe
quic_transport.listen_begin = udp_listen_begin
quic_transport.listen_end = listen_end
