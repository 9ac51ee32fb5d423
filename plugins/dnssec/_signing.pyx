"""Jobs of the signing thread. The contract is in _jobs.pxd."""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy
from fastdns.api.query cimport Query
from fastdns.api.worker cimport OffloadQueue, OffloadRequest, offload_next, offload_open, offload_return, offload_send, offload_wait

cdef enum:
    WAITING_MAX = 2048          # jobs in the process that are not back

cdef OffloadQueue queue


# ---- on the worker ----

cdef Job *job_make(uint64_t handler, const Set *sets, uint32_t count) noexcept nogil:
    cdef uint64_t size = sizeof(Job) + count * sizeof(Set)
    cdef uint32_t i
    cdef uint8_t *at
    cdef uint8_t *copy
    cdef Job *job
    for i in range(count):
        size += sets[i].key_length
    job = <Job *>calloc(1, size)
    if job == NULL:
        return NULL
    job.handler = handler
    job.count = count
    job.sets = <Set *>(job + 1)
    memcpy(job.sets, sets, count * sizeof(Set))
    at = <uint8_t *>(job.sets + count)
    for i in range(count):
        memcpy(at, sets[i].key, sets[i].key_length)
        job.sets[i].key = at
        at += sets[i].key_length
        job.sets[i].signatures = NULL
    for i in range(count):
        if sets[i].signatures != NULL:
            copy = <uint8_t *>malloc(sets[i].octets)
            if copy == NULL:
                job_free(job)
                return NULL
            memcpy(copy, sets[i].signatures, sets[i].octets)
            job.sets[i].signatures = copy
    return job


cdef void job_free(Job *job) noexcept nogil:
    cdef uint32_t i
    for i in range(job.count):
        free(<void *>job.sets[i].signatures)
    free(job)


cdef bint job_send(Job *job, Query *q) noexcept nogil:
    return offload_send(&queue, &job.request, q.worker, q)


cdef void end_job(OffloadRequest *request) noexcept nogil:
    job_free(<Job *>request)


# ---- on the signing thread ----

def open_queue() -> None:
    """Once, before any handler serves. OSError when there are no descriptors."""
    offload_open(&queue, WAITING_MAX, end_job)


def serve_jobs(sign, settle) -> None:
    """The signing thread: waits for jobs and has their sets signed, for ever.

    sign(handler number, key) gives the signatures as the cache keeps them, or None when that failed; settle() is called when no job waits.
    """
    cdef Job *job
    cdef OffloadRequest *rest
    while True:
        with nogil:
            rest = offload_wait(&queue)
        while rest != NULL:
            job = <Job *>rest
            rest = offload_next(rest)
            fill(job, sign)
            offload_return(&job.request)
        settle()


cdef void fill(Job *job, sign):
    """Signs what has no signatures yet; a set that cannot be signed stays without."""
    cdef uint32_t i
    cdef Set *wanted
    cdef bytes octets
    cdef uint8_t *copy
    for i in range(job.count):
        wanted = &job.sets[i]
        if wanted.signatures != NULL:
            continue
        try:
            octets = sign(job.handler, (<const char *>wanted.key)[:wanted.key_length])
        except Exception:
            octets = None
        if octets is None:
            continue
        copy = <uint8_t *>malloc(len(octets) + 1)
        if copy != NULL:
            memcpy(copy, <const char *>octets, len(octets))
            wanted.signatures = copy
            wanted.octets = <uint32_t>len(octets)
