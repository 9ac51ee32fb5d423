"""Cached verdicts of Python plugins. The contract is in executor/verdicts.pxd; plugin authors use query.py and plugin.py."""
import threading
from math import ceil
from socket import AF_INET, AF_INET6, inet_pton

from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t, int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset
from fastdns.executor.verdict_cache cimport (OCTETS_MIN, VERDICT_OCTETS, VERDICTS_MAX, CachedVerdict, Prefix, Scope, cached_records, cached_seconds,
                                             name_is_below, prefix_load, prefix_of, verdict_block, verdict_find, verdict_put, verdict_table_close,
                                             verdicts_withdraw)
from fastdns.system.atomic cimport atomic_peek32, atomic_peek64
from fastdns.telemetry.metrics cimport METRIC_CONTROL, Metric, metric_add
from fastdns.walk.query cimport ANSWERED, DROPPED, ERROR_MAX, FAILED, NEXT
from fastdns._mux cimport query_answer, query_fail
from fastdns.message.reply cimport LargeReplyPool, Record, Reply, reply_add, reply_begin, reply_end, reply_parse
from fastdns.system.address cimport address_from_octets
from fastdns.system.socket cimport socket_clock
from fastdns.executor.request cimport Request
from fastdns.protocol.header cimport FLAGS_RCODE
from fastdns._wire cimport FLAG_AA, TYPE_OPT, wire_name_copy, wire_name_equal
from fastdns._wire import name_text, name_wire
from fastdns.telemetry.counter cimport Counter
from fastdns.executor.query import DROP, PASS, Failure, Record as PythonRecord, Reply as PythonReply

cdef enum:
    SECONDS_MAX = 2147483647   # the longest TTL (RFC 2181 8)


# ---- applying ----

cdef Verdict verdicts_apply(CachedVerdict *cached, Query *q) noexcept nogil:
    metric_add(cached.counter, q.worker.id, 1)
    if cached.verdict == ANSWERED:
        fill(cached, q)
    elif cached.verdict == FAILED:
        return query_fail(q, cached.rcode, <const char *>cached.text)
    return <Verdict>cached.verdict


cdef void fill(CachedVerdict *cached, Query *q) noexcept nogil:
    """Records borrow from the verdict, or belong to the name as it is asked now. No TTL is longer than the verdict is good for."""
    cdef Reply *reply = &q.reply
    cdef Record *records = cached_records(cached)
    cdef Record *record
    cdef uint32_t i, left = cached_seconds(cached, q.worker.now)
    query_answer(q, cached.rcode, cached.flags)
    if cached.edns.present and q.message.edns.present:     # the verdict may be another client's (RFC 6891 6.1.1)
        reply.edns = cached.edns
    for i in range(cached.count):
        record = reply_add(reply, records[i].section)
        if record == NULL:
            return
        record[0] = records[i]
        if record.owner == NULL:
            record.owner = q.name.wire
            record.owner_length = q.name.length
        if record.ttl > left:
            record.ttl = left


# ---- from Python ----

cdef int read_prefix(object given, Prefix *out) except -1:
    """``192.0.2.0/24``, ``2001:db8::/32`` or one address; what stands behind the prefix is ignored, and so is a zone."""
    cdef Address address
    cdef Prefix whole
    text, slash, length = str(given).partition("/")
    octets = inet_pton(AF_INET6 if ":" in text else AF_INET, text.partition("%")[0])
    most = 8 * len(octets)
    if slash and not (length.isascii() and length.isdigit() and int(length) <= most):
        raise ValueError("no length of a prefix")
    bits = int(length) if slash else most
    address.scope = 0
    if most == 128:
        address_from_octets(&address, octets)
        if address.family == 4 and bits < 96:
            raise ValueError("IPv4 addresses stand there with 96 bits and more")
        bits -= 96 if address.family == 4 else 0
    else:
        address.family = 4
        memcpy(address.octets, <const uint8_t *>octets, 4)
    prefix_load(&address, &whole)
    out[0] = prefix_of(&whole, <uint32_t>bits)
    return 0


cdef int read_client(object given, Prefix *out) except -1:
    try:
        return read_prefix(given, out)
    except (OSError, ValueError) as error:
        raise ValueError(f"{given!r} is no prefix of addresses: {error}") from None


cdef str exact(value):
    """The text of an object as a plain str."""
    text = f"{value} "              # of two parts, and so no object of a subclass
    return text[:len(text) - 1]


cdef Terms terms_read(remembered):
    cdef Terms terms = Terms.__new__(Terms)
    terms.seconds = float(remembered.seconds)
    if not 0 < terms.seconds <= SECONDS_MAX:
        raise ValueError(f"a verdict is remembered for more than 0 and at most {SECONDS_MAX} seconds, not {terms.seconds:g}")
    suffix, client, counter = remembered.suffix, remembered.client, remembered.counter
    if suffix is not None:
        terms.suffix_text = exact(suffix)
        terms.suffix = name_wire(terms.suffix_text)
    if client is not None:
        terms.client_text = exact(client)
        read_client(terms.client_text, &terms.client)
    if type(counter) is Counter:
        terms.counter = (<Counter>counter).cell
    elif counter is not None and (type(counter) is not int or counter != 0):
        raise TypeError(f"counter is {type(counter).__name__}, and not what Metric.cell returns")
    terms.all_types = bool(remembered.all_types)
    read_kind(terms, remembered.verdict)
    return terms


cdef int read_kind(Terms terms, verdict) except -1:
    if verdict is PASS:
        terms.verdict = NEXT
    elif verdict is DROP:
        terms.verdict = DROPPED
    elif isinstance(verdict, PythonReply):
        terms.verdict = ANSWERED
        sections = (verdict.answer, verdict.authority, [record for record in verdict.additional if record.qtype != TYPE_OPT])
        terms.owners = bytes([record.owner is None for section in sections for record in section])
    elif isinstance(verdict, Failure):
        terms.verdict = FAILED
        terms.rcode = min(verdict.rcode, FLAGS_RCODE)       # none of more than four bits leaves without a message
        terms.text = str.encode(verdict.error, "utf-8", "replace")[:ERROR_MAX - 1]
    else:
        raise TypeError(f"{type(verdict).__name__} cannot be remembered")
    return 0


cdef int read_scope(const Request *request, Terms terms, Scope *scope) except -1:
    """Raises ValueError when the query is not in the scope."""
    cdef const Name *name = &request.name
    cdef Prefix client
    cdef Prefix inside
    scope.client = terms.client
    scope.exact = terms.suffix is None
    scope.typed = not terms.all_types
    scope.qtype = request.qtype if scope.typed else 0
    scope.qclass = request.qclass
    if scope.exact:
        wire_name_copy(&scope.name, name.wire, name.length)
    else:
        wire_name_copy(&scope.name, terms.suffix, <int>len(terms.suffix))
        if not name_is_below(name.lower, name.length, scope.name.lower, scope.name.length):
            raise ValueError(f"{name_text(name.lower[:name.length])} is not at or below {terms.suffix_text}")
    if terms.client_text is not None:
        prefix_load(&request.client, &client)
        inside = prefix_of(&client, scope.client.bits)
        if client.family == 0:
            scope.client.family = 0xFF      # on a link: nothing is kept
        elif client.family != scope.client.family or inside.high != scope.client.high or inside.low != scope.client.low:
            raise ValueError(f"the client is not in {terms.client_text}")
    return 0


cdef CachedVerdict *make_answer(const Scope *scope, bytes message, bytes asked) except NULL:
    """A verdict made of a reply. `asked` has an octet for each record: 1 where its owner is the name asked, whatever that is later."""
    cdef CachedVerdict *cached = NULL
    cdef Reply *reply = <Reply *>malloc(sizeof(Reply))
    cdef LargeReplyPool pool
    cdef int status
    if reply == NULL:
        raise MemoryError
    memset(&pool, 0, sizeof(pool))
    pool.limit = 1
    reply_begin(reply, &pool)
    try:
        status = reply_parse(reply, message, <uint32_t>len(message))
        if status < 0 or reply.count != len(asked):
            raise ValueError("the reply is malformed" if status == -1 else "the reply is too large to be remembered")
        cached = copy_reply(reply, scope, asked)
        if cached == NULL:
            raise MemoryError
        return cached
    finally:
        reply_end(reply)
        free(pool.free)
        free(reply)


cdef inline bint is_asked(const Record *record, const Scope *scope, uint8_t asked) noexcept nogil:
    """In a scope of one name there is only one that can be asked, and it takes its letters' case from the question."""
    return asked or (scope.exact and record.owner_length == scope.name.length and wire_name_equal(record.owner, scope.name.wire, scope.name.length))


cdef CachedVerdict *copy_reply(const Reply *reply, const Scope *scope, const uint8_t *asked) noexcept nogil:
    cdef uint64_t size = sizeof(CachedVerdict) + reply.count * sizeof(Record) + reply.edns.options_length
    cdef CachedVerdict *cached
    cdef Record *record
    cdef uint8_t *at
    cdef uint32_t i
    for i in range(reply.count):
        size += reply.records[i].owner_length + reply.records[i].rdlength
    cached = <CachedVerdict *>verdict_block(size)
    if cached == NULL:
        return NULL
    cached.verdict = ANSWERED
    cached.rcode = reply.rcode
    cached.flags = reply.flags
    cached.count = reply.count
    at = <uint8_t *>(cached_records(cached) + reply.count)
    for i in range(reply.count):
        record = &cached_records(cached)[i]
        record[0] = reply.records[i]
        record.flags = 0
        if is_asked(record, scope, asked[i]):
            record.owner = NULL
        else:
            memcpy(at, record.owner, record.owner_length)
            record.owner = at
            at += record.owner_length
        memcpy(at, record.rdata, record.rdlength)
        record.rdata = at
        at += record.rdlength
    if reply.edns.present:
        cached.edns = reply.edns
        memcpy(at, reply.edns.options, reply.edns.options_length)
        cached.edns.options = at
    return cached


cdef CachedVerdict *make_cached(const Scope *scope, Terms terms, bytes message) except NULL:
    cdef CachedVerdict *cached
    cdef bytes text = terms.text or b""
    if terms.verdict == ANSWERED:
        if message is None:
            raise ValueError("there is no message to remember")
        return make_answer(scope, message, terms.owners)
    cached = <CachedVerdict *>verdict_block(sizeof(CachedVerdict) + len(text) + 1)
    if cached == NULL:
        raise MemoryError
    memcpy(cached + 1, <const uint8_t *>text, len(text))
    cached.text = <const uint8_t *>(cached + 1)
    cached.verdict = terms.verdict
    cached.rcode = terms.rcode
    return cached


cdef Metric ENTRIES = Metric("fastdns_plugin_remembered_entries", "Verdicts of a Python plugin that are remembered.", "gauge", ("plugin",))
cdef Metric EVICTIONS = Metric("fastdns_plugin_remembered_evictions_total", "Counter of remembered verdicts that gave way to others before their time.",
                               "counter", ("plugin",))


cdef class Verdicts:
    """The cached verdicts of one handler."""

    def __cinit__(self, str plugin not None, limit):
        if not 0 <= limit <= VERDICTS_MAX:
            raise ValueError(f"a plugin may have 0 to {VERDICTS_MAX} verdicts remembered, not {limit}")
        self.lock = threading.Lock()
        self.entries = ENTRIES.cell((plugin,))
        self.evictions = EVICTIONS.cell((plugin,))
        self.table.limit = limit
        self.table.ceiling = OCTETS_MIN + <uint64_t>self.table.limit * VERDICT_OCTETS

    def __dealloc__(self):
        metric_add(self.entries, METRIC_CONTROL, <uint64_t>-<int64_t>self.table.count)
        verdict_table_close(&self.table)

    @property
    def count(self):
        return atomic_peek32(&self.table.count)

    @property
    def octets(self):
        with self.lock:
            return self.table.octets + self.table.unlinked

    cdef bint holds(self, const Name *name, uint16_t qtype, uint16_t qclass, const Address *client):
        """Is there a verdict for the question now? For threads that are no workers."""
        with self.lock:
            return verdict_find(&self.table, name, qtype, qclass, client, socket_clock()) != NULL

    def begin(self, PluginQuery query not None):
        query.forgets = atomic_peek64(&self.table.forgets)

    cpdef bint put(self, PluginQuery query, remembered, bytes message=None, int64_t now=0) except -1:
        return self.keep(query, terms_read(remembered), message, now)

    cdef bint keep(self, PluginQuery query, Terms terms, bytes message, int64_t now=0) except -1:
        cdef Request *request = query.request
        cdef Scope scope
        cdef CachedVerdict *cached
        cdef uint32_t before
        cdef int early = -1
        query._check()
        read_scope(request, terms, &scope)
        request.ttl_max = <uint32_t>ceil(terms.seconds)
        if not flags_remember(request.flags) or scope.client.family == 0xFF:
            return False
        cached = make_cached(&scope, terms, message)
        now = now or socket_clock()
        cached.expires = now + <int64_t>(terms.seconds * 1e9)
        cached.counter = terms.counter
        with self.lock:
            before = self.table.count
            if query.forgets == self.table.forgets:
                early = verdict_put(&self.table, cached, &scope, now)
            metric_add(self.entries, METRIC_CONTROL, <uint64_t>(<int64_t>self.table.count - before))
            if early < 0:
                free(cached)
                return False
            metric_add(self.evictions, METRIC_CONTROL, <uint64_t>early)
        return True

    def find(self, PluginQuery query not None, int64_t now=0):
        cdef Request *request = query.request
        query._check()
        if not flags_remember(request.flags):
            return None
        now = now or socket_clock()
        with self.lock:
            return plugin_verdict(verdict_find(&self.table, &request.name, request.qtype, request.qclass, &request.client, now), now)

    cpdef int forget(self, suffix=None, client=None) except -1:
        cdef Name name
        cdef Prefix prefix
        cdef const Name *names = NULL
        cdef const Prefix *clients = NULL
        cdef int count
        if suffix is not None:
            wire = name_wire(suffix)
            wire_name_copy(&name, wire, <int>len(wire))
            names = &name
        if client is not None:
            read_client(client, &prefix)
            clients = &prefix
        with self.lock:
            with nogil:
                count = verdicts_withdraw(&self.table, names, clients)
            metric_add(self.entries, METRIC_CONTROL, <uint64_t>-<int64_t>count)
        return count


cdef object plugin_verdict(CachedVerdict *cached, int64_t now):
    """A cached verdict in the form in which a plugin returns it."""
    cdef Record *record
    cdef uint32_t i
    if cached == NULL:
        return None
    if cached.verdict == NEXT:
        return PASS
    if cached.verdict == DROPPED:
        return DROP
    if cached.verdict == FAILED:
        return Failure(cached.rcode, (<bytes><const char *>cached.text).decode("utf-8", "replace"))
    sections = ([], [], [])
    for i in range(cached.count):
        record = &cached_records(cached)[i]
        owner = None if record.owner == NULL else record.owner[:record.owner_length]
        sections[record.section].append(PythonRecord(record.type, record.rdata[:record.rdlength], min(record.ttl, cached_seconds(cached, now)), owner))
    if cached.edns.present:
        sections[2].append(PythonRecord(TYPE_OPT, cached.edns.options[:cached.edns.options_length], 0, b"\0"))
    return PythonReply(sections[0], cached.rcode, sections[1], sections[2], cached.flags & FLAG_AA != 0)
