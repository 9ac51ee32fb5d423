"""NOTIFY for many addresses. The contract is in notified.pxd."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from libc.string cimport memset
from fastdns.system.socket cimport (AF_INET, IPPROTO_IP, MSG_DONTWAIT, SOCK_CLOEXEC, SOCK_DGRAM, SOCK_NONBLOCK, SOL_SOCKET, bind, close, htons, iovec,
                                    mmsghdr, recvmmsg, sendmmsg, setsockopt, sockaddr, sockaddr_in, socket)
from fastdns._wire cimport load32

cdef extern from * nogil:
    """
    #ifndef _GNU_SOURCE
    #define _GNU_SOURCE
    #endif
    #include <netinet/in.h>
    #include <sys/socket.h>
    #include <string.h>
    /* The address that a datagram was sent to, which its reply is sent from with the same control message; NULL: none. */
    static const void *notified_address(struct msghdr *message) {
        for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c))
            if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO) {
                struct in_pktinfo *info = (struct in_pktinfo *)CMSG_DATA(c);
                info->ipi_ifindex = 0;
                info->ipi_spec_dst = info->ipi_addr;
                return &info->ipi_addr;
            }
        return 0;
    }
    #define CONTROL_OCTETS 64
    """
    enum: CONTROL_OCTETS
    enum: IP_PKTINFO
    enum: SO_RCVBUFFORCE
    const uint8_t *notified_address(void *message) noexcept

cdef enum:
    OCTETS = 512

cdef struct Batch:
    mmsghdr messages[NOTIFIED_BATCH]
    mmsghdr replies[NOTIFIED_BATCH]
    iovec parts[NOTIFIED_BATCH]
    sockaddr_in peers[NOTIFIED_BATCH]
    uint8_t octets[NOTIFIED_BATCH][OCTETS]
    uint8_t control[NOTIFIED_BATCH][CONTROL_OCTETS]


cdef int notified_open(Notified *notified, uint16_t port, int receive_buffer) noexcept nogil:
    cdef sockaddr_in any
    cdef int one = 1
    notified.fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)
    if notified.fd < 0:
        return -1
    # More than net.core.rmem_max needs CAP_NET_ADMIN; what does not fit is counted by the kernel, and sent again by the server.
    setsockopt(notified.fd, SOL_SOCKET, SO_RCVBUFFORCE, &receive_buffer, sizeof(receive_buffer))
    setsockopt(notified.fd, IPPROTO_IP, IP_PKTINFO, &one, sizeof(one))
    memset(&any, 0, sizeof(any))
    any.sin_family = AF_INET
    any.sin_port = htons(port)
    return bind(notified.fd, <const sockaddr *>&any, sizeof(any))


cdef void notified_close(Notified *notified) noexcept nogil:
    if notified.fd >= 0:
        close(notified.fd)
    notified.fd = -1


cdef void notified_take(Notified *notified, void (*told)(void *data, uint32_t address) noexcept nogil, void *data) noexcept nogil:
    cdef Batch batch
    cdef const uint8_t *address
    cdef uint8_t *octets
    cdef int i, n, replies
    while True:
        for i in range(NOTIFIED_BATCH):
            batch.parts[i].iov_base = batch.octets[i]
            batch.parts[i].iov_len = OCTETS
            memset(&batch.messages[i], 0, sizeof(mmsghdr))
            batch.messages[i].msg_hdr.msg_name = &batch.peers[i]
            batch.messages[i].msg_hdr.msg_namelen = sizeof(sockaddr_in)
            batch.messages[i].msg_hdr.msg_iov = &batch.parts[i]
            batch.messages[i].msg_hdr.msg_iovlen = 1
            batch.messages[i].msg_hdr.msg_control = batch.control[i]
            batch.messages[i].msg_hdr.msg_controllen = CONTROL_OCTETS
        n = recvmmsg(notified.fd, batch.messages, NOTIFIED_BATCH, MSG_DONTWAIT, NULL)
        replies = 0
        for i in range(n):
            octets = batch.octets[i]
            address = notified_address(&batch.messages[i].msg_hdr)
            if address == NULL or batch.messages[i].msg_len < 12 or octets[2] & 0xF8 != 0x20:     # a NOTIFY (RFC 1996)
                continue
            octets[2] |= 0x80
            batch.parts[i].iov_len = batch.messages[i].msg_len
            batch.replies[replies] = batch.messages[i]
            replies += 1
            told(data, load32(address))
        if replies:
            sendmmsg(notified.fd, batch.replies, <unsigned int>replies, MSG_DONTWAIT)
        if n < NOTIFIED_BATCH:
            return
