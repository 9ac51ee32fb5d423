"""Who is told of queries that wait. The contract is in walk/observer.pxd."""

observer_wait = NULL


cdef void observe_waits(wait_func wait) noexcept nogil:
    global observer_wait
    observer_wait = wait
