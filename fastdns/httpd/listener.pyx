"""The HTTP server of health, ready and prometheus: one native thread, which answers /health without the GIL.

The thread polls listeners and connections, reads request heads and writes replies. Where a listener has `health` set, it answers /health itself:
from the workers' epoch counters it finds workers that are stuck. A Python thread (httpd/endpoint.py) gets all other requests by `take` and answers
them by `reply`.

Clients cannot keep one another out. Each listener has a number of connections of its own. A further client evicts a connection of the network that holds
most of them, and in that network of the address that holds most. Python gets the listeners' requests in turn, and of one listener those of the client first
that has the fewest. Networks come first because a client outside may have any number of addresses of one; addresses come second because the kubelet and
the pods of its node share a network.
"""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdio cimport snprintf
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp, memcpy, memmove, strlen

from fastdns.engine.http.date cimport DATE_PAGES, http_date
from fastdns.engine.http.head cimport HEAD_COMPLETE, HEAD_INCOMPLETE, HttpHead, http_is, http_parse_head, http_split_target
from fastdns.system.address cimport Address, address_from_socket, address_network, address_prefix
from fastdns.system.atomic cimport atomic_load64
from fastdns.system.epoch cimport EPOCH_WORKERS, epoch_slots
from fastdns.system.socket cimport (EFD_CLOEXEC, EFD_NONBLOCK, POLLIN, POLLOUT, close, eventfd, poll, pollfd, read, sockaddr_in6, socket_clock,
                                    write)
from fastdns.system.thread cimport thread_start

cdef extern from "<string.h>" nogil:
    void *memmem(const void *where, size_t length, const void *what, size_t size)

cdef extern from *:
    """
    #include <errno.h>
    #include <pthread.h>
    #include <stdint.h>
    #include <sys/socket.h>
    #include <unistd.h>

    static pthread_mutex_t http_mutex = PTHREAD_MUTEX_INITIALIZER;  /* a thread that holds it never waits for the GIL */
    static pthread_cond_t http_asked = PTHREAD_COND_INITIALIZER;

    static inline void http_lock(void) { pthread_mutex_lock(&http_mutex); }
    static inline void http_unlock(void) { pthread_mutex_unlock(&http_mutex); }
    static inline void http_wait(void) { pthread_cond_wait(&http_asked, &http_mutex); }
    static inline void http_ask(void) { pthread_cond_signal(&http_asked); }
    static inline void http_shut(int fd) { shutdown(fd, SHUT_RDWR); close(fd); } /* the thread may be polling it: it must accept no further connection */
    static inline int http_accept(int fd, void *peer, socklen_t size) { return accept4(fd, (struct sockaddr *)peer, &size, SOCK_NONBLOCK | SOCK_CLOEXEC); }
    static inline long http_read(int fd, void *p, size_t n) { long r = recv(fd, p, n, 0); return r < 0 ? -errno : r; }
    static inline long http_write(int fd, const void *p, size_t n) { long r = send(fd, p, n, MSG_NOSIGNAL); return r < 0 ? -errno : r; }
    static inline int http_again(long r) { return r == -EAGAIN || r == -EINTR; }
    """
    void http_lock() noexcept nogil
    void http_unlock() noexcept nogil
    void http_wait() noexcept nogil
    void http_ask() noexcept nogil
    void http_shut(int fd) noexcept nogil
    int http_accept(int fd, void *peer, uint32_t size) noexcept nogil
    long http_read(int fd, void *p, size_t n) noexcept nogil
    long http_write(int fd, const void *p, size_t n) noexcept nogil
    bint http_again(long r) noexcept nogil

cdef enum:
    LISTENERS_MAX = 64
    CONNECTIONS_MAX = 256       # of all listeners
    LISTENER_MAX = 64           # connections of one listener
    REPLIES_MAX = 16777216      # octets of replies that wait for their clients
    HEAD_MAX = 8192             # octets of a request's head
    FIELDS_MAX = 96             # octets of a reply's fields Date and Connection
    TIMEOUT = 5000              # milliseconds: to read a head, to write a reply, and between two requests
    WORKER_INTERVAL = 250       # milliseconds between two checks of the workers
    STUCK = 1000                # milliseconds in one batch after which a worker counts as stuck

cdef enum State:
    FREE
    TAKEN                       # Python prepares the reply
    ASKED                       # the request waits for `take`
    READING
    WRITING                     # the client does not read. The last state: of a client's connections the first to go

cdef struct Listener:
    int fd                      # owned; -1: free
    uint32_t id
    bint health                 # /health is answered here
    bint health_only            # all other paths are 404

cdef struct Connection:
    int fd
    uint32_t id                 # number of the request: a reply to another request is dropped
    uint32_t listener
    Address client
    State state
    int64_t deadline            # ms
    uint32_t used               # octets in head
    uint32_t length             # octets of the current request's head, its blank line included
    bint closing                # the connection is closed after the reply
    bint without_body           # the method is HEAD
    char *out                   # owned
    size_t out_length
    size_t out_sent
    char head[HEAD_MAX]

cdef Listener listeners[LISTENERS_MAX]
cdef Connection connections[CONNECTIONS_MAX]
cdef uint32_t next_id = 1
cdef uint32_t last_taken            # index of the listener whose request Python has got last
cdef int wake_fd = -1           # eventfd: listeners or connections have changed
cdef uint64_t epochs[EPOCH_WORKERS]         # the workers' epoch counters at the last check
cdef int64_t epochs_since[EPOCH_WORKERS]    # ms: when each last changed

cdef const char *OK = "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 2\r\n%s\r\nOK"
cdef const char *STUCK_WORKER = ("HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain; charset=utf-8\r\n"
                                 "Content-Length: 16\r\n%s\r\nworker is stuck\n")
cdef const char *NOT_FOUND = ("HTTP/1.1 404 Not Found\r\nContent-Type: text/plain; charset=utf-8\r\n"
                              "X-Content-Type-Options: nosniff\r\nContent-Length: 19\r\n%s\r\n404 page not found\n")
cdef const char *BAD_REQUEST = ("HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n"
                                "Content-Length: 15\r\n%s\r\n400 Bad Request")


# ---- the thread ----

cdef inline int64_t milliseconds() noexcept nogil:
    return socket_clock() // 1000000


cdef void *serve(void *nothing) noexcept nogil:
    cdef pollfd polled[1 + LISTENERS_MAX + CONNECTIONS_MAX]
    cdef uint32_t count, i
    cdef int64_t now
    while True:
        http_lock()
        count = fill_poll_set(polled)
        now = milliseconds()
        i = <uint32_t>timeout(now)
        http_unlock()
        poll(polled, count, <int>i)
        http_lock()
        now = milliseconds()
        watch_workers(now)
        for i in range(count):
            if polled[i].revents:
                handle_event(polled[i].fd, now)
        expire(now)
        http_unlock()


cdef uint32_t fill_poll_set(pollfd *polled) noexcept nogil:
    cdef uint32_t count = 1, i
    polled[0].fd = wake_fd
    polled[0].events = POLLIN
    for i in range(LISTENERS_MAX):
        if listeners[i].fd >= 0:
            polled[count].fd = listeners[i].fd
            polled[count].events = POLLIN
            count += 1
    for i in range(CONNECTIONS_MAX):
        if connections[i].state == READING or connections[i].state == WRITING:
            polled[count].fd = connections[i].fd
            polled[count].events = POLLIN if connections[i].state == READING else POLLOUT
            count += 1
    for i in range(count):
        polled[i].revents = 0
    return count


cdef int timeout(int64_t now) noexcept nogil:
    """The timeout of poll in milliseconds; -1: none."""
    cdef int64_t soonest = -1, left
    cdef uint32_t i
    for i in range(LISTENERS_MAX):
        if listeners[i].fd >= 0 and listeners[i].health:
            soonest = WORKER_INTERVAL
    for i in range(CONNECTIONS_MAX):
        if connections[i].state != FREE:
            left = max(0, connections[i].deadline - now) + 1
            if soonest < 0 or left < soonest:
                soonest = left
    return <int>soonest


cdef void watch_workers(int64_t now) noexcept nogil:
    """Reads the workers' epoch counters. A worker within a batch has an odd counter; one that waits for packets is offline (even)."""
    cdef uint32_t i
    cdef uint64_t counter
    for i in range(EPOCH_WORKERS):
        counter = atomic_load64(&epoch_slots[i].counter)
        if counter != epochs[i] or not counter & 1:
            epochs[i] = counter
            epochs_since[i] = now


cdef bint stuck(int64_t now) noexcept nogil:
    cdef uint32_t i
    for i in range(EPOCH_WORKERS):
        if epochs[i] & 1 and now - epochs_since[i] > STUCK:
            return True
    return False


cdef void handle_event(int fd, int64_t now) noexcept nogil:
    cdef uint32_t i
    cdef uint64_t count
    if fd == wake_fd:
        read(wake_fd, &count, sizeof(count))
        return
    for i in range(LISTENERS_MAX):
        if listeners[i].fd == fd:
            accept_connection(&listeners[i], now)
            return
    for i in range(CONNECTIONS_MAX):
        if connections[i].fd == fd and connections[i].state == READING:
            read_request(&connections[i], now)
            return
        if connections[i].fd == fd and connections[i].state == WRITING:
            write_reply(&connections[i], now)
            return


cdef void expire(int64_t now) noexcept nogil:
    cdef uint32_t i
    for i in range(CONNECTIONS_MAX):
        if connections[i].state != FREE and connections[i].deadline < now:
            close_connection(&connections[i])


# ---- connections ----

cdef void accept_connection(Listener *listener, int64_t now) noexcept nogil:
    cdef Connection *chosen
    cdef sockaddr_in6 peer
    cdef int fd = http_accept(listener.fd, &peer, sizeof(peer))
    if fd < 0:
        return
    chosen = find_place(listener.id)
    address_from_socket(&chosen.client, &peer)
    chosen.fd = fd
    chosen.listener = listener.id
    chosen.used = 0
    expect_request(chosen, now)
    read_request(chosen, now)


cdef Connection *find_place(uint32_t listener) noexcept nogil:
    """A connection that is free, or is freed: of the listener when that has its number, else of the one that has most."""
    cdef Connection *chosen = NULL
    cdef uint32_t i, held, most = 0, crowded = listener
    for i in range(CONNECTIONS_MAX):
        if connections[i].state == FREE:
            chosen = &connections[i]
    if count_connections(listener) >= LISTENER_MAX:
        chosen = NULL
    elif chosen == NULL:
        for i in range(CONNECTIONS_MAX):
            held = count_connections(connections[i].listener)
            if held > most:
                most = held
                crowded = connections[i].listener
    if chosen == NULL:
        chosen = find_victim(crowded)
        close_connection(chosen)
    return chosen


cdef uint32_t count_connections(uint32_t listener) noexcept nogil:
    cdef uint32_t i, count = 0
    for i in range(CONNECTIONS_MAX):
        if connections[i].state != FREE and connections[i].listener == listener:
            count += 1
    return count


cdef inline bint share_network(const Connection *a, const Connection *b) noexcept nogil:
    return a.client.family == b.client.family and address_prefix(&a.client) == address_prefix(&b.client)


cdef inline bint share_address(const Connection *a, const Connection *b) noexcept nogil:
    return a.client.family == b.client.family and memcmp(a.client.octets, b.client.octets, 4 if a.client.family == 4 else 16) == 0


cdef uint64_t rank(uint64_t of_network, uint64_t of_address) noexcept nogil:
    """Orders clients by the holdings of their networks, then by their own; neither number exceeds 32 bits."""
    return of_network << 32 | of_address


cdef uint64_t rank_connections(const Connection *c, State state) noexcept nogil:
    """The rank of a client by its connections to its listener: those in a state, or with FREE all."""
    cdef Connection *other
    cdef uint32_t i, of_network = 0, of_address = 0
    for i in range(CONNECTIONS_MAX):
        other = &connections[i]
        if other.state != FREE and other.listener == c.listener and (state == FREE or other.state == state):
            of_network += share_network(other, c)
            of_address += share_address(other, c)
    return rank(of_network, of_address)


cdef uint64_t rank_replies(const Connection *c) noexcept nogil:
    """The rank of a client by the octets of its unread replies, on all listeners."""
    cdef Connection *other
    cdef uint64_t of_network = 0, of_address = 0
    cdef uint32_t i
    for i in range(CONNECTIONS_MAX):
        other = &connections[i]
        if other.state == WRITING:
            of_network += other.out_length if share_network(other, c) else 0
            of_address += other.out_length if share_address(other, c) else 0
    return rank(min(of_network, <uint64_t>0xffffffffU), min(of_address, <uint64_t>0xffffffffU))


cdef Connection *find_victim(uint32_t listener) noexcept nogil:
    """A connection of the client with the highest rank: one that does not read its reply, or else one that is idle; of these the oldest."""
    cdef Connection *chosen = NULL
    cdef Connection *c
    cdef uint64_t held, most = 0
    cdef uint32_t i
    for i in range(CONNECTIONS_MAX):
        c = &connections[i]
        if c.state == FREE or c.listener != listener:
            continue
        held = rank_connections(c, FREE)
        if (chosen == NULL or held > most or held == most
                and (c.state > chosen.state or c.state == chosen.state and c.deadline < chosen.deadline)):
            chosen = c
            most = held
    return chosen


cdef void expect_request(Connection *c, int64_t now) noexcept nogil:
    global next_id
    c.id = next_id
    next_id += 1
    c.state = READING
    c.length = 0
    c.closing = c.without_body = False
    c.deadline = now + TIMEOUT


cdef void close_connection(Connection *c) noexcept nogil:
    close(c.fd)
    free(c.out)
    c.out = NULL
    c.fd = -1
    c.state = FREE


cdef void read_request(Connection *c, int64_t now) noexcept nogil:
    cdef long got = http_read(c.fd, c.head + c.used, HEAD_MAX - c.used)
    if http_again(got):
        return
    if got <= 0:
        close_connection(c)
        return
    c.used += <uint32_t>got
    handle_request(c, now)


cdef void handle_request(Connection *c, int64_t now) noexcept nogil:
    """When the head is complete, answers the request or queues it for `take`."""
    cdef HttpHead head
    cdef const uint8_t *path
    cdef const uint8_t *query
    cdef uint32_t length, query_length
    cdef Listener *listener
    cdef int status = http_parse_head(<const uint8_t *>c.head, c.used, &head)
    if status == HEAD_INCOMPLETE and c.used < HEAD_MAX:
        return
    if status != HEAD_COMPLETE or not http_split_target(head.target, head.target_length, &path, &length, &query, &query_length):
        c.closing = True
        answer(c, BAD_REQUEST, now)
        return
    c.length = head.length
    c.without_body = http_is(head.method, head.method_length, b"head")
    c.closing = head.close or head.chunked or head.content_length >= 0      # a body is not read
    listener = find_listener(c.listener)
    if listener == NULL:            # closed meanwhile
        close_connection(c)
    elif listener.health and length == 7 and memcmp(path, b"/health", 7) == 0:
        watch_workers(now)
        answer(c, STUCK_WORKER if stuck(now) else OK, now)
    elif listener.health_only:
        answer(c, NOT_FOUND, now)
    else:
        c.state = ASKED
        c.deadline = now + 2 * TIMEOUT
        http_ask()


cdef Listener *find_listener(uint32_t id) noexcept nogil:
    cdef uint32_t i
    for i in range(LISTENERS_MAX):
        if listeners[i].fd >= 0 and listeners[i].id == id:
            return &listeners[i]
    return NULL


cdef void answer(Connection *c, const char *form, int64_t now) noexcept nogil:
    """Sends a native reply; its format has one %s, for the fields that not all replies have in common."""
    cdef char field[FIELDS_MAX]
    cdef size_t size = strlen(form) + 1
    size += <size_t>snprintf(field, FIELDS_MAX, b"Date: %s\r\n%s", http_date(DATE_PAGES), b"Connection: close\r\n" if c.closing else b"")
    cdef char *body
    c.out = <char *>malloc(size)
    if c.out == NULL:
        close_connection(c)
        return
    c.out_length = snprintf(c.out, size, form, field)
    if c.without_body:
        body = <char *>memmem(c.out, c.out_length, b"\r\n\r\n", 4)
        c.out_length = body + 4 - c.out
    begin_writing(c, now)


cdef void bound_replies(const Connection *written) noexcept nogil:
    """Closes connections that do not read until the octets of replies are within their bound. The client that holds most octets is evicted first."""
    cdef Connection *chosen
    cdef uint64_t total, held, most
    cdef uint32_t i
    while True:
        chosen = NULL
        total = most = 0
        for i in range(CONNECTIONS_MAX):
            total += connections[i].out_length if connections[i].state == WRITING else 0
            if connections[i].state != WRITING or &connections[i] == written:
                continue
            held = rank_replies(&connections[i])
            if held > most or (held == most and chosen != NULL and connections[i].deadline < chosen.deadline):
                most = held
                chosen = &connections[i]
        if total <= REPLIES_MAX or chosen == NULL:
            return
        close_connection(chosen)


cdef void begin_writing(Connection *c, int64_t now) noexcept nogil:
    c.out_sent = 0
    c.state = WRITING
    c.deadline = now + TIMEOUT
    write_reply(c, now)
    if c.state == WRITING:
        bound_replies(c)


cdef void write_reply(Connection *c, int64_t now) noexcept nogil:
    cdef long sent
    while c.out_sent < c.out_length:
        sent = http_write(c.fd, c.out + c.out_sent, c.out_length - c.out_sent)
        if http_again(sent):
            return
        if sent <= 0:
            close_connection(c)
            return
        c.out_sent += sent
    free(c.out)
    c.out = NULL
    if c.closing:
        close_connection(c)
        return
    memmove(c.head, c.head + c.length, c.used - c.length)
    c.used -= c.length
    expect_request(c, now)
    if c.used:
        handle_request(c, now)


# ---- Python ----

cdef int start() except -1:
    global wake_fd
    cdef uint32_t i
    if wake_fd >= 0:
        return 0
    for i in range(LISTENERS_MAX):
        listeners[i].fd = -1
    for i in range(CONNECTIONS_MAX):
        connections[i].fd = -1
    wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)
    if wake_fd < 0 or thread_start(serve, b"http"):
        raise OSError("no thread for HTTP")
    return 0


cdef void wake() noexcept nogil:
    cdef uint64_t one = 1
    write(wake_fd, &one, sizeof(one))


def add_listener(int fd, bint health, bint health_only) -> int:
    """Serve a listening, non-blocking socket and take ownership of it. Returns the listener's number."""
    global next_id
    cdef uint32_t i, id = 0
    start()
    http_lock()
    for i in range(LISTENERS_MAX):
        if listeners[i].fd < 0:
            listeners[i].fd = fd
            listeners[i].id = id = next_id
            listeners[i].health = health
            listeners[i].health_only = health_only
            next_id += 1
            break
    http_unlock()
    if not id:
        raise OSError(f"more than {LISTENERS_MAX} addresses for HTTP")
    wake()
    return id


def set_health(uint32_t id, bint health, bint health_only) -> None:
    """Set whether /health is answered natively, and whether all other paths are 404."""
    http_lock()
    cdef Listener *listener = find_listener(id)
    if listener != NULL:
        listener.health = health
        listener.health_only = health_only
    http_unlock()
    wake()


def remove_listener(uint32_t id) -> None:
    """Close the socket. Replies in progress are completed."""
    cdef Listener *listener
    http_lock()
    listener = find_listener(id)
    if listener != NULL:
        http_shut(listener.fd)
        listener.fd = -1
    http_unlock()
    wake()


def take() -> tuple:
    """Wait for a request that Python answers: (request, listener, client's network, head)."""
    cdef uint32_t id = 0, listener = 0, length = 0
    cdef uint64_t network = 0
    cdef Connection *c
    cdef char head[HEAD_MAX]        # a copy: no Python object is made while the lock is held
    with nogil:
        http_lock()
        c = next_asked()
        while c == NULL:
            http_wait()
            c = next_asked()
        c.state = TAKEN
        id, listener, network, length = c.id, c.listener, address_network(&c.client), c.length
        memcpy(head, c.head, length)
        http_unlock()
    return id, listener, network, PyBytes_FromStringAndSize(head, length)


cdef Connection *next_asked() noexcept nogil:
    """Of the next listener with requests the one whose client has the fewest, of these the oldest. NULL: nobody asks."""
    global last_taken
    cdef Connection *chosen
    cdef Connection *c
    cdef uint64_t held, fewest = 0
    cdef uint32_t i, turn
    for turn in range(1, LISTENERS_MAX + 1):
        chosen = NULL
        for i in range(CONNECTIONS_MAX):
            c = &connections[i]
            if c.state != ASKED or c.listener != listeners[(last_taken + turn) % LISTENERS_MAX].id:
                continue
            held = rank_connections(c, ASKED)
            if chosen == NULL or held < fewest or (held == fewest and c.deadline < chosen.deadline):
                chosen = c
                fewest = held
        if chosen != NULL:
            last_taken = (last_taken + turn) % LISTENERS_MAX
            return chosen
    for i in range(CONNECTIONS_MAX):
        if connections[i].state == ASKED:       # its listener is closed
            return &connections[i]
    return NULL


def reply(uint32_t request, bytes head not None, bytes body not None) -> None:
    """Answer a request from `take`: the head without its Connection and Content-Length fields and its blank line."""
    cdef Connection *c = NULL
    cdef uint32_t i
    cdef bint closing = False, without_body = False
    cdef char *out
    http_lock()
    for i in range(CONNECTIONS_MAX):
        if connections[i].state == TAKEN and connections[i].id == request:
            closing, without_body = connections[i].closing, connections[i].without_body
    http_unlock()
    cdef bytes whole = head + b"Content-Length: %d\r\n" % len(body) + (b"Connection: close\r\n\r\n" if closing else b"\r\n")
    if not without_body:
        whole += body
    out = <char *>malloc(PyBytes_GET_SIZE(whole))
    if out != NULL:
        memcpy(out, PyBytes_AS_STRING(whole), PyBytes_GET_SIZE(whole))
    http_lock()
    for i in range(CONNECTIONS_MAX):
        c = &connections[i]
        if c.state == TAKEN and c.id == request:    # otherwise the connection was closed, and may serve another client
            if out == NULL:
                close_connection(c)
                break
            c.out = out
            c.out_length = PyBytes_GET_SIZE(whole)
            begin_writing(c, milliseconds())
            out = NULL
            break
    http_unlock()
    free(out)
    wake()
