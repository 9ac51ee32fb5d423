"""The floor of forwarding: a relay between askers and one upstream."""
from libc.errno cimport EINTR, errno
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy
from fastdns.system.socket cimport MSG_DONTWAIT, MSG_NOSIGNAL, POLLIN, iovec, mmsghdr, poll, pollfd, recvmmsg, sendmmsg, sockaddr_in6, socklen_t

cdef enum:
    BATCH = 64
    SIZE = 1500
    SOCKETS = 64
    SLOTS = 1024            # queries under way on one upstream socket
    SHORTEST = 12           # octets of a DNS message

cdef struct Asker:
    sockaddr_in6 address
    socklen_t length
    uint16_t id             # as it came, network order

cdef struct Buffers:
    uint8_t octets[BATCH][SIZE]
    sockaddr_in6 peers[BATCH]
    iovec parts[BATCH]
    mmsghdr received[BATCH]
    mmsghdr sent[BATCH]
    pollfd sockets[SOCKETS + 1]     # the front first
    Asker askers[SOCKETS][SLOTS]
    uint16_t next[SOCKETS]


def relay(int front, upstreams):
    cdef Buffers *b
    cdef uint32_t count = 0
    cdef int status
    if not 0 < len(upstreams) <= SOCKETS:
        raise ValueError(f"between 1 and {SOCKETS} upstream sockets, not {len(upstreams)}")
    b = <Buffers *>calloc(1, sizeof(Buffers))
    if b == NULL:
        raise MemoryError
    b.sockets[0].fd = front
    b.sockets[0].events = POLLIN
    for upstream in upstreams:
        count += 1
        b.sockets[count].fd = upstream
        b.sockets[count].events = POLLIN
    with nogil:
        status = run(b, count)
    free(b)
    raise OSError(status, "waiting failed")


cdef int run(Buffers *b, uint32_t upstreams) noexcept nogil:
    """Relays for ever; the errno when waiting fails."""
    cdef uint32_t turn = 0, s
    while True:
        if poll(b.sockets, upstreams + 1, -1) < 0:
            if errno == EINTR:
                continue
            return errno
        if b.sockets[0].revents:
            pass_on(b, turn, True)
            turn = (turn + 1) % upstreams
        for s in range(upstreams):
            if b.sockets[s + 1].revents:
                pass_on(b, s, False)


cdef void pass_on(Buffers *b, uint32_t s, bint asked) noexcept nogil:
    """One batch from the front to upstream socket s, under ids of our own (asked), or from there to those who asked."""
    cdef int n = take(b, b.sockets[0 if asked else s + 1].fd, asked)
    cdef int i
    cdef uint32_t m = 0
    for i in range(n):
        if b.received[i].msg_len < SHORTEST or not (note_asker(b, s, i) if asked else find_asker(b, s, i, m)):
            continue
        b.parts[i].iov_len = b.received[i].msg_len
        b.sent[m].msg_hdr.msg_iov = &b.parts[i]
        b.sent[m].msg_hdr.msg_iovlen = 1
        if asked:
            b.sent[m].msg_hdr.msg_name = NULL
            b.sent[m].msg_hdr.msg_namelen = 0
        m += 1
    give(b, b.sockets[s + 1 if asked else 0].fd, m)


cdef inline bint note_asker(Buffers *b, uint32_t s, int i) noexcept nogil:
    """Keeps who sent datagram i, and gives it an id of our own."""
    cdef uint16_t id = b.next[s] % SLOTS
    cdef Asker *asker = &b.askers[s][id]
    b.next[s] += 1
    asker.address = b.peers[i]
    asker.length = b.received[i].msg_hdr.msg_namelen
    memcpy(&asker.id, b.octets[i], 2)
    memcpy(b.octets[i], &id, 2)
    return True


cdef inline bint find_asker(Buffers *b, uint32_t s, int i, uint32_t m) noexcept nogil:
    """Gives datagram i its old id and, as the m-th to be sent, the address of who asked. False when nobody did."""
    cdef uint16_t id
    cdef Asker *asker
    memcpy(&id, b.octets[i], 2)
    asker = &b.askers[s][id % SLOTS]
    if asker.length == 0:
        return False
    memcpy(b.octets[i], &asker.id, 2)
    b.peers[i] = asker.address
    b.sent[m].msg_hdr.msg_name = &b.peers[i]
    b.sent[m].msg_hdr.msg_namelen = asker.length
    return True


cdef int take(Buffers *b, int fd, bint named) noexcept nogil:
    """How many datagrams were received; named: with their senders."""
    cdef uint32_t i
    for i in range(BATCH):
        b.parts[i].iov_base = b.octets[i]
        b.parts[i].iov_len = SIZE
        b.received[i].msg_hdr.msg_name = &b.peers[i] if named else NULL
        b.received[i].msg_hdr.msg_namelen = sizeof(sockaddr_in6) if named else 0
        b.received[i].msg_hdr.msg_iov = &b.parts[i]
        b.received[i].msg_hdr.msg_iovlen = 1
    return recvmmsg(fd, b.received, BATCH, MSG_DONTWAIT, NULL)


cdef void give(Buffers *b, int fd, uint32_t count) noexcept nogil:
    cdef uint32_t first = 0
    cdef int took
    while first < count:
        took = sendmmsg(fd, &b.sent[first], count - first, MSG_NOSIGNAL)
        if took <= 0:
            return
        first += <uint32_t>took
