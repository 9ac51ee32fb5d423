"""The offload queue. The contract is in engine/offload.pxd."""
from libc.stdint cimport uint32_t
from fastdns.system.atomic cimport atomic_add32
from fastdns.system.mailbox cimport mailbox_collect, mailbox_open, mailbox_post, mailbox_wait
from fastdns.walk.query cimport Mail, Query, Worker
from fastdns._mux cimport query_resume


cdef int offload_open(OffloadQueue *queue, uint32_t limit, void (*ended)(OffloadRequest *request) noexcept nogil) except -1:
    if mailbox_open(&queue.mailbox) < 0:
        raise OSError("no eventfd")
    queue.limit = limit
    queue.ended = ended
    return 0


cdef OffloadRequest *offload_wait(OffloadQueue *queue) noexcept nogil:
    return <OffloadRequest *>mailbox_wait(&queue.mailbox)


cdef OffloadRequest *offload_collect(OffloadQueue *queue) noexcept nogil:
    return <OffloadRequest *>mailbox_collect(&queue.mailbox)


cdef void offload_return(OffloadRequest *request) noexcept nogil:
    request.mail.run = on_return
    request.worker.ops.post(request.worker, &request.mail)


cdef bint offload_send(OffloadQueue *queue, OffloadRequest *request, Worker *worker, Query *q) noexcept nogil:
    if offload_full(queue):
        return False
    request.queue = queue
    request.worker = worker
    request.query = q
    atomic_add32(&queue.outstanding, 1)
    mailbox_post(&queue.mailbox, &request.mail.item)
    return True


cdef void on_return(Mail *mail, Worker *worker) noexcept nogil:
    """The request is the worker's again."""
    cdef OffloadRequest *request = <OffloadRequest *>mail
    atomic_add32(&request.queue.outstanding, <uint32_t>-1)
    if request.query != NULL:
        query_resume(request.query)     # the handler takes it
    else:
        request.queue.ended(request)
