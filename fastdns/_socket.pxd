"""The kernel's socket calls, addresses, epoll and clock, declared once."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t, int64_t
from libc.string cimport memcpy, memset
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec
from fastdns._mux cimport Address
from fastdns._wire cimport load32, store32

cdef extern from "<sys/socket.h>" nogil:
    ctypedef unsigned int socklen_t
    cdef struct iovec:
        void *iov_base
        size_t iov_len
    cdef struct msghdr:
        void *msg_name
        socklen_t msg_namelen
        iovec *msg_iov
        size_t msg_iovlen
        void *msg_control
        size_t msg_controllen
        int msg_flags
    cdef struct sockaddr:
        unsigned short sa_family
    cdef struct linger:
        int l_onoff
        int l_linger
    enum: AF_INET
    enum: AF_INET6
    enum: MSG_DONTWAIT
    enum: MSG_TRUNC
    enum: MSG_NOSIGNAL
    enum: SHUT_RDWR
    enum: SOL_SOCKET
    enum: SO_RCVBUF
    enum: SO_LINGER
    enum: SOCK_DGRAM
    enum: SOCK_STREAM
    enum: SOCK_NONBLOCK
    enum: SOCK_CLOEXEC
    int socket(int family, int type, int protocol)
    int bind(int fd, const sockaddr *address, socklen_t length)
    int connect(int fd, const sockaddr *address, socklen_t length)
    int getpeername(int fd, sockaddr *address, socklen_t *length)
    int getsockname(int fd, sockaddr *address, socklen_t *length)
    int shutdown(int fd, int how)
    int accept4(int fd, sockaddr *address, socklen_t *length, int flags)
    int setsockopt(int fd, int level, int name, const void *value, socklen_t length)
    ssize_t send(int fd, const void *octets, size_t length, int flags)
    ssize_t recv(int fd, void *octets, size_t length, int flags)
    ssize_t sendmsg(int fd, const msghdr *message, int flags)

cdef extern from "<netinet/in.h>" nogil:
    enum: IPPROTO_IP
    enum: IPPROTO_IPV6
    enum: IPPROTO_TCP
    cdef struct in_addr:
        uint32_t s_addr
    cdef struct in6_addr:
        uint8_t s6_addr[16]
    cdef struct sockaddr_in:
        unsigned short sin_family
        uint16_t sin_port
        in_addr sin_addr
    cdef struct sockaddr_in6:
        unsigned short sin6_family
        uint16_t sin6_port
        uint32_t sin6_flowinfo
        in6_addr sin6_addr
        uint32_t sin6_scope_id

cdef extern from "<netinet/tcp.h>" nogil:
    enum: TCP_NODELAY
    enum: TCP_NOTSENT_LOWAT

cdef extern from *:
    """
    #ifndef _GNU_SOURCE
    #define _GNU_SOURCE
    #endif
    #include <sys/socket.h>
    #include <arpa/inet.h>
    """
    cdef struct mmsghdr:
        msghdr msg_hdr
        unsigned int msg_len
    int recvmmsg(int fd, mmsghdr *messages, unsigned int n, int flags, void *timeout) noexcept nogil
    int sendmmsg(int fd, mmsghdr *messages, unsigned int n, int flags) noexcept nogil
    uint16_t htons(uint16_t v) noexcept nogil
    uint16_t ntohs(uint16_t v) noexcept nogil

cdef extern from "<sys/epoll.h>" nogil:
    ctypedef union epoll_data_t:
        void *ptr
    cdef struct epoll_event:
        uint32_t events
        epoll_data_t data
    int epoll_create1(int flags)
    int epoll_ctl(int epfd, int op, int fd, epoll_event *event)
    int epoll_wait(int epfd, epoll_event *events, int maxevents, int timeout)
    enum: EPOLLIN
    enum: EPOLLOUT
    enum: EPOLLERR
    enum: EPOLLHUP
    enum: EPOLL_CTL_ADD
    enum: EPOLL_CTL_MOD
    enum: EPOLL_CTL_DEL
    enum: EPOLL_CLOEXEC

cdef extern from "<sys/eventfd.h>" nogil:
    int eventfd(unsigned int initial, int flags)
    enum: EFD_NONBLOCK
    enum: EFD_CLOEXEC

cdef extern from "<poll.h>" nogil:
    cdef struct pollfd:
        int fd
        short events
        short revents
    int poll(pollfd *fds, unsigned long count, int timeout)
    enum: POLLIN
    enum: POLLOUT

cdef extern from "<unistd.h>" nogil:
    int close(int fd)
    ssize_t read(int fd, void *octets, size_t count)
    ssize_t write(int fd, const void *octets, size_t count)

cdef inline int64_t socket_clock() noexcept nogil:
    """ns, monotonic"""
    cdef timespec now
    clock_gettime(CLOCK_MONOTONIC, &now)
    return <int64_t>now.tv_sec * 1000000000 + now.tv_nsec

cdef inline void address_from_octets(Address *address, const uint8_t *octets) noexcept nogil:
    """IPv6 octets; v4-mapped ones become IPv4."""
    cdef uint64_t first
    memcpy(&first, octets, 8)
    if first == 0 and load32(octets + 8) == 0xFFFF:
        address.family = 4
        memcpy(address.octets, octets + 12, 4)
    else:
        address.family = 6
        memcpy(address.octets, octets, 16)

cdef inline void address_from_socket(Address *address, const sockaddr_in6 *peer) noexcept nogil:
    """A kernel address as ours; v4-mapped ones become IPv4."""
    cdef const sockaddr_in *v4 = <const sockaddr_in *>peer
    if v4.sin_family == AF_INET:
        address.family = 4
        address.port = ntohs(v4.sin_port)
        memcpy(address.octets, &v4.sin_addr, 4)
        address.scope = 0
        return
    address.port = ntohs(peer.sin6_port)
    address.scope = peer.sin6_scope_id
    address_from_octets(address, peer.sin6_addr.s6_addr)

cdef inline void address_to_octets(const Address *address, uint8_t *octets) noexcept nogil:
    if address.family == 4:
        memset(octets, 0, 8)
        store32(octets + 8, 0xFFFF)
        memcpy(octets + 12, address.octets, 4)
    else:
        memcpy(octets, address.octets, 16)

cdef inline uint32_t address_to_socket(const Address *address, uint8_t family, sockaddr_in6 *peer) noexcept nogil:
    """The way back; family (4 or 6) is the socket's: IPv4 addresses are mapped on an IPv6 socket. Returns the length."""
    cdef sockaddr_in *v4 = <sockaddr_in *>peer
    if family == 4:
        v4.sin_family = AF_INET
        v4.sin_port = htons(address.port)
        memcpy(&v4.sin_addr, address.octets, 4)
        return sizeof(sockaddr_in)
    peer.sin6_family = AF_INET6
    peer.sin6_port = htons(address.port)
    peer.sin6_flowinfo = 0
    peer.sin6_scope_id = address.scope
    address_to_octets(address, peer.sin6_addr.s6_addr)
    return sizeof(sockaddr_in6)

# Text as Go prints it (no brackets, %scope for link-local); out has 64 octets. Returns the length.
cdef int address_text(const Address *address, char *out) noexcept nogil
