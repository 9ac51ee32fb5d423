"""The places of a listener for QUIC connections. The contract is in engine/quic/places.pxd."""
from libc.stdint cimport int64_t, uint32_t
from fastdns.engine.quic.state cimport NETWORKS, STAGE_SERVED, Offer, QuicGroup, QuicSocket, QuicWorker, quic_connection_of
from fastdns.system.atomic cimport atomic_add32, atomic_bump32, atomic_load32, atomic_load_pointer, atomic_peek32
from fastdns.system.list cimport list_last, list_previous
from fastdns.walk.query cimport WORKERS_MAX, Mail, Worker

cdef enum:
    ANY = NETWORKS                  # no network in particular
    FURTHER_MAX = 16                # places that are given while another worker is asked

# Another worker is asked for a place.
cdef struct PlaceRequest:           # one for each worker, which owns it; the mail is under way while `pending`
    Mail mail                       # first: to the other worker and back
    QuicWorker *requester
    QuicWorker *owner               # the other worker's
    EndFunc end
    uint32_t generation             # of the listener
    uint32_t network                # that loses a connection, or ANY
    bint surplus                    # for clients that have their places already; otherwise one that is idle ends, for one that may try again
    uint32_t pending
    uint32_t further                # places that were wanted meanwhile
    uint32_t turn                   # of the worker that is asked, where it may be any

cdef PlaceRequest requests[WORKERS_MAX]    # by Worker.id


cdef bint places_enter(QuicConnection *connection, EndFunc end) noexcept nogil:
    cdef QuicGroup *group = connection.socket.group
    atomic_bump32(&connection.socket.networks[connection.network].served, 1)
    atomic_add32(&group.connections, 1)
    return places_left(group) >= 0 or make_place(connection, end)


cdef void places_leave(QuicConnection *connection) noexcept nogil:
    atomic_bump32(&connection.socket.networks[connection.network].served, -1)
    atomic_add32(&connection.socket.group.connections, <uint32_t>-1)


cdef inline int64_t places_left(QuicGroup *group) noexcept nogil:
    """Below 0: there are more connections than there may be."""
    cdef uint32_t connections_max = (<Offer *>atomic_load_pointer(<void **>&group.offer)).connections_max
    return <int64_t>connections_max - atomic_load32(&group.connections)


cdef bint make_place(QuicConnection *connection, EndFunc end) noexcept nogil:
    """For a connection that counts already."""
    cdef QuicConnection *other
    cdef uint32_t network = connection.network
    cdef uint32_t largest = find_largest(connection.socket.group)
    cdef uint32_t most = served_of(connection.socket.group, largest)
    if most <= MANY:
        network = ANY
    elif most > served_of(connection.socket.group, network):
        other = find_used_least(connection.owner, connection.generation, largest)
        if other == NULL:
            return ask(connection.owner, connection.socket, end, largest, True)
        end(other)
        return True
    other = find_idle(connection.owner, connection.generation, network)
    if other == NULL:
        ask(connection.owner, connection.socket, end, network, False)
        return False
    end(other)
    return True


# ---- which connection ----

cdef uint32_t served_of(const QuicGroup *group, uint32_t network) noexcept nogil:
    """Connections of a network, of all workers."""
    cdef uint32_t i, count = 0
    for i in range(group.count):
        count += atomic_peek32(&group.sockets[i].networks[network].served)
    return count


cdef uint32_t find_largest(const QuicGroup *group) noexcept nogil:
    """The network that has most connections."""
    cdef uint32_t i, count, most = 0, largest = 0
    for i in range(NETWORKS):
        count = served_of(group, i)
        if count > most:
            most = count
            largest = i
    return largest


cdef inline bint is_of(const QuicConnection *connection, uint32_t generation, uint32_t network) noexcept nogil:
    return connection.stage == STAGE_SERVED and connection.generation == generation and network in (connection.network, ANY)


cdef QuicConnection *find_used_least(QuicWorker *owner, uint32_t generation, uint32_t network) noexcept nogil:
    """Of a network the one that was used longest ago, before others one without a query under way; NULL: none is of this worker."""
    cdef QuicConnection *connection = quic_connection_of(list_last(&owner.connections))
    cdef QuicConnection *working = NULL
    while connection != NULL:
        if is_of(connection, generation, network):
            if connection.outstanding == 0:
                return connection
            if working == NULL:
                working = connection
        connection = quic_connection_of(list_previous(&owner.connections, &connection.node))
    return working


cdef QuicConnection *find_idle(QuicWorker *owner, uint32_t generation, uint32_t network) noexcept nogil:
    """The one that is idle longest, of this worker's; NULL: all are in use."""
    cdef QuicConnection *connection = quic_connection_of(list_last(&owner.connections))
    while connection != NULL and owner.base.worker.now - connection.used_at >= IDLE_AFTER:
        if is_of(connection, generation, network) and connection.outstanding == 0:
            return connection
        connection = quic_connection_of(list_previous(&owner.connections, &connection.node))
    return NULL


# ---- connections of other workers ----

cdef bint ask(QuicWorker *requester, QuicSocket *own, EndFunc end, uint32_t network, bint surplus) noexcept nogil:
    """Another worker. True: a connection may have its place at once."""
    cdef Worker *worker = requester.base.worker
    cdef PlaceRequest *request = &requests[worker.id]
    cdef QuicSocket *other
    if own.group.count < 2:
        return False
    if request.pending:
        # Who has no claim to a place may try again and again, and counts nothing.
        request.further += surplus
        return surplus and request.further <= FURTHER_MAX
    other = find_holder(own.group, network) if surplus else next_socket(own, request)
    request.mail.run = on_request
    request.requester = requester
    request.owner = <QuicWorker *>other.udp.base.transport
    request.end = end
    request.generation = own.group.generation
    request.network = network
    request.surplus = surplus
    request.pending = 1
    request.further = 0
    worker = request.owner.base.worker
    worker.ops.post(worker, &request.mail)
    return surplus


cdef QuicSocket *find_holder(const QuicGroup *group, uint32_t network) noexcept nogil:
    """The socket that has most connections of a network."""
    cdef uint32_t i, count, most = 0
    cdef QuicSocket *holder = group.sockets[0]
    for i in range(group.count):
        count = atomic_peek32(&group.sockets[i].networks[network].served)
        if count > most:
            most = count
            holder = group.sockets[i]
    return holder


cdef QuicSocket *next_socket(const QuicSocket *sock, PlaceRequest *request) noexcept nogil:
    """One of another worker, in turn."""
    request.turn += 1
    return sock.group.sockets[(sock.index + 1 + request.turn % (sock.group.count - 1)) % sock.group.count]


cdef void on_request(Mail *mail, Worker *worker) noexcept nogil:
    """On the other worker."""
    cdef PlaceRequest *request = <PlaceRequest *>mail
    if request.surplus:
        end_surplus(request)
    else:
        end_idle(request)
    request.mail.run = on_reply
    worker = request.requester.base.worker
    worker.ops.post(worker, &request.mail)


cdef void end_idle(PlaceRequest *request) noexcept nogil:
    """For a client that may try again."""
    cdef QuicConnection *connection = find_idle(request.owner, request.generation, request.network)
    if connection != NULL and places_left(connection.socket.group) <= 0:
        request.end(connection)


cdef void end_surplus(PlaceRequest *request) noexcept nogil:
    """For clients that have their places already."""
    cdef QuicConnection *connection = find_used_least(request.owner, request.generation, request.network)
    while connection != NULL and places_left(connection.socket.group) < 0:
        request.end(connection)
        connection = find_used_least(request.owner, request.generation, request.network)


cdef void on_reply(Mail *mail, Worker *worker) noexcept nogil:
    cdef PlaceRequest *request = <PlaceRequest *>mail
    cdef QuicConnection *connection
    request.pending = 0
    if request.further:
        connection = find_used_least(request.requester, request.generation, ANY)
        if connection != NULL:
            end_further(request.requester, connection.socket, request.end)


cdef void end_further(QuicWorker *owner, QuicSocket *sock, EndFunc end) noexcept nogil:
    """As many as got in while another worker was asked, and are too many still."""
    cdef QuicGroup *group = sock.group
    cdef QuicConnection *connection
    cdef uint32_t largest
    while places_left(group) < 0:
        largest = find_largest(group)
        if served_of(group, largest) <= MANY:
            return
        connection = find_used_least(owner, group.generation, largest)
        if connection == NULL:
            ask(owner, sock, end, largest, True)
            return
        end(connection)
