"""Streams of a QUIC connection. The contract is in engine/quic/stream.pxd."""
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy, memset
from fastdns._mux cimport query_accept, query_enter, query_run_all, query_streamed, query_take
from fastdns._wire cimport Acceptance
from fastdns.engine.http.trace cimport trace_whole
from fastdns.engine.quic.state cimport ARENA_SIZE, BACKLOG_MAX, SHARE, STAGE_SERVED, STREAM_BUCKETS, Offer, QuicNetwork
from fastdns.proxy.tlvs cimport ProxyTlvs
from fastdns.system.atomic cimport atomic_load_pointer
from fastdns.system.list cimport ListNode, list_append, list_container, list_first, list_is_empty, list_next, list_prepend, list_remove
from fastdns.system.sanitizer cimport ADDRESS_SANITIZER
from fastdns.walk.query cimport PREFETCH_QUERIES, Carrier, Query, ServerTable, Worker, worker_flush
from fastdns.walk.trace cimport TraceContext

cdef enum:
    INPUT_SIZE = 64                     # octets of a stream's first input buffer
    MILLISECOND = 1000000
    READ_LIMIT = 3000                   # ms, where the configuration does not serve the listener any more


cdef extern from * nogil:
    """
    static inline uint32_t stream_hash(const void *connection, uint64_t id) {
        return (uint32_t)((((uint64_t)(size_t)connection >> 6) * 0x9E3779B97F4A7C15ull + (id >> 2) * 0xD6E8FEB86659FD93ull) >> 40);
    }
    """
    uint32_t stream_hash(const QuicConnection *connection, uint64_t id) noexcept


cdef inline uint32_t bucket_of(const QuicConnection *connection, uint64_t id) noexcept nogil:
    return stream_hash(connection, id) & (STREAM_BUCKETS - 1)


cdef QuicStream *stream_find(QuicConnection *connection, uint64_t id) noexcept nogil:
    cdef QuicStream *stream = connection.owner.buckets[bucket_of(connection, id)]
    while stream != NULL and (stream.id != id or stream.connection != connection):
        stream = stream.next_in_bucket
    return stream


cdef QuicStream *stream_new(QuicConnection *connection, uint64_t id, bint more) noexcept nogil:
    cdef QuicWorker *owner = connection.owner
    cdef QuicStream *stream = owner.spare
    cdef uint32_t bucket
    if stream != NULL:
        owner.spare = stream.next_in_bucket
    else:
        stream = <QuicStream *>malloc(sizeof(QuicStream))
        if stream == NULL:
            return NULL
    memset(stream, 0, sizeof(QuicStream))
    stream.connection = connection
    stream.id = id
    list_prepend(&connection.streams, &stream.node)
    if more:
        bucket = bucket_of(connection, id)
        stream.in_bucket = 1
        stream.next_in_bucket = owner.buckets[bucket]
        owner.buckets[bucket] = stream
    return stream


# ---- requests that are not complete ----

cdef void stream_read_begin(QuicStream *stream) noexcept nogil:
    cdef QuicConnection *connection = stream.connection
    cdef Worker *worker = connection.owner.base.worker
    cdef ServerTable *server = worker.set.servers[connection.listener]
    stream.reading = 1
    stream.deadline = worker.now + <int64_t>(server.read_timeout if server != NULL else READ_LIMIT) * MILLISECOND
    list_append(&connection.reading, &stream.read_node)


cdef void stream_read_end(QuicStream *stream) noexcept nogil:
    if stream.reading:
        stream.reading = 0
        list_remove(&stream.read_node)


cdef int stream_keep(QuicStream *stream, const uint8_t *octets, uint32_t length, uint32_t most) noexcept nogil:
    cdef uint32_t wanted = stream.input_used + length
    cdef uint32_t size = stream.input_size
    cdef uint8_t *bigger
    if wanted > size:
        size = max(wanted, min(most, max(2 * size, <uint32_t>INPUT_SIZE)))
        bigger = <uint8_t *>realloc(stream.input, size)
        if bigger == NULL:
            return -1
        stream.input = bigger
        stream.input_size = size
    memcpy(stream.input + stream.input_used, octets, length)
    stream.input_used = wanted
    stream.connection.kept += length
    return 0


cdef void stream_forget_input(QuicStream *stream) noexcept nogil:
    stream.connection.kept -= stream.input_used
    free(stream.input)
    stream.input = NULL
    stream.input_size = stream.input_used = 0


cdef void stream_input_over(QuicStream *stream) noexcept nogil:
    cdef QuicStream **at
    stream_read_end(stream)
    if not stream.in_bucket:
        return
    stream.in_bucket = 0
    at = &stream.connection.owner.buckets[bucket_of(stream.connection, stream.id)]
    while at[0] != stream:
        at = &at[0].next_in_bucket
    at[0] = stream.next_in_bucket


# ---- the end of a stream ----

cdef void stream_release(QuicStream *stream) noexcept nogil:
    cdef QuicConnection *connection = stream.connection
    if stream.reading or stream.in_bucket or stream.outstanding or stream.is_waiting or stream.blocked:
        return
    list_remove(&stream.node)
    stream_forget_input(stream)
    if ADDRESS_SANITIZER:
        free(stream)
        return
    stream.next_in_bucket = connection.owner.spare
    connection.owner.spare = stream


cdef void stream_cancel(QuicStream *stream) noexcept nogil:
    stream.cancelled = 1
    if stream.is_waiting:
        stop_waiting(stream)
        stream.connection.outstanding -= 1
    stream_input_over(stream)
    stream_forget_output(stream)
    stream_release(stream)


cdef void stream_forget_output(QuicStream *stream) noexcept nogil:
    if stream.blocked:
        stream.connection.backlog -= stream.output_size - stream.output_sent
        free(stream.output)
        stream.output = NULL
        stream.output_size = stream.output_sent = 0
        stream.blocked = 0


# ---- replies that are not taken yet ----

cdef bint stream_hold(QuicStream *stream, const uint8_t *octets, uint32_t length) noexcept nogil:
    stream.output = <uint8_t *>malloc(length if length else 1)
    if stream.output == NULL:
        return False
    memcpy(stream.output, octets, length)
    stream.output_size = length
    stream.output_sent = 0
    stream.blocked = 1
    stream.connection.backlog += length
    return stream.connection.backlog <= BACKLOG_MAX


cdef void stream_taken(QuicStream *stream, uint32_t length) noexcept nogil:
    stream.output_sent += length
    stream.connection.backlog -= length
    if stream.output_sent == stream.output_size:
        stream_forget_output(stream)


# ---- queries ----

cdef uint8_t *stream_arena(QuicWorker *owner, uint32_t size) noexcept nogil:
    if ARENA_SIZE - owner.arena_used < size:
        streams_run(owner)
    return owner.arena + owner.arena_used


cdef void stream_arena_keep(QuicWorker *owner, uint32_t used) noexcept nogil:
    owner.arena_used += used


cdef void streams_run(QuicWorker *owner) noexcept nogil:
    cdef uint32_t count = owner.query_count
    owner.query_count = 0
    if count:
        query_run_all(owner.queries, count)
    owner.arena_used = 0


cdef inline bint may_work(QuicSocket *sock, const QuicNetwork *network) noexcept nogil:
    """Whether one more query of a network may be under way."""
    cdef uint32_t most = (<Offer *>atomic_load_pointer(<void **>&sock.group.offer)).working_max
    return most == 0 or sock.working < most or network.working < max(most // SHARE, <uint32_t>1)


cdef inline QuicNetwork *network_of(const QuicConnection *connection) noexcept nogil:
    return &connection.socket.networks[connection.network]


cdef void stream_ask(QuicStream *stream, const uint8_t *message, uint32_t length) noexcept nogil:
    cdef QuicConnection *connection = stream.connection
    cdef QuicSocket *sock = connection.socket
    connection.owner.read_rates.asked += 1
    if connection.outstanding >= connection.streams_max:        # those whose streams were reset count, too
        connection.overloaded = 1
        stream_release(stream)
        return
    connection.outstanding += 1
    if list_is_empty(&sock.waiting) and may_work(sock, network_of(connection)):
        ask(stream, message, length)
    else:
        wait_turn(stream, message, length)
        worker_flush(connection.owner.base.worker, &sock.flush)


cdef void ask(QuicStream *stream, const uint8_t *message, uint32_t length) noexcept nogil:
    """It counts as outstanding already."""
    cdef QuicConnection *connection = stream.connection
    cdef QuicWorker *owner = connection.owner
    cdef Query *q = query_take(owner.base.worker)
    stream.outstanding = 1
    connection.socket.working += 1
    network_of(connection).working += 1
    if q == NULL:                       # out of memory
        query_over(stream)
        stream_release(stream)
        return
    q.client = connection.client
    q.local = connection.local
    if query_accept(q, message, length, connection.protocol.transport, connection.listener, connection.generation, &QUIC, stream) and query_enter(q):
        owner.queries[owner.query_count] = q
        owner.query_count += 1
        if owner.query_count == PREFETCH_QUERIES:
            owner.query_count = 0
            query_run_all(owner.queries, PREFETCH_QUERIES)


cdef void query_over(QuicStream *stream) noexcept nogil:
    stream.outstanding = 0
    stream.connection.outstanding -= 1
    stream.connection.socket.working -= 1
    network_of(stream.connection).working -= 1


cdef QuicStream *answered(Query *q) noexcept nogil:
    """The query is over; NULL where nobody wants the reply: the stream is gone."""
    cdef QuicStream *stream = <QuicStream *>q.connection
    cdef QuicConnection *connection = stream.connection
    cdef QuicSocket *sock = connection.socket
    query_over(stream)
    worker_flush(connection.owner.base.worker, &connection.flush)
    if not list_is_empty(&sock.waiting):
        worker_flush(connection.owner.base.worker, &sock.flush)
    if connection.stage != STAGE_SERVED or stream.cancelled:
        stream.cancelled = 1
        stream_release(stream)
        return NULL
    return stream


# ---- the carrier ----

cdef void send(Query *q) noexcept nogil:
    cdef QuicStream *stream = answered(q)
    if stream != NULL:
        stream.connection.protocol.send(stream, q)
        stream_release(stream)


cdef void reject(Query *q, Acceptance how, uint8_t rcode) noexcept nogil:
    cdef QuicStream *stream = answered(q)
    if stream != NULL:
        stream.connection.protocol.reject(stream)
        stream_release(stream)


cdef void unserved(Query *q) noexcept nogil:
    cdef QuicStream *stream = answered(q)
    if stream != NULL:
        stream.connection.protocol.unserved(stream)
        stream_release(stream)


cdef void dropped(Query *q) noexcept nogil:
    cdef QuicStream *stream = answered(q)
    if stream != NULL:
        stream.connection.protocol.dropped(stream)
        stream_release(stream)


cdef void no_transfer(Query *q) noexcept nogil:
    q.stream.close(q.stream)            # the handler that streams has refused before
    dropped(q)
    query_streamed(q, 0)

cdef const TraceContext *trace_context(const Query *q) noexcept nogil:
    return trace_whole(&(<const QuicStream *>q.connection).trace)

cdef const ProxyTlvs *client_tlvs(const Query *q) noexcept nogil:
    return (<const QuicStream *>q.connection).connection.tlvs

cdef Carrier QUIC
QUIC.send = send
QUIC.reject = reject
QUIC.unserved = unserved
QUIC.dropped = dropped
QUIC.stream = no_transfer
QUIC.trace_context = trace_context
QUIC.tlvs = client_tlvs


# ---- queries that wait for their turn ----

cdef void wait_turn(QuicStream *stream, const uint8_t *message, uint32_t length) noexcept nogil:
    """The message is kept in `input`, all of which it is."""
    cdef QuicConnection *connection = stream.connection
    cdef QuicNetwork *network = network_of(connection)
    if message != stream.input:
        stream_forget_input(stream)
        if stream_keep(stream, message, length, length) < 0:
            connection.outstanding -= 1
            stream_release(stream)
            return
    stream.is_waiting = 1
    if list_is_empty(&connection.waiting):
        if list_is_empty(&network.waiting):
            list_append(&connection.socket.waiting, &network.node)
        list_append(&network.waiting, &connection.waiting_node)
    list_append(&connection.waiting, &stream.waiting_node)


cdef void stop_waiting(QuicStream *stream) noexcept nogil:
    cdef QuicConnection *connection = stream.connection
    cdef QuicNetwork *network = network_of(connection)
    stream.is_waiting = 0
    list_remove(&stream.waiting_node)
    if list_is_empty(&connection.waiting):
        list_remove(&connection.waiting_node)
        if list_is_empty(&network.waiting):
            list_remove(&network.node)


cdef QuicNetwork *find_next(QuicSocket *sock) noexcept nogil:
    """The first network that waits and may have one more query under way; NULL: none."""
    cdef ListNode *node = list_first(&sock.waiting)
    while node != NULL and not may_work(sock, network_at(node)):
        node = list_next(&sock.waiting, node)
    return network_at(node)


cdef inline QuicNetwork *network_at(ListNode *node) noexcept nogil:
    return <QuicNetwork *>list_container(node, <size_t>&(<QuicNetwork *>NULL).node)


cdef QuicStream *take_next(QuicNetwork *network) noexcept nogil:
    """Its connections take turns."""
    cdef QuicConnection *connection = <QuicConnection *>list_container(list_first(&network.waiting), <size_t>&(<QuicConnection *>NULL).waiting_node)
    cdef QuicStream *stream = <QuicStream *>list_container(list_first(&connection.waiting), <size_t>&(<QuicStream *>NULL).waiting_node)
    stop_waiting(stream)
    if not list_is_empty(&connection.waiting):
        list_remove(&connection.waiting_node)
        list_append(&network.waiting, &connection.waiting_node)
    return stream


cdef void streams_next(QuicSocket *sock) noexcept nogil:
    """Networks take turns."""
    cdef QuicNetwork *network = find_next(sock)
    cdef QuicStream *stream
    while network != NULL:
        stream = take_next(network)
        if not list_is_empty(&network.waiting):
            list_remove(&network.node)
            list_append(&sock.waiting, &network.node)
        ask(stream, stream.input, stream.input_used)
        streams_run(stream.connection.owner)
        network = find_next(sock)
