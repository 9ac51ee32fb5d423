"""Errands between workers and threads of the control side. The contract is in engine/offload.pxd."""
from libc.stdint cimport uint32_t, uint64_t
from fastdns.system.atomic cimport atomic_add32, atomic_load_pointer, atomic_swap_pointer, atomic_take_pointer
from fastdns.walk.query cimport Mail, Query, Worker
from fastdns._mux cimport query_resume
from fastdns.system.socket cimport EFD_CLOEXEC, eventfd, read, write


cdef int desk_open(Desk *desk, uint32_t most, void (*drop)(Errand *errand) noexcept nogil) except -1:
    desk.bell = eventfd(0, EFD_CLOEXEC)
    if desk.bell < 0:
        raise OSError("no eventfd")
    desk.most = most
    desk.drop = drop
    return 0


cdef Errand *desk_wait(Desk *desk) noexcept nogil:
    cdef uint64_t count
    cdef Errand *errand
    cdef Errand *rest
    cdef Errand *oldest = NULL
    while oldest == NULL:
        read(desk.bell, &count, sizeof(count))
        rest = <Errand *>atomic_take_pointer(<void **>&desk.inbox)
        while rest != NULL:
            errand = rest
            rest = errand.next
            errand.next = oldest
            oldest = errand
    return oldest


cdef void errand_return(Errand *errand) noexcept nogil:
    errand.worker.ops.post(errand.worker, &errand.mail)


cdef bint errand_send(Desk *desk, Errand *errand, Query *q) noexcept nogil:
    cdef uint64_t one = 1
    cdef void *head
    if desk_full(desk):
        return False
    errand.mail.run = come_back
    errand.desk = desk
    errand.worker = q.worker
    errand.query = q
    atomic_add32(&desk.away, 1)
    while True:
        head = atomic_load_pointer(<void **>&desk.inbox)
        errand.next = <Errand *>head
        if atomic_swap_pointer(<void **>&desk.inbox, head, errand):
            break
    write(desk.bell, &one, sizeof(one))
    return True


cdef void come_back(Mail *mail, Worker *worker) noexcept nogil:
    """The errand is the worker's again."""
    cdef Errand *errand = <Errand *>mail
    atomic_add32(&errand.desk.away, <uint32_t>-1)
    if errand.query != NULL:
        query_resume(errand.query)      # the handler takes it
    else:
        errand.desk.drop(errand)
