"""The handler: writes down each query once its reply is fitted. What a record has is in _record.pxd, where it is kept in _memory.pxd.

Memory order. A server's `refused` releases its Core to the workers, which find it within a batch; it is freed after an epoch.
"""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t, int64_t, uintptr_t
from libc.stdlib cimport calloc
from libc.string cimport memcpy, memset, strlen

from fastdns.api.memory cimport atomic_load_pointer, atomic_store_pointer, epoch_wait
from fastdns.api.metrics cimport metric_add, mux_count_dropped
from fastdns.api.names cimport Name
from fastdns.api.network cimport Address, socket_clock
from fastdns.api.observer cimport observe_waits
from fastdns.api.query cimport TRANSPORT_NONE, Explanation, Handler, NativeHandler, Query, handler_init, query_scratch, query_was_dropped
from fastdns.api.random cimport hash_octets, hash_seed
from fastdns.api.reply cimport query_write
from fastdns.api.wire cimport RCODE_NOERROR, RCODE_NXDOMAIN, copy_octets
from fastdns.plugins.recorder._asked cimport AskedUpstream
from fastdns.plugins.recorder._memory cimport Core, Memory, Recording, core_memory, memory_commit, memory_keep, memory_room
from fastdns.plugins.recorder._record cimport (DROPPED, FAILED, MARK_CLIENT, MARK_DROPPED, MARK_EDNS, MARK_NAME, MARK_OPTIONS, MARK_REFUSED, MARK_STREAM,
                                               MARK_WRITTEN, NOTES_MAX, OPTIONS_MAX, PACKET_MAX, RECENT, SLOW, UPSTREAM_MAX, WAITS_MAX, Asked, Kind,
                                               PairedWay, Record, Wait, Way)

cdef enum:
    SERVERS = 4096              # numbers of servers whose refused queries are recorded
    HASH_LABEL = 16             # octets of a label that stands for a name: the hash in hexadecimal
    LABELS_ALL = 255

cdef struct State:
    Core *core                  # borrowed from the Recording
    uint16_t chain              # number of the chain's names

cdef Core **refused = <Core **>calloc(SERVERS, sizeof(Core *))      # by server label; kept for good
if refused == NULL:
    raise MemoryError


# ---- time that a query waits ----

cdef Handler *recorder_of(Query *root) noexcept nogil:
    """NULL: its server block has none, or the query is not recorded."""
    cdef uint32_t i
    if root.transport == TRANSPORT_NONE or root.chain == NULL:
        return NULL
    for i in range(root.chain.count):
        if root.chain.handlers[i].done == record_done:
            return root.chain.handlers[i]
    return NULL


cdef inline Query *root_of(Query *q) noexcept nogil:
    while q.parent != NULL and q.parent.generation == q.parent_generation:
        q = q.parent
    return q


cdef void note_wait(Query *q, bint begins) noexcept nogil:
    """What a child waits for its client's query waits for."""
    cdef Query *root = root_of(q)
    cdef Handler *recorder = recorder_of(root)
    cdef Way *way
    if recorder == NULL:
        return
    way = <Way *>query_scratch(recorder, root)
    if begins:
        way.since = socket_clock()
        way.handler = <uint8_t>q.position if q.chain == root.chain else 255
        way.depth = q.depth
    elif way.since:
        end_wait(way, q, root)


cdef void end_wait(Way *way, Query *q, const Query *root) noexcept nogil:
    cdef Handler *handler = q.chain.handlers[q.position]
    cdef Explanation explanation
    cdef Wait *wait
    cdef uint32_t took = microseconds(socket_clock() - way.since)
    if way.count < WAITS_MAX:
        wait = &way.waits[way.count]
        way.count += 1
        wait.handler = way.handler
        wait.depth = way.depth
        wait.more = 0
        wait.at = microseconds(way.since - root.received)
        wait.took = took
    else:
        wait = &way.waits[WAITS_MAX - 1]
        wait.more += 1
        wait.took += took
    way.since = 0
    if handler.explain != NULL:
        explanation.upstream[0] = explanation.note[0] = 0
        handler.explain(handler, q, &explanation)
        if explanation.upstream[0]:
            memcpy(way.upstream, explanation.upstream, UPSTREAM_MAX - 1)
            way.upstream[UPSTREAM_MAX - 1] = 0


cdef void note_pair(Query *q, const AskedUpstream *pair) noexcept nogil:
    """Another server block's plugin may tell of a pair for which this block has no room."""
    cdef Query *root = root_of(q)
    cdef Handler *recorder = recorder_of(root)
    cdef PairedWay *paired
    cdef Asked *asked
    cdef int i
    if recorder == NULL or recorder.scratch_size < sizeof(PairedWay):
        return
    paired = <PairedWay *>query_scratch(recorder, root)
    paired.way.paired = 1
    for i in range(2):
        asked = &paired.pair[i]
        asked.at = microseconds(pair[i].asked - root.received)
        asked.took = pair[i].took
        asked.rcode = pair[i].rcode
        asked.fate = pair[i].fate
        asked.udp = pair[i].udp
        memset(asked.upstream, 0, UPSTREAM_MAX)
        memcpy(asked.upstream, pair[i].upstream, min(strlen(pair[i].upstream), <size_t>(UPSTREAM_MAX - 1)))


cdef inline uint32_t microseconds(int64_t ns) noexcept nogil:
    return 0 if ns < 0 else <uint32_t>min(ns // 1000, <int64_t>0xFFFFFFFF)


# ---- a record ----

cdef uint8_t *put_address(uint8_t *out, const Address *address, uint32_t bits) noexcept nogil:
    """The first `bits` bits of it, and zeros."""
    cdef uint32_t n = 4 if address.family == 4 else 16, i
    memcpy(out, address.octets, n)
    if bits < 8 * n:
        i = bits // 8
        out[i] &= <uint8_t>(0xFF00 >> (bits % 8))
        memset(out + i + 1, 0, n - i - 1)
    return out + n


cdef uint8_t *put_hidden(uint8_t *out, const Core *core, const Name *name) noexcept nogil:
    """The last labels, behind a label that is the keyed hash of the whole name, or behind nothing."""
    cdef uint32_t at = name.offset[name.labels - core.name_labels], i
    cdef uint64_t hash
    if core.name_hash:
        hash = hash_octets(name.lower, name.length, hash_seed)
        if name.length - at + HASH_LABEL + 1 > 255:
            at = name.offset[name.labels]
        out[0] = HASH_LABEL
        for i in range(HASH_LABEL):
            out[1 + i] = HEXADECIMAL[(hash >> (60 - 4 * i)) & 15]
        out += 1 + HASH_LABEL
    memcpy(out, name.lower + at, name.length - at)
    return out + name.length - at

cdef const char *HEXADECIMAL = b"0123456789abcdef"


cdef inline bint hides_name(const Core *core, const Name *name) noexcept nogil:
    return name.labels > core.name_labels


cdef void begin_record(const Core *core, Record *record, const Query *q, uint8_t *at, const Way *way) noexcept nogil:
    """The head, and the parts that all records have, behind it."""
    cdef uint8_t *part = at
    cdef bint whole = core.prefix_ipv4 == 32 and core.prefix_ipv6 == 128
    record.received = q.received
    record.took = socket_clock() - q.received
    record.id = q.message.id
    record.flags = q.message.flags
    record.qtype = q.message.qtype
    record.qclass = q.message.qclass
    record.rcode = q.reply.rcode
    record.reply_flags = q.reply.flags
    record.reply_size = <uint16_t>min(q.reply.message_size, <uint32_t>0xFFFF)
    record.client_port = q.client.port
    record.local_port = q.local.port
    record.transport = q.transport
    record.marks = MARK_WRITTEN if q.reply.written else 0
    record.deepest = <uint8_t>q.deepest
    record.writer = <uint8_t>min(q.writer, <uint32_t>255)
    record.waits = 0
    record.upstream_length = 0
    record.pair_length = 0
    if way != NULL and way.count:
        record.waits = way.count
        memcpy(at, way.waits, way.count * sizeof(Wait))
        at += way.count * sizeof(Wait)
    part = at
    at = put_address(at, &q.client, core.prefix_ipv4 if q.client.family == 4 else core.prefix_ipv6)
    record.client_length = <uint8_t>(at - part)
    part = at
    at = put_address(at, &q.local, 128)
    record.local_length = <uint8_t>(at - part)
    part = at
    if hides_name(core, &q.first_name):
        at = put_hidden(at, core, &q.first_name)
        record.marks |= MARK_NAME
    else:
        copy_octets(at, q.first_name.wire, q.first_name.length)
        at += q.first_name.length
    record.name_length = <uint8_t>(at - part)
    if not whole:
        record.marks |= MARK_CLIENT
    record.options_length = 0
    if q.message.edns.present:
        at = put_edns(record, q, at, whole)
    if way != NULL and way.upstream[0]:
        record.upstream_length = <uint8_t>strlen(way.upstream)
        memcpy(at, way.upstream, record.upstream_length)
        at += record.upstream_length
        if way.paired:                  # whoever asks two has waited for one
            record.pair_length = 2 * sizeof(Asked)
            memcpy(at, (<const PairedWay *>way).pair, 2 * sizeof(Asked))
            at += 2 * sizeof(Asked)
    end_record(record, at)


cdef uint8_t *put_edns(Record *record, const Query *q, uint8_t *at, bint whole) noexcept nogil:
    """Options may tell who asks (RFC 7871, RFC 7873): they go where addresses are cut."""
    record.marks |= MARK_EDNS
    record.edns_size = q.message.edns.udp_size
    record.edns_flags = q.message.edns.flags
    record.edns_version = q.message.edns.version
    if not q.message.edns.options_length:
        return at
    if not whole or q.message.edns.options_length > OPTIONS_MAX or q.message.edns.options == NULL:
        record.marks |= MARK_OPTIONS
        return at
    record.options_length = q.message.edns.options_length
    memcpy(at, q.message.edns.options, record.options_length)
    return at + record.options_length


cdef inline void end_record(Record *record, const uint8_t *at) noexcept nogil:
    record.error_length = 0
    record.notes_length = record.packet_length = record.reply_length = 0
    record.size = <uint32_t>(at - <const uint8_t *>record + 7) & ~<uint32_t>7


# ---- what is kept longer ----

cdef uint8_t *put_notes(Record *record, Query *q, uint8_t *at) noexcept nogil:
    """What handlers tell `fastdns explain`."""
    cdef Explanation explanation
    cdef Handler *handler
    cdef uint32_t i, length, used = 0
    for i in range(min(q.deepest + 1, q.chain.count)):
        handler = q.chain.handlers[i]
        if handler.explain == NULL:
            continue
        memset(&explanation, 0, sizeof(Explanation))
        handler.explain(handler, q, &explanation)
        length = min(<uint32_t>strlen(explanation.note), <uint32_t>255)
        if not length or used + 2 + length > NOTES_MAX:
            continue
        at[used] = <uint8_t>i
        at[used + 1] = <uint8_t>length
        memcpy(at + used + 2, explanation.note, length)
        used += 2 + length
    record.notes_length = <uint16_t>used
    return at + used


cdef void keep(const Core *core, Memory *memory, const Record *short_record, Query *q, Kind kind) noexcept nogil:
    """The record once more, with its whole way, and with its messages unless something of them is to be hidden."""
    cdef Record *record = <Record *>memory.staging
    cdef uint8_t *at = memory.staging + sizeof(Record)
    cdef Address client = q.client
    memcpy(record, short_record, short_record.size)
    record.kind = <uint8_t>kind
    at += record.waits * sizeof(Wait) + record.client_length + record.local_length + record.name_length + record.options_length
    at += record.upstream_length + record.pair_length
    if not record.marks & (MARK_NAME | MARK_CLIENT):
        if not q.reply.written:
            record.error_length = <uint8_t>strlen(q.error)
            memcpy(at, q.error, record.error_length)
            at += record.error_length
        if q.chain != NULL:
            at = put_notes(record, q, at)
        if q.packet != NULL and q.packet_length <= PACKET_MAX:
            record.packet_length = <uint16_t>q.packet_length
            memcpy(at, q.packet, q.packet_length)
            at += q.packet_length
        if not record.marks & (MARK_DROPPED | MARK_STREAM) and q.reply.message_size <= 65535:
            record.reply_length = <uint16_t>query_write(q, at)
            at += record.reply_length
    record.size = <uint32_t>(at - memory.staging + 7) & ~<uint32_t>7
    put_address(client.octets, &q.client, core.prefix_ipv4 if client.family == 4 else core.prefix_ipv6)
    memory_keep(memory, record, kind, &client)
    metric_add(core.cells[<int>kind], q.worker.id, 1)


cdef inline void note(Core *core, Query *q, const Way *way, uint32_t zone, uint16_t chain, uint8_t marks) noexcept nogil:
    cdef Memory *memory = core_memory(core, q.worker)
    cdef Record *record
    if memory == NULL:
        return
    record = memory_room(memory)
    begin_record(core, record, q, <uint8_t *>record + sizeof(Record), way)
    record.zone = zone
    record.chain = chain
    record.marks |= marks
    record.kind = RECENT
    memory_commit(memory, record)
    metric_add(core.cells[<int>RECENT], q.worker.id, 1)
    if marks & MARK_DROPPED:
        keep(core, memory, record, q, DROPPED)
    elif record.rcode != RCODE_NOERROR and record.rcode != RCODE_NXDOMAIN:
        keep(core, memory, record, q, FAILED)
    if record.took >= core.slow:
        keep(core, memory, record, q, SLOW)


cdef void record_done(Handler *self, Query *q) noexcept nogil:
    cdef const State *state = <const State *>self.state
    cdef uint8_t marks = 0
    if q.parent != NULL or q.transport == TRANSPORT_NONE:
        return                          # what the server asks itself belongs to its client's query
    if q.stream != NULL:
        marks |= MARK_STREAM
    if query_was_dropped(q):
        marks |= MARK_DROPPED
    note(state.core, q, <const Way *>query_scratch(self, q), q.zone.label, state.chain, marks)


cdef void record_refused(Query *q) noexcept nogil:
    """No server block has the name."""
    cdef Core *core
    if q.server == NULL or q.server.label >= SERVERS or q.parent != NULL or q.transport == TRANSPORT_NONE:
        return
    core = <Core *>atomic_load_pointer(<void **>&refused[q.server.label])
    if core != NULL:
        note(core, q, NULL, 0, 0, MARK_REFUSED)


# ---- set-up ----

#: Of all chains that have been recorded, by number: names and the words of `fastdns explain`. Number 0 is no chain.
cdef list _chains = [()]
cdef dict _numbers = {}
#: By label of a server, the handler that records its refused queries.
cdef dict _owners = {}
#: Address, zone and view, by label.
cdef dict _zones = {}


def chain_of(uint32_t number):
    return _chains[number] if number < <uint32_t>len(_chains) else ()


def zone_of(uint32_t label):
    return _zones.get(label, ("", "", ""))


cdef class RecorderHandler(NativeHandler):
    cdef State state
    cdef readonly Recording recording
    cdef list _servers

    def __cinit__(self, *args):
        handler_init(self)
        self._servers = []
        self.handler.done = record_done
        self.handler.scratch_size = sizeof(Way)
        self.handler.state = &self.state

    def __init__(self, Recording recording not None):
        NativeHandler.__init__(self, "recorder")
        self.recording = recording
        self.state.core = &recording.core

    def take_pairs(self):
        self.handler.scratch_size = sizeof(PairedWay)
        return <uintptr_t>note_pair

    cpdef attach(self, list servers, str view):
        observe_waits(note_wait)
        mux_count_dropped(record_refused)
        self._servers = [label for label, _ in servers if label < SERVERS]
        for label in self._servers:
            _owners[label] = id(self)
            atomic_store_pointer(<void **>&refused[<uint32_t>label], self.state.core)

    def name_chain(self, list handlers):
        """Of the complete chain; its words outlast it."""
        words = tuple([(handler.name, handler.traits.explain if handler.traits is not None else {}) for handler in handlers])
        names = tuple([name for name, _ in words])
        number = _numbers.get(names)
        if number is None and len(_chains) < 0x10000:
            number = _numbers[names] = len(_chains)
            _chains.append(words)
        self.state.chain = <uint16_t>(number or 0)

    cpdef attach_zones(self, list zones):
        for label, address, zone, view in zones:
            _zones[label] = (address, zone, view)

    cpdef close(self):
        """No worker records refused queries through it any more, unless a later configuration has the server."""
        mine = [label for label in self._servers if _owners.get(label) == id(self)]
        for label in mine:
            del _owners[label]
            atomic_store_pointer(<void **>&refused[<uint32_t>label], NULL)
        if mine:
            with nogil:
                epoch_wait()
