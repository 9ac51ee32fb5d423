"""The handler: which queries it takes, and the instance behind it. The life of a call is in _exchange."""
from libc.stdint cimport uint8_t, uint32_t, int64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy
from fastdns.api.metrics cimport Metric
from fastdns.api.names cimport zones_hold
from fastdns.api.query cimport NEXT, Handler, NativeHandler, Query, Verdict, handler_init, query_fail, query_scratch
from fastdns.api.tls cimport ClientContext
from fastdns.api.wire cimport RCODE_SERVFAIL
from fastdns.api.worker cimport Worker
from fastdns.plugins.forward.transport.excess cimport excess_metric, excess_set_cells
from fastdns.plugins.forward.transport.tcp cimport TCP_TRANSPORT
from fastdns.plugins.forward._upstream cimport PROTOCOL_GRPC, Settings, Upstream
from fastdns.plugins.grpc._call cimport GRPC_SERVICE
from fastdns.plugins.grpc._exchange cimport (POLICY_RANDOM, POLICY_ROUND_ROBIN, POLICY_SEQUENTIAL, Waiting, exchange_abandon, exchange_ask,
                                             exchange_close, grpc_has_next)
from fastdns.protocol.parameters import rcode_text
from fastdns.tls.client import client_context

cdef enum:
    MILLISECOND = 1000000
    IDLE = 1800000                  # ms until a connection without calls ends, as in Go's library
    RCODES = 16

POLICIES = {"random": POLICY_RANDOM, "round_robin": POLICY_ROUND_ROBIN, "sequential": POLICY_SEQUENTIAL}
#: Seconds: 0.25 ms, each bucket twice the one before.
BUCKETS = tuple(0.00025 * 2**k for k in range(16))


# ---- hooks ----

cdef Verdict grpc_query(Handler *self, Query *q) noexcept nogil:
    cdef Grpc *grpc = <Grpc *>self.state
    if not zones_hold(grpc.zone, q.name):
        return NEXT
    if q.name.length != grpc.zone.names[0].length and zones_hold(grpc.excepted, q.name):
        return NEXT if grpc_has_next(grpc) else query_fail(q, RCODE_SERVFAIL, NULL)
    return exchange_ask(grpc, q)


cdef Verdict grpc_resume(Handler *self, Query *q) noexcept nogil:
    return <Verdict>(<Waiting *>query_scratch(self, q)).verdict


cdef void grpc_abandon(Handler *self, Query *q) noexcept nogil:
    exchange_abandon(<Grpc *>self.state, q)


cdef bint grpc_detach(Handler *self, Worker *worker) noexcept nogil:
    return exchange_close(<Grpc *>self.state, worker)


# ---- the instance ----

cdef class GrpcHandler(NativeHandler):

    def __cinit__(self, *args):
        handler_init(self)
        self.grpc = <Grpc *>calloc(1, sizeof(Grpc))
        if self.grpc == NULL:
            raise MemoryError
        self.handler.query = grpc_query
        self.handler.resume = grpc_resume
        self.handler.abandon = grpc_abandon
        self.handler.detach = grpc_detach
        self.handler.scratch_size = sizeof(Waiting)
        self.handler.state = self.grpc
        self.grpc.handler = &self.handler
        self.texts = []

    def __dealloc__(self):
        if self.grpc != NULL:
            free(self.grpc.settings.upstreams)
            free(self.grpc)
            self.grpc = NULL

    def __init__(self, options):
        NativeHandler.__init__(self, "grpc")
        self.options = options
        self.zone, self.excepted, self.fall = ZoneList([options.zone]), ZoneList(options.excepted), ZoneList(options.fall)
        self.grpc.zone = &self.zone.zones
        self.grpc.excepted = &self.excepted.zones
        self.grpc.fall = &self.fall.zones
        self.grpc.policy = POLICIES[options.policy]
        self.grpc.settings.plugin = b"grpc"
        self.grpc.settings.expire = IDLE * <int64_t>MILLISECOND
        if options.tls is not None or options.servername:
            self.context = client_context(options.tls or (), ("h2",))
        self._set_upstreams()
        self._make_metrics()

    cdef const char *_keep(self, str text) except NULL:
        """Octets that live as long as the handler."""
        cdef bytes octets = text.encode()
        self.texts.append(octets)
        return <const char *>octets

    cdef int _set_upstreams(self) except -1:
        cdef Settings *settings = &self.grpc.settings
        cdef Upstream *upstream
        cdef bytes address
        cdef bytes text
        targets = self.options.targets
        settings.upstreams = <Upstream *>calloc(len(targets), sizeof(Upstream))
        if settings.upstreams == NULL:
            raise MemoryError
        for i, target in enumerate(targets):
            upstream = &settings.upstreams[i]
            address = target.sockaddr()
            memcpy(upstream.address, <const uint8_t *>address, len(address))
            upstream.address_length = <uint32_t>len(address)
            upstream.protocol = PROTOCOL_GRPC
            upstream.service = GRPC_SERVICE
            upstream.transport = TCP_TRANSPORT
            text = (target.path or target.text).encode()[:63]
            memcpy(upstream.text, <const char *>text, len(text))
            upstream.authority = self._keep((self.options.servername if target.path else target.text) or "localhost")
            if self.context is not None:
                upstream.tls = (<ClientContext>self.context).native
                upstream.server_name = self._keep(self.options.servername or target.host)
            upstream.dial = 15 * <int64_t>1000000000
        settings.count = <uint32_t>len(targets)
        return 0

    cdef int _make_metrics(self) except -1:
        cdef Metric requests = Metric("coredns_grpc_requests_total", "Counter of requests made per upstream.", "counter", ("to",))
        cdef Metric responses = Metric("coredns_grpc_responses_total", "Counter of requests made per upstream.", "counter", ("rcode", "to"))
        cdef Metric durations = Metric("coredns_grpc_request_duration_seconds", "Histogram of the time each request took.", "histogram", ("to",),
                                       BUCKETS, 1e9)
        cdef Metric evicted = Metric("fastdns_proxy_evicted_total", "Queries that got SERVFAIL while they waited for an upstream: all slots were taken.",
                                     "counter", ("proxy_name", "to"))
        cdef Metric exceeded = excess_metric()
        self.metrics = (requests, responses, durations, evicted, exceeded)
        self.grpc.buckets = &durations.buckets
        for i, target in enumerate(self.options.targets):
            self.grpc.settings.upstreams[i].evicted = evicted.cell(("grpc", target.text))
            excess_set_cells(exceeded, &self.grpc.settings.upstreams[i], "grpc", target.text)
            self.grpc.requests[i] = requests.cell((target.text,))
            self.grpc.responses[i] = responses.table((tuple(map(rcode_text, range(RCODES))), target.text))
            self.grpc.durations[i] = durations.cell((target.text,))
        return 0
