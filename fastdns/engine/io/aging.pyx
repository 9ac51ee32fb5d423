"""How long queries have been in their UDP sockets. The contract is in engine/io/aging.pxd."""
from posix.time cimport CLOCK_REALTIME, clock_gettime, timespec
from fastdns.engine.io.datagram cimport BATCH, UdpBatch, timestamp_read
from fastdns.system.atomic cimport atomic_peek32, atomic_peek_ns, atomic_poke32, atomic_poke_ns
from fastdns.system.socket cimport SOL_SOCKET, setsockopt, socket_clock, socklen_t
from fastdns.telemetry.metrics cimport metric_add

cdef extern from "<sys/socket.h>" nogil:
    enum: SO_RCVBUF
    enum: SO_RCVBUFFORCE
    enum: SO_TIMESTAMPNS
    int getsockopt(int fd, int level, int name, void *value, socklen_t *length)

cdef enum:
    BUFFER_LEAST = 98304            # octets of SO_RCVBUF: the kernel counts twice as many, 768 for a query, so that 256 fit
    IDLE = 10                       # limits without a query after which there is no overload
    AGE_MOST = 60000000000          # ns: what seems to be older comes from a step of the clock

cdef dict _wanted = {}              # label -> owner's id -> limit, cell


# ---- which servers ----

cdef int aging_want(uint32_t label, object owner, int64_t limit, uint32_t cell) except -1:
    if label < AGINGS_MAX:
        _wanted.setdefault(label, {})[id(owner)] = (limit, cell)
        show(label)
    return 0


cdef int aging_forget(uint32_t label, object owner) except -1:
    if _wanted.get(label, {}).pop(id(owner), None) is not None:
        show(label)
    return 0


cdef int show(uint32_t label) except -1:
    """The last one that has a limit counts."""
    cdef int64_t limit = 0
    cdef uint32_t cell = 0
    for asked, counter in _wanted[label].values():
        if asked:
            limit, cell = asked, counter
    atomic_poke32(&agings[label].cell, cell)
    atomic_poke_ns(&agings[label].limit, limit)
    atomic_poke32(&agings[label].wanted, <uint32_t>len(_wanted[label]))
    return 0


# ---- on the worker ----

cdef void aging_begin(UdpSocket *sock) noexcept nogil:
    cdef int on = 1, size = 0
    cdef socklen_t length = sizeof(size)
    if setsockopt(sock.base.source.fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof(on)) < 0:
        return
    if getsockopt(sock.base.source.fd, SOL_SOCKET, SO_RCVBUF, &size, &length) < 0:
        size = 0
    sock.ages = 1
    sock.buffer_whole = size // 2
    sock.buffer = sock.buffer_whole
    sock.above = 0
    sock.oldest = 0


cdef void aging_end(UdpSocket *sock) noexcept nogil:
    cdef int off = 0
    setsockopt(sock.base.source.fd, SOL_SOCKET, SO_TIMESTAMPNS, &off, sizeof(off))
    if sock.buffer != sock.buffer_whole:
        resize(sock, sock.buffer_whole)
    sock.ages = 0


cdef void resize(UdpSocket *sock, int size) noexcept nogil:
    """The privileged may have more than net.core.rmem_max."""
    sock.buffer = size
    if setsockopt(sock.base.source.fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)) < 0:
        setsockopt(sock.base.source.fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size))


cdef void aging_judge(UdpSocket *sock, Worker *worker, const Aging *aging, int n) noexcept nogil:
    cdef UdpBatch *batch = sock.batch
    cdef int64_t limit = atomic_peek_ns(&aging.limit)
    cdef int64_t now, arrived, age, oldest = 0
    cdef timespec wall
    cdef int i
    cdef bint drops
    clock_gettime(CLOCK_REALTIME, &wall)
    now = <int64_t>wall.tv_sec * 1000000000 + wall.tv_nsec
    batch.read = socket_clock()
    for i in range(n):
        arrived = timestamp_read(&batch.received[i].msg_hdr)
        age = now - arrived if arrived else 0
        if age < 0 or age > AGE_MOST:       # the clock was set meanwhile
            age = 0
        batch.ages[i] = age
        if age > oldest:
            oldest = age
    if limit == 0:
        return
    # A batch that is not full was all there is: whoever is in it costs nobody else time.
    drops = adapt(sock, batch.read, limit, oldest, n == BATCH)
    if drops and oldest > limit and n == BATCH:
        for i in range(n):
            if batch.ages[i] > limit:
                batch.stale |= <uint32_t>1 << i
                metric_add(atomic_peek32(&aging.cell), worker.id, 1)


cdef bint adapt(UdpSocket *sock, int64_t now, int64_t limit, int64_t oldest, bint waits) noexcept nogil:
    """Whether the server is overloaded; and how large the socket's buffer is then. oldest: in the batch that was read; waits: there may be more.

    A standstill alone leaves a queue that is soon worked off, and its queries are answered although they are late. Only if queries have been too old all
    the time for as long as the limit is there more to do than can be done. From then on the buffer is made so small that what is in it is answered
    within half of the limit, and again as large as it was once queries wait for less than a quarter of it.
    """
    if oldest <= limit or not waits:
        sock.above = 0
    elif sock.above == 0:
        sock.above = now
    if oldest > sock.oldest:
        sock.oldest = oldest
    if sock.buffer == sock.buffer_whole:
        if sock.above == 0 or now - sock.above < limit or sock.buffer_whole <= BUFFER_LEAST:
            return False
        sock.judged = 0
        sock.oldest = oldest
    elif now - sock.judged > IDLE * limit:      # nobody has asked since: what was is over
        resize(sock, sock.buffer_whole)
        return False
    if now - sock.judged < limit:
        return True
    if sock.oldest > limit:
        resize(sock, max(<int>BUFFER_LEAST, <int>(sock.buffer * (<double>limit / (2 * sock.oldest)))))
    elif sock.oldest < limit // 4:
        resize(sock, min(sock.buffer_whole, 2 * sock.buffer))
    sock.judged = now
    sock.oldest = 0
    return sock.buffer != sock.buffer_whole
