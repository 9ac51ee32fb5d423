"""Connections that a front end has accepted, and whose handshake is through, go on as a worker's own; see fronts/handover.pyi."""
import socket

from libc.stdint cimport uint32_t, int64_t
from libc.stdlib cimport calloc, free
from fastdns.walk.query cimport TRANSPORT_TLS, Mail, Worker
from fastdns._mux cimport mux_worker_count, mux_workers
from fastdns.engine.io.tls cimport secure_take
from fastdns.system.socket cimport socket_clock
from fastdns.engine.io.tcp cimport tcp_adopt, tcp_finish

cdef struct Arrival:
    Mail mail
    int fd
    void *secure                    # NULL: in clear text
    uint32_t listener
    uint32_t generation
    int64_t since                   # ns, monotonic: when the client came

cdef uint32_t next_worker = 0


cdef void on_arrival(Mail *mail, Worker *worker) noexcept nogil:
    cdef Arrival *arrival = <Arrival *>mail
    tcp_adopt(worker, arrival.fd, arrival.secure, TRANSPORT_TLS, arrival.listener, arrival.generation, arrival.since)
    free(arrival)


cdef void on_end(Mail *mail, Worker *worker) noexcept nogil:
    tcp_finish(worker, (<Arrival *>mail).generation)
    free(mail)


def now() -> int:
    """ns of the clock that `settle` wants."""
    return socket_clock()


def settle(sock, listener, int64_t since) -> None:
    """Hands a connection to a worker, which answers what it asks from now on."""
    global next_worker
    cdef Arrival *arrival = <Arrival *>calloc(1, sizeof(Arrival))
    cdef Worker *worker
    if arrival == NULL:
        raise MemoryError
    try:
        arrival.listener = listener.index
        arrival.generation = listener.generation
        arrival.since = since
        if hasattr(sock, "_sslobj"):
            arrival.secure = secure_take(sock)
        arrival.fd = socket.socket.detach(sock)
    except BaseException:
        free(arrival)
        raise
    next_worker = (next_worker + 1) % mux_worker_count
    worker = mux_workers[next_worker]
    arrival.mail.run = on_arrival
    worker.ops.post(worker, &arrival.mail)


def end(listener) -> None:
    """Has the connections of a listener end once what they asked is answered."""
    cdef Arrival *arrival
    cdef uint32_t i
    for i in range(mux_worker_count):
        arrival = <Arrival *>calloc(1, sizeof(Arrival))
        if arrival == NULL:
            raise MemoryError
        arrival.generation = listener.generation
        arrival.mail.run = on_end
        mux_workers[i].ops.post(mux_workers[i], &arrival.mail)
