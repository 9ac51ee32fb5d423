"""Between workers and the client loop. The contract is in _clients.pxd; the client loop's own side is in clients.py.

Questions go by the offload queue, which wakes the client loop's event loop, and come back to their worker. One whose exchange has ended meanwhile is known by
its generation.
"""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdio cimport snprintf
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, strncpy
from fastdns.api.query cimport ERROR_MAX
from fastdns.api.worker cimport OffloadQueue, OffloadRequest, offload_collect, offload_next, offload_open, offload_return, offload_send
from fastdns.api.wire cimport HEADER_SIZE
from fastdns.plugins.forward._upstream cimport BEGUN, BROKEN, Exchange, Peer, WAY_CLIENT, WAY_NONE, exchange_returned

cdef enum:
    REQUESTS_MAX = 8192         # with the client loop at one time; more fail at once

cdef struct ClientRequest:
    OffloadRequest request      # first; no query: the exchange waits
    Exchange *exchange          # NULL: a probe
    uint32_t generation
    uint32_t abandoned               # of the exchange's requests
    uint64_t client
    uint32_t size
    uint8_t *message            # behind the struct
    uint8_t *reply              # malloc'ed
    uint32_t reply_size
    char error[ERROR_MAX]

cdef OffloadQueue queue
cdef bint opened = False        # the client loop runs


cdef int client_begin(Exchange *e, Peer *peer) noexcept nogil:
    cdef ClientRequest *asked = NULL
    if opened:
        asked = <ClientRequest *>calloc(1, sizeof(ClientRequest) + e.size)
        if asked == NULL:
            snprintf(e.error, ERROR_MAX, b"out of memory")
            return BROKEN
        asked.exchange = e
        asked.generation = e.generation
        asked.abandoned = e.abandoned
        asked.client = peer.upstream.client
        asked.message = <uint8_t *>&asked[1]
        asked.size = e.size
        memcpy(asked.message, e.request, e.size)
    if asked == NULL or not offload_send(&queue, &asked.request, peer.share.worker, NULL):
        free(asked)
        snprintf(e.error, ERROR_MAX, b"too many queries are under way to %s", peer.upstream.text)
        return BROKEN
    e.way = WAY_CLIENT
    return BEGUN


cdef void client_forget(Exchange *e) noexcept nogil:
    """The request goes on; the generation or the attempt tells that it comes too late."""
    e.abandoned += 1
    e.way = WAY_NONE


cdef int client_probe(Peer *peer) noexcept nogil:
    cdef ClientRequest *asked
    if not opened:
        return -1
    asked = <ClientRequest *>calloc(1, sizeof(ClientRequest))
    if asked == NULL:
        return -1
    asked.client = peer.upstream.client
    if not offload_send(&queue, &asked.request, peer.share.worker, NULL):
        free(asked)
        return -1
    return 0


cdef void on_return(OffloadRequest *request) noexcept nogil:
    cdef ClientRequest *asked = <ClientRequest *>request
    cdef Exchange *e = asked.exchange
    if e != NULL and e.generation == asked.generation and e.way == WAY_CLIENT and e.abandoned == asked.abandoned:
        exchange_returned(e, asked.reply, asked.reply_size, asked.error)
    free(asked.reply)
    free(asked)


# ---- the client loop's side ----

def open_wake() -> int:
    """The descriptor that becomes readable when there are requests."""
    global opened
    if not opened:
        offload_open(&queue, REQUESTS_MAX, on_return)
        opened = True
    return queue.mailbox.wake


def take() -> list:
    """All requests that wait, oldest first: (number, client, message), message None for a probe."""
    cdef OffloadRequest *request = offload_collect(&queue)
    cdef ClientRequest *asked
    found = []
    while request != NULL:
        asked = <ClientRequest *>request
        found.append((<size_t>asked, asked.client, asked.message[:asked.size] if asked.exchange != NULL else None))
        request = offload_next(request)
    return found


def give(size_t number, reply, str error=""):
    """The end of a request: the reply's octets, or None and an error. Probes end at once, without either."""
    cdef ClientRequest *asked = <ClientRequest *>number
    cdef bytes text
    cdef bytes octets
    cdef Py_ssize_t size
    if reply is not None:
        octets = reply
        size = len(octets)
        asked.reply = <uint8_t *>malloc(size if size else 1)
        if asked.reply != NULL and size >= HEADER_SIZE:
            memcpy(asked.reply, <const uint8_t *>octets, size)
            asked.reply_size = <uint32_t>size
        else:
            free(asked.reply)
            asked.reply = NULL
            error = "dns: bad reply"
    text = error.encode("ascii", "replace")[:ERROR_MAX - 1]
    strncpy(asked.error, <const char *>text, ERROR_MAX - 1)
    offload_return(&asked.request)
