"""DNS over UDP on the workers: batches of one recvmmsg and one sendmmsg, in buffers that each worker allocates once.

A query's packet borrows from those buffers until the batch ends; a reply is written straight into the buffer that it leaves from.
"""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from fastdns.system.address cimport Address
from fastdns.walk.query cimport Source, Worker
from fastdns.system.socket cimport iovec, mmsghdr, sockaddr_in6

cdef enum:
    BATCH = 32                      # messages in one recvmmsg or sendmmsg
    RECEIVE_SIZE = 4096             # octets of a query that UDP takes; more is cut by the kernel and answered FORMERR
    RECEIVE_STRIDE = 4160           # one more cache line, or all buffers would fall into the same cache sets
    SEND_SIZE = 4096                # replies up to this wait for the batch; bigger ones leave at once
    SEND_ALIGNMENT = 64
    BACKLOG_MAX = 1024              # replies of a socket that wait for the kernel to take them
    CONTROL_SIZE = 64               # of PKTINFO

cdef struct UdpBatch:               # a worker's buffers, for all its sockets
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
    uint64_t send_errors
    UdpSocket *polled               # sockets that are asked each turn of the loop
    UdpSocket *held                 # sockets with replies in their backlog

cdef struct Held:                   # a reply that the kernel would not take yet
    sockaddr_in6 peer
    uint32_t peer_length
    uint32_t control_length
    uint32_t length
    uint8_t *octets                 # malloc'ed
    uint8_t control[CONTROL_SIZE]

cdef struct Backlog:                # of a socket: the newest leaves first, the oldest is given up where there is no room
    Held replies[BACKLOG_MAX]
    uint32_t first                  # place of the oldest
    uint32_t count
    Worker *worker
    uint32_t cell                   # of the metric of replies given up
    uint8_t closed
    uint8_t awaited                 # epoll tells when the socket takes more

cdef struct UdpSocket:              # a worker's own, of one listener
    Source source
    UdpBatch *batch                 # the worker's; it lives as long as the process
    uint32_t listener
    uint8_t family                  # 4 or 6, of the socket
    uint8_t wildcard                # replies name the address that the query came to
    uint8_t polled                  # out of epoll, because it is never empty
    uint8_t steady                  # full or nearly empty batches in a row
    uint8_t fragments               # a reply was too large for its path: the kernel may cut them
    UdpSocket *next_polled
    Address local
    Backlog *backlog                # NULL: replies that the kernel does not take are lost (udp_hold)
    UdpSocket *next_held

cdef int udp_init(UdpBatch *batch) noexcept nogil           # allocates the buffers of a zeroed one; -1: out of memory
cdef void udp_take_up(UdpSocket *sock, Worker *worker, int n) noexcept nogil    # the first n messages of batch.received
cdef void udp_flush(UdpBatch *batch) noexcept nogil         # at the end of a worker's batch: the replies leave
cdef void udp_poll(UdpBatch *batch, Worker *worker) noexcept nogil      # takes a batch off each polled socket
cdef void udp_unwatch(UdpSocket *sock, Worker *worker) noexcept nogil   # takes no more queries; by the worker, or while it does not run
# What a socket object's descriptor has to be told before it is bound, with the GIL. OSError.
cdef int udp_options(sock, bint wildcard) except -1
# What the workers need to know of a bound one.
cdef void udp_describe(UdpSocket *sock, UdpBatch *batch, int fd, uint32_t listener, uint8_t family, bint wildcard) noexcept nogil
# From now on replies up to SEND_SIZE that the kernel does not take wait for it; cell is the metric of those that are given up. On the socket's
# worker. -1: out of memory.
cdef int udp_hold(UdpSocket *sock, Worker *worker, uint32_t cell) noexcept nogil
cdef void udp_free(UdpSocket *sock) noexcept nogil          # what the socket holds; nobody uses it any more
