"""A configuration in native form: zone tables of its servers and chains of its blocks, built beside the one that serves."""
from fastdns.system.blocks cimport Blocks
from fastdns.walk.query cimport Chain, ChainSet, Zone

cdef class Chains:
    cdef ChainSet *set
    cdef readonly list handlers     # every NativeHandler in it, kept alive as long as a worker may be in a chain
    cdef readonly list listeners    # of all its servers
    cdef bint served                # by an engine, now or before: it may end at any time
    cdef Blocks memory
    cdef void *retiring             # the engine's mail for the end of this configuration, when there may be no memory; or NULL
    cdef dict _chains
    cdef void *_new(self, size_t size) except NULL
    cdef object _add_server(self, server, dict served)
    cdef void _append(self, Zone **first, Zone *zone)
    cdef int _add_filters(self, Zone *zone, filters) except -1
    cdef Chain *_chain(self, handlers) except NULL
