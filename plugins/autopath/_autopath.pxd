"""autopath's handler, and what a handler that knows a client's search path gives to it."""
from libc.stdint cimport uint8_t, uint32_t
from fastdns.api.query cimport NativeHandler, Query
from fastdns.api.names cimport Zones

cdef struct SearchPath:         # of a provider (kubernetes); it and its state live as long as the provider's handler
    # Writes element `index` of the search path of q's client into out (NAME_MAX octets), in wire form and lower case, and returns its length with
    # the root; 0 behind the last element, or at once when there is no path for this client. The last element must be the root (length 1).
    # Called on q's worker, once for each step: the state may change between two steps.
    int (*element)(SearchPath *path, Query *q, uint32_t index, uint8_t *out) noexcept nogil
    void *state

cdef class SearchPathHandle:    # what `search_path()` of a provider's handler returns, and `question_path()` of one that finds the path in the question
    cdef SearchPath *path
    cdef object owner           # keeps it alive

cdef struct Elements:           # of a resolv.conf; owned by the handler
    SearchPath path             # first: what `element` gets is the whole
    uint32_t count
    uint8_t *names              # NAME_MAX + 1 octets each: length, wire form

cdef struct Autopath:
    const Zones *zones          # borrowed from the handler's list
    SearchPath *path            # NULL: its provider is not in the block, so every query passes
    uint32_t *successes         # metric cells by server label

cdef struct Walk:               # in each query's scratch
    uint32_t step               # the element that is asked for; 0: the query itself, whose name it is
    uint8_t active
    uint8_t base                # octets of the query's name in front of the first element

cdef class AutopathHandler(NativeHandler):
    cdef Autopath autopath
    cdef Elements elements
    cdef object zones
    cdef object provider        # SearchPathHandle
    cdef int read(self, search) except -1
