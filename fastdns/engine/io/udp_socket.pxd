"""Opening, reading and closing the UDP sockets of a worker, for DNS and QUIC: from epoll, or, with enough to do, in each turn of the loop,
or, with a budget for latency, when it is used up."""
from libc.stdint cimport uint8_t, uint32_t
from fastdns.engine.io.datagram cimport UdpBatch, UdpSocket, udp_take_func
from fastdns.engine.io.transport cimport ListenSocket, TransportOps, TransportWorker
from fastdns.walk.query cimport Worker

# As TransportOps has them; the socket's `take` is the caller's. The batch is that of the worker whose UDP state is given.
cdef int udp_options(object sock, bint wildcard) except -1
cdef void udp_describe(UdpSocket *sock, UdpBatch *batch, uint8_t family, bint wildcard, udp_take_func take) noexcept nogil
cdef int udp_listen_begin(ListenSocket *listening) noexcept nogil
cdef void udp_listen_end(ListenSocket *listening) noexcept nogil
# Takes a batch off each socket out of epoll whose time has come.
cdef void udp_poll(TransportWorker *transport) noexcept nogil
# Reads a batch and has it run by `take`; how many datagrams there were.
cdef int udp_read(UdpSocket *sock, Worker *worker) noexcept nogil
# The UDP state of a worker: made once, NULL where memory ran out; and had from then on.
cdef UdpBatch *udp_batch_new(Worker *worker, const TransportOps *ops) noexcept nogil
cdef UdpBatch *udp_batch(uint32_t worker) noexcept nogil
