"""Connections whose last reply is sent. The contract is in engine/io/linger.pxd."""
from libc.errno cimport errno, EAGAIN, EINTR
from libc.stdint cimport uint8_t, uint32_t
from libc.stdlib cimport calloc, free
from fastdns.system.socket cimport EPOLLIN, close, recv, shutdown
from fastdns.walk.query cimport WORKERS_MAX, Flush, Source, Timer, Worker, worker_flush

cdef extern from "<sys/socket.h>" nogil:
    enum: SHUT_WR

cdef enum:
    LINGER = 1000000000             # ns
    LINGERING_MAX = 256             # of a worker; further ones are closed at once
    DROPPED_AT_ONCE = 65536         # octets

cdef struct Lingering:
    Source source                   # first
    Timer timer
    Flush flush                     # frees it at the end of the batch, whose events may still name it

cdef uint32_t lingering[WORKERS_MAX]


cdef void linger_begin(Worker *worker, int fd) noexcept nogil:
    cdef Lingering *last = NULL
    if shutdown(fd, SHUT_WR) == 0 and lingering[worker.id] < LINGERING_MAX:
        last = <Lingering *>calloc(1, sizeof(Lingering))
    if last == NULL:
        close(fd)
        return
    lingering[worker.id] += 1
    last.source.fd = fd
    last.source.ready = on_octets
    last.timer.fire = on_time
    last.timer.data = last
    last.flush.run = on_end
    last.flush.data = last
    worker.ops.watch(worker, &last.source, EPOLLIN)
    worker.ops.timer_start(worker, &last.timer, worker.now + LINGER)


cdef void on_octets(Source *source, Worker *worker, uint32_t events) noexcept nogil:
    cdef uint8_t octets[16384]
    cdef ssize_t size = 1
    cdef uint32_t dropped = 0
    if source.fd < 0:
        return
    while size > 0 and dropped < DROPPED_AT_ONCE:
        size = recv(source.fd, octets, sizeof(octets), 0)
        dropped += <uint32_t>max(size, 0)
    if size == 0 or size < 0 and errno != EAGAIN and errno != EINTR:
        finish(<Lingering *>source, worker)


cdef void on_time(Timer *timer, Worker *worker) noexcept nogil:
    finish(<Lingering *>timer.data, worker)


cdef void finish(Lingering *last, Worker *worker) noexcept nogil:
    worker.ops.timer_stop(worker, &last.timer)
    worker.ops.unwatch(worker, &last.source)
    close(last.source.fd)
    last.source.fd = -1
    lingering[worker.id] -= 1
    worker_flush(worker, &last.flush)


cdef void on_end(Flush *flush, Worker *worker) noexcept nogil:
    free(flush.data)
