"""The offload queue. The contract is in engine/offload.pxd."""
from libc.stdint cimport uint32_t
from fastdns.system.atomic cimport atomic_poke8
from fastdns.system.mailbox cimport mailbox_open, mailbox_post, mailbox_wait
from fastdns.walk.limit cimport limit_enter, limit_freed, limit_leave
from fastdns.walk.query cimport Mail, Query, Worker
from fastdns._mux cimport query_resume


cdef int offload_open(OffloadQueue *queue, uint32_t limit, void (*ended)(OffloadRequest *request) noexcept nogil) except -1:
    if queue.limit.most == 0 and mailbox_open(&queue.mailbox) < 0:
        raise OSError("no eventfd")
    queue.limit.most = limit
    queue.ended = ended
    return 0


cdef OffloadRequest *offload_wait(OffloadQueue *queue) noexcept nogil:
    return <OffloadRequest *>mailbox_wait(&queue.mailbox)


cdef void offload_return(OffloadRequest *request) noexcept nogil:
    request.mail.run = on_return
    request.worker.ops.post(request.worker, &request.mail)


cdef bint offload_send(OffloadQueue *queue, OffloadRequest *request, Query *q) noexcept nogil:
    if not limit_enter(&queue.limit, q):
        return False
    request.queue = queue
    request.worker = q.worker
    request.query = q
    request.abandoned = 0
    mailbox_post(&queue.mailbox, &request.mail.item)
    return True


cdef void offload_abandon(OffloadRequest *request) noexcept nogil:
    request.query = NULL
    atomic_poke8(&request.abandoned, 1)
    limit_leave(&request.queue.limit, request.worker.id)


cdef void on_return(Mail *mail, Worker *worker) noexcept nogil:
    """The request is the worker's again."""
    cdef OffloadRequest *request = <OffloadRequest *>mail
    limit_freed(&request.queue.limit)
    if request.query != NULL:
        limit_leave(&request.queue.limit, worker.id)
        query_resume(request.query)     # the handler takes it
    else:
        request.queue.ended(request)
