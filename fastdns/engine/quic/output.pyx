"""Datagrams that leave. The contract is in engine/quic/output.pxd."""
from libc.errno cimport EINTR, EINVAL, EIO, errno
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from libc.stdlib cimport calloc, malloc
from fastdns.engine.io.datagram cimport CONTROL_SIZE, udp_address, udp_segment
from fastdns.system.atomic cimport atomic_bump64
from fastdns.system.socket cimport MSG_DONTWAIT, sendmmsg, sendmsg

cdef enum:
    SEGMENT_SPACE = 24                  # of udp_segment's control message

cdef bint segmenting = True             # the kernel takes UDP_SEGMENT


cdef int output_init(Output *output, TransportWorker *transport) noexcept nogil:
    cdef uint32_t i
    output.transport = transport
    output.octets = <uint8_t *>malloc(OUTPUT_SIZE)
    output.control = <uint8_t *>calloc(MESSAGES, CONTROL_SIZE)
    if output.octets == NULL or output.control == NULL:
        return -1
    for i in range(MESSAGES):
        output.messages[i].msg_hdr.msg_iov = &output.iov[i]
        output.messages[i].msg_hdr.msg_iovlen = 1
    return 0


cdef uint8_t *output_room(Output *output) noexcept nogil:
    if output.count == MESSAGES or OUTPUT_SIZE - output.used < PACKET_SIZE:
        output_flush(output)
    return output.octets + output.used


cdef void output_add(Output *output, UdpSocket *sock, const Address *client, const Address *local, uint32_t length) noexcept nogil:
    cdef uint32_t i = output.count - 1
    if (segmenting and output.count and not output.closed[i] and output.sockets[i] == sock and length <= output.sizes[i] and output.packets[i] < SEGMENTS_MAX
            and is_same(&output.to[i], client) and (not sock.wildcard or is_same(&output.source[i], local))):
        output.iov[i].iov_len += length
        output.packets[i] += 1
        output.closed[i] = length < output.sizes[i]
    else:
        i = output.count
        output.count += 1
        output.iov[i].iov_base = output.octets + output.used
        output.iov[i].iov_len = length
        output.sockets[i] = sock
        output.to[i] = client[0]
        output.source[i] = local[0]
        output.sizes[i] = <uint16_t>length
        output.packets[i] = 1
        output.closed[i] = 0
        udp_address(sock, client, local, &output.messages[i].msg_hdr, &output.peers[i], output.control + i * CONTROL_SIZE)
    output.used += length


cdef void output_flush(Output *output) noexcept nogil:
    """What the kernel does not take is lost, as it may be on any path: QUIC sends it again."""
    cdef uint32_t i = 0, end
    cdef int n
    for i in range(output.count):
        if output.packets[i] > 1:
            udp_segment(&output.messages[i].msg_hdr, output.control + i * CONTROL_SIZE, output.sizes[i])
    i = 0
    while i < output.count:
        end = i + 1
        while end < output.count and output.sockets[end] == output.sockets[i]:
            end += 1
        while i < end:
            n = sendmmsg(output.sockets[i].base.source.fd, &output.messages[i], end - i, MSG_DONTWAIT)
            if n > 0:
                i += n
            elif n == 0 or errno != EINTR:
                if output.packets[i] > 1 and (errno == EINVAL or errno == EIO):
                    send_singly(output, i)
                else:
                    atomic_bump64(&output.transport.send_errors, 1)
                i += 1
    output.count = 0
    output.used = 0


cdef void send_singly(Output *output, uint32_t i) noexcept nogil:
    """The kernel, or the interface, does not cut messages."""
    global segmenting
    cdef size_t left = output.iov[i].iov_len
    segmenting = False
    udp_unsegment(output, i)
    while left:
        output.iov[i].iov_len = min(left, <size_t>output.sizes[i])
        left -= output.iov[i].iov_len
        if sendmsg(output.sockets[i].base.source.fd, &output.messages[i].msg_hdr, MSG_DONTWAIT) < 0:
            atomic_bump64(&output.transport.send_errors, 1)
        output.iov[i].iov_base = <uint8_t *>output.iov[i].iov_base + output.iov[i].iov_len


cdef void udp_unsegment(Output *output, uint32_t i) noexcept nogil:
    """Takes the control message of udp_segment, the last one, away."""
    output.messages[i].msg_hdr.msg_controllen -= SEGMENT_SPACE
    if output.messages[i].msg_hdr.msg_controllen == 0:
        output.messages[i].msg_hdr.msg_control = NULL
