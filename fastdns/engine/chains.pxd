"""A configuration in native form: zone tables of its servers and chains of its blocks, built beside the one that serves."""
from fastdns.system.blocks cimport Blocks
from libc.stdint cimport uint32_t
from fastdns.engine.call cimport WorkerCall
from fastdns.walk.query cimport Canary, Chain, ChainSet, Handler, Tally, Zone

cdef struct Detach:                 # a worker runs the `detach` hooks of a retired configuration
    WorkerCall call                 # first
    uint32_t count                  # of `handlers`: after the call, those that are not done on this worker
    Handler *handlers[1]            # in truth as many as the configuration has

cdef class Chains:
    cdef ChainSet *set
    cdef readonly list handlers     # every NativeHandler in it, kept alive as long as a worker may be in a chain
    cdef readonly list listeners    # of all its servers
    cdef readonly dict proxies      # ProxyProtocol of servers that have one, by address
    cdef bint served                # by an engine, now or before: it may end at any time
    cdef Canary canary              # while this configuration is tried on some of the clients: what the one that serves points at
    cdef Tally *tallies             # what was answered while there were two configurations, by worker and client (walk/tally); NULL: there have not been yet
    cdef uint32_t tallied           # workers that have some
    cdef Blocks memory
    cdef Detach *detach             # made beforehand: at the end there may be no memory
    cdef dict _chains
    cdef void *_new(self, size_t size) except NULL
    cdef object _add_server(self, server, dict served)
    cdef void _append(self, Zone **first, Zone *zone)
    cdef int _add_filters(self, Zone *zone, filters) except -1
    cdef Chain *_chain(self, handlers) except NULL
    # Counts answers from now on. Sums go on from where they were, those of clients begin again. MemoryError.
    cdef int begin_tally(self, uint32_t workers) except -1
    cdef void end_tally(self) noexcept

# The call for the next worker, with all handlers that have the hook.
cdef Detach *chains_detach(Chains chains) noexcept
