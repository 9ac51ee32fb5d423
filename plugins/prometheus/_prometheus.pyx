"""Counts each query after its reply is fitted: some additions to the worker's own cells, by numbers made at set-up."""
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free

from fastdns.api.query cimport Handler, NativeHandler, Query, handler_init, query_do, query_is_udp, query_length
from fastdns.api.records cimport Zone, ZoneSet, ZoneState, zone_match, zone_slots
from fastdns.api.metrics cimport Buckets, Metric, metric_row, metric_width, mux_count_dropped, row_observe
from fastdns.api.memory cimport atomic_bump64
from fastdns.api.network cimport socket_clock

from fastdns.protocol.parameters import TYPES, rcode_text

cdef enum:
    RCODES = 24                 # with a cell of their own; all others share one
    SERVERS = 4096              # numbers of servers whose dropped queries are counted
    ZONES_MAX = 1024            # zones that come and go, of one block: further ones are counted in the block's own zone

cdef struct Cells:              # of one (server, zone, view); 0: not counted
    uint32_t requests           # [proto][family][type]
    uint32_t sizes[2]           # by proto
    uint32_t reply_sizes[2]
    uint32_t do_requests
    uint32_t durations
    uint32_t responses          # [rcode][writer]
    uint32_t writers

cdef struct State:
    uint32_t first              # zone label of cells[0]
    uint32_t count
    Cells *cells                # owned
    void **zones                # of a ZoneSet whose zones are counted apart; NULL: none are
    uint32_t first_server       # server label of later[0]
    uint32_t servers
    Cells *later                # [zone's label - 1][server]; owned, of ZONES_MAX

NAMES = ("A", "AAAA", "CNAME", "DNSKEY", "DS", "MX", "NS", "NSEC", "NSEC3", "PTR", "RRSIG", "SOA", "SRV", "TXT", "HTTPS", "SVCB",
         "AXFR", "IXFR", "ANY", "other")
PROTO = ("udp", "tcp")
FAMILY = ("1", "2")
RCODE = (*map(rcode_text, range(RCODES)), "other")
ZONE = ("server", "zone", "view")
SECONDS = tuple(0.00025 * 2**i for i in range(16))
OCTETS = (0, 100, 200, 300, 400, 511, 1023, 2047, 4095, 8291, 16000, 32000, 48000, 64000)

cdef uint8_t type_index[256]
cdef uint32_t type_count = <uint32_t>len(NAMES)
for number in range(256):
    type_index[number] = NAMES.index(TYPES[number]) if TYPES.get(number) in NAMES else type_count - 1

cdef Metric requests = Metric("coredns_dns_requests_total", "Counter of DNS requests made per zone, protocol and family.", "counter",
                              (*ZONE, "proto", "family", "type"))
cdef Metric durations = Metric("coredns_dns_request_duration_seconds", "Histogram of the time (in seconds) each request took per zone.",
                               "histogram", ZONE, SECONDS, 1e9)
cdef Metric sizes = Metric("coredns_dns_request_size_bytes", "Size of the EDNS0 UDP buffer in bytes (64K for TCP) per zone and protocol.",
                           "histogram", (*ZONE, "proto"), OCTETS)
cdef Metric do_requests = Metric("coredns_dns_do_requests_total", "Counter of DNS requests with DO bit set per zone.", "counter", ZONE)
cdef Metric reply_sizes = Metric("coredns_dns_response_size_bytes", "Size of the returned response in bytes.", "histogram",
                                 (*ZONE, "proto"), OCTETS)
cdef Metric responses = Metric("coredns_dns_responses_total", "Counter of response status codes.", "counter", (*ZONE, "rcode", "plugin"))
cdef Metric enabled = Metric("coredns_plugin_enabled", "A metric that indicates whether a plugin is enabled on per server and zone basis.",
                             "gauge", (*ZONE, "name"))

cdef const Buckets *duration_buckets = &durations.buckets      # the objects stay as long as the module
cdef const Buckets *size_buckets = &sizes.buckets              # reply_sizes has the same
cdef Cells *dropped_cells = <Cells *>calloc(SERVERS, sizeof(Cells))     # by server label; kept for good
if dropped_cells == NULL:
    raise MemoryError
cdef dict enabled_by = {}       # labels of `enabled` -> the handlers that have them: of the configuration that serves, and of one that may yet be refused


# ---- after each query ----

cdef void count_done(Handler *self, Query *q) noexcept nogil:
    cdef const State *state = <const State *>self.state
    cdef uint32_t at = q.zone.label - state.first
    cdef uint32_t writer = 0
    if at >= state.count:
        return
    # Documented, unlike what CoreDNS 1.14.7 shows: the plugin that wrote the reply.
    if q.reply.written and q.writer < state.cells[at].writers - 1:
        writer = q.writer + 1
    count_query(&state.cells[at], q, writer)


cdef void count_apart(Handler *self, Query *q) noexcept nogil:
    """As count_done, in the loaded zone that the client's name is in, if any."""
    cdef const State *state = <const State *>self.state
    cdef const ZoneState *zone = zone_match(zone_slots(state.zones), &q.first_name)
    cdef uint32_t server = q.server.label - state.first_server
    cdef const Cells *cells
    if zone == NULL or not zone.label or server >= state.servers:
        count_done(self, q)
        return
    cells = &state.later[<uint64_t>(zone.label - 1) * state.servers + server]
    count_query(cells, q, q.writer + 1 if q.reply.written and q.writer < cells.writers - 1 else 0)


cdef void count_dropped(Query *q) noexcept nogil:
    if q.server != NULL and q.server.label < SERVERS:
        count_query(&dropped_cells[q.server.label], q, 0)


cdef void count_query(const Cells *cells, Query *q, uint32_t writer) noexcept nogil:
    cdef uint64_t *row = metric_row(q.worker.id)
    cdef uint32_t proto = 0 if query_is_udp(q) else 1
    cdef uint32_t family = 0 if q.client.family == 4 else 1
    cdef uint32_t type = type_index[q.qtype] if q.qtype < 256 else type_count - 1
    cdef uint32_t rcode = q.reply.rcode if q.reply.rcode < RCODES else RCODES
    cdef int64_t took
    if not cells.requests:
        return
    took = socket_clock() - q.received
    atomic_bump64(&row[cells.requests + (proto * 2 + family) * type_count + type], 1)
    if query_do(q):
        atomic_bump64(&row[cells.do_requests], 1)
    row_observe(duration_buckets, row + cells.durations, <uint64_t>took if took > 0 else 0)
    row_observe(size_buckets, row + cells.sizes[proto], query_length(q))
    row_observe(size_buckets, row + cells.reply_sizes[proto], q.reply.size)
    atomic_bump64(&row[cells.responses + rcode * cells.writers + writer], 1)


# ---- set-up ----

cdef int make_cells(Cells *cells, str server, str zone, str view, tuple writers) except -1:
    cells.do_requests = do_requests.cell((server, zone, view))
    cells.durations = durations.cell((server, zone, view))
    cells.sizes[0] = sizes.table((server, zone, view, PROTO))
    cells.sizes[1] = cells.sizes[0] + metric_width(size_buckets)
    cells.reply_sizes[0] = reply_sizes.table((server, zone, view, PROTO))
    cells.reply_sizes[1] = cells.reply_sizes[0] + metric_width(size_buckets)
    cells.responses = responses.table((server, zone, view, RCODE, writers))
    cells.writers = <uint32_t>len(writers)
    cells.requests = requests.table((server, zone, view, PROTO, FAMILY, NAMES))     # last: who reads it sees the others
    return 0


cdef class Recorder(NativeHandler):
    """The chain's place of `prometheus`: no query or reply hook, only the count at the end."""
    cdef State state
    cdef list _enabled
    cdef object _first          # zone, transport and port that `enabled` is for; None: all
    cdef tuple _others
    cdef ZoneSet _zones
    cdef dict _labels           # origin -> label
    cdef list _servers          # label, address
    cdef str _view
    cdef tuple _writers

    def __cinit__(self, *args, **kwargs):
        handler_init(self)
        self.state.cells = NULL
        self.state.count = 0
        self._enabled = []
        self._others = ()
        self._labels = {}
        self._servers = []
        self.handler.done = count_done
        self.handler.state = &self.state

    def __dealloc__(self):
        free(self.state.cells)
        free(self.state.later)

    def show(self, str zone not None, str transport not None, str port not None, tuple others not None) -> None:
        self._first = (zone, transport + "://", ":" + port)
        self._others = others

    cdef bint _shows(self, str address, str zone):
        return self._first is None or zone == self._first[0] and address.startswith(self._first[1]) and address.endswith(self._first[2])

    def follow(self, ZoneSet zones not None) -> None:
        self._zones = zones
        self.state.zones = &zones.slots
        self.handler.done = count_apart

    def add_zone(self, Zone zone not None) -> None:
        label = self._labels.get(zone.origin)
        if label is None and len(self._labels) < ZONES_MAX:
            label = self._labels[zone.origin] = len(self._labels) + 1
            self._make_later(label, zone.origin)
        zone.state.label = label or 0

    cdef int _make_later(self, uint32_t label, str zone) except -1:
        """Cells of a zone in all servers; there are none before `attach_zones`."""
        if self.state.later == NULL:
            return 0
        for number, address in self._servers:
            make_cells(&self.state.later[(label - 1) * self.state.servers + <uint32_t>number - self.state.first_server], address, zone, self._view,
                       self._writers)
        return 0

    cpdef attach(self, list servers, str view):
        self._servers = servers
        self._view = view
        for label, address in servers:
            if label < SERVERS:
                make_cells(&dropped_cells[<uint32_t>label], address, "dropped", "", ("",))
        mux_count_dropped(count_dropped)

    cpdef attach_zones(self, list zones):
        cdef uint32_t i
        names = [self.handler.chain.handlers[i].name.decode() for i in range(self.handler.chain.count)]
        labels = [label for label, _, _, _ in zones]
        self.state.first = min(labels)
        self.state.cells = <Cells *>calloc(max(labels) - min(labels) + 1, sizeof(Cells))
        if self.state.cells == NULL:
            raise MemoryError
        for label, address, zone, view in zones:
            make_cells(&self.state.cells[<uint32_t>label - self.state.first], address, zone, view, ("", *names))
            for name in (*names, *self._others) if self._shows(address, zone) else ():
                key = (address, zone, view, name)
                enabled.set(key, 1)
                enabled_by.setdefault(key, set()).add(id(self))
                self._enabled.append(key)
        self.state.count = max(labels) - min(labels) + 1
        if self._zones is not None:
            self._attach_later(("", *names))

    cdef int _attach_later(self, tuple writers) except -1:
        labels = [label for label, _ in self._servers]
        self._writers = writers
        self.state.first_server = min(labels)
        self.state.servers = max(labels) - min(labels) + 1
        self.state.later = <Cells *>calloc(<uint64_t>ZONES_MAX * self.state.servers, sizeof(Cells))
        if self.state.later == NULL:
            raise MemoryError
        for zone, label in self._labels.items():
            self._make_later(label, zone)
        return 0

    cpdef close(self):
        for key in self._enabled:
            standing = enabled_by.get(key, set())
            standing.discard(id(self))
            if not standing and enabled_by.pop(key, None) is not None:
                enabled.forget(key)
        self._enabled.clear()
