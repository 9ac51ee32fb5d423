"""Queries over HTTP/1.1. The contract is in _http1.pxd."""
from libc.errno cimport ENOMEM
from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy
from fastdns.system.socket cimport socket_clock
from fastdns._wire cimport load16
from fastdns.bench.generator.client cimport BATCH, QUERY_STRIDE, Client, client_sent, client_settle, digits
from fastdns.bench.generator.connection cimport (BROKEN, CLOSED, OPEN, Connection, connection_advance, connection_break, connection_close,
                                                 connection_consume, connection_flush, connection_is_open, connection_open, connection_read,
                                                 connection_capacity)
from fastdns.bench.generator.flight cimport MALFORMED, RIGHT, STATUSES, WRONG_ID, WRONG_STATUS, flight_holds
from fastdns.bench.generator.queries cimport PackedQuery

cdef extern from "<strings.h>" nogil:
    int strncasecmp(const char *one, const char *other, size_t length)

cdef extern from "<string.h>" nogil:
    void *memmem(const void *text, size_t length, const void *wanted, size_t size)

cdef enum:
    RING = 1024                     # requests under way
    HEAD_LENGTH_MAX = 16384         # octets of a response before its body
    MESSAGE_MAX = 65535

cdef struct Waiting:
    uint32_t slot
    int64_t due                     # of the slot's query: whether it is still the same

cdef struct Pipe:
    Connection connection           # the first
    uint32_t oldest
    uint32_t count
    Waiting waiting[RING]

cdef struct Response:
    int status
    int64_t length                  # of the body; -1: absent
    bint last


cdef int http1_open(Client *client) noexcept nogil:
    if client.stream == NULL:
        client.stream = calloc(1, sizeof(Pipe))
        if client.stream == NULL:
            return ENOMEM
    return connection_open(client)


cdef void http1_close(Client *client) noexcept nogil:
    if client.stream != NULL:
        connection_close(client)
        free(client.stream)
        client.stream = NULL


# ---- queries ----

cdef uint32_t http1_capacity(Client *client) noexcept nogil:
    cdef Pipe *pipe = <Pipe *>client.stream
    if pipe.connection.state != OPEN:
        return 0
    if not pipe.connection.greeted:
        pipe.connection.greeted = True
        pipe.oldest = pipe.count = 0
    return min(connection_capacity(&pipe.connection) // (client.driver.head_length + QUERY_STRIDE), min(RING - pipe.count, <uint32_t>BATCH))


cdef void http1_put(Client *client, uint32_t slot, const PackedQuery *query) noexcept nogil:
    cdef Pipe *pipe = <Pipe *>client.stream
    cdef uint8_t *begin = pipe.connection.outgoing + pipe.connection.out_end
    cdef uint8_t *at = begin
    cdef Waiting *waiting = &pipe.waiting[(pipe.oldest + pipe.count) % RING]
    waiting.slot = slot
    waiting.due = client.flight.slots[slot].due
    pipe.count += 1
    memcpy(at, client.driver.head, client.driver.head_length)
    at += client.driver.head_length
    at += digits(at, query.length)
    memcpy(at, b"\r\n\r\n", 4)
    memcpy(at + 4, query.message, query.length)
    pipe.connection.out_end += <uint32_t>(at + 4 + query.length - begin)
    client_sent(client, slot)


# ---- replies ----

cdef uint32_t http1_receive(Client *client) noexcept nogil:
    cdef Pipe *pipe = <Pipe *>client.stream
    cdef Connection *connection = &pipe.connection
    cdef uint32_t replies = 0, at = 0
    cdef int taken = 1
    cdef ssize_t n
    cdef int64_t now
    if connection.state == CLOSED:
        return 0
    if connection.state != OPEN:
        connection_advance(client)
        return 0
    if client.events:
        connection_flush(client)
        if connection.state != OPEN:
            return 0
    n = connection_read(client)
    if n == BROKEN:
        connection_break(client)
    if n < 0:
        return 0
    now = socket_clock()
    while taken > 0:
        taken = take_response(client, pipe, &at, now)
        replies += taken > 0
    if taken < 0:
        if client.flight.under_way == 0:
            connection_close(client)
        else:
            connection_break(client)
    else:
        connection_consume(connection, at)
    return replies


cdef int take_response(Client *client, Pipe *pipe, uint32_t *at, int64_t now) noexcept nogil:
    """One response, when it is complete: 1; 0 when it is not, -1 when the connection ends with it or it makes no sense."""
    cdef const uint8_t *head
    cdef const uint8_t *end
    cdef uint32_t left, length
    cdef Response response
    while True:
        head = pipe.connection.incoming + at[0]
        left = pipe.connection.in_end - at[0]
        end = <const uint8_t *>memmem(head, left, b"\r\n\r\n", 4)
        if end == NULL:
            return -1 if left > HEAD_LENGTH_MAX else 0
        length = <uint32_t>(end - head) + 4
        if length > HEAD_LENGTH_MAX or read_head(<const char *>head, length, &response) < 0:
            return -1
        if response.status // 100 != 1:
            break
        at[0] += length                 # there is another one to come
    if response.status == 204 or response.status == 304:
        response.length = 0
    if not 0 <= response.length <= MESSAGE_MAX or pipe.count == 0:
        return -1
    if left - length < response.length:
        return 0
    at[0] += length + <uint32_t>response.length
    complete(client, &pipe.waiting[pipe.oldest], response.status, head + length, <uint32_t>response.length, now)
    pipe.oldest = (pipe.oldest + 1) % RING
    pipe.count -= 1
    return -1 if response.last else 1


cdef int read_head(const char *head, uint32_t length, Response *response) noexcept nogil:
    """Status and length; -1 for what is no response. It ends with an empty line."""
    cdef uint32_t at = 0, end
    cdef int i
    response.status = 0
    response.length = -1
    response.last = False
    if length < 16 or strncasecmp(head, "HTTP/1.", 7) or head[8] != 32:
        return -1
    for i in range(9, 12):
        if not 48 <= head[i] <= 57:
            return -1
        response.status = response.status * 10 + head[i] - 48
    response.last = head[7] == 48       # HTTP/1.0
    while at < length:
        end = <uint32_t>(<const char *>memmem(head + at, length - at, b"\r\n", 2) - head)
        if strncasecmp(head + at, "content-length:", 15) == 0:
            response.length = content_length(head + at + 15, end - at - 15)
            if response.length < 0:
                return -1
        elif strncasecmp(head + at, "transfer-encoding:", 18) == 0:
            return -1
        elif strncasecmp(head + at, "connection:", 11) == 0 and memmem(head + at, end - at, b"close", 5) != NULL:
            response.last = True
        at = end + 2
    return 0


cdef int64_t content_length(const char *text, uint32_t length) noexcept nogil:
    """-1 when it is none that a message can have."""
    cdef int64_t found = 0
    cdef uint32_t at = 0
    while at < length and text[at] == 32:
        at += 1
    if at == length:
        return -1
    while at < length and 48 <= text[at] <= 57 and found <= MESSAGE_MAX:
        found = found * 10 + text[at] - 48
        at += 1
    return found if at == length and found <= MESSAGE_MAX else -1


cdef void complete(Client *client, const Waiting *waiting, int status, const uint8_t *message, uint32_t length, int64_t now) noexcept nogil:
    cdef int verdict = RIGHT
    if not flight_holds(&client.flight, waiting.slot, waiting.due):
        client.driver.counters.late += 1
        return
    if status != 200:
        verdict = WRONG_STATUS
        if client.flight.slots[waiting.slot].counted:
            client.driver.counters.statuses[status if status < STATUSES else 0] += 1
    elif length < 2:
        verdict = MALFORMED
    elif load16(message):
        verdict = WRONG_ID
    client_settle(client, waiting.slot, verdict, message, length, now)


HTTP1.open = http1_open
HTTP1.is_open = connection_is_open
HTTP1.capacity = http1_capacity
HTTP1.put = http1_put
HTTP1.flush = connection_flush
HTTP1.receive = http1_receive
HTTP1.close = http1_close
