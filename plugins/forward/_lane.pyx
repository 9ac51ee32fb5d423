"""Between workers and the lane. The contract is in _lane.pxd; the lane's own side is in lane.py.

Workers push errands onto a list without locks and wake the lane's event loop; it takes them all at once, and posts each back to its
worker as mail. An errand whose exchange has gone meanwhile is known by its generation.
"""
from libc.errno cimport errno
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdio cimport snprintf
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, strncpy
from fastdns.system.atomic cimport atomic_add32, atomic_load_pointer, atomic_load32, atomic_swap_pointer, atomic_take_pointer
from fastdns.walk.query cimport ERROR_MAX, Mail, Worker
from fastdns._wire cimport HEADER_SIZE
from fastdns.system.socket cimport EFD_CLOEXEC, EFD_NONBLOCK, eventfd, read, write
from fastdns.plugins.forward._upstream cimport BEGUN, BROKEN, Exchange, Peer, WAY_LANE, WAY_NONE, exchange_returned

cdef enum:
    ERRANDS_MAX = 8192          # with the lane at one time; more fail at once

cdef struct Errand:
    Mail mail                   # the way back
    Errand *next
    Worker *worker
    Exchange *exchange          # NULL: a probe
    uint32_t generation
    uint32_t lane               # of the exchange's errands
    uint64_t client
    uint32_t size
    uint8_t *request            # behind the struct
    uint8_t *reply              # malloc'ed
    uint32_t reply_size
    char error[ERROR_MAX]

cdef Errand *errands = NULL     # pushed by workers, taken whole by the lane
cdef uint32_t with_lane = 0
cdef int wake = -1              # eventfd; -1: there is no lane


cdef void push(Errand *errand) noexcept nogil:
    cdef uint64_t one = 1
    while True:
        errand.next = <Errand *>atomic_load_pointer(<void **>&errands)
        if atomic_swap_pointer(<void **>&errands, errand.next, errand):
            break
    if errand.next == NULL:
        write(wake, &one, 8)


cdef int lane_begin(Exchange *e, Peer *peer) noexcept nogil:
    cdef Errand *errand
    if wake < 0 or atomic_load32(&with_lane) >= ERRANDS_MAX:
        snprintf(e.error, ERROR_MAX, b"too many queries are under way to %s", peer.upstream.text)
        return BROKEN
    errand = <Errand *>calloc(1, sizeof(Errand) + e.size)
    if errand == NULL:
        snprintf(e.error, ERROR_MAX, b"out of memory")
        return BROKEN
    atomic_add32(&with_lane, 1)
    errand.worker = peer.share.worker
    errand.exchange = e
    errand.generation = e.generation
    errand.lane = e.lane
    errand.client = peer.upstream.client
    errand.request = <uint8_t *>&errand[1]
    errand.size = e.size
    memcpy(errand.request, e.request, e.size)
    e.way = WAY_LANE
    push(errand)
    return BEGUN


cdef void lane_forget(Exchange *e) noexcept nogil:
    """The errand goes on; the generation or the attempt tells that it comes too late."""
    e.lane += 1
    e.way = WAY_NONE


cdef int lane_probe(Peer *peer) noexcept nogil:
    cdef Errand *errand
    if wake < 0:
        return -1
    errand = <Errand *>calloc(1, sizeof(Errand))
    if errand == NULL:
        return -1
    atomic_add32(&with_lane, 1)
    errand.worker = peer.share.worker
    errand.client = peer.upstream.client
    push(errand)
    return 0


cdef void on_return(Mail *mail, Worker *worker) noexcept nogil:
    cdef Errand *errand = <Errand *>mail
    cdef Exchange *e = errand.exchange
    if e.generation == errand.generation and e.way == WAY_LANE and e.lane == errand.lane:
        exchange_returned(e, errand.reply, errand.reply_size, errand.error)
    free(errand.reply)
    free(errand)


# ---- the lane's side ----

def open_wake() -> int:
    """The descriptor that becomes readable when there are errands."""
    global wake
    if wake < 0:
        wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)
        if wake < 0:
            raise OSError(errno, "eventfd")
    return wake


def take() -> list:
    """All errands that wait, oldest first: (errand, client, request), request None for a probe."""
    cdef Errand *errand
    cdef uint64_t count
    read(wake, &count, 8)
    errand = <Errand *>atomic_take_pointer(<void **>&errands)
    found = []
    while errand != NULL:
        found.append((<size_t>errand, errand.client, errand.request[:errand.size] if errand.exchange != NULL else None))
        errand = errand.next
    found.reverse()
    return found


def give(size_t number, reply, str error=""):
    """An errand's end: the reply's octets, or None and an error. Probes end at once, without either."""
    cdef Errand *errand = <Errand *>number
    cdef bytes text
    cdef bytes octets
    cdef Py_ssize_t size
    atomic_add32(&with_lane, <uint32_t>-1)
    if errand.exchange == NULL:
        free(errand)
        return
    if reply is not None:
        octets = reply
        size = len(octets)
        errand.reply = <uint8_t *>malloc(size if size else 1)
        if errand.reply != NULL and size >= HEADER_SIZE:
            memcpy(errand.reply, <const uint8_t *>octets, size)
            errand.reply_size = <uint32_t>size
        else:
            free(errand.reply)
            errand.reply = NULL
            error = "dns: bad reply"
    text = error.encode("ascii", "replace")[:ERROR_MAX - 1]
    strncpy(errand.error, <const char *>text, ERROR_MAX - 1)
    errand.mail.run = on_return
    errand.worker.ops.post(errand.worker, &errand.mail)
