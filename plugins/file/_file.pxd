"""The native handler of file; auto and secondary have handlers of the same kind."""
from fastdns.api.query cimport Handler, NativeHandler, Query, Verdict
from fastdns.api.names cimport ZoneList, Zones
from fastdns.api.records cimport ZoneSet

cdef struct FileState:
    void **zones                # of the ZoneSet
    const Zones *fall           # names that go on where they are not there, or NULL

# No zone holds the name: the handler below, or REFUSED where there is none.
cdef Verdict pass_on(Handler *self, Query *q) noexcept nogil
# The `query` hook of file, for handlers whose state begins with FileState.
cdef Verdict file_query(Handler *self, Query *q) noexcept nogil

cdef class FileHandler(NativeHandler):
    cdef FileState state
    cdef readonly ZoneSet zones
    cdef ZoneList fall
