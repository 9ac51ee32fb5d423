"""Zone tables and chains from what a Corefile says; see engine/chains.pyi."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memcpy
from fastdns.system.atomic cimport atomic_bump32, atomic_peek64, atomic_store_pointer
from fastdns.system.blocks cimport blocks_free, blocks_take
from fastdns.walk.query cimport (CHAIN_MAX, SCRATCH_MAX, TALLY_DROPPED, TALLY_OTHERS, TALLY_PLACES, Chain, ChainSet, Handler, ServerTable,
                                 Tally, Worker, Zone, filter_func)
from fastdns.walk.tally cimport tally_clients, tally_rows, tally_size
from fastdns.proxy.policy cimport ProxyProtocol
from fastdns._mux cimport NativeHandler
from fastdns._wire cimport Name, wire_name_copy
from fastdns._wire import name_wire

cdef dict _server_labels = {}
cdef dict _zone_labels = {}

cdef uint32_t label_of(dict labels, object key):
    """Process-wide number of a key, from 1 on; kept for good, so that metric cells survive a reload."""
    number = labels.get(key)
    if number is None:
        number = len(labels) + 1
        labels[key] = number
    return number


class ZoneSpec:
    """A zone of a listening address and the block that answers for it."""

    def __init__(self, zone, handlers, filters=(), view=""):
        self.zone = zone
        self.handlers = handlers
        self.filters = filters
        self.view = view


class ServerSpec:
    """A listening address, its sockets and its zones in Corefile order; times in seconds, max_tcp_queries 0 for no limit; latency in nanoseconds."""

    def __init__(self, address, listeners, zones, debug=False, stacktrace=False, read_timeout=3.0, write_timeout=5.0, idle_timeout=10.0, max_tcp_queries=0,
                 latency=0, proxy=None):
        self.address = address
        self.listeners = listeners
        self.zones = zones
        self.debug = debug
        self.stacktrace = stacktrace
        self.read_timeout = read_timeout
        self.write_timeout = write_timeout
        self.idle_timeout = idle_timeout
        self.max_tcp_queries = max_tcp_queries
        self.latency = latency
        self.proxy = proxy


cdef void note_hooks(Chain *chain) noexcept nogil:
    """So that the walk of a query need not look at handlers without the hook that it wants."""
    cdef uint32_t i
    for i in range(chain.count):
        if chain.handlers[i].prefetch != NULL:
            chain.prefetch[chain.prefetch_count] = chain.handlers[i]
            chain.prefetch_count += 1
        chain.next_reply[i + 1] = <uint8_t>(i + 1) if chain.handlers[i].reply != NULL else chain.next_reply[i]
        chain.next_done[i + 1] = <uint8_t>(i + 1) if chain.handlers[i].done != NULL else chain.next_done[i]
    i = chain.count
    chain.next_query[i] = <uint8_t>i
    while i > 0:
        i -= 1
        chain.next_query[i] = <uint8_t>i if chain.handlers[i].query != NULL else chain.next_query[i + 1]


cdef void run_detach(WorkerCall *call, Worker *worker) noexcept nogil:
    cdef Detach *detach = <Detach *>call
    cdef uint32_t i, kept = 0
    for i in range(detach.count):
        if not detach.handlers[i].detach(detach.handlers[i], worker):
            detach.handlers[kept] = detach.handlers[i]
            kept += 1
    detach.count = kept


cdef Detach *chains_detach(Chains chains) noexcept:
    cdef Detach *detach = chains.detach
    cdef NativeHandler native
    detach.count = 0
    for native in chains.handlers:
        if native.handler.detach != NULL:
            detach.handlers[detach.count] = &native.handler
            detach.count += 1
    return detach


cdef int must_be_accepted(native) except -1:
    """Hooks of a module that never compared its headers with ours may read anything."""
    cdef NativeHandler owner = <NativeHandler?>native
    cdef Handler *handler = &owner.handler
    cdef bint hooks = handler.query != NULL or handler.reply != NULL or handler.resume != NULL or handler.done != NULL or handler.stream != NULL
    if not handler.accepted and (hooks or handler.prefetch != NULL or owner.filter != NULL):
        raise ValueError("plugin/%s: %s sets hooks and does not call handler_init" % (native.name, type(native).__module__))
    return 0


cdef class Chains:
    """One configuration in native form: the zone tables of its servers and the chains of its blocks."""

    def __cinit__(self, servers):
        self.handlers = []
        self._chains = {}
        self.proxies = {}
        self.set = <ChainSet *>calloc(1, sizeof(ChainSet))
        if self.set == NULL:
            raise MemoryError

    def __init__(self, servers):
        served = {}
        self.listeners = [listener for server in servers for listener in server.listeners]
        for server in servers:
            table = self._add_server(server, served)
            for listener in server.listeners:
                self.set.servers[<uint32_t>listener.index] = <ServerTable *><size_t>table
                self.set.listeners[<uint32_t>listener.index] = listener.generation
        for handler, places, zones, view in served.values():
            (<NativeHandler>handler).attach(list(places.items()), view)
            (<NativeHandler>handler).attach_zones(zones)
        for chain in self._chains.values():
            note_hooks(<Chain *><size_t>chain)
        self.detach = <Detach *>calloc(1, sizeof(Detach) + len(self.handlers) * sizeof(Handler *))
        if self.detach == NULL:
            raise MemoryError
        self.detach.call.run = run_detach

    def __dealloc__(self):
        blocks_free(&self.memory)
        free(self.detach)
        free(self.tallies)
        free(self.set)

    cdef void *_new(self, size_t size) except NULL:
        cdef void *block = blocks_take(&self.memory, size)
        if block == NULL:
            raise MemoryError
        return block

    cdef object _add_server(self, server, dict served):
        cdef ServerTable *table = <ServerTable *>self._new(sizeof(ServerTable))
        cdef Zone *zone
        cdef Zone *last
        cdef uint32_t size = 4, slot
        cdef Name name
        while size < 2 * len(server.zones) + 2:
            size *= 2
        table.slots = <Zone **>self._new(size * sizeof(Zone *))
        table.mask = size - 1
        table.zones = <Zone **>self._new((len(server.zones) + 1) * sizeof(Zone *))
        table.debug = server.debug
        table.stacktrace = server.stacktrace
        table.label = label_of(_server_labels, server.address)
        table.max_tcp_queries = server.max_tcp_queries
        table.read_timeout = <uint32_t>(server.read_timeout * 1000)
        table.write_timeout = <uint32_t>(server.write_timeout * 1000)
        table.idle_timeout = <uint32_t>(server.idle_timeout * 1000)
        table.latency = server.latency
        if server.proxy is not None:
            self.proxies[server.address] = server.proxy
            table.proxy = &(<ProxyProtocol?>server.proxy).policy
        for spec in server.zones:
            wire = name_wire(spec.zone.lower())
            wire_name_copy(&name, wire, <int>len(wire))
            zone = <Zone *>self._new(sizeof(Zone))
            zone.hash = name.hash[0]
            zone.length = name.length
            memcpy(zone.wire, name.lower, name.length)
            zone.index = <uint16_t>table.zone_count
            zone.label = label_of(_zone_labels, (server.address, spec.zone, spec.view))
            self._add_filters(zone, spec.filters)
            if spec.handlers:
                zone.chain = self._chain(spec.handlers)
                for handler in spec.handlers:
                    table.any_class |= (<NativeHandler>handler).handler.any_class
                    table.takes_updates |= (<NativeHandler>handler).handler.takes_updates
                    table.trace_context |= (<NativeHandler>handler).handler.trace_context
                    entry = served.setdefault(id(handler), (handler, {}, [], spec.view))
                    entry[1][table.label] = server.address
                    entry[2].append((zone.label, server.address, spec.zone, spec.view))
            table.zones[table.zone_count] = zone
            table.zone_count += 1
            if name.labels == 0:
                self._append(&table.root, zone)
                continue
            if name.labels > table.longest:
                table.longest = name.labels
            slot = zone.hash & table.mask
            last = table.slots[slot]
            while last != NULL and not (last.hash == zone.hash and last.length == zone.length
                                        and memcmp(last.wire, zone.wire, zone.length) == 0):
                slot = (slot + 1) & table.mask
                last = table.slots[slot]
            self._append(&table.slots[slot], zone)
        return <size_t>table

    cdef void _append(self, Zone **first, Zone *zone):
        """Behind the blocks that have the same zone."""
        while first[0] != NULL:
            first = &first[0].same
        first[0] = zone

    cdef int _add_filters(self, Zone *zone, filters) except -1:
        if not filters:
            return 0
        zone.filters = <filter_func *>self._new(len(filters) * sizeof(filter_func))
        zone.filter_handlers = <Handler **>self._new(len(filters) * sizeof(Handler *))
        for handler in filters:
            must_be_accepted(handler)
            zone.filters[zone.filter_count] = (<NativeHandler?>handler).filter
            zone.filter_handlers[zone.filter_count] = &(<NativeHandler>handler).handler
            zone.filter_count += 1
        return 0

    cdef Chain *_chain(self, handlers) except NULL:
        cdef Chain *chain
        cdef Handler *handler
        key = tuple([id(native) for native in handlers])
        if key in self._chains:
            return <Chain *><size_t>self._chains[key]
        if len(handlers) > CHAIN_MAX:
            raise ValueError("a server block has more than %d plugins" % CHAIN_MAX)
        chain = <Chain *>self._new(sizeof(Chain))
        for native in handlers:
            handler = &(<NativeHandler?>native).handler
            must_be_accepted(native)
            if handler.chain != NULL:
                raise ValueError("plugin/%s: one handler in two chains" % native.name)
            handler.index = chain.count
            handler.chain = chain
            handler.scratch = chain.scratch
            chain.scratch += (handler.scratch_size + 7) & ~<uint32_t>7
            if chain.scratch > SCRATCH_MAX:
                raise ValueError("the plugins of a server block want more than %d octets for each query" % SCRATCH_MAX)
            chain.takes_updates |= handler.takes_updates
            chain.handlers[chain.count] = handler
            chain.count += 1
            self.handlers.append(native)
        self._chains[key] = <size_t>chain
        return chain

    # ---- while there are two configurations ----

    cdef int begin_tally(self, uint32_t workers) except -1:
        cdef uint32_t i
        if self.tallies == NULL:
            self.tallies = <Tally *>calloc(1, tally_size(workers))
            if self.tallies == NULL:
                raise MemoryError
            self.tallied = workers
        for i in range(self.tallied):
            atomic_bump32(&tally_clients(self.tallies, self.tallied, i).round, 1)
        atomic_store_pointer(<void **>&self.set.tallies, self.tallies)
        return 0

    cdef void end_tally(self) noexcept:
        atomic_store_pointer(<void **>&self.set.tallies, NULL)

    def replies(self) -> dict:
        """See engine/chains.pyi."""
        cdef uint32_t i, place
        cdef uint64_t count
        found = {}
        for place in range(TALLY_PLACES):
            count = 0
            for i in range(self.tallied):
                count += atomic_peek64(&self.tallies[i].replies[place])
            if count:
                found["dropped" if place == TALLY_DROPPED else "others" if place == TALLY_OTHERS else place] = count
        return found

    def clients(self, rcode) -> list:
        """See engine/chains.pyi."""
        cdef uint32_t i, place = TALLY_DROPPED if rcode == "dropped" else <uint32_t>min(rcode, TALLY_OTHERS)
        rows = []
        for i in range(self.tallied):
            tally_rows(tally_clients(self.tallies, self.tallied, i), place, rows)
        return rows
