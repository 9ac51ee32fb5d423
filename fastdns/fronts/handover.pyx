"""Connections that a front end has accepted go over to a worker once the TLS handshake is done; see fronts/handover.pyi."""
import socket

from libc.stdint cimport uint32_t, int64_t
from libc.stdlib cimport calloc, free
from fastdns.walk.query cimport TRANSPORT_TLS, Mail, Worker
from fastdns._mux cimport mux_worker_count, mux_workers
from fastdns.engine.io.tls cimport SSL, tls_take
from fastdns.system.socket cimport socket_clock
from fastdns.engine.io.tcp cimport tcp_adopt, tcp_finish

cdef struct Handover:
    Mail mail                       # first
    int fd
    SSL *tls                        # NULL: in clear text
    uint32_t listener
    uint32_t generation
    int64_t since                   # ns, monotonic: when the client was accepted

cdef uint32_t next_worker = 0


cdef void on_handover(Mail *mail, Worker *worker) noexcept nogil:
    cdef Handover *handover = <Handover *>mail
    tcp_adopt(worker, handover.fd, handover.tls, TRANSPORT_TLS, handover.listener, handover.generation, handover.since)
    free(handover)


cdef void on_finish(Mail *mail, Worker *worker) noexcept nogil:
    tcp_finish(worker, (<Handover *>mail).generation)
    free(mail)


def now() -> int:
    """ns of the clock that `begin` wants."""
    return socket_clock()


def begin(sock, listener, int64_t since) -> None:
    """Hands a connection to a worker, which answers its queries from now on."""
    global next_worker
    cdef Handover *handover = <Handover *>calloc(1, sizeof(Handover))
    cdef Worker *worker
    if handover == NULL:
        raise MemoryError
    try:
        handover.listener = listener.index
        handover.generation = listener.generation
        handover.since = since
        if hasattr(sock, "_sslobj"):
            handover.tls = tls_take(sock)
        handover.fd = socket.socket.detach(sock)
    except BaseException:
        free(handover)
        raise
    next_worker = (next_worker + 1) % mux_worker_count
    worker = mux_workers[next_worker]
    handover.mail.run = on_handover
    worker.ops.post(worker, &handover.mail)


def finish(listener) -> None:
    """Has the connections of a listener end once what they asked is answered."""
    cdef Handover *handover
    cdef uint32_t i
    for i in range(mux_worker_count):
        handover = <Handover *>calloc(1, sizeof(Handover))
        if handover == NULL:
            raise MemoryError
        handover.generation = listener.generation
        handover.mail.run = on_finish
        mux_workers[i].ops.post(mux_workers[i], &handover.mail)
