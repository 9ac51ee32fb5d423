"""The native handler of shed. Replies wait in engine/io/backlog, and queries that are too old are dropped in engine/io/aging, before they are parsed; here
queries are dropped as long as the queue of replies is full."""
from libc.stdint cimport int64_t, uint32_t
from libc.stdlib cimport calloc, free
from fastdns.api.query cimport DROPPED, NEXT, TRANSPORT_UDP, Handler, NativeHandler, Query, Verdict, handler_init
from fastdns.api.worker cimport BACKLOG_MAX, UdpSocket, aging_forget, aging_want, udp_hold
from fastdns.api.metrics cimport Metric, label_count, metric_add

cdef struct Cells:              # of metrics, for one server
    uint32_t queries
    uint32_t replies


cdef Verdict shed_query(Handler *self, Query *q) noexcept nogil:
    cdef const Cells *cells
    cdef UdpSocket *sock = <UdpSocket *>q.connection
    if q.transport != TRANSPORT_UDP or sock == NULL:
        return NEXT
    cells = &(<const Cells *>self.state)[q.server.label]
    if sock.backlog == NULL or sock.backlog.cell != cells.replies:
        udp_hold(sock, q.worker, cells.replies)
        return NEXT
    if sock.backlog.count < BACKLOG_MAX:
        return NEXT
    metric_add(cells.queries, q.worker.id, 1)
    return DROPPED


cdef Metric DROPS = Metric("coredns_shed_dropped_total", "Counter of queries and responses dropped, per server, by reason.", "counter", ("server", "reason"))


cdef class ShedHandler(NativeHandler):
    cdef Cells *cells           # by server label
    cdef int64_t _age           # ns; 0: no limit
    cdef list _labels           # of servers

    def __init__(self, str name, int64_t age):
        handler_init(self)
        NativeHandler.__init__(self, name)
        self._age = age
        self._labels = []
        self.handler.query = shed_query

    def __dealloc__(self):
        free(self.cells)

    cpdef attach(self, list servers, str view):
        cdef uint32_t count = label_count(servers)
        free(self.cells)
        self.cells = <Cells *>calloc(count, sizeof(Cells))
        if self.cells == NULL:
            raise MemoryError
        for label, server in servers:
            self.cells[<uint32_t>label].queries = DROPS.cell((server, "query"), True)
            self.cells[<uint32_t>label].replies = DROPS.cell((server, "response"), True)
            if self._age:
                aging_want(label, self, self._age, DROPS.cell((server, "age"), True))
                self._labels.append(label)
        self.handler.state = self.cells

    cpdef close(self):
        for label in self._labels:
            aging_forget(label, self)
        self._labels.clear()
