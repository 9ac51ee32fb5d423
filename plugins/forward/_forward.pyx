"""The handler: which queries it takes, and the instance behind it. The life of a question is in _exchange."""
import resource

from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t, int64_t, uintptr_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy
from fastdns.api.query cimport NEXT, Explanation, Handler, NativeHandler, Query, Verdict, handler_init, query_scratch
from fastdns.api.worker cimport Worker
from fastdns.api.names cimport Name, name_is_below
from fastdns.api.memory cimport atomic_peek32
from fastdns.api.metrics cimport Metric
from fastdns.api.metadata cimport Label, LabelHandle
from fastdns.api.quic cimport QuicContext
from fastdns.api.text cimport Text, text_string
from fastdns.api.tls cimport ClientContext
from fastdns.plugins.dnstap._tap cimport Tap
from fastdns.plugins.forward.transport.doh cimport DOH_SERVICE
from fastdns.plugins.forward.transport.doq cimport DOQ_TRANSPORT
from fastdns.plugins.forward.transport.excess cimport excess_metric, excess_set_cells
from fastdns.plugins.forward._exchange cimport exchange_abandon, exchange_ask, exchange_close
from fastdns.plugins.forward._instance cimport POLICY_RANDOM, POLICY_ROUND_ROBIN, POLICY_SEQUENTIAL, Forward, Rcodes, Waiting
from fastdns.plugins.forward._pair cimport pair_explain
from fastdns.plugins.forward.transport.tcp cimport TCP_TRANSPORT
from fastdns.plugins.forward._upstream cimport PROTOCOL_DNS, PROTOCOL_HTTPS, PROTOCOL_QUIC, PROTOCOL_TLS, UPSTREAMS_MAX, Settings, Upstream
from fastdns.plugins.recorder._asked cimport AskedUpstream, asked_func
from fastdns._wire import name_wire
from fastdns.plugins.forward.ports import source_ports
from fastdns.tls.client import client_context, client_files

POLICIES = {"random": POLICY_RANDOM, "round_robin": POLICY_ROUND_ROBIN, "sequential": POLICY_SEQUENTIAL}
PROTOCOLS = {"dns": PROTOCOL_DNS, "tls": PROTOCOL_TLS, "https": PROTOCOL_HTTPS, "quic": PROTOCOL_QUIC}
#: By scheme; without it there is no TLS.
ALPN = {"tls": (), "https": ("h2", "http/1.1")}
#: Seconds that a QUIC connection lasts without packets: it is closed before that, when it has been idle for `expire`.
QUIC_IDLE = 5
#: Queries of a UDP socket, and its age in nanoseconds, after which another one is opened.
SOCKET_USES = 16
SOCKET_AGE = 100_000_000
#: Labels of metrics, by number.
PROTOS = ("udp", "tcp", "tcp-tls", "quic")
#: Names of the rcodes whose durations are kept apart.
RCODES = ("NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED", "YXDOMAIN", "YXRRSET", "NXRRSET", "NOTAUTH", "NOTZONE", "11", "12",
          "13", "14", "15", "BADSIG", "BADKEY", "BADTIME", "BADMODE", "BADNAME", "BADALG", "BADTRUNC", "BADCOOKIE")
#: Seconds: 0.25 ms, each bucket twice the one before.
BUCKETS = tuple(0.00025 * 2**k for k in range(16))


# ---- hooks ----

cdef bint takes(const Forward *forward, const Name *name) noexcept nogil:
    cdef uint32_t at = 0, length
    if forward.from_length > 1 and not name_is_below(name, forward.from_name, forward.from_length):
        return False
    if forward.excepted_size == 0 or name.length == forward.from_length:
        return True
    while at < forward.excepted_size:
        length = forward.excepted[at]
        if name_is_below(name, forward.excepted + at + 1, length):
            return False
        at += 1 + length
    return True


cdef Verdict forward_query(Handler *self, Query *q) noexcept nogil:
    cdef Forward *forward = <Forward *>self.state
    if not takes(forward, q.name):
        return NEXT
    return exchange_ask(forward, q)


cdef Verdict forward_resume(Handler *self, Query *q) noexcept nogil:
    return <Verdict>(<Waiting *>query_scratch(self, q)).verdict


cdef void forward_abandon(Handler *self, Query *q) noexcept nogil:
    exchange_abandon(<Forward *>self.state, q)


cdef bint forward_detach(Handler *self, Worker *worker) noexcept nogil:
    return exchange_close(<Forward *>self.state, worker)


cdef const char *forward_upstream(Handler *self, Query *q) noexcept nogil:
    cdef const Upstream *upstream = (<Waiting *>query_scratch(self, q)).upstream
    if upstream == NULL:
        return b""
    return upstream.text


cdef void forward_explain(Handler *self, Query *q, Explanation *out) noexcept nogil:
    cdef const Upstream *upstream = (<Waiting *>query_scratch(self, q)).upstream
    if upstream != NULL:
        memcpy(out.upstream, upstream.text, sizeof(out.upstream))


cdef bint publish_upstream(const Label *label, Query *q, Text *out) noexcept nogil:
    """Of the occurrence that was asked last: the lowest one that has an upstream."""
    cdef Handler *handler = label.handler
    cdef const char *text
    if q.chain != handler.chain:                # it is no query of this block yet
        return False
    while handler != NULL:
        text = forward_upstream(handler, q)
        if text[0]:
            text_string(out, text)
            return True
        handler = (<Forward *>handler.state).above
    return False


# ---- the instance ----

cdef class ForwardHandler(NativeHandler):

    def __cinit__(self, *args):
        handler_init(self)
        self.forward = <Forward *>calloc(1, sizeof(Forward))
        if self.forward == NULL:
            raise MemoryError
        self.handler.query = forward_query
        self.handler.resume = forward_resume
        self.handler.abandon = forward_abandon
        self.handler.detach = forward_detach
        self.handler.explain = forward_explain
        self.handler.scratch_size = sizeof(Waiting)
        self.handler.state = self.forward
        self.forward.handler = &self.handler

    def __dealloc__(self):
        if self.forward != NULL:
            free(self.forward.settings.upstreams)
            free(self.forward.settings.ports)
            free(self.forward.excepted)
            free(self.forward.taps)
            free(self.forward)
            self.forward = NULL

    def follow(self, ForwardHandler above not None):
        """Comes after another one in the same server block."""
        self.forward.above = &above.handler

    def label(self, str name):
        """Publishes ``forward/upstream``."""
        cdef LabelHandle handle
        if name != "upstream":
            return None
        handle = LabelHandle()
        handle.anywhere = True
        handle.label.value = publish_upstream
        handle.label.handler = &self.handler
        return handle

    def __init__(self, options, list upstreams):
        NativeHandler.__init__(self, "forward")
        if not 0 < len(upstreams) <= UPSTREAMS_MAX:
            raise ValueError("more than %d upstream addresses: %d" % (UPSTREAMS_MAX, len(upstreams)))
        self.options = options
        self.upstreams = upstreams
        self._set_upstreams(upstreams)
        self._set_tls(options, upstreams)
        self._set_options(options)
        self._set_ports(options)
        self._make_metrics()

    cdef int _set_upstreams(self, list upstreams) except -1:
        cdef Settings *settings = &self.forward.settings
        cdef Upstream *upstream
        cdef bytes address
        cdef bytes text
        settings.upstreams = <Upstream *>calloc(len(upstreams), sizeof(Upstream))
        if settings.upstreams == NULL:
            raise MemoryError
        for i, given in enumerate(upstreams):
            upstream = &settings.upstreams[i]
            address = given.sockaddr()
            memcpy(upstream.address, <const uint8_t *>address, len(address))
            upstream.address_length = <uint32_t>len(address)
            upstream.protocol = PROTOCOLS[given.scheme]
            upstream.transport = DOQ_TRANSPORT if given.scheme == "quic" else TCP_TRANSPORT
            text = given.text.encode()[:63]
            memcpy(upstream.text, <const char *>text, len(text))
            upstream.dial = 15 * <int64_t>1000000000
        settings.count = <uint32_t>len(upstreams)
        return 0

    cdef int _set_tls(self, options, list upstreams) except -1:
        cdef Upstream *upstream
        schemes = dict.fromkeys(given.scheme for given in upstreams)
        self.contexts = {scheme: client_context(options.tls, ALPN[scheme]) for scheme in schemes if scheme in ALPN}
        if "quic" in schemes:
            self.contexts["quic"] = QuicContext(*client_files(options.tls), "doq", options.expire / 1e9 + QUIC_IDLE)
            self.forward.has_quic = 1
        self.names = [(options.tls_servername or given.servername or given.host.partition("%")[0]).encode() for given in upstreams]
        self.authorities = [given.text.removesuffix(":443").encode() for given in upstreams]
        for i, given in enumerate(upstreams):
            upstream = &self.forward.settings.upstreams[i]
            if given.scheme in ALPN:
                upstream.tls = (<ClientContext>self.contexts[given.scheme]).native
            elif given.scheme == "quic":
                upstream.quic = (<QuicContext>self.contexts["quic"]).quic
            upstream.server_name = <const char *><bytes>self.names[i]
            if given.scheme == "https":
                upstream.service = DOH_SERVICE
                upstream.authority = <const char *><bytes>self.authorities[i]
        return 0

    cdef int _set_options(self, options) except -1:
        cdef Forward *forward = self.forward
        cdef Settings *settings = &forward.settings
        cdef bytes wire
        wire = name_wire(options.zone.lower())
        memcpy(forward.from_name, <const uint8_t *>wire, len(wire))
        forward.from_length = <uint32_t>len(wire)
        packed = b"".join(bytes([len(name)]) + name for name in (name_wire(name.lower()) for name in options.excepted))
        wire = packed
        forward.excepted = <uint8_t *>calloc(1, len(wire) + 1)
        if forward.excepted == NULL:
            raise MemoryError
        memcpy(forward.excepted, <const uint8_t *>wire, len(wire))
        forward.excepted_size = <uint32_t>len(wire)
        forward.policy = POLICIES[options.policy]
        forward.prefer_udp = options.prefer_udp
        forward.failfast = options.failfast
        forward.next_on_nodata = options.next_on_nodata
        forward.max_attempts = 2 * settings.count if options.max_attempts is None else min(options.max_attempts, 0xFFFFFFFF)
        forward.max_concurrent = min(options.max_concurrent, 0x7FFFFFFF)
        self._set_rcodes(&forward.failover, options.failover)
        self._set_rcodes(&forward.next, options.next)
        settings.force_tcp = options.force_tcp
        settings.cookies = options.cookies
        settings.mixed_case = options.mixed_case
        if settings.count > 1 and (options.hedge_delay or options.hedge_quantile):
            settings.hedge_percent = options.hedge_percent
            settings.hedge_quantile = options.hedge_quantile
            settings.hedge_delay = options.hedge_delay
            self.handler.scratch_size = sizeof(Waiting) + 2 * sizeof(AskedUpstream)
            self.handler.explain = pair_explain
            settings.hedge_labels = max(2, len([label for label in options.zone.split(".") if label]) + 1)
        settings.get = options.doh_method == "GET"
        settings.plugin = b"forward"
        settings.expire = options.expire
        settings.max_age = options.max_age
        settings.max_idle = min(options.max_idle, 0xFFFFFFFF)
        settings.read_timeout = options.read_timeout
        settings.max_fails = min(options.max_fails, 0xFFFFFFFF)
        settings.interval = options.interval
        settings.probe_flags = 1 if options.probe_recursion else 0
        wire = name_wire(options.probe_name)
        memcpy(settings.probe_name, <const uint8_t *>wire, len(wire))
        settings.probe_name_length = <uint32_t>len(wire)
        if options.source:
            wire = options.source
            memcpy(settings.source, <const uint8_t *>wire, len(wire))
            settings.source_length = <uint32_t>len(wire)
        return 0

    cdef int _set_ports(self, options) except -1:
        cdef Settings *settings = &self.forward.settings
        ports = source_ports(options.port_per_query)
        settings.ports = <uint16_t *>calloc(len(ports), sizeof(uint16_t))
        if settings.ports == NULL:
            raise MemoryError
        for i, port in enumerate(ports):
            settings.ports[i] = port
        settings.port_count = <uint32_t>len(ports)
        settings.socket_uses = 1 if options.port_per_query else SOCKET_USES
        settings.socket_age = min(SOCKET_AGE, options.expire, options.max_age or SOCKET_AGE)
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        settings.sockets = 0xFFFF if limit == resource.RLIM_INFINITY else limit // 4 // settings.count
        return 0

    cdef void _set_rcodes(self, Rcodes *rcodes, given):
        for rcode in given:
            rcodes.words[<uint32_t>rcode >> 6] |= <uint64_t>1 << (<uint32_t>rcode & 63)
            rcodes.any = 1

    cdef int _make_metrics(self) except -1:
        cdef Settings *settings = &self.forward.settings
        cdef Upstream *upstream
        cdef Metric duration = Metric("coredns_proxy_request_duration_seconds", "Histogram of the time each request took.", "histogram",
                                      ("proxy_name", "to", "rcode"), BUCKETS, 1e9)
        cdef Metric failures = Metric("coredns_proxy_healthcheck_failures_total", "Counter of the number of failed healthchecks.", "counter",
                                      ("proxy_name", "to"))
        cdef Metric hits = Metric("coredns_proxy_conn_cache_hits_total", "Counter of connection cache hits per upstream and protocol.", "counter",
                                  ("proxy_name", "to", "proto"))
        cdef Metric misses = Metric("coredns_proxy_conn_cache_misses_total", "Counter of connection cache misses per upstream and protocol.", "counter",
                                    ("proxy_name", "to", "proto"))
        cdef Metric evicted = Metric("fastdns_proxy_evicted_total", "Queries that got SERVFAIL while they waited for an upstream: all slots were taken.",
                                     "counter", ("proxy_name", "to"))
        cdef Metric broken = Metric("coredns_forward_healthcheck_broken_total", "Counter of the number of complete failures of the healthchecks.",
                                    "counter")
        cdef Metric rejects = Metric("coredns_forward_max_concurrent_rejects_total",
                                     "Counter of the number of queries rejected because the concurrent queries were at maximum.", "counter")
        cdef Metric exceeded = excess_metric()
        self.metrics = (duration, failures, hits, misses, evicted, exceeded)
        self.forward.broken_cell = broken.cell(())
        self.forward.rejects_cell = rejects.cell(())
        settings.buckets = &duration.buckets
        settings.stride = duration.buckets.count + 2
        for i in range(settings.count):
            upstream = &settings.upstreams[i]
            to = self.upstreams[i].text
            upstream.duration = duration.table(("forward", to, RCODES))
            upstream.failures = failures.cell(("forward", to))
            upstream.evicted = evicted.cell(("forward", to))
            excess_set_cells(exceeded, upstream, "forward", to)
            for k, proto in enumerate(PROTOS):
                upstream.hits[k] = hits.cell(("forward", to, proto))
                upstream.misses[k] = misses.cell(("forward", to, proto))
        if settings.hedge_percent:
            self._make_hedge_metrics()
        return 0

    cdef int _make_hedge_metrics(self) except -1:
        cdef Settings *settings = &self.forward.settings
        cdef Upstream *upstream
        cdef Metric hedged = Metric("fastdns_forward_hedged_total", "Second questions, sent because another upstream had not answered yet.", "counter", ("to",))
        cdef Metric wins = Metric("fastdns_forward_hedge_wins_total", "Second questions that were answered before the first ones.", "counter", ("to",))
        cdef Metric withheld = Metric("fastdns_forward_hedges_withheld_total", "Second questions that the budget did not allow.", "counter")
        for i in range(settings.count):
            upstream = &settings.upstreams[i]
            upstream.hedged = hedged.cell((self.upstreams[i].text,))
            upstream.hedge_wins = wins.cell((self.upstreams[i].text,))
        settings.withheld = withheld.cell(())
        return 0

    def down(self) -> list:
        cdef Settings *settings = &self.forward.settings
        return [self.upstreams[i].text for i in range(settings.count)
                if settings.max_fails and atomic_peek32(&settings.upstreams[i].fails) > settings.max_fails]

    @property
    def hedges(self):
        return self.forward.settings.hedge_percent != 0

    def set_recorder(self, uintptr_t address):
        self.forward.asked = <asked_func>address

    def set_taps(self, list senders not None):
        self.senders = senders
        self.forward.taps = <Tap **>calloc(len(senders) + 1, sizeof(Tap *))
        if self.forward.taps == NULL:
            raise MemoryError
        for sender in senders:
            self.forward.taps[self.forward.tap_count] = <Tap *><uintptr_t>sender.address
            self.forward.tap_count += 1
