"""Queries over HTTP/2. The contract is in _doh.pxd, and how a status is read in _hpack.pxd."""
from libc.errno cimport ENOMEM
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcpy
from fastdns.system.socket cimport socket_clock
from fastdns._wire cimport load16, load32, store16, store32
from fastdns.bench.generator.client cimport BATCH, QUERY_STRIDE, Client, client_sent, client_settle, digits
from fastdns.bench.generator.connection cimport (BROKEN, CLOSED, OPEN, Connection, connection_advance, connection_break, connection_close,
                                                 connection_consume, connection_flush, connection_is_open, connection_open, connection_read,
                                                 connection_capacity)
from fastdns.bench.generator.flight cimport MALFORMED, RIGHT, STATUSES, WRONG_ID, WRONG_STATUS, flight_holds, flight_lose
from fastdns.bench.generator.hpack cimport hpack_status
from fastdns.bench.generator.queries cimport PackedQuery

cdef enum Kind:                     # of frames, RFC 9113 6
    DATA = 0
    HEADERS = 1
    RST_STREAM = 3
    SETTINGS = 4
    PUSH_PROMISE = 5
    PING = 6
    GOAWAY = 7
    WINDOW_UPDATE = 8
    CONTINUATION = 9

cdef enum:                          # flags of frames
    END_STREAM = 0x01
    ACK = 0x01
    END_HEADERS = 0x04
    PADDED = 0x08
    PRIORITY = 0x20

cdef enum:                          # settings
    HEADER_TABLE_SIZE = 1
    ENABLE_PUSH = 2
    MAX_CONCURRENT_STREAMS = 3
    INITIAL_WINDOW_SIZE = 4
    MAX_FRAME_SIZE = 5

cdef enum:
    CANCEL = 8                      # RFC 9113 7

cdef enum:
    HEAD = 9                        # octets of a frame's header
    FRAME = 16384                   # and at most of its payload
    WINDOW = 65535                  # of a connection and each of its streams before anybody says otherwise
    STREAM_WINDOW = 262144          # that we give the server: more than any reply with its padding
    CREDIT = 16777216               # and for the connection
    WINDOW_MAX = 0x7FFFFFFF
    NUMBER_MAX = 0x7FFFFFFF         # of a stream
    TABLE = 1024                    # requests of a connection
    ASKED_MAX = 768                 # under way: the table stays sparse
    BLOCK = 64                      # octets of a header block that are looked at: the status comes first
    RESERVE = 1024                  # octets of out that queries leave to what the protocol has to say
    SPOKEN = 64                     # octets that one frame can make us say
    MESSAGE_MAX = 65535

cdef enum Stage:
    FREE
    ASKED                           # nothing has come
    HEADED                          # a status has
    DONE
    CANCELLED                       # by us

cdef struct Request:
    uint32_t stream
    Stage stage
    uint32_t slot
    int64_t due                     # of the slot's query: whether it is still the same
    const PackedQuery *query        # borrowed
    uint32_t sent                   # octets of it
    int64_t window                  # of the server's, left on the stream
    uint32_t received               # octets of ours that were used
    int status
    uint8_t *body                   # owned, and kept for the next request: what has come of a reply in several frames
    uint32_t length
    uint32_t capacity

cdef struct Session:
    Connection connection           # the first
    uint32_t next                   # stream
    uint32_t asked                  # requests that are ASKED or HEADED
    uint32_t limit                  # of them
    int64_t window                  # of the server's, left on the connection
    int64_t initial                 # that a stream begins with
    int64_t credit                  # of ours, left to the server
    uint32_t heading                # stream whose header block goes on; 0: none
    bint heading_ends               # the stream, too
    bint settled                    # the server's settings are here
    bint leaving                    # no more requests on this connection
    bint stalled                    # frames wait until there is room for what they make us say
    uint32_t block_length
    uint32_t blocked_count
    uint16_t blocked[BATCH]         # requests that wait for the server's windows
    uint8_t block[BLOCK]
    Request requests[TABLE]


cdef inline bint is_under_way(const Request *request) noexcept nogil:
    return request.stage == ASKED or request.stage == HEADED


cdef inline Request *find(Session *session, uint32_t stream) noexcept nogil:
    """What is known of a stream; NULL once its place has been given to another one."""
    cdef Request *request = &session.requests[(stream >> 1) & (TABLE - 1)]
    return request if request.stream == stream and request.stage != FREE else NULL


cdef inline uint8_t *frame(Session *session, uint32_t length, Kind kind, uint8_t flags, uint32_t stream) noexcept nogil:
    """Writes a frame's header; where its payload goes. The caller has seen to the room."""
    cdef uint8_t *at = session.connection.outgoing + session.connection.out_end
    at[0] = <uint8_t>(length >> 16)
    store16(at + 1, <uint16_t>length)
    at[3] = <uint8_t>kind
    at[4] = flags
    store32(at + 5, stream)
    session.connection.out_end += HEAD + length
    return at + HEAD


# ---- begin and end ----

cdef int doh_open(Client *client) noexcept nogil:
    if client.stream == NULL:
        client.stream = calloc(1, sizeof(Session))
        if client.stream == NULL:
            return ENOMEM
    return connection_open(client)


cdef void doh_close(Client *client) noexcept nogil:
    cdef Session *session = <Session *>client.stream
    cdef uint32_t i
    if session == NULL:
        return
    connection_close(client)
    for i in range(TABLE):
        free(session.requests[i].body)
    free(session)
    client.stream = NULL


cdef void greet(Client *client) noexcept nogil:
    """Begins HTTP/2 on a fresh connection. A header table of no size keeps the server from using indexed fields."""
    cdef Session *session = <Session *>client.stream
    cdef Connection *connection = &session.connection
    cdef uint8_t *at
    cdef uint32_t i
    for i in range(TABLE):
        session.requests[i].stage = FREE
        session.requests[i].length = 0
    session.next = 1
    session.asked = session.heading = session.blocked_count = 0
    session.limit = ASKED_MAX
    session.window = session.initial = WINDOW
    session.credit = CREDIT
    session.settled = session.leaving = session.stalled = False
    connection.greeted = True
    memcpy(connection.outgoing, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 24)
    connection.out_end = 24
    at = frame(session, 18, SETTINGS, 0, 0)
    store16(at, HEADER_TABLE_SIZE)
    store32(at + 2, 0)
    store16(at + 6, ENABLE_PUSH)
    store32(at + 8, 0)
    store16(at + 12, INITIAL_WINDOW_SIZE)
    store32(at + 14, STREAM_WINDOW)
    store32(frame(session, 4, WINDOW_UPDATE, 0, 0), CREDIT - WINDOW)
    connection_flush(client)


cdef bint doh_is_open(Client *client) noexcept nogil:
    cdef Session *session = <Session *>client.stream
    if not connection_is_open(client):
        return False
    if not session.settled or not session.connection.greeted:
        doh_receive(client)
    if session.connection.state != OPEN:
        return False
    if session.leaving and client.flight.under_way == 0:
        connection_close(client)
        return False
    return session.settled and not session.leaving


# ---- queries ----

cdef uint32_t doh_capacity(Client *client) noexcept nogil:
    cdef Session *session = <Session *>client.stream
    cdef uint32_t capacity
    if session.connection.state != OPEN or not session.settled or session.leaving:
        return 0
    if session.asked > client.flight.under_way and (session.asked >= session.limit or session.blocked_count):
        cancel_expired(client, session)
    if session.blocked_count or session.asked >= session.limit:
        return 0
    capacity = connection_capacity(&session.connection)
    capacity = (capacity - RESERVE) // (client.driver.head_length + QUERY_STRIDE) if capacity > RESERVE else 0
    return min(capacity, min(session.limit - session.asked, <uint32_t>BATCH))


cdef void doh_put(Client *client, uint32_t slot, const PackedQuery *query) noexcept nogil:
    cdef Session *session = <Session *>client.stream
    cdef uint8_t *begin = session.connection.outgoing + session.connection.out_end
    cdef uint8_t *at = begin + HEAD
    cdef uint32_t length = client.driver.head_length, n
    cdef Request *request
    # A stream that takes long keeps its place; numbers may be left out.
    while is_under_way(&session.requests[(session.next >> 1) & (TABLE - 1)]):
        session.next += 2
    request = &session.requests[(session.next >> 1) & (TABLE - 1)]
    request.stream = session.next
    request.stage = ASKED
    request.slot = slot
    request.due = client.flight.slots[slot].due
    request.query = query
    request.sent = request.received = request.length = 0
    request.window = session.initial
    session.asked += 1
    memcpy(at, client.driver.head, length)
    # content-length, 28 of the static table, as a literal that is not indexed (RFC 7541 6.2.2).
    at[length] = 0x0F
    at[length + 1] = 28 - 15
    n = digits(at + length + 3, query.length)
    at[length + 2] = <uint8_t>n
    frame(session, length + 3 + n, HEADERS, END_HEADERS, session.next)
    session.next += 2
    # Long before the numbers end: up to a table of them is left out at a time.
    if session.next > <uint32_t>NUMBER_MAX - 4 * TABLE:
        session.leaving = True
    client_sent(client, slot)
    if not send_body(session, request):
        session.blocked[session.blocked_count] = <uint16_t>(request - session.requests)
        session.blocked_count += 1


cdef bint send_body(Session *session, Request *request) noexcept nogil:
    """As much of a query as the server's windows take; whether that is all of it."""
    cdef uint32_t left = request.query.length - request.sent
    cdef int64_t n = min(<int64_t>left, min(session.window, request.window))
    if n <= 0 or connection_capacity(&session.connection) < <uint32_t>(HEAD + n):
        return False
    memcpy(frame(session, <uint32_t>n, DATA, END_STREAM if n == left else 0, request.stream), request.query.message + request.sent, <size_t>n)
    session.window -= n
    request.window -= n
    request.sent += <uint32_t>n
    return n == left


cdef void unblock(Session *session) noexcept nogil:
    """Goes on with queries that waited for the server's windows; those that have ended are forgotten."""
    cdef uint32_t i, kept = 0
    cdef Request *request
    for i in range(session.blocked_count):
        request = &session.requests[session.blocked[i]]
        if is_under_way(request) and not send_body(session, request):
            session.blocked[kept] = session.blocked[i]
            kept += 1
    session.blocked_count = kept


cdef void end_request(Session *session, Request *request, Stage stage) noexcept nogil:
    """Takes a request out of those under way. CANCELLED tells the server, as does an end before the query has left."""
    request.length = 0
    session.asked -= 1
    if (stage == CANCELLED or request.sent < request.query.length) and connection_capacity(&session.connection) >= HEAD + 4:
        store32(frame(session, 4, RST_STREAM, 0, request.stream), CANCEL)
    request.stage = stage
    if session.blocked_count:
        unblock(session)


cdef void cancel_expired(Client *client, Session *session) noexcept nogil:
    """Streams whose queries were given up make room for others when the server takes no more."""
    cdef uint32_t i
    for i in range(TABLE):
        if (is_under_way(&session.requests[i]) and not flight_holds(&client.flight, session.requests[i].slot, session.requests[i].due)
                and connection_capacity(&session.connection) >= RESERVE):
            end_request(session, &session.requests[i], CANCELLED)
    connection_flush(client)


# ---- replies ----

cdef uint32_t doh_receive(Client *client) noexcept nogil:
    cdef Session *session = <Session *>client.stream
    cdef Connection *connection = &session.connection
    cdef uint32_t replies = 0
    cdef ssize_t n
    if connection.state == CLOSED:
        return 0
    if connection.state != OPEN:
        connection_advance(client)
        if connection.state != OPEN:
            return 0
    if not connection.greeted:
        greet(client)
    elif client.events:
        connection_flush(client)
    while connection.state == OPEN:
        n = connection_read(client)
        if n == BROKEN:
            if session.leaving and client.flight.under_way == 0:
                connection_close(client)
            else:
                connection_break(client)
            return replies
        if n < 0 and not session.stalled:
            break
        replies += take_frames(client, session, socket_clock())
        # The kernel says when there is more; what TLS holds back it does not know of.
        if n < 0 or connection.ssl == NULL:
            break
    if connection.state == OPEN and not client.events:
        connection_flush(client)
    return replies


cdef uint32_t take_frames(Client *client, Session *session, int64_t now) noexcept nogil:
    """All that have come whole; how many replies there were. A server that does not keep to the protocol has its connection broken."""
    cdef Connection *connection = &session.connection
    cdef const uint8_t *head
    cdef uint32_t at = 0, length, replies = 0
    cdef int got
    session.stalled = False
    while connection.in_end - at >= HEAD:
        if connection_capacity(connection) < SPOKEN:
            connection_flush(client)
            if connection.state != OPEN:
                return replies
            if connection_capacity(connection) < SPOKEN:
                session.stalled = True
                break
        head = connection.incoming + at
        length = load32(head) >> 8
        if length > FRAME:
            got = -1
        elif connection.in_end - at - HEAD < length:
            break
        else:
            got = on_frame(client, session, head[3], head[4], load32(head + 5) & NUMBER_MAX, head + HEAD, length, now)
        if got < 0:
            connection_break(client)
            return replies
        replies += <uint32_t>got
        at += HEAD + length
    connection_consume(connection, at)
    return replies


cdef int on_frame(Client *client, Session *session, uint8_t kind, uint8_t flags, uint32_t stream, const uint8_t *payload, uint32_t length,
                  int64_t now) noexcept nogil:
    """How many replies it has completed; -1: it is against the protocol."""
    if (not session.settled and kind != SETTINGS) or (session.heading and (kind != CONTINUATION or stream != session.heading)):
        return -1
    if kind == DATA or kind == HEADERS or kind == RST_STREAM:
        # Of streams that we have begun only.
        if stream & 1 == 0 or stream >= session.next:
            return -1
        if kind == DATA:
            return on_data(client, session, flags, stream, payload, length, now)
        if kind == HEADERS:
            return on_headers(client, session, flags, stream, payload, length, now)
        return on_reset(client, session, stream, length)
    if kind == CONTINUATION:
        if session.heading == 0:
            return -1
        return on_block(client, session, flags, payload, length, now)
    if kind == WINDOW_UPDATE:
        return on_window(session, stream, payload, length)
    if kind == PUSH_PROMISE or (stream and (kind == SETTINGS or kind == PING or kind == GOAWAY)):
        return -1
    if kind == SETTINGS:
        return on_settings(session, flags, payload, length)
    if kind == PING:
        if length != 8:
            return -1
        if flags & ACK == 0:
            memcpy(frame(session, 8, PING, ACK, 0), payload, 8)
    elif kind == GOAWAY:
        return on_goaway(client, session, payload, length)
    return 0


cdef int strip(uint8_t flags, const uint8_t **payload, uint32_t *length) noexcept nogil:
    """Takes padding away; -1 when it is longer than the frame."""
    cdef uint32_t padding
    if flags & PADDED:
        if length[0] == 0:
            return -1
        padding = payload[0][0]
        if padding >= length[0]:
            return -1
        payload[0] += 1
        length[0] -= 1 + padding
    return 0


cdef int on_headers(Client *client, Session *session, uint8_t flags, uint32_t stream, const uint8_t *payload, uint32_t length, int64_t now) noexcept nogil:
    if strip(flags, &payload, &length) < 0:
        return -1
    if flags & PRIORITY:
        if length < 5:
            return -1
        payload += 5
        length -= 5
    session.heading = stream
    session.heading_ends = flags & END_STREAM != 0
    session.block_length = 0
    return on_block(client, session, flags, payload, length, now)


cdef int on_block(Client *client, Session *session, uint8_t flags, const uint8_t *payload, uint32_t length, int64_t now) noexcept nogil:
    """A part of a header block, perhaps the last."""
    cdef uint32_t kept = min(length, <uint32_t>BLOCK - session.block_length)
    cdef Request *request
    memcpy(session.block + session.block_length, payload, kept)
    session.block_length += kept
    if flags & END_HEADERS == 0:
        return 0
    request = find(session, session.heading)
    session.heading = 0
    if request == NULL:
        return 0
    if request.stage == CANCELLED:
        request.stage = DONE
        client.driver.counters.late += 1
        return 0
    if request.stage == DONE:
        return -1
    if request.stage == HEADED:         # trailers
        return on_reply(client, session, request, request.body, request.length, now) if session.heading_ends else -1
    request.status = hpack_status(session.block, session.block_length)
    if request.status < 0 or (request.status // 100 == 1 and session.heading_ends):
        return -1
    if request.status // 100 == 1:      # there is another one to come
        return 0
    request.stage = HEADED
    return on_reply(client, session, request, NULL, 0, now) if session.heading_ends else 0


cdef int on_data(Client *client, Session *session, uint8_t flags, uint32_t stream, const uint8_t *payload, uint32_t length, int64_t now) noexcept nogil:
    cdef uint32_t whole = length
    cdef Request *request
    session.credit -= length
    if session.credit < 0:
        return -1
    if session.credit < CREDIT // 2:
        store32(frame(session, 4, WINDOW_UPDATE, 0, 0), <uint32_t>(CREDIT - session.credit))
        session.credit = CREDIT
    if strip(flags, &payload, &length) < 0:
        return -1
    request = find(session, stream)
    if request == NULL or request.stage == CANCELLED:
        return 0
    if request.stage != HEADED:
        return -1
    request.received += whole
    if request.received > STREAM_WINDOW:
        return -1
    if flags & END_STREAM and request.length == 0:
        return on_reply(client, session, request, payload, length, now)
    if request.length + length > MESSAGE_MAX:
        end_reply(client, session, request, MALFORMED, NULL, 0, now, CANCELLED)
        return 1
    if request.length + length > request.capacity and grow(request, request.length + length) < 0:
        return -1
    if length:
        memcpy(request.body + request.length, payload, length)
        request.length += length
    return on_reply(client, session, request, request.body, request.length, now) if flags & END_STREAM else 0


cdef int grow(Request *request, uint32_t octets) noexcept nogil:
    cdef uint32_t capacity = max(<uint32_t>512, request.capacity)
    cdef void *made
    while capacity < octets:
        capacity *= 2
    made = realloc(request.body, capacity)
    if made == NULL:
        return -1
    request.body = <uint8_t *>made
    request.capacity = capacity
    return 0


cdef int on_reply(Client *client, Session *session, Request *request, const uint8_t *message, uint32_t length, int64_t now) noexcept nogil:
    """A stream has ended."""
    cdef int verdict = RIGHT
    if request.status != 200:
        verdict = WRONG_STATUS
    elif length < 2:
        verdict = MALFORMED
    elif load16(message):               # all queries have id 0, that caches may answer them (RFC 8484 4.1)
        verdict = WRONG_ID
    end_reply(client, session, request, verdict, message, length, now, DONE)
    return 1


cdef void end_reply(Client *client, Session *session, Request *request, int verdict, const uint8_t *message, uint32_t length, int64_t now,
                    Stage stage) noexcept nogil:
    if flight_holds(&client.flight, request.slot, request.due):
        if verdict == WRONG_STATUS and client.flight.slots[request.slot].counted:
            client.driver.counters.statuses[request.status if request.status < STATUSES else 0] += 1
        client_settle(client, request.slot, verdict, message, length, now)
    else:
        client.driver.counters.late += 1
    end_request(session, request, stage)


# ---- what else servers say ----

cdef void lose(Client *client, Session *session, Request *request) noexcept nogil:
    """The server will not answer it."""
    if flight_holds(&client.flight, request.slot, request.due):
        client.driver.counters.resets += 1
        flight_lose(&client.flight, request.slot, client.driver.counters)
    request.sent = request.query.length
    end_request(session, request, DONE)


cdef int on_reset(Client *client, Session *session, uint32_t stream, uint32_t length) noexcept nogil:
    cdef Request *request = find(session, stream)
    if length != 4:
        return -1
    if request != NULL and is_under_way(request):
        lose(client, session, request)
    return 0


cdef int on_goaway(Client *client, Session *session, const uint8_t *payload, uint32_t length) noexcept nogil:
    """The server finishes what it has taken; on the next connection it goes on."""
    cdef uint32_t i, last
    if length < 8:
        return -1
    last = load32(payload) & NUMBER_MAX
    session.leaving = True
    for i in range(TABLE):
        if is_under_way(&session.requests[i]) and session.requests[i].stream > last:
            lose(client, session, &session.requests[i])
    return 0


cdef int on_settings(Session *session, uint8_t flags, const uint8_t *payload, uint32_t length) noexcept nogil:
    cdef uint32_t at = 0, setting, value, i
    cdef int64_t change
    if flags & ACK:
        return -1 if length else 0
    if length % 6:
        return -1
    while at < length:
        setting = load16(payload + at)
        value = load32(payload + at + 2)
        at += 6
        if setting == MAX_CONCURRENT_STREAMS:
            session.limit = min(value, <uint32_t>ASKED_MAX)
        elif setting == INITIAL_WINDOW_SIZE:
            if value > WINDOW_MAX:
                return -1
            change = value - session.initial
            session.initial = value
            for i in range(TABLE):
                if is_under_way(&session.requests[i]):
                    session.requests[i].window += change
                    if session.requests[i].window > WINDOW_MAX:
                        return -1
        elif setting == MAX_FRAME_SIZE and not 16384 <= value < 1 << 24:
            return -1
    session.settled = True
    frame(session, 0, SETTINGS, ACK, 0)
    unblock(session)
    return 0


cdef int on_window(Session *session, uint32_t stream, const uint8_t *payload, uint32_t length) noexcept nogil:
    cdef Request *request
    cdef int64_t more
    if length != 4:
        return -1
    more = load32(payload) & WINDOW_MAX
    if more == 0:
        return -1
    if stream == 0:
        session.window += more
        if session.window > WINDOW_MAX:
            return -1
    else:
        if stream & 1 == 0 or stream >= session.next:
            return -1
        request = find(session, stream)
        if request == NULL or not is_under_way(request):
            return 0
        request.window += more
        if request.window > WINDOW_MAX:
            return -1
    unblock(session)
    return 0


DOH.open = doh_open
DOH.is_open = doh_is_open
DOH.capacity = doh_capacity
DOH.put = doh_put
DOH.flush = connection_flush
DOH.receive = doh_receive
DOH.close = doh_close
