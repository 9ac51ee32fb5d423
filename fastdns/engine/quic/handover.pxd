"""Datagrams between a process and the one that takes over from it (SIGUSR2).

Both have the same sockets, and either may receive what is for a connection of the other: the second octet of a connection id is a tag of the process.
A channel between the two (Unix sockets, one message a datagram) takes it to where its connection is. A connection never changes its process: the former
process serves those that it has, and ends with the last one, or after some time.
"""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from fastdns.engine.quic.state cimport QuicPath
from fastdns.walk.query cimport Worker

cdef enum Handover:
    HANDOVER_UNKNOWN                # no process has this tag whose secret this one knows
    HANDOVER_ENDED                  # a process had it that is no more: its connections are gone
    HANDOVER_SENT                   # or lost, as on any path, if its process is too slow

# A datagram for a connection id with another tag than this process's; listener: QuicGroup.name. From any worker.
cdef Handover handover_send(uint8_t tag, uint64_t listener, const QuicPath *path, const uint8_t *octets, uint32_t length) noexcept nogil
# This process's tag.
cdef uint8_t handover_tag() noexcept nogil
# Its sockets are the other process's now: connections go on.
cdef bint handover_left() noexcept nogil

cdef void handover_leave() noexcept
# With the GIL. Has worker 0 read the channels that are new; the successor does not serve: the end of its channel.
cdef void handover_watch(Worker *worker) noexcept
cdef void handover_withdraw(Worker *worker) noexcept

# What is done with a datagram from the other process; on worker 0.
ctypedef void (*handover_func)(Worker *worker, uint64_t listener, const QuicPath *path, uint8_t *octets, uint32_t length) noexcept nogil
cdef void handover_receive(handover_func take) noexcept
