"""Who is told when queries begin and end to wait (*recorder*). Nobody is unless a plugin asks, and queries that do not park are never looked at."""
from fastdns.walk.query cimport Query

# The query is parked and waits for no child of its own (begins), or goes on or fails (not begins; also without having begun). On its worker.
ctypedef void (*wait_func)(Query *q, bint begins) noexcept nogil

cdef wait_func observer_wait        # NULL: nobody asks; stored once, as a plugin is imported

# `wait` is called from now on.
cdef void observe_waits(wait_func wait) noexcept nogil

cdef inline void observe_wait(Query *q, bint begins) noexcept nogil:
    """What the mux calls."""
    if observer_wait != NULL:
        observer_wait(q, begins)
