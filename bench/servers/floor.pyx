"""The socket floor: the least that a UDP server on kernel sockets does for an answer."""
from libc.errno cimport EINTR, errno
from libc.stdint cimport uint8_t, uint32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset
from fastdns.system.socket cimport MSG_NOSIGNAL, iovec, mmsghdr, recvmmsg, sendmmsg, sockaddr_in6

cdef extern from "<sys/socket.h>" nogil:
    enum: MSG_WAITFORONE

cdef enum:
    BATCH = 64
    SIZE = 1500
    CONTROL = 64            # octets for one PKTINFO
    HEADER = 12
    ANSWER = 16

cdef struct Buffers:
    uint8_t octets[BATCH][SIZE]
    uint8_t control[BATCH][CONTROL]
    sockaddr_in6 peers[BATCH]
    iovec parts[BATCH]
    mmsghdr received[BATCH]
    mmsghdr sent[BATCH]
    uint8_t answer[ANSWER]  # pointer to the question's name, A, IN, TTL, 10.0.0.1


def serve(int socket, bint wildcard=False, uint32_t ttl=5):
    cdef Buffers *b = <Buffers *>calloc(1, sizeof(Buffers))
    cdef int status
    if b == NULL:
        raise MemoryError
    answer_fill(b.answer, ttl)
    with nogil:
        for i in range(BATCH):
            prepare(b, i, wildcard)
        status = run(b, socket, wildcard)
    free(b)
    raise OSError(status, "receiving failed")


cdef void answer_fill(uint8_t *answer, uint32_t ttl) noexcept:
    cdef uint8_t[ANSWER] fixed = [0xC0, HEADER, 0, 1, 0, 1, ttl >> 24, ttl >> 16 & 255, ttl >> 8 & 255, ttl & 255, 0, 4, 10, 0, 0, 1]
    memcpy(answer, fixed, ANSWER)


cdef void prepare(Buffers *b, uint32_t i, bint wildcard) noexcept nogil:
    """Makes place i ready to receive: the kernel and the reply have changed its lengths."""
    b.parts[i].iov_base = b.octets[i]
    b.parts[i].iov_len = SIZE
    b.received[i].msg_hdr.msg_name = &b.peers[i]
    b.received[i].msg_hdr.msg_namelen = sizeof(sockaddr_in6)
    b.received[i].msg_hdr.msg_iov = &b.parts[i]
    b.received[i].msg_hdr.msg_iovlen = 1
    if wildcard:
        b.received[i].msg_hdr.msg_control = b.control[i]
        b.received[i].msg_hdr.msg_controllen = CONTROL


cdef int run(Buffers *b, int socket, bint wildcard) noexcept nogil:
    """Answers for ever; the errno when receiving fails."""
    cdef int n, took
    cdef uint32_t i, first, replies
    while True:
        n = recvmmsg(socket, b.received, BATCH, MSG_WAITFORONE, NULL)
        if n < 0:
            if errno == EINTR:
                continue
            return errno
        replies = 0
        for i in range(<uint32_t>n):
            if reply(b, i):
                # With PKTINFO the reply leaves from the address that was asked.
                b.sent[replies] = b.received[i]
                replies += 1
        first = 0
        while first < replies:
            took = sendmmsg(socket, &b.sent[first], replies - first, MSG_NOSIGNAL)
            if took <= 0:
                break
            first += <uint32_t>took
        for i in range(<uint32_t>n):
            prepare(b, i, wildcard)


cdef bint reply(Buffers *b, uint32_t i) noexcept nogil:
    """Turns the query in place i into its reply; False for what is no query."""
    cdef uint8_t *octets = b.octets[i]
    cdef uint32_t length = b.received[i].msg_len, end = HEADER
    if length < HEADER + 5 or octets[2] & 0x80:
        return False
    while end < length and octets[end]:
        end += octets[end] + 1
    end += 5
    if end > length or end + ANSWER > SIZE:
        return False
    octets[2] |= 0x84       # QR, AA
    octets[3] = 0
    octets[6] = 0
    octets[7] = 1
    memset(octets + 8, 0, 4)
    memcpy(octets + end, b.answer, ANSWER)
    b.parts[i].iov_len = end + ANSWER
    return True
