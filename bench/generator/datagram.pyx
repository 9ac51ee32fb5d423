"""Queries as UDP datagrams. The contract is in _datagram.pxd."""
from libc.errno cimport EAGAIN, ECONNREFUSED, EINTR, ENOBUFS, errno
from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset
from fastdns.system.socket cimport (MSG_DONTWAIT, POLLOUT, SO_RCVBUF, SOCK_CLOEXEC, SOCK_DGRAM, SOCK_NONBLOCK, SOL_SOCKET, close, connect, poll,
                                    pollfd, recvmmsg, sendmmsg, setsockopt, sockaddr, socket, socket_clock)
from fastdns._wire cimport store16
from fastdns.bench.generator.client cimport BATCH, MESSAGE_STRIDE, Client, Datagrams, Driver, client_reply, client_sent
from fastdns.bench.generator.flight cimport flight_undo
from fastdns.bench.generator.queries cimport PackedQuery

cdef extern from *:
    """
    #include <stdint.h>
    #include <sys/socket.h>
    #ifndef SO_MEMINFO
    #define SO_MEMINFO 55
    #endif
    /* Datagrams that a socket had no room for (SK_MEMINFO_DROPS). */
    static inline uint32_t datagram_drops(int fd) {
        uint32_t info[16] = {0};
        socklen_t length = sizeof info;
        return getsockopt(fd, SOL_SOCKET, SO_MEMINFO, info, &length) == 0 && length >= 9 * sizeof *info ? info[8] : 0;
    }
    """
    uint32_t datagram_drops(int fd) noexcept nogil
    enum: SO_SNDBUF

cdef enum:
    BUFFER = 4194304                # octets wished for a socket's queues
    FULL = 2                        # ms to wait for room to send


cdef int datagrams_open(Driver *driver, unsigned int largest) noexcept nogil:
    cdef Datagrams *d = &driver.datagrams
    cdef uint32_t i
    memset(d, 0, sizeof(Datagrams))
    # Not a power of two: the first lines of all messages would fall into the same few sets of the CPU's cache.
    d.stride = (largest + 63) // 64 * 64 + 64
    d.incoming_octets = <uint8_t *>malloc(<size_t>BATCH * d.stride)
    if d.incoming_octets == NULL:
        return -1
    for i in range(BATCH):
        d.outgoing_parts[i].iov_base = d.outgoing_octets + i * MESSAGE_STRIDE
        d.outgoing[i].msg_hdr.msg_iov = &d.outgoing_parts[i]
        d.outgoing[i].msg_hdr.msg_iovlen = 1
        d.incoming_parts[i].iov_base = d.incoming_octets + <size_t>i * d.stride
        d.incoming_parts[i].iov_len = d.stride
        d.incoming[i].msg_hdr.msg_iov = &d.incoming_parts[i]
        d.incoming[i].msg_hdr.msg_iovlen = 1
    return 0


cdef void datagrams_close(Driver *driver) noexcept nogil:
    free(driver.datagrams.incoming_octets)
    driver.datagrams.incoming_octets = NULL


cdef int datagram_open(Client *client) noexcept nogil:
    cdef Driver *driver = client.driver
    cdef int size = BUFFER
    client.fd = socket(driver.family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)
    if client.fd < 0:
        return errno
    setsockopt(client.fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size))
    setsockopt(client.fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size))
    if connect(client.fd, <const sockaddr *>&driver.peer, driver.peer_length) < 0:
        return errno
    return 0


cdef bint datagram_is_open(Client *client) noexcept nogil:
    return True


cdef uint32_t datagram_capacity(Client *client) noexcept nogil:
    return BATCH


cdef void datagram_put(Client *client, uint32_t slot, const PackedQuery *query) noexcept nogil:
    cdef Datagrams *d = &client.driver.datagrams
    cdef uint8_t *octets = d.outgoing_octets + d.count * MESSAGE_STRIDE
    memcpy(octets, query.message, query.length)
    store16(octets, client.flight.slots[slot].id)
    d.outgoing_parts[d.count].iov_len = query.length
    d.slots[d.count] = slot
    d.count += 1


cdef void datagram_flush(Client *client) noexcept nogil:
    cdef Driver *driver = client.driver
    cdef Datagrams *d = &driver.datagrams
    cdef uint32_t done = 0
    cdef int i, n
    cdef bint counted = False
    cdef pollfd wait
    while done < d.count:
        n = sendmmsg(client.fd, d.outgoing + done, d.count - done, MSG_DONTWAIT)
        if n > 0:
            for i in range(n):
                client_sent(client, d.slots[done + i])
            done += <uint32_t>n
            counted = False
        elif errno == EINTR:
            continue
        elif errno == ECONNREFUSED and not counted:
            # The ICMP message for an earlier one; this one has not left.
            driver.counters.refused += 1
            counted = True
        elif errno in (EAGAIN, ENOBUFS):
            wait.fd = client.fd
            wait.events = POLLOUT
            poll(&wait, 1, FULL)
        else:
            driver.counters.unsent += client.flight.slots[d.slots[done]].counted
            flight_undo(&client.flight, d.slots[done])
            done += 1
    d.count = 0


cdef uint32_t datagram_receive(Client *client) noexcept nogil:
    cdef Datagrams *d = &client.driver.datagrams
    cdef int64_t now
    cdef int i, n = recvmmsg(client.fd, d.incoming, BATCH, MSG_DONTWAIT, NULL)
    if n <= 0:
        if n < 0 and errno == ECONNREFUSED:
            client.driver.counters.refused += 1
        return 0
    now = socket_clock()
    for i in range(n):
        client_reply(client, <const uint8_t *>d.incoming_parts[i].iov_base, d.incoming[i].msg_len, now)
    return <uint32_t>n


cdef void datagram_close(Client *client) noexcept nogil:
    if client.fd >= 0:
        client.driver.dropped += datagram_drops(client.fd)
        close(client.fd)
    client.fd = -1


DATAGRAM.open = datagram_open
DATAGRAM.is_open = datagram_is_open
DATAGRAM.capacity = datagram_capacity
DATAGRAM.put = datagram_put
DATAGRAM.flush = datagram_flush
DATAGRAM.receive = datagram_receive
DATAGRAM.close = datagram_close
