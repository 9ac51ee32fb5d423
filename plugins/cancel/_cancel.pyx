"""cancel: gives each query a time after which nobody below waits for it any more."""
from libc.stdint cimport int64_t
from fastdns.api.query cimport NEXT, Handler, NativeHandler, Query, Verdict, handler_init


cdef Verdict cancel_query(Handler *self, Query *q) noexcept nogil:
    q.deadline = q.worker.now + (<int64_t *>self.state)[0]
    return NEXT


cdef class Cancel(NativeHandler):
    cdef int64_t timeout        # ns

    def __cinit__(self, *args, **kwargs):
        handler_init(self)
        self.handler.query = cancel_query
        self.handler.state = &self.timeout

    def __init__(self, int64_t timeout):
        NativeHandler.__init__(self, "cancel")
        self.timeout = timeout
