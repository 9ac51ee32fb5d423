"""QUIC connections on their worker. The contract is in engine/quic/connection.pxd."""
from libc.stdint cimport UINT64_MAX, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset, strlen
from fastdns.engine.quic.moderation cimport MODERATION_INTERVAL
from fastdns.engine.quic.output cimport PACKET_SIZE, output_add, output_room
from fastdns.engine.quic.places cimport places_enter, places_leave
from fastdns.engine.quic.proxies cimport proxies_find, proxies_learn
from fastdns.engine.quic.quiche cimport (ERROR_CRYPTO, ERROR_PACKET, ERROR_SHORT, PATH_MIGRATED, VERIFIER_SIZE, c_bool, quic_receive_info, quic_send_info,
                                         quiche, quiche_connection_id_iter, quiche_path_event, quiche_socket_addr_iter, sockaddr_storage)
from fastdns.engine.quic.state cimport (IDS_MAX, STAGE_ENDED, STAGE_HANDSHAKE, STAGE_SERVED, Offer, QuicConnection, QuicPath, QuicProtocol,
                                        QuicSocket, QuicStream, QuicWorker, quic_first_reading, quic_stream_of)
from fastdns.engine.quic.stream cimport stream_cancel, stream_read_end, streams_run
from fastdns.engine.quic.table cimport table_add, table_remove
from fastdns.proxy.tlvs cimport tlvs_unref
from fastdns.system.address cimport Address, address_from_socket, address_network, address_prefix, address_to_socket
from fastdns.system.atomic cimport atomic_bump32, atomic_load_pointer
from fastdns.system.hash cimport hash_network, hash_octets, hash_seed
from fastdns.system.list cimport list_first, list_init, list_next, list_prepend, list_remove
from fastdns.system.random cimport random_next
from fastdns.system.socket cimport sockaddr, sockaddr_in6, socklen_t
from fastdns.telemetry.metrics cimport metric_add
from fastdns.walk.query cimport ChainSet, Flush, ServerTable, Timer, Worker, worker_flush

cdef enum:
    # ns, whatever the idle timeout is: of a handshake, and of one without a datagram. These are quic-go's.
    HANDSHAKE_TIMEOUT = 10000000000
    HANDSHAKE_IDLE_TIMEOUT = 5000000000
    TIMER_SLACK = 4000000               # ns: a timer that is due so much too early is left alone
    IDS_OFFERED = 2                     # ids of ours that a client has at a time


# ---- ids ----

cdef void connection_id(QuicSocket *sock, uint8_t *id) noexcept nogil:
    cdef Worker *worker = sock.udp.batch.base.worker
    cdef uint32_t bits = random_next(&worker.random)
    cdef uint32_t count = sock.group.count
    memcpy(id + 4, &bits, 4)
    bits = random_next(&worker.random)
    memcpy(id, &bits, 4)
    # One of the octets that name the socket: modulo the count, as the kernel's filter computes it.
    id[0] = <uint8_t>(sock.index + count * ((bits >> 24) % (256 // count)))
    id[1] = sock.group.tag


cdef void connection_reset_token(const uint8_t *id, uint8_t *token) noexcept nogil:
    cdef uint8_t verifier[VERIFIER_SIZE]
    quiche.authenticate(id, ID_LENGTH, verifier)
    memcpy(token, verifier, 16)


cdef inline uint64_t key_of(const uint8_t *id) noexcept nogil:
    cdef uint64_t key
    memcpy(&key, id, ID_LENGTH)
    return key


cdef bint learn_id(QuicConnection *connection, const uint8_t *id) noexcept nogil:
    if connection.key_count == IDS_MAX or table_add(&connection.owner.ids, key_of(id), connection) < 0:
        return False
    connection.keys[connection.key_count] = key_of(id)
    connection.key_count += 1
    return True


cdef void forget_id(QuicConnection *connection, uint64_t key) noexcept nogil:
    cdef uint32_t i
    for i in range(connection.key_count):
        if connection.keys[i] == key:
            connection.key_count -= 1
            connection.keys[i] = connection.keys[connection.key_count]
            table_remove(&connection.owner.ids, key)
            return


cdef void offer_ids(QuicConnection *connection) noexcept nogil:
    """So that the client may move to another path (RFC 9000 9.5)."""
    cdef uint8_t id[ID_LENGTH]
    cdef uint8_t token[16]
    cdef uint64_t sequence
    while connection.key_count < IDS_OFFERED and quiche.ids_left(connection.quic):
        connection_id(connection.socket, id)
        connection_reset_token(id, token)
        if not learn_id(connection, id):
            return
        if quiche.new_id(connection.quic, id, ID_LENGTH, token, False, &sequence) < 0:
            forget_id(connection, key_of(id))
            return


cdef void retire_ids(QuicConnection *connection) noexcept nogil:
    cdef quiche_connection_id_iter *ids = quiche.retired_iter(connection.quic)
    cdef const uint8_t *id
    cdef size_t length
    while quiche.id_iter_next(ids, &id, &length):
        if length == ID_LENGTH:
            forget_id(connection, key_of(id))
    quiche.id_iter_free(ids)
    offer_ids(connection)


# ---- begin and end ----

cdef QuicConnection *connection_begin(QuicWorker *owner, QuicSocket *sock, const uint8_t *first, uint32_t first_length, const uint8_t *original,
                                      uint32_t original_length, const QuicPath *path, uint8_t *octets, uint32_t length) noexcept nogil:
    cdef Offer *offer = <Offer *>atomic_load_pointer(<void **>&sock.group.offer)
    cdef QuicConnection *connection = <QuicConnection *>calloc(1, sizeof(QuicConnection))
    cdef Worker *worker = owner.base.worker
    cdef sockaddr_in6 here, there
    cdef uint8_t id[ID_LENGTH]
    cdef uint8_t token[16]
    if connection == NULL:
        return NULL
    connection.owner = owner
    connection.socket = sock
    connection.protocol = sock.group.protocol
    connection.listener = sock.group.listener
    connection.generation = sock.group.generation
    connection.client = path.client
    connection.peer = path.peer
    connection.local = path.local
    connection.network = hash_network(address_network(&path.client))
    connection.prefix = hash_network(address_prefix(&path.client))
    connection.timer.fire = on_time
    connection.timer.data = connection
    connection.flush.run = flush_connection
    connection.flush.data = connection
    connection.begun_at = worker.now
    connection.used_at = worker.now
    connection.streams_max = offer.streams_max
    list_init(&connection.streams)
    list_init(&connection.reading)
    list_init(&connection.waiting)
    if original_length:
        memcpy(id, first, ID_LENGTH)            # that of our Retry
    else:
        connection_id(sock, id)
        connection.initial_key = hash_octets(first, first_length, hash_seed) | 1
    connection_reset_token(id, token)
    if not learn_id(connection, id) or (connection.initial_key and table_add(&owner.ids, connection.initial_key, connection) < 0):
        connection.initial_key = 0
        give_up(connection)
        return NULL
    memset(&here, 0, sizeof(here))
    memset(&there, 0, sizeof(there))
    connection.quic = quiche.accept(id, ID_LENGTH, original, original_length,
                                    <sockaddr *>&here, address_to_socket(&path.local, sock.udp.family, &here),
                                    <sockaddr *>&there, client_to_socket(connection, &path.client, &there),
                                    offer.configs[worker.id], token, offer.context)
    if connection.quic == NULL:
        give_up(connection)
        return NULL
    link(connection)
    connection_feed(connection, path, octets, length)
    return connection if connection.quic != NULL else NULL


cdef void give_up(QuicConnection *connection) noexcept nogil:
    """Of one that is in no list yet."""
    while connection.key_count:
        forget_id(connection, connection.keys[0])
    if connection.initial_key:
        table_remove(&connection.owner.ids, connection.initial_key)
    free(connection)


cdef void link(QuicConnection *connection) noexcept nogil:
    cdef QuicWorker *owner = connection.owner
    list_prepend(&owner.handshakes, &connection.handshake_node)
    owner.handshake_count += 1
    owner.holding[connection.prefix] += 1
    atomic_bump32(&owner.base.connections, 1)
    list_prepend(&owner.connections, &connection.node)


cdef void leave_stage(QuicConnection *connection) noexcept nogil:
    """It is no handshake, or not served, any more."""
    cdef QuicWorker *owner = connection.owner
    if connection.stage == STAGE_HANDSHAKE:
        list_remove(&connection.handshake_node)
        owner.handshake_count -= 1
        owner.holding[connection.prefix] -= 1
    elif connection.stage == STAGE_SERVED:
        places_leave(connection)
        while quic_first_reading(connection) != NULL:
            stream_read_end(quic_first_reading(connection))


cdef void connection_close(QuicConnection *connection, uint64_t code, const char *reason) noexcept nogil:
    if connection.quic == NULL or connection.stage == STAGE_ENDED:
        return
    quiche.close(connection.quic, True, code, <const uint8_t *>reason, strlen(reason))
    leave_stage(connection)
    connection.stage = STAGE_ENDED
    worker_flush(connection.owner.base.worker, &connection.flush)


cdef void connection_drop(QuicConnection *connection) noexcept nogil:
    """Queries of it that are under way find their streams cancelled; the last one has the memory freed."""
    cdef QuicWorker *owner = connection.owner
    cdef Worker *worker = owner.base.worker
    cdef QuicStream *stream
    cdef QuicStream *following
    if connection.quic == NULL:
        return
    leave_stage(connection)
    connection.stage = STAGE_ENDED
    worker.ops.timer_stop(worker, &connection.timer)
    while connection.key_count:
        forget_id(connection, connection.keys[0])
    if connection.initial_key:
        table_remove(&owner.ids, connection.initial_key)
        connection.initial_key = 0
    list_remove(&connection.node)
    atomic_bump32(&owner.base.connections, -1)
    stream = quic_stream_of(list_first(&connection.streams))
    while stream != NULL:
        following = quic_stream_of(list_next(&connection.streams, &stream.node))
        stream_cancel(stream)
        stream = following
    connection.protocol.end(connection)
    quiche.free(connection.quic)
    connection.quic = NULL
    free(connection.last_words)
    connection.last_words = NULL
    free(connection.proxies)
    connection.proxies = NULL
    worker_flush(worker, &connection.flush)     # events of this batch may still name it: it is freed at the batch's end


cdef void connection_finish(QuicConnection *connection) noexcept nogil:
    connection.finishing = 1
    if connection.outstanding == 0:
        connection_close(connection, connection.protocol.no_error, b"")
    worker_flush(connection.owner.base.worker, &connection.flush)


cdef void refuse(QuicConnection *connection) noexcept nogil:
    cdef Offer *offer = <Offer *>atomic_load_pointer(<void **>&connection.socket.group.offer)
    cdef const QuicProtocol *protocol = connection.protocol
    connection_close(connection, protocol.excessive_load if offer.refusal else protocol.no_error, b"too many connections")


cdef void end_for_another(QuicConnection *connection) noexcept nogil:
    if connection.outstanding:
        refuse(connection)
    else:
        connection_close(connection, connection.protocol.no_error, b"idle")


cdef bint admit(QuicConnection *connection) noexcept nogil:
    """Its handshake is complete: it is served, unless it is one too many."""
    cdef const QuicProtocol *protocol = connection.protocol
    leave_stage(connection)
    connection.stage = STAGE_SERVED
    if connection.initial_key:
        table_remove(&connection.owner.ids, connection.initial_key)
        connection.initial_key = 0
    if not places_enter(connection, end_for_another):
        refuse(connection)
        return False
    if not protocol.begin(connection):
        connection_close(connection, protocol.excessive_load, b"")
        return False
    offer_ids(connection)
    return True


# ---- datagrams in ----

cdef inline uint32_t client_to_socket(const QuicConnection *connection, const Address *client, sockaddr_in6 *out) noexcept nogil:
    """As quiche has it: a PROXY header may name an IPv6 client on an IPv4 socket."""
    return address_to_socket(client, max(client.family, connection.socket.udp.family), out)


cdef void connection_feed(QuicConnection *connection, const QuicPath *path, uint8_t *octets, uint32_t length) noexcept nogil:
    cdef QuicWorker *owner = connection.owner
    cdef ssize_t status
    cdef quic_receive_info info
    cdef sockaddr_in6 here, there
    if connection.stage == STAGE_ENDED:
        repeat_last_words(connection)
        return
    memset(&here, 0, sizeof(here))
    memset(&there, 0, sizeof(there))
    info.from_ = <sockaddr *>&there
    info.from_length = client_to_socket(connection, &path.client, &there)
    info.to = <sockaddr *>&here
    info.to_length = address_to_socket(&path.local, connection.socket.udp.family, &here)
    status = quiche.receive(connection.quic, octets, length, &info)
    if connection.stage == STAGE_HANDSHAKE and status in (ERROR_SHORT, ERROR_PACKET, ERROR_CRYPTO):     # nothing could be understood yet
        connection_drop(connection)
        return
    # Before the next datagram: one that says again that the id is retired is an error to quiche where a single id is left.
    if connection.stage == STAGE_SERVED and quiche.retired_ids(connection.quic):
        retire_ids(connection)
    if path.proxied:
        proxies_learn(&connection.proxies, path, &connection.client)
    connection.peer = path.peer
    connection.local = path.local
    if owner.base.worker.now - connection.used_at < MODERATION_INTERVAL:
        connection.socket.moderation.joined += 1
    connection.used_at = owner.base.worker.now
    list_remove(&connection.node)
    list_prepend(&owner.connections, &connection.node)
    if not connection.is_fed:
        connection.is_fed = 1
        connection.next_fed = owner.fed
        owner.fed = connection


cdef void repeat_last_words(QuicConnection *connection) noexcept nogil:
    """The client has not heard that the connection is closed: say it again, to every second, fourth, eighth … datagram (RFC 9000 10.2.1)."""
    cdef uint8_t *out
    connection.unheard += 1
    if connection.last_words != NULL and connection.unheard & (connection.unheard - 1) == 0:
        out = output_room(&connection.owner.output)
        memcpy(out, connection.last_words, connection.last_words_size)
        output_add(&connection.owner.output, &connection.socket.udp, &connection.peer, &connection.local, connection.last_words_size)


cdef void connections_run(QuicWorker *owner) noexcept nogil:
    cdef QuicConnection *connection
    while owner.fed != NULL:
        connection = owner.fed
        owner.fed = connection.next_fed
        connection.is_fed = 0
        if connection.quic == NULL:
            continue
        if connection.stage == STAGE_HANDSHAKE and quiche.is_established(connection.quic):
            admit(connection)
        if connection.stage == STAGE_SERVED:
            connection.protocol.input(connection)
        if connection.stage == STAGE_SERVED:
            look_after(connection)
        worker_flush(owner.base.worker, &connection.flush)
    streams_run(owner)


cdef void look_after(QuicConnection *connection) noexcept nogil:
    """What quiche has to say of paths, which it keeps until it is asked."""
    cdef quiche_path_event *event
    while True:
        event = quiche.path_event(connection.quic)
        if event == NULL:
            return
        connection.moved = 1
        if quiche.path_event_type(event) == PATH_MIGRATED:
            move(connection, event)
        quiche.path_event_free(event)


cdef void move(QuicConnection *connection, const quiche_path_event *event) noexcept nogil:
    """The client has shown that it has its new address: from now on its queries come from there. Before that anybody could claim any address."""
    cdef sockaddr_storage local, client
    cdef socklen_t local_length = sizeof(local), client_length = sizeof(client)
    quiche.path_migrated(event, &local, &local_length, &client, &client_length)
    address_from_socket(&connection.client, <sockaddr_in6 *>&client)


# ---- packets out ----

cdef void flush_connection(Flush *flush, Worker *worker) noexcept nogil:
    """At the end of a batch."""
    cdef QuicConnection *connection = <QuicConnection *>flush.data
    cdef QuicStream *stream
    cdef QuicStream *following
    if connection.quic == NULL:
        if connection.outstanding == 0 and not connection.is_fed:
            tlvs_unref(connection.tlvs, worker.id)
            free(connection)
        return
    if connection.stage == STAGE_SERVED:
        if connection.backlog:
            stream = quic_stream_of(list_first(&connection.streams))
            while stream != NULL and connection.stage == STAGE_SERVED:
                following = quic_stream_of(list_next(&connection.streams, &stream.node))
                if stream.blocked:
                    connection.protocol.output(stream)
                stream = following
        if connection.overloaded:
            connection_close(connection, connection.protocol.excessive_load, b"")
        elif connection.finishing and connection.outstanding == 0:      # no acknowledgement is read any more that would let the rest leave
            connection_close(connection, connection.protocol.no_error, b"")
    if connection.stage != STAGE_ENDED and (quiche.is_draining(connection.quic) or is_failing(connection)):
        leave_stage(connection)
        connection.stage = STAGE_ENDED
    write_packets(connection)
    if quiche.is_closed(connection.quic) or (connection.stage == STAGE_ENDED and connection.finishing):
        connection_drop(connection)
        return
    set_timer(connection, worker)


cdef inline bint is_failing(QuicConnection *connection) noexcept nogil:
    """quiche has closed it for an error."""
    cdef c_bool application
    cdef uint64_t code
    cdef const uint8_t *reason
    cdef size_t length
    return quiche.local_error(connection.quic, &application, &code, &reason, &length)


cdef void write_packets(QuicConnection *connection) noexcept nogil:
    cdef sockaddr_in6 local
    cdef sockaddr_storage peer
    cdef size_t length
    cdef socklen_t local_length
    cdef quiche_socket_addr_iter *paths
    write_path(connection, NULL, 0, NULL, 0)
    if not connection.moved:
        return
    # quiche tries one path, and none after it: where that one may send nothing, as to who has not shown its address, the others would wait for it.
    memset(&local, 0, sizeof(local))
    local_length = address_to_socket(&connection.local, connection.socket.udp.family, &local)
    paths = quiche.paths(connection.quic, <sockaddr *>&local, local_length)
    while True:
        length = sizeof(peer)
        if not quiche.paths_next(paths, &peer, &length):
            break
        write_path(connection, <sockaddr *>&local, local_length, <sockaddr *>&peer, <socklen_t>length)
    quiche.paths_free(paths)


cdef void write_path(QuicConnection *connection, const sockaddr *local, socklen_t local_length, const sockaddr *peer, socklen_t length) noexcept nogil:
    """All packets for a path; without one (NULL) for that which quiche takes."""
    cdef QuicWorker *owner = connection.owner
    cdef quic_send_info info
    cdef Address to
    cdef Address source
    cdef uint8_t *out
    cdef ssize_t n
    while True:
        out = output_room(&owner.output)
        if peer == NULL:
            n = quiche.send(connection.quic, out, PACKET_SIZE, &info)
        else:
            n = quiche.send_on_path(connection.quic, out, PACKET_SIZE, local, local_length, peer, length, &info)
        if n <= 0:
            return
        address_from_socket(&to, <sockaddr_in6 *>&info.to)
        address_from_socket(&source, <sockaddr_in6 *>&info.from_)
        if connection.stage == STAGE_ENDED and connection.last_words == NULL:
            connection.last_words = <uint8_t *>malloc(<size_t>n)
            if connection.last_words != NULL:
                memcpy(connection.last_words, out, <size_t>n)
                connection.last_words_size = <uint32_t>n
        output_add(&owner.output, &connection.socket.udp, &to if connection.proxies == NULL else proxies_find(connection.proxies, &to), &source, <uint32_t>n)


# ---- time ----

cdef inline int64_t give_up_at(const QuicConnection *connection) noexcept nogil:
    """Of a handshake."""
    return min(connection.begun_at + HANDSHAKE_TIMEOUT, connection.used_at + HANDSHAKE_IDLE_TIMEOUT)


cdef void set_timer(QuicConnection *connection, Worker *worker) noexcept nogil:
    """One for everything. It is left alone where it fires no later than it has to: it then looks again."""
    cdef uint64_t wait = quiche.timeout(connection.quic)
    cdef int64_t at = 0
    cdef const QuicStream *reading = quic_first_reading(connection)
    if wait != UINT64_MAX:
        at = worker.now + <int64_t>wait
    if connection.stage == STAGE_HANDSHAKE and (at == 0 or give_up_at(connection) < at):
        at = give_up_at(connection)
    if reading != NULL and (at == 0 or reading.deadline < at):
        at = reading.deadline
    if at and (connection.timer.deadline == 0 or connection.timer.deadline > at + TIMER_SLACK):
        worker.ops.timer_start(worker, &connection.timer, at)


cdef void on_time(Timer *timer, Worker *worker) noexcept nogil:
    cdef QuicConnection *connection = <QuicConnection *>timer.data
    cdef QuicStream *reading
    if connection.stage == STAGE_HANDSHAKE and worker.now >= give_up_at(connection):
        connection_drop(connection)
        return
    quiche.on_timeout(connection.quic)
    reading = quic_first_reading(connection)
    while connection.stage == STAGE_SERVED and reading != NULL and reading.deadline <= worker.now:
        expire(reading)
        reading = quic_first_reading(connection)
    worker_flush(worker, &connection.flush)


cdef void expire(QuicStream *stream) noexcept nogil:
    stream_read_end(stream)
    stream.connection.protocol.expire(stream)


cdef bint connection_reads_traces(const QuicConnection *connection) noexcept nogil:
    cdef const ChainSet *current = connection.owner.base.worker.set
    cdef const ServerTable *server = current.servers[connection.listener]
    return server != NULL and current.listeners[connection.listener] == connection.generation and server.trace_context


cdef void connection_count(QuicConnection *connection, uint32_t status) noexcept nogil:
    metric_add(connection.socket.group.cells[status], connection.owner.base.worker.id, 1)
