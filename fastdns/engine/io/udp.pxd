"""DNS over UDP on the workers: batches of one recvmmsg and one sendmmsg, in buffers that each worker allocates once.

A query's packet borrows from those buffers until the batch ends; a reply is written straight into the buffer that it leaves from.
"""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from fastdns.engine.io.transport cimport ListenSocket, TransportOps, TransportWorker
from fastdns.system.address cimport Address
from fastdns.walk.query cimport Worker
from fastdns.system.socket cimport iovec, mmsghdr, msghdr, sockaddr_in6

cdef enum:
    BATCH = 32                      # messages in one recvmmsg or sendmmsg
    RECEIVE_SIZE = 4096             # octets of a query that UDP takes; more is cut by the kernel and answered FORMERR
    RECEIVE_STRIDE = 4160           # one more cache line, or all buffers would fall into the same cache sets
    SEND_SIZE = 4096                # replies up to this wait for the batch; bigger ones leave at once
    SEND_ALIGNMENT = 64
    BACKLOG_MAX = 1024              # replies of a socket that wait for the kernel to take them
    CONTROL_SIZE = 64               # of PKTINFO

cdef struct UdpBatch:               # a worker's buffers, for all its sockets
    TransportWorker base            # first; `poll_at`: some socket is polled
    # ---- in ----
    mmsghdr received[BATCH]
    iovec received_iov[BATCH]
    sockaddr_in6 peers[BATCH]
    uint8_t *received_control
    uint8_t *received_octets
    # ---- out ----
    mmsghdr sent[BATCH]
    iovec sent_iov[BATCH]
    sockaddr_in6 sent_peers[BATCH]
    UdpSocket *sent_socket[BATCH]
    uint32_t sent_count
    uint32_t sent_used              # octets of sent_octets
    uint8_t *sent_control
    uint8_t *sent_octets            # replies, one behind the other: few pages
    uint8_t *big                    # a reply over SEND_SIZE, before it leaves
    UdpSocket *polled               # sockets that are read in each turn of the loop
    UdpSocket *held                 # sockets with replies in their backlog

cdef struct Held:                   # a reply that the kernel would not take yet
    sockaddr_in6 peer
    uint32_t peer_length
    uint32_t control_length
    uint32_t length
    uint8_t *octets                 # malloc'ed
    uint8_t control[CONTROL_SIZE]

cdef struct Backlog:                # of a socket: the newest leaves first; a full one drops the oldest
    Held replies[BACKLOG_MAX]
    uint32_t first                  # place of the oldest
    uint32_t count
    Worker *worker
    uint32_t cell                   # of the metric of replies given up
    uint8_t closed
    uint8_t awaited                 # epoll tells when the socket takes more

# Runs the first n datagrams that lie in batch.received.
ctypedef void (*udp_take_func)(UdpSocket *sock, Worker *worker, int n) noexcept nogil

cdef struct UdpSocket:              # a worker's own, of one listener; a transport over UDP begins its own struct with it
    ListenSocket base               # first
    udp_take_func take
    UdpBatch *batch                 # of the worker; it lives as long as the process
    uint8_t family                  # 4 or 6, of the socket
    uint8_t wildcard                # replies name the address that the query came to
    uint8_t polled                  # out of epoll, because it is never empty
    uint8_t steady                  # full or nearly empty batches in a row
    uint8_t fragments               # a reply was too large for its path: the kernel may cut them
    UdpSocket *next_polled
    Address local
    Backlog *backlog                # NULL: replies that the kernel does not take are lost (udp_hold)
    UdpSocket *next_held

cdef TransportOps udp_transport

# Runs the first n messages that lie in batch.received: `take` of DNS over UDP.
cdef void udp_receive(UdpSocket *sock, Worker *worker, int n) noexcept nogil
# From now on replies up to SEND_SIZE that the kernel does not take wait for it; cell is the metric of those that are given up. On the socket's
# worker. -1: out of memory.
cdef int udp_hold(UdpSocket *sock, Worker *worker, uint32_t cell) noexcept nogil

# ---- for transports over UDP ----

# As TransportOps has them; the socket's `take` is the caller's. The batch is that of the worker whose UDP state is given.
cdef int udp_options(object sock, bint wildcard) except -1
cdef void udp_describe(UdpSocket *sock, UdpBatch *batch, uint8_t family, bint wildcard, udp_take_func take) noexcept nogil
cdef int udp_listen_begin(ListenSocket *listening) noexcept nogil
cdef void udp_listen_end(ListenSocket *listening) noexcept nogil
# Reads a batch and has it run by `take`; how many datagrams there were.
cdef int udp_read(UdpSocket *sock, Worker *worker) noexcept nogil
# Both ends of received datagram i.
cdef void udp_addresses(const UdpSocket *sock, int i, Address *client, Address *local) noexcept nogil
# Where a message goes, and on a wildcard socket where it comes from. peer and control_octets (CONTROL_SIZE) are the message's.
cdef void udp_address(const UdpSocket *sock, const Address *client, const Address *local, msghdr *message, sockaddr_in6 *peer,
                      uint8_t *control_octets) noexcept nogil
# A control message more, of which the message's control_octets have room: the kernel cuts the message into datagrams of so many octets.
cdef void udp_segment(msghdr *message, uint8_t *control_octets, uint16_t size) noexcept nogil
# The UDP state of a worker.
cdef UdpBatch *udp_batch(uint32_t worker) noexcept nogil
