"""DNS over UDP on the workers.

A query's packet borrows from the buffers of its worker until the batch ends; a reply is written straight into the buffer that it leaves from.
"""
from fastdns.engine.io.datagram cimport UdpSocket
from fastdns.engine.io.transport cimport TransportOps
from fastdns.walk.query cimport Worker

cdef TransportOps udp_transport

# Runs the first n messages that lie in batch.received: `take` of DNS over UDP.
cdef void udp_receive(UdpSocket *sock, Worker *worker, int n) noexcept nogil
