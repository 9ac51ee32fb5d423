"""Counts whether each query was answered within the objective: one addition to the worker's own cells."""
from libc.stdint cimport int64_t, uint32_t
from libc.stdlib cimport calloc, free

from fastdns.api.metrics cimport Metric, metric_add
from fastdns.api.network cimport socket_clock
from fastdns.api.query cimport TRANSPORT_NONE, Handler, NativeHandler, Query, handler_init, query_was_dropped
from fastdns.api.wire cimport RCODE_SERVFAIL
from fastdns.api.worker cimport aging_forget, aging_want

cdef enum:                      # cells of a (server, zone, view), in the order of RESULTS
    WITHIN
    LATE
    FAILED

    RESULTS_COUNT

cdef struct Cells:              # of one (server, zone, view)
    uint32_t results[RESULTS_COUNT]

cdef struct State:
    uint32_t first              # zone label of cells[0]
    uint32_t count
    int64_t objective           # ns
    Cells *cells                # owned

ZONE = ("server", "zone", "view")
RESULTS = ("within", "late", "failed")

cdef Metric queries = Metric("fastdns_slo_queries_total", "Queries of clients by how they did: answered within the objective's time, later, or not at all.",
                             "counter", (*ZONE, "result"))
cdef Metric seconds = Metric("fastdns_slo_objective_seconds", "The time within which a query is to be answered.", "gauge", ZONE)
cdef Metric ratio = Metric("fastdns_slo_objective_ratio", "The share of queries that are to be answered within that time.", "gauge", ZONE)
cdef dict shown = {}            # labels of the gauges -> by handler, objective and share; the last one's are exposed


cdef void count_done(Handler *self, Query *q) noexcept nogil:
    cdef const State *state = <const State *>self.state
    cdef uint32_t at = q.zone.label - state.first
    cdef uint32_t result = LATE
    # Questions of handlers are part of a client's; what a policy drops is nobody's failure.
    if at >= state.count or q.parent != NULL or q.transport == TRANSPORT_NONE or query_was_dropped(q):
        return
    if q.reply.rcode == RCODE_SERVFAIL:
        result = FAILED
    elif socket_clock() - q.received <= state.objective:
        result = WITHIN
    metric_add(state.cells[at].results[result], q.worker.id, 1)


cdef void show(tuple key):
    standing = shown[key]
    if standing:
        objective, share = [*standing.values()].pop()
        seconds.set(key, objective)
        ratio.set(key, share)
    else:
        seconds.forget(key)
        ratio.forget(key)


cdef class SloHandler(NativeHandler):
    cdef State state
    cdef double _share
    cdef list _keys             # labels of the gauges
    cdef list _servers          # numbers

    def __init__(self, str name not None, double share, int64_t objective):
        handler_init(self)
        NativeHandler.__init__(self, name)
        self._share = share
        self._keys = []
        self._servers = []
        self.state.objective = objective
        self.handler.state = &self.state
        self.handler.done = count_done

    def __dealloc__(self):
        free(self.state.cells)

    cpdef attach(self, list servers, str view):
        for label, _ in servers:
            aging_want(label, self, 0, 0)
            self._servers.append(label)

    cpdef attach_zones(self, list zones):
        cdef Cells *cells
        labels = [label for label, _, _, _ in zones]
        self.state.first = min(labels)
        self.state.cells = <Cells *>calloc(max(labels) - min(labels) + 1, sizeof(Cells))
        if self.state.cells == NULL:
            raise MemoryError
        for label, *zone in zones:
            key = tuple(zone)
            cells = &self.state.cells[<uint32_t>label - self.state.first]
            for result, text in enumerate(RESULTS):     # exposed at 0: a rate needs a beginning
                cells.results[<uint32_t>result] = queries.cell((*key, text), True)
            shown.setdefault(key, {})[id(self)] = (self.state.objective / 1e9, self._share)
            show(key)
            self._keys.append(key)
        self.state.count = max(labels) - min(labels) + 1

    cpdef close(self):
        for key in self._keys:
            shown[key].pop(id(self), None)
            show(key)           # of the configuration that goes on, where this one was refused
        self._keys.clear()
        for label in self._servers:
            aging_forget(label, self)
        self._servers.clear()
