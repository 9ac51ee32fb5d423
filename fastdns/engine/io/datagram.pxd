"""UDP sockets of the workers and the buffers that each worker has for them, for DNS and QUIC; and the addresses of datagrams.

A received datagram lies in those buffers until its batch ends.
"""
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t
from libc.string cimport memcpy, memset
from fastdns.engine.io.transport cimport ListenSocket, TransportWorker
from fastdns.system.address cimport Address, address_from_octets, address_from_socket, address_to_octets, address_to_socket
from fastdns.system.socket cimport IPPROTO_IP, IPPROTO_IPV6, in6_addr, in_addr, iovec, mmsghdr, msghdr, sockaddr_in6
from fastdns.walk.query cimport Worker

cdef extern from "<netinet/in.h>" nogil:
    cdef struct in6_pktinfo:
        in6_addr ipi6_addr
        unsigned int ipi6_ifindex
    cdef struct in_pktinfo:
        int ipi_ifindex
        in_addr ipi_spec_dst
        in_addr ipi_addr
    enum: IP_PKTINFO
    enum: IPV6_PKTINFO

cdef extern from "<netinet/udp.h>" nogil:
    enum: SOL_UDP

cdef extern from *:
    """
    #include <sys/socket.h>
    #include <string.h>
    #include <time.h>

    #ifndef SCM_TIMESTAMPNS
    #define SCM_TIMESTAMPNS SO_TIMESTAMPNS
    #endif
    #ifndef UDP_SEGMENT
    #define UDP_SEGMENT 103
    #endif

    static inline struct cmsghdr *udp_cmsg(struct msghdr *m) { return CMSG_FIRSTHDR(m); }
    static inline struct cmsghdr *udp_cmsg_next(struct msghdr *m, struct cmsghdr *c) { return CMSG_NXTHDR(m, c); }
    static inline void *udp_cmsg_data(struct cmsghdr *c) { return CMSG_DATA(c); }
    static inline size_t udp_cmsg_space(size_t n) { return CMSG_SPACE(n); }
    static inline size_t udp_cmsg_len(size_t n) { return CMSG_LEN(n); }

    /* ns of the wall clock, of SO_TIMESTAMPNS; 0: none. */
    static inline long long udp_timestamp(struct msghdr *m) {
        for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c))
            if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_TIMESTAMPNS) {
                struct timespec at;
                memcpy(&at, CMSG_DATA(c), sizeof at);
                return (long long)at.tv_sec * 1000000000 + at.tv_nsec;
            }
        return 0;
    }
    """
    enum: UDP_SEGMENT
    cdef struct cmsghdr:
        size_t cmsg_len
        int cmsg_level
        int cmsg_type
    cmsghdr *udp_cmsg(msghdr *m) noexcept nogil
    cmsghdr *udp_cmsg_next(msghdr *m, cmsghdr *c) noexcept nogil
    void *udp_cmsg_data(cmsghdr *c) noexcept nogil
    size_t udp_cmsg_space(size_t n) noexcept nogil
    size_t udp_cmsg_len(size_t n) noexcept nogil
    int64_t timestamp_read "udp_timestamp"(msghdr *m) noexcept nogil

cdef enum:
    BATCH = 32                      # messages in one recvmmsg or sendmmsg
    RECEIVE_SIZE = 4096             # octets of a query that UDP takes; more is cut by the kernel and answered FORMERR
    RECEIVE_STRIDE = 4160           # one more cache line, or all buffers would fall into the same cache sets
    SEND_SIZE = 4096                # replies up to this wait for the batch; bigger ones leave at once
    SEND_ALIGNMENT = 64
    BACKLOG_MAX = 1024              # replies of a socket that wait for the kernel to take them
    CONTROL_SIZE = 64               # of PKTINFO
    RECEIVE_CONTROL_SIZE = 96       # and a time

cdef struct UdpBatch:               # a worker's buffers, for all its sockets
    TransportWorker base            # first; `poll_at`: some socket is polled
    # ---- in ----
    mmsghdr received[BATCH]
    iovec received_iov[BATCH]
    sockaddr_in6 peers[BATCH]
    uint8_t *received_control
    uint8_t *received_octets
    int64_t ages[BATCH]             # ns that each was in its socket, where the socket has `ages`
    int64_t read                    # ns, monotonic: when they were
    uint32_t stale                  # those that are too old, a bit for each
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
    UdpSocket *polled               # sockets that are read in each turn of the loop, or when their time has come
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
    uint8_t polled                  # out of epoll: it is never empty, or queries are gathered
    uint8_t ages                    # datagrams have their time of arrival
    uint8_t steady                  # full, soon following or nearly empty batches in a row
    int64_t read                    # ns of Worker.now: when it was read last, where queries may be gathered
    int64_t due                     # ns of Worker.now: when a socket out of epoll is to be read; 0: in each turn of the loop
    uint8_t fragments               # a reply was too large for its path: the kernel may cut them
    UdpSocket *next_polled
    Address local
    Backlog *backlog                # NULL: replies that the kernel does not take are lost (udp_hold)
    UdpSocket *next_held
    # ---- with `ages` (engine/io/aging) ----
    int buffer_whole                # octets of SO_RCVBUF that the socket has,
    int buffer                      # and that it has now
    int64_t above                   # ns, monotonic: since when all datagrams have been too old; 0: they are not
    int64_t oldest                  # ns: of what has been read since `judged`
    int64_t judged                  # ns, monotonic

# ---- addresses ----

cdef inline void pktinfo_read(msghdr *message, Address *local) noexcept nogil:
    """The address a query came to, from PKTINFO."""
    cdef cmsghdr *c = udp_cmsg(message)
    cdef in6_pktinfo *six
    cdef in_pktinfo *four
    while c != NULL:
        if c.cmsg_level == IPPROTO_IPV6 and c.cmsg_type == IPV6_PKTINFO:
            six = <in6_pktinfo *>udp_cmsg_data(c)
            address_from_octets(local, six.ipi6_addr.s6_addr)
            local.scope = six.ipi6_ifindex
            return
        if c.cmsg_level == IPPROTO_IP and c.cmsg_type == IP_PKTINFO:
            four = <in_pktinfo *>udp_cmsg_data(c)
            local.family = 4
            memcpy(local.octets, &four.ipi_addr, 4)
            local.scope = <uint32_t>four.ipi_ifindex
            return
        c = udp_cmsg_next(message, c)

cdef inline void udp_addresses(const UdpSocket *sock, int i, Address *client, Address *local) noexcept nogil:
    """Both ends of received datagram i."""
    address_from_socket(client, &sock.batch.peers[i])
    local[0] = sock.local
    if sock.wildcard:
        pktinfo_read(&sock.batch.received[i].msg_hdr, local)

cdef inline void udp_address(const UdpSocket *sock, const Address *client, const Address *local, msghdr *message, sockaddr_in6 *peer,
                             uint8_t *control_octets) noexcept nogil:
    """Where a message goes, and on a wildcard socket where it comes from. peer and control_octets (CONTROL_SIZE) are the message's."""
    cdef cmsghdr *c
    cdef in6_pktinfo *six
    cdef in_pktinfo *four
    message.msg_name = peer
    message.msg_namelen = address_to_socket(client, sock.family, peer)
    message.msg_controllen = 0
    message.msg_control = NULL
    if not sock.wildcard:
        return
    message.msg_control = control_octets
    message.msg_controllen = CONTROL_SIZE
    c = udp_cmsg(message)
    if sock.family == 6:
        c.cmsg_level = IPPROTO_IPV6
        c.cmsg_type = IPV6_PKTINFO
        c.cmsg_len = udp_cmsg_len(sizeof(in6_pktinfo))
        six = <in6_pktinfo *>udp_cmsg_data(c)
        address_to_octets(local, six.ipi6_addr.s6_addr)
        # Link-local addresses mean nothing without their interface; for others routing decides.
        six.ipi6_ifindex = local.scope if local.family == 6 and local.octets[0] == 0xFE and local.octets[1] & 0xC0 == 0x80 else 0
        message.msg_controllen = udp_cmsg_space(sizeof(in6_pktinfo))
    else:
        c.cmsg_level = IPPROTO_IP
        c.cmsg_type = IP_PKTINFO
        c.cmsg_len = udp_cmsg_len(sizeof(in_pktinfo))
        four = <in_pktinfo *>udp_cmsg_data(c)
        four.ipi_ifindex = 0
        memcpy(&four.ipi_spec_dst, local.octets, 4)
        memset(&four.ipi_addr, 0, 4)
        message.msg_controllen = udp_cmsg_space(sizeof(in_pktinfo))

cdef inline void udp_segment(msghdr *message, uint8_t *control_octets, uint16_t size) noexcept nogil:
    """A control message more, of which the message's control_octets have space: the kernel cuts the message into datagrams of so many octets."""
    cdef cmsghdr *c = <cmsghdr *>(control_octets + message.msg_controllen)
    message.msg_control = control_octets
    c.cmsg_level = SOL_UDP
    c.cmsg_type = UDP_SEGMENT
    c.cmsg_len = udp_cmsg_len(sizeof(uint16_t))
    memcpy(udp_cmsg_data(c), &size, sizeof(uint16_t))
    message.msg_controllen += udp_cmsg_space(sizeof(uint16_t))
