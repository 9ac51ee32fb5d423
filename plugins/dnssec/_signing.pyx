"""Requests of the signing thread. The contract is in _signing.pxd."""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy
from fastdns.api.query cimport Query
from fastdns.api.worker cimport OffloadQueue, OffloadRequest, offload_next, offload_open, offload_return, offload_send, offload_wait, offload_wanted

cdef enum:
    WAITING_MAX = 2048          # queries in the process that may wait for signatures

cdef OffloadQueue queue


# ---- on the worker ----

cdef SigningRequest *signing_new(uint64_t handler, const Set *sets, uint32_t count) noexcept nogil:
    cdef uint64_t size = sizeof(SigningRequest) + count * sizeof(Set)
    cdef uint32_t i
    cdef uint8_t *at
    cdef uint8_t *copy
    cdef SigningRequest *signing
    for i in range(count):
        size += sets[i].key_length
    signing = <SigningRequest *>calloc(1, size)
    if signing == NULL:
        return NULL
    signing.handler = handler
    signing.count = count
    signing.sets = <Set *>(signing + 1)
    memcpy(signing.sets, sets, count * sizeof(Set))
    at = <uint8_t *>(signing.sets + count)
    for i in range(count):
        memcpy(at, sets[i].key, sets[i].key_length)
        signing.sets[i].key = at
        at += sets[i].key_length
        signing.sets[i].signatures = NULL
    for i in range(count):
        if sets[i].signatures != NULL:
            copy = <uint8_t *>malloc(sets[i].octets)
            if copy == NULL:
                signing_free(signing)
                return NULL
            memcpy(copy, sets[i].signatures, sets[i].octets)
            signing.sets[i].signatures = copy
    return signing


cdef void signing_free(SigningRequest *signing) noexcept nogil:
    cdef uint32_t i
    for i in range(signing.count):
        free(<void *>signing.sets[i].signatures)
    free(signing)


cdef bint signing_send(SigningRequest *signing, Query *q) noexcept nogil:
    return offload_send(&queue, &signing.request, q)


cdef void end_job(OffloadRequest *request) noexcept nogil:
    signing_free(<SigningRequest *>request)


# ---- on the signing thread ----

def open_queue() -> None:
    """Once, before any handler serves. OSError when there are no descriptors."""
    offload_open(&queue, WAITING_MAX, end_job)


def serve_requests(sign, idle) -> None:
    """The signing thread: waits for requests and has their sets signed, for ever.

    sign(handler number, key) gives the signatures as the cache keeps them, or None when that failed; idle() is called when no signing waits.
    """
    cdef SigningRequest *signing
    cdef OffloadRequest *rest
    while True:
        with nogil:
            rest = offload_wait(&queue)
        while rest != NULL:
            signing = <SigningRequest *>rest
            rest = offload_next(rest)
            if offload_wanted(&signing.request):
                fill(signing, sign)
            offload_return(&signing.request)
        idle()


cdef void fill(SigningRequest *signing, sign):
    """Signs what has no signatures yet; a set that cannot be signed stays without."""
    cdef uint32_t i
    cdef Set *wanted
    cdef bytes octets
    cdef uint8_t *copy
    for i in range(signing.count):
        wanted = &signing.sets[i]
        if wanted.signatures != NULL:
            continue
        try:
            octets = sign(signing.handler, (<const char *>wanted.key)[:wanted.key_length])
        except Exception:
            octets = None
        if octets is None:
            continue
        copy = <uint8_t *>malloc(len(octets) + 1)
        if copy != NULL:
            memcpy(copy, <const char *>octets, len(octets))
            wanted.signatures = copy
            wanted.octets = <uint32_t>len(octets)
