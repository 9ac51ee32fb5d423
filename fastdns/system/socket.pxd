"""The kernel's calls for sockets and other descriptors, epoll and clock, declared once."""
from libc.errno cimport EINTR, errno
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t, int64_t
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec

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

cdef inline int write_all(int fd, const uint8_t *octets, uint64_t length) noexcept nogil:
    """To a file, whatever interrupts it. 0, or errno."""
    cdef uint64_t done = 0
    cdef ssize_t n
    while done < length:
        n = write(fd, octets + done, length - done)
        if n >= 0:
            done += <uint64_t>n
        elif errno != EINTR:
            return errno
    return 0

cdef inline int64_t socket_clock() noexcept nogil:
    """ns, monotonic"""
    cdef timespec now
    clock_gettime(CLOCK_MONOTONIC, &now)
    return <int64_t>now.tv_sec * 1000000000 + now.tv_nsec
