"""How long queries have been in their UDP sockets: the kernel's time of arrival, where a plugin asks for it, and what is done about those that are too old.

A server that gets more queries than it can answer has a full queue, and all its answers are late. Queries that are older than a limit are therefore
not read any further, and the socket's buffer is kept so small that few become so old: what does not fit is dropped by the kernel, at no cost.
"""
from libc.stdint cimport int64_t, uint32_t
from fastdns.engine.io.datagram cimport UdpSocket
from fastdns.walk.query cimport ServerTable, Worker

cdef enum:
    AGINGS_MAX = 4096               # numbers of servers whose queries have ages

cdef struct Aging:                  # of a server; written by control threads, read by workers: each field stands for itself
    uint32_t wanted                 # plugins that ask for it
    uint32_t cell                   # metric of queries that are too old
    int64_t limit                   # ns; 0: none are

cdef Aging agings[AGINGS_MAX]       # by ServerTable.label

# The plugin `owner` wants the ages of a server's queries. limit: those that are older are dropped while the server is overloaded, and counted in cell;
# 0: none. What it wanted before is replaced. With the GIL, before the configuration serves.
cdef int aging_want(uint32_t label, object owner, int64_t limit, uint32_t cell) except -1
# It does no more.
cdef int aging_forget(uint32_t label, object owner) except -1

# What the received datagrams 0 to n - 1 are old: batch.ages, and batch.stale, which was 0.
cdef void aging_judge(UdpSocket *sock, Worker *worker, const Aging *aging, int n) noexcept nogil
# From now on the socket's datagrams have ages; from now on they do not.
cdef void aging_begin(UdpSocket *sock) noexcept nogil
cdef void aging_end(UdpSocket *sock) noexcept nogil

cdef inline const Aging *aging_of(const ServerTable *server) noexcept nogil:
    return &agings[server.label] if server != NULL and server.label < AGINGS_MAX else &agings[0]
