"""The worker's side of a Python plugin: the hooks that make a request of a query, and that apply the result. No Python object is touched there."""
from libc.stdint cimport uint32_t, int64_t
from fastdns.walk.query cimport Mail, Worker
from fastdns._mux cimport NativeHandler
from fastdns.executor.request cimport RequestQueue
from fastdns.executor.verdict_cache cimport VerdictTable
from fastdns.executor.verdicts cimport Verdicts
from fastdns.index.name_map cimport NameMap, NameMapCore
from fastdns.index.zone_list cimport ZoneList, Zones

cdef struct RequestHandlerState:    # Handler.state
    void *owner                     # the RequestHandler
    RequestQueue *queue             # of the executor, which the handler keeps; NULL until `attach`
    const Zones *zones              # of a ZoneList, or NULL
    NameMapCore *names              # of a NameMap, or NULL
    int64_t deadline                # ns
    VerdictTable *cached            # of the handler's Verdicts
    uint32_t waiting                # atomic: requests that are not abandoned; the handler outlives them
    uint32_t queries                # cells of metrics
    uint32_t rejects
    uint32_t refused
    uint32_t deadlines
    uint32_t evicted
    uint32_t hits

cdef class RequestHandler(NativeHandler):
    cdef RequestHandlerState state
    cdef readonly object serve      # the plugin's method
    cdef readonly bint waits        # it is a coroutine function
    cdef readonly object zones      # ZoneList, NameMap or None
    cdef readonly Verdicts verdicts
    cdef readonly int64_t deadline  # ns

# Runs on the worker when the executor has posted a request.
cdef void on_request(Mail *mail, Worker *worker) noexcept nogil
