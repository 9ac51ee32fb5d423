"""The listener behind health, ready and prometheus: one native thread that needs no Python to say that the server lives.

The thread polls listeners and connections, reads request heads and writes replies. /health of a door that asked for it is answered here, from
the workers' epochs, whoever holds the GIL; every other request goes to a thread of Python's (`take`, `reply`; see http.py).
"""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdio cimport snprintf
from libc.stdlib cimport free, malloc
from libc.string cimport memchr, memcpy, memmove, strlen

from fastdns.system.atomic cimport atomic_load64
from fastdns.system.epoch cimport EPOCH_WORKERS, epoch_slots
from fastdns.system.socket cimport EFD_CLOEXEC, EFD_NONBLOCK, POLLIN, POLLOUT, close, eventfd, poll, pollfd, read, socket_clock, write
from fastdns.system.thread cimport thread_start

cdef extern from "<string.h>" nogil:
    void *memmem(const void *where, size_t length, const void *what, size_t size)

cdef extern from "<strings.h>" nogil:
    int strncasecmp(const char *a, const char *b, size_t n)

cdef extern from *:
    """
    #include <errno.h>
    #include <pthread.h>
    #include <stdint.h>
    #include <sys/socket.h>
    #include <unistd.h>

    static pthread_mutex_t http_mutex = PTHREAD_MUTEX_INITIALIZER;  /* nobody who holds it waits for the GIL */
    static pthread_cond_t http_asked = PTHREAD_COND_INITIALIZER;

    static inline void http_lock(void) { pthread_mutex_lock(&http_mutex); }
    static inline void http_unlock(void) { pthread_mutex_unlock(&http_mutex); }
    static inline void http_wait(void) { pthread_cond_wait(&http_asked, &http_mutex); }
    static inline void http_ask(void) { pthread_cond_signal(&http_asked); }
    static inline void http_shut(int fd) { shutdown(fd, SHUT_RDWR); close(fd); } /* poll may still hold it: it must not accept any more */
    static inline int http_accept(int fd) { return accept4(fd, 0, 0, SOCK_NONBLOCK | SOCK_CLOEXEC); }
    static inline long http_read(int fd, void *p, size_t n) { long r = recv(fd, p, n, 0); return r < 0 ? -errno : r; }
    static inline long http_write(int fd, const void *p, size_t n) { long r = send(fd, p, n, MSG_NOSIGNAL); return r < 0 ? -errno : r; }
    static inline int http_again(long r) { return r == -EAGAIN || r == -EINTR; }
    """
    void http_lock() noexcept nogil
    void http_unlock() noexcept nogil
    void http_wait() noexcept nogil
    void http_ask() noexcept nogil
    void http_shut(int fd) noexcept nogil
    int http_accept(int fd) noexcept nogil
    long http_read(int fd, void *p, size_t n) noexcept nogil
    long http_write(int fd, const void *p, size_t n) noexcept nogil
    bint http_again(long r) noexcept nogil

cdef enum:
    DOORS = 64
    CONNECTIONS = 64            # the one that has idled longest gives way
    BUSY_MAX = 48               # connections that wait for Python or a slow reader; the rest is for /health
    HEAD_MAX = 8192             # octets of a request's head
    PATIENCE = 5000             # milliseconds to read a head, to write a reply, to idle
    TICK = 250                  # milliseconds between two looks at the workers
    STUCK = 1000                # milliseconds in one batch

cdef enum State:
    FREE
    READING
    ASKED                       # waits for Python
    TAKEN                       # Python makes the reply
    WRITING

cdef struct Door:
    int fd                      # owned; -1: free
    uint32_t id
    bint health                 # /health is answered here
    bint alone                  # nothing else is behind this door

cdef struct Connection:
    int fd
    uint32_t id                 # changes with each request, so that a late reply goes nowhere
    uint32_t door
    State state
    int64_t deadline            # ms
    uint32_t used               # octets in head
    uint32_t length             # of the request at work, its blank line included
    bint last                   # close behind the reply
    bint bare                   # HEAD: no body
    char *out                   # owned
    size_t out_length
    size_t out_sent
    char head[HEAD_MAX]

cdef Door doors[DOORS]
cdef Connection connections[CONNECTIONS]
cdef uint32_t next_id = 1
cdef int bell = -1              # eventfd: doors or replies have changed
cdef uint64_t epochs[EPOCH_WORKERS]     # as last seen
cdef int64_t epochs_since[EPOCH_WORKERS]

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
    cdef pollfd polled[1 + DOORS + CONNECTIONS]
    cdef uint32_t count, i
    cdef int64_t now
    while True:
        http_lock()
        count = gather(polled)
        now = milliseconds()
        i = <uint32_t>timeout(now)
        http_unlock()
        poll(polled, count, <int>i)
        http_lock()
        now = milliseconds()
        watch_workers(now)
        for i in range(count):
            if polled[i].revents:
                attend(polled[i].fd, now)
        expire(now)
        http_unlock()


cdef uint32_t gather(pollfd *polled) noexcept nogil:
    cdef uint32_t count = 1, i
    polled[0].fd = bell
    polled[0].events = POLLIN
    for i in range(DOORS):
        if doors[i].fd >= 0:
            polled[count].fd = doors[i].fd
            polled[count].events = POLLIN
            count += 1
    for i in range(CONNECTIONS):
        if connections[i].state == READING or connections[i].state == WRITING:
            polled[count].fd = connections[i].fd
            polled[count].events = POLLIN if connections[i].state == READING else POLLOUT
            count += 1
    for i in range(count):
        polled[i].revents = 0
    return count


cdef int timeout(int64_t now) noexcept nogil:
    """Milliseconds until something must be looked at; -1: only when something happens."""
    cdef int64_t soonest = -1, left
    cdef uint32_t i
    for i in range(DOORS):
        if doors[i].fd >= 0 and doors[i].health:
            soonest = TICK
    for i in range(CONNECTIONS):
        if connections[i].state != FREE:
            left = max(0, connections[i].deadline - now) + 1
            if soonest < 0 or left < soonest:
                soonest = left
    return <int>soonest


cdef void watch_workers(int64_t now) noexcept nogil:
    """A worker is stuck when it has been within one batch for a second; one that waits for packets is offline (even)."""
    cdef uint32_t i
    cdef uint64_t seen
    for i in range(EPOCH_WORKERS):
        seen = atomic_load64(&epoch_slots[i].counter)
        if seen != epochs[i] or not seen & 1:
            epochs[i] = seen
            epochs_since[i] = now


cdef bint stuck(int64_t now) noexcept nogil:
    cdef uint32_t i
    for i in range(EPOCH_WORKERS):
        if epochs[i] & 1 and now - epochs_since[i] > STUCK:
            return True
    return False


cdef void attend(int fd, int64_t now) noexcept nogil:
    cdef uint32_t i
    cdef uint64_t rung
    if fd == bell:
        read(bell, &rung, sizeof(rung))
        return
    for i in range(DOORS):
        if doors[i].fd == fd:
            admit(&doors[i], now)
            return
    for i in range(CONNECTIONS):
        if connections[i].fd == fd and connections[i].state == READING:
            hear(&connections[i], now)
            return
        if connections[i].fd == fd and connections[i].state == WRITING:
            tell(&connections[i], now)
            return


cdef void expire(int64_t now) noexcept nogil:
    cdef uint32_t i
    for i in range(CONNECTIONS):
        if connections[i].state != FREE and connections[i].deadline < now:
            hang_up(&connections[i])


# ---- connections ----

cdef void admit(Door *door, int64_t now) noexcept nogil:
    cdef Connection *chosen = NULL
    cdef Connection *c
    cdef uint32_t i, busy = 0
    cdef int fd = http_accept(door.fd)
    if fd < 0:
        return
    for i in range(CONNECTIONS):
        c = &connections[i]
        if c.state != FREE and c.state != READING:
            busy += 1
        elif chosen == NULL or (chosen.state != FREE and (c.state == FREE or c.deadline < chosen.deadline)):
            chosen = c
    if chosen == NULL or (busy >= BUSY_MAX and not door.health):
        close(fd)
        return
    if chosen.state != FREE:
        hang_up(chosen)
    chosen.fd = fd
    chosen.door = door.id
    chosen.used = 0
    listen_again(chosen, now)
    hear(chosen, now)


cdef void listen_again(Connection *c, int64_t now) noexcept nogil:
    global next_id
    c.id = next_id
    next_id += 1
    c.state = READING
    c.length = 0
    c.last = c.bare = False
    c.deadline = now + PATIENCE


cdef void hang_up(Connection *c) noexcept nogil:
    close(c.fd)
    free(c.out)
    c.out = NULL
    c.fd = -1
    c.state = FREE


cdef void hear(Connection *c, int64_t now) noexcept nogil:
    cdef long got = http_read(c.fd, c.head + c.used, HEAD_MAX - c.used)
    if http_again(got):
        return
    if got <= 0:
        hang_up(c)
        return
    c.used += <uint32_t>got
    understand(c, now)


cdef void understand(Connection *c, int64_t now) noexcept nogil:
    """Once the head is whole: answers it, or asks Python to."""
    cdef char *end = <char *>memmem(c.head, c.used, b"\r\n\r\n", 4)
    cdef const char *path
    cdef uint32_t length = 0
    cdef Door *door
    if end == NULL:
        if c.used == HEAD_MAX:
            c.last = True
            answer(c, BAD_REQUEST, now)
        return
    c.length = <uint32_t>(end + 4 - c.head)
    path = find_path(c, &length)
    if path == NULL:
        c.last = True
        answer(c, BAD_REQUEST, now)
        return
    read_fields(c)
    door = find_door(c.door)
    if door == NULL:            # closed meanwhile
        hang_up(c)
    elif door.health and length == 7 and begins(path, b"/health"):
        watch_workers(now)
        answer(c, STUCK_WORKER if stuck(now) else OK, now)
    elif door.alone:
        answer(c, NOT_FOUND, now)
    else:
        c.state = ASKED
        c.deadline = now + 2 * PATIENCE
        http_ask()


cdef bint begins(const char *path, const char *wanted) noexcept nogil:
    cdef uint32_t i = 0
    while wanted[i]:
        if path[i] != wanted[i]:
            return False
        i += 1
    return True


cdef Door *find_door(uint32_t id) noexcept nogil:
    cdef uint32_t i
    for i in range(DOORS):
        if doors[i].fd >= 0 and doors[i].id == id:
            return &doors[i]
    return NULL


cdef const char *find_path(Connection *c, uint32_t *length) noexcept nogil:
    """The path of "METHOD TARGET HTTP/1.x", without its query; NULL when the line is malformed."""
    cdef const char *end = <const char *>memchr(c.head, c'\r', c.length)
    cdef const char *at = <const char *>memchr(c.head, c' ', end - c.head)
    cdef const char *stop
    cdef const char *found
    if at == NULL or at == c.head:
        return NULL
    at += 1
    stop = <const char *>memchr(at, c' ', end - at)
    if stop == NULL or end - stop != 9 or not begins(stop, b" HTTP/1.") or stop[8] < c'0' or stop[8] > c'1':
        return NULL
    c.last = stop[8] == c'0'
    c.bare = at - c.head == 5 and begins(c.head, b"HEAD")
    if at[0] != c'/':           # absolute form (RFC 9112 3.2.2)
        found = <const char *>memmem(at, stop - at, b"://", 3)
        if found == NULL:
            return NULL
        at = <const char *>memchr(found + 3, c'/', stop - found - 3)
        if at == NULL:
            return NULL
    found = <const char *>memchr(at, c'?', stop - at)
    length[0] = <uint32_t>((found if found != NULL else stop) - at)
    return at


cdef void read_fields(Connection *c) noexcept nogil:
    """Whether the connection goes on: not after "Connection: close", nor with a body, which nobody reads."""
    cdef const char *at = <const char *>memchr(c.head, c'\n', c.length) + 1
    cdef const char *end = c.head + c.length - 2
    cdef const char *stop
    while at < end:
        stop = <const char *>memchr(at, c'\r', c.head + c.length - at)
        if strncasecmp(at, b"connection:", 11) == 0:
            if stop - at >= 16 and strncasecmp(stop - 5, b"close", 5) == 0:
                c.last = True
        elif strncasecmp(at, b"content-length:", 15) == 0 or strncasecmp(at, b"transfer-encoding:", 18) == 0:
            c.last = True
        at = <const char *>memchr(stop, c'\n', c.head + c.length - stop)
        if at == NULL:
            break
        at += 1


cdef void answer(Connection *c, const char *form, int64_t now) noexcept nogil:
    """A native reply; its form has a place for the Connection field."""
    cdef const char *field = b"Connection: close\r\n" if c.last else b""
    cdef size_t room = strlen(form) + strlen(field) + 1
    cdef char *body
    c.out = <char *>malloc(room)
    if c.out == NULL:
        hang_up(c)
        return
    c.out_length = snprintf(c.out, room, form, field)
    if c.bare:
        body = <char *>memmem(c.out, c.out_length, b"\r\n\r\n", 4)
        c.out_length = body + 4 - c.out
    begin_writing(c, now)


cdef void begin_writing(Connection *c, int64_t now) noexcept nogil:
    c.out_sent = 0
    c.state = WRITING
    c.deadline = now + PATIENCE
    tell(c, now)


cdef void tell(Connection *c, int64_t now) noexcept nogil:
    cdef long sent
    while c.out_sent < c.out_length:
        sent = http_write(c.fd, c.out + c.out_sent, c.out_length - c.out_sent)
        if http_again(sent):
            return
        if sent <= 0:
            hang_up(c)
            return
        c.out_sent += sent
    free(c.out)
    c.out = NULL
    if c.last:
        hang_up(c)
        return
    memmove(c.head, c.head + c.length, c.used - c.length)
    c.used -= c.length
    listen_again(c, now)
    if c.used:
        understand(c, now)


# ---- the Python side ----

cdef int start() except -1:
    global bell
    cdef uint32_t i
    if bell >= 0:
        return 0
    for i in range(DOORS):
        doors[i].fd = -1
    for i in range(CONNECTIONS):
        connections[i].fd = -1
    bell = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)
    if bell < 0 or thread_start(serve):
        raise OSError("no thread for HTTP")
    return 0


cdef void ring() noexcept nogil:
    cdef uint64_t one = 1
    write(bell, &one, sizeof(one))


def add_door(int fd, bint health, bint alone) -> int:
    """Serve a listening, non-blocking socket, which is then owned here; returns the door's number."""
    global next_id
    cdef uint32_t i, id = 0
    start()
    http_lock()
    for i in range(DOORS):
        if doors[i].fd < 0:
            doors[i].fd = fd
            doors[i].id = id = next_id
            doors[i].health = health
            doors[i].alone = alone
            next_id += 1
            break
    http_unlock()
    if not id:
        raise OSError(f"more than {DOORS} addresses for HTTP")
    ring()
    return id


def change_door(uint32_t id, bint health, bint alone) -> None:
    """Whether /health is answered natively, and whether there is nothing else."""
    http_lock()
    cdef Door *door = find_door(id)
    if door != NULL:
        door.health = health
        door.alone = alone
    http_unlock()
    ring()


def remove_door(uint32_t id) -> None:
    """Close the socket; replies under way are finished."""
    cdef Door *door
    http_lock()
    door = find_door(id)
    if door != NULL:
        http_shut(door.fd)
        door.fd = -1
    http_unlock()
    ring()


def take() -> tuple:
    """Wait for a request that Python answers: (request, door, head)."""
    cdef uint32_t i, id = 0, door = 0, length = 0
    cdef char head[HEAD_MAX]        # nothing is made of Python's with the lock held: that may fail
    while True:
        with nogil:
            http_lock()
            while not asked():
                http_wait()
            http_unlock()
        http_lock()
        for i in range(CONNECTIONS):
            if connections[i].state == ASKED:
                connections[i].state = TAKEN
                id, door = connections[i].id, connections[i].door
                length = connections[i].length
                memcpy(head, connections[i].head, length)
                break
        http_unlock()
        if id:
            return id, door, PyBytes_FromStringAndSize(head, length)


cdef bint asked() noexcept nogil:
    cdef uint32_t i
    for i in range(CONNECTIONS):
        if connections[i].state == ASKED:
            return True
    return False


def reply(uint32_t request, bytes head not None, bytes body not None) -> None:
    """Answer a request from `take`: the head without its Connection and Content-Length fields and its blank line."""
    cdef Connection *c = NULL
    cdef uint32_t i
    cdef bint last = False, bare = False
    cdef char *out
    http_lock()
    for i in range(CONNECTIONS):
        if connections[i].state == TAKEN and connections[i].id == request:
            last, bare = connections[i].last, connections[i].bare
    http_unlock()
    cdef bytes whole = head + b"Content-Length: %d\r\n" % len(body) + (b"Connection: close\r\n\r\n" if last else b"\r\n")
    if not bare:
        whole += body
    out = <char *>malloc(PyBytes_GET_SIZE(whole))
    if out != NULL:
        memcpy(out, PyBytes_AS_STRING(whole), PyBytes_GET_SIZE(whole))
    http_lock()
    for i in range(CONNECTIONS):
        c = &connections[i]
        if c.state == TAKEN and c.id == request:    # the client may have gone, and another come
            if out == NULL:
                hang_up(c)
                break
            c.out = out
            c.out_length = PyBytes_GET_SIZE(whole)
            begin_writing(c, milliseconds())
            out = NULL
            break
    http_unlock()
    free(out)
    ring()
