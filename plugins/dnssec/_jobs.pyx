"""Jobs of the signing thread. The contract is in _jobs.pxd."""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy
from fastdns._atomic cimport atomic_add32, atomic_load32, atomic_load_pointer, atomic_swap_pointer, atomic_take_pointer
from fastdns._mux cimport Mail, Query, Worker, query_resume
from fastdns._socket cimport EFD_CLOEXEC, eventfd, read, write

cdef enum:
    WAITING_MAX = 2048          # jobs in the process that are not back

cdef uint32_t waiting           # atomic
cdef Job *inbox                 # newest first; atomic
cdef int bell = -1              # eventfd: there is something in the inbox


# ---- on the worker ----

cdef Job *job_make(Query *q, uint64_t handler, const Set *sets, uint32_t count) noexcept nogil:
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
    job.mail.run = come_back
    job.worker = q.worker
    job.query = q
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


cdef bint job_hand_over(Job *job) noexcept nogil:
    cdef uint64_t one = 1
    cdef void *head
    if atomic_load32(&waiting) >= WAITING_MAX:
        return False
    atomic_add32(&waiting, 1)
    while True:
        head = atomic_load_pointer(<void **>&inbox)
        job.next = <Job *>head
        if atomic_swap_pointer(<void **>&inbox, head, job):
            break
    write(bell, &one, sizeof(one))
    return True


cdef void come_back(Mail *mail, Worker *worker) noexcept nogil:
    """The job is the worker's again."""
    cdef Job *job = <Job *>mail
    atomic_add32(&waiting, <uint32_t>-1)
    if job.query != NULL:
        query_resume(job.query)         # the handler takes it
    else:
        job_free(job)


# ---- on the signing thread ----

def open_bell() -> None:
    """Makes what jobs are announced with; once, before any handler serves. OSError when there are no descriptors."""
    global bell
    if bell < 0:
        bell = eventfd(0, EFD_CLOEXEC)
        if bell < 0:
            raise OSError("no eventfd")


def serve_jobs(sign, settle) -> None:
    """The signing thread: waits for jobs and has their sets signed, for ever.

    sign(handler number, key) gives the signatures as the cache keeps them, or None when that failed; settle() is called when no job waits.
    """
    cdef uint64_t count
    cdef Job *job
    cdef Job *rest
    cdef Job *reversed
    cdef int descriptor = bell
    while True:
        with nogil:
            read(descriptor, &count, sizeof(count))
        rest = <Job *>atomic_take_pointer(<void **>&inbox)
        reversed = NULL
        while rest != NULL:                     # oldest first
            job = rest
            rest = job.next
            job.next = reversed
            reversed = job
        while reversed != NULL:
            job = reversed
            reversed = job.next
            fill(job, sign)
            job.worker.ops.post(job.worker, &job.mail)
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
