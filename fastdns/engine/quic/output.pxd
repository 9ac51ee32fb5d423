"""Datagrams that leave a worker's QUIC sockets: one sendmmsg a batch, runs of packets of one connection by one message (UDP_SEGMENT)."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from libc.string cimport memcmp
from fastdns.engine.io.transport cimport TransportWorker
from fastdns.engine.io.datagram cimport UdpSocket
from fastdns.system.address cimport Address
from fastdns.system.socket cimport iovec, mmsghdr, sockaddr_in6

cdef enum:
    MESSAGES = 64                   # of one sendmmsg
    PACKET_SIZE = 1232              # octets that every path takes, with IPv6's least MTU
    SEGMENTS_MAX = 32               # packets of one message
    OUTPUT_SIZE = 262144

cdef struct Output:                 # a worker's
    TransportWorker *transport
    mmsghdr messages[MESSAGES]
    iovec iov[MESSAGES]
    sockaddr_in6 peers[MESSAGES]
    UdpSocket *sockets[MESSAGES]
    Address to[MESSAGES]
    Address source[MESSAGES]
    uint16_t sizes[MESSAGES]        # of each packet but the last one
    uint16_t packets[MESSAGES]
    uint8_t closed[MESSAGES]        # a shorter packet was the last one
    uint32_t count
    uint8_t *octets
    uint32_t used
    uint8_t *control

cdef inline bint is_same(const Address *a, const Address *b) noexcept nogil:
    return a.family == b.family and a.port == b.port and a.scope == b.scope and memcmp(a.octets, b.octets, 4 if a.family == 4 else 16) == 0

# 0, or -1: out of memory.
cdef int output_init(Output *output, TransportWorker *transport) noexcept nogil
# Space for a packet of PACKET_SIZE octets; output_add follows, or nothing does.
cdef uint8_t *output_room(Output *output) noexcept nogil
cdef void output_add(Output *output, UdpSocket *sock, const Address *client, const Address *local, uint32_t length) noexcept nogil
cdef void output_flush(Output *output) noexcept nogil
