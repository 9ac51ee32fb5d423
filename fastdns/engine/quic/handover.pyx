"""Datagrams between two processes. The contract is in engine/quic/handover.pxd."""
import os
import socket

from libc.errno cimport EAGAIN, EINTR, errno
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memset
from fastdns.engine.io.datagram cimport RECEIVE_SIZE
from fastdns.system.atomic cimport atomic_load32, atomic_store32
from fastdns.system.epoch cimport epoch_wait
from fastdns.system.socket cimport EPOLLIN, MSG_DONTWAIT, MSG_NOSIGNAL, close, iovec, msghdr, recv, sendmsg
from fastdns.walk.query cimport Source

cdef enum:
    FORMAT = 1                      # of the messages; raise it when Passed's meaning changes
    PROCESSES_MAX = 8               # others that a process knows: the successor, and those before
    PASSED_MAX = 64                 # messages that are taken in a turn
    CHANNEL_BUFFER = 4194304        # octets of messages on their way
    NO_CHANNEL = 0xFFFFFFFF

cdef struct Passed:                 # a message; the datagram follows
    uint64_t listener
    QuicPath path

cdef struct Message:
    Passed passed
    uint8_t octets[RECEIVE_SIZE]

cdef struct Other:                  # another process
    Source source                   # first; this process's end of the channel to it
    uint32_t channel                # atomic; the descriptor, or NO_CHANNEL: the process has ended
    uint8_t tag
    uint8_t awaited                 # what comes is for this process, and not yet read

cdef Other others[PROCESSES_MAX]
cdef uint32_t other_count           # atomic; those that are there stay where they are
cdef uint32_t left                  # atomic
cdef uint8_t own_tag = os.urandom(1)[0]
cdef handover_func receiver = NULL


cdef uint8_t handover_tag() noexcept nogil:
    return own_tag


cdef bint handover_left() noexcept nogil:
    return atomic_load32(&left)


cdef void handover_receive(handover_func take) noexcept:
    global receiver
    receiver = take


cdef Other *find(uint8_t tag) noexcept nogil:
    cdef uint32_t i
    for i in range(atomic_load32(&other_count)):
        if others[i].tag == tag:
            return &others[i]
    return NULL


# ---- datagrams ----

cdef Handover handover_send(uint8_t tag, uint64_t listener, const QuicPath *path, const uint8_t *octets, uint32_t length) noexcept nogil:
    cdef Other *other = find(tag)
    cdef Passed passed
    cdef msghdr message
    cdef iovec parts[2]
    cdef uint32_t channel
    if other == NULL:
        return HANDOVER_UNKNOWN
    channel = atomic_load32(&other.channel)
    if channel == NO_CHANNEL:
        return HANDOVER_ENDED
    passed.listener = listener
    passed.path = path[0]
    memset(&message, 0, sizeof(message))
    parts[0].iov_base = &passed
    parts[0].iov_len = sizeof(Passed)
    parts[1].iov_base = <void *>octets
    parts[1].iov_len = length
    message.msg_iov = parts
    message.msg_iovlen = 2
    if sendmsg(<int>channel, &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 and errno != EAGAIN and errno != EINTR:
        atomic_store32(&other.channel, NO_CHANNEL)
        return HANDOVER_ENDED
    return HANDOVER_SENT


cdef void on_channel(Source *source, Worker *worker, uint32_t events) noexcept nogil:
    cdef Other *other = <Other *>source
    cdef Message message
    cdef ssize_t n
    for _ in range(PASSED_MAX):
        n = recv(source.fd, &message, sizeof(message), MSG_DONTWAIT)
        if n < 0 and (errno == EAGAIN or errno == EINTR):
            return
        if n <= 0:                  # the other process has ended
            atomic_store32(&other.channel, NO_CHANNEL)
            worker.ops.unwatch(worker, source)
            return
        if n > <ssize_t>sizeof(Passed):
            receiver(worker, message.passed.listener, &message.passed.path, message.octets, <uint32_t>(n - sizeof(Passed)))


# ---- processes ----

cdef int add(uint8_t tag, int channel, bint awaited) except -1:
    """Without a channel (-1): one that has ended."""
    cdef Other *other = find(tag)
    cdef uint32_t count = other_count
    if other == NULL:
        if count == PROCESSES_MAX:
            raise ValueError("%d processes" % count)
        other = &others[count]
        other.tag = tag
        count += 1
    other.source.fd = channel
    other.source.ready = on_channel
    other.awaited = awaited
    atomic_store32(&other.channel, NO_CHANNEL if channel < 0 else <uint32_t>channel)
    atomic_store32(&other_count, count)
    return 0


def message_format() -> int:
    return FORMAT << 16 | sizeof(Passed)


def offered() -> dict:
    """See engine/quic/handover.pyi."""
    cdef uint8_t tag = own_tag + 1
    cdef uint32_t i, first = other_count - (PROCESSES_MAX - 2) if other_count > PROCESSES_MAX - 2 else 0
    own, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for end in (own, theirs):
        try:
            end.setsockopt(socket.SOL_SOCKET, 32, CHANNEL_BUFFER)       # SO_SNDBUFFORCE, for the privileged
        except OSError:
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, CHANNEL_BUFFER)
    known = []
    for i in range(first, other_count):
        if others[i].tag != tag:
            channel = atomic_load32(&others[i].channel)
            known.append([others[i].tag, -1 if channel == NO_CHANNEL else channel])
    add(tag, own.detach(), True)
    return {"format": message_format(), "tag": tag, "processes": [*known, [own_tag, theirs.detach()]]}


def adopt(dict letter not None) -> None:
    """See engine/quic/handover.pyi."""
    global own_tag
    own_tag = letter["tag"]
    former = [tag for tag, _ in letter["processes"]].pop()
    for tag, channel in letter["processes"]:
        if channel >= 0:
            os.set_inheritable(channel, False)
            if letter["format"] != message_format():
                os.close(channel)
                channel = -1
        add(tag, channel, tag == former)


cdef void handover_watch(Worker *worker) noexcept:
    cdef uint32_t i
    for i in range(other_count):
        if others[i].awaited and others[i].source.fd >= 0:
            others[i].awaited = 0
            worker.ops.watch(worker, &others[i].source, EPOLLIN)


cdef void handover_withdraw(Worker *worker) noexcept:
    cdef Other *other = find(<uint8_t>(own_tag + 1))
    if other == NULL or other.source.fd < 0:
        return
    atomic_store32(&other.channel, NO_CHANNEL)
    worker.ops.unwatch(worker, &other.source)
    with nogil:
        epoch_wait()
    close(other.source.fd)
    other.source.fd = -1


cdef void handover_leave() noexcept:
    atomic_store32(&left, 1)
