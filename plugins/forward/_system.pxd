"""What forward alone asks of the kernel: options, states and texts of sockets, and which datagram an ICMP error is about. The rest is in _socket."""
from libc.stdint cimport uint8_t, uint32_t
from fastdns.api.network cimport sockaddr

cdef extern from * nogil:
    """
    #include <errno.h>
    #include <stdint.h>
    #include <string.h>
    #include <stdio.h>
    #include <sys/socket.h>
    #include <sys/uio.h>
    #include <netinet/in.h>
    #include <arpa/inet.h>
    #include <linux/errqueue.h>

    static inline void error_number_set(int e) { errno = e; }

    /* The datagram that the next queued ICMP error quotes: its octets in buffer, their number returned and *error set; -1 when none is queued. */
    static inline int icmp_error(int fd, uint8_t *buffer, uint32_t size, int *error) {
        union { struct cmsghdr align; char octets[512]; } control;
        struct iovec span = {buffer, size};
        struct msghdr message;
        memset(&message, 0, sizeof message);
        message.msg_iov = &span;
        message.msg_iovlen = 1;
        message.msg_control = control.octets;
        message.msg_controllen = sizeof control.octets;
        ssize_t n = recvmsg(fd, &message, MSG_ERRQUEUE | MSG_DONTWAIT);
        if (n < 0) return -1;
        *error = 0;
        for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c))
            if ((c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_RECVERR) || (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_RECVERR)) {
                struct sock_extended_err found;
                memcpy(&found, CMSG_DATA(c), sizeof found);
                *error = (int)found.ee_errno;
            }
        return (int)n;
    }

    static inline void socket_option(int fd, int level, int name, int value) { setsockopt(fd, level, name, &value, sizeof value); }

    static inline int socket_error(int fd) {
        int error = 0;
        socklen_t size = sizeof error;
        return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0 ? errno : error;
    }

    /* 1 connected, 0 not yet. */
    static inline int socket_connected(int fd) {
        struct sockaddr_storage peer;
        socklen_t size = sizeof peer;
        return getpeername(fd, (struct sockaddr *)&peer, &size) == 0;
    }

    /* ADDRESS:PORT of a socket address; out has 64 octets. */
    static inline void socket_address_text(const struct sockaddr *address, char *out) {
        char host[INET6_ADDRSTRLEN + 1] = "";
        if (address->sa_family == AF_INET6) {
            const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)address;
            inet_ntop(AF_INET6, &six->sin6_addr, host, sizeof host);
            snprintf(out, 64, "[%s]:%u", host, ntohs(six->sin6_port));
        } else {
            const struct sockaddr_in *four = (const struct sockaddr_in *)address;
            inet_ntop(AF_INET, &four->sin_addr, host, sizeof host);
            snprintf(out, 64, "%s:%u", host, ntohs(four->sin_port));
        }
    }

    static inline void socket_local_text(int fd, char *out) {
        struct sockaddr_storage own;
        socklen_t size = sizeof own;
        memset(&own, 0, sizeof own);
        own.ss_family = AF_INET;
        getsockname(fd, (struct sockaddr *)&own, &size);
        socket_address_text((struct sockaddr *)&own, out);
    }
    """
    enum: IP_RECVERR
    enum: IPV6_RECVERR
    int icmp_error(int fd, uint8_t *buffer, uint32_t size, int *error) noexcept
    void socket_option(int fd, int level, int name, int value) noexcept
    int socket_error(int fd) noexcept
    bint socket_connected(int fd) noexcept
    void socket_address_text(const sockaddr *address, char *out) noexcept
    void socket_local_text(int fd, char *out) noexcept
    void error_number_set(int error) noexcept
