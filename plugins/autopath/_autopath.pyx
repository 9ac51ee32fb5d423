"""autopath: asks, for a client's first query, what the client would ask next along its search path.

The first element of the path makes the client's own name again, so that step is the query itself on its normal way down. Only when it comes back with
NXDOMAIN or without an answer, the query parks on its way up and a child asks for the next name; the first other reply becomes the client's.
"""
from libc.stdint cimport uint8_t, uint32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memmove, memset
from libc.stdio cimport snprintf
from fastdns.api.query cimport (CHILD_CHAIN, ERROR_MAX, NEXT, PARKED, UP, Handler, NativeHandler, Query, Verdict, handler_init, query_answer,
                                query_child, query_fail, query_park, query_scratch)
from fastdns.api.reply cimport RECORD_OWNED, SECTION_ANSWER, Record, Reply, reply_add, reply_alloc, reply_append
from fastdns.api.names cimport NAME_MAX, Name, ZoneList, wire_name_copy, wire_name_equal, wire_name_text, zones_hold
from fastdns.api.wire cimport CLASS_IN, RCODE_NXDOMAIN, RCODE_SERVFAIL, TYPE_CNAME
from fastdns.api.metrics cimport Metric, label_count, metric_add
from fastdns._wire import name_wire


# ---- down: is it the first query of a walk? ----

cdef Verdict on_query(Handler *self, Query *q) noexcept nogil:
    cdef Autopath *autopath = <Autopath *>self.state
    cdef Walk *walk = <Walk *>query_scratch(self, q)
    cdef uint8_t first[NAME_MAX]
    cdef int length, base
    walk.active = 0
    if autopath.path == NULL or not zones_hold(autopath.zones, q.name):
        return NEXT
    length = autopath.path.element(autopath.path, q, 0, first)
    base = <int>q.name.length - length
    if length < 1 or base < 0 or not ends_in(q.name, base, first, length):
        return NEXT
    if base == 0:
        return overshot(q, first)
    walk.active = 1
    walk.step = 0
    walk.base = <uint8_t>base
    return NEXT


cdef bint ends_in(const Name *name, int base, const uint8_t *suffix, int length) noexcept nogil:
    """Is the name the suffix, or below it? base: the octets in front, which must be whole labels."""
    cdef int i
    for i in range(name.labels + 1):
        if name.offset[i] >= base:
            return name.offset[i] == base and wire_name_equal(&name.lower[base], suffix, length)
    return False


cdef Verdict overshot(Query *q, const uint8_t *first) noexcept nogil:
    """The first element itself was asked for: nothing stands in front of it."""
    cdef char name[1024]
    cdef char element[1024]
    cdef char error[ERROR_MAX]
    name[wire_name_text(q.name.wire, name)] = 0
    element[wire_name_text(first, element)] = 0
    snprintf(error, ERROR_MAX, b"trimzone: overshot qname: %.70sfor zone %.80s", name, element)
    return query_fail(q, RCODE_SERVFAIL, error)


# ---- up: the next element ----

cdef Verdict on_reply(Handler *self, Query *q) noexcept nogil:
    cdef Walk *walk = <Walk *>query_scratch(self, q)
    if not walk.active:
        return UP
    if is_wanted(q):
        succeed(self, q)
        return UP
    if not q.reply.written and q.error[0] != 0:
        return UP
    return ask_next(self, q)


cdef Verdict on_resume(Handler *self, Query *q) noexcept nogil:
    cdef Query *child = q.child
    if child == NULL or not child.reply.written and (child.error[0] != 0 or child.reply.rcode == 0):
        # An error ends the walk; so does a step that was dropped below, for which CoreDNS answers SERVFAIL.
        query_fail(q, child.reply.rcode if child != NULL and child.error[0] != 0 else RCODE_SERVFAIL, child.error if child != NULL else NULL)
        return UP
    if is_wanted(child):
        query_answer(q, child.reply.rcode, child.reply.flags)
        q.reply.verbatim = child.reply.verbatim
        q.reply.edns = child.reply.edns
        q.reply.edns.options_length = 0
        reply_append(&q.reply, &child.reply, -1)
        q.error[0] = 0
        succeed(self, q)
        return UP
    return ask_next(self, q)


cdef inline bint is_wanted(const Query *q) noexcept nogil:
    """Any message but NXDOMAIN, NODATA too."""
    return q.reply.written and q.reply.rcode != RCODE_NXDOMAIN


cdef Verdict ask_next(Handler *self, Query *q) noexcept nogil:
    """Asks for the next name that fits; without one the first reply, which stayed in the query, goes up as it is."""
    cdef Autopath *autopath = <Autopath *>self.state
    cdef Walk *walk = <Walk *>query_scratch(self, q)
    cdef uint8_t wire[2 * NAME_MAX]
    cdef Name name
    cdef int length
    while True:
        walk.step += 1
        memcpy(wire, q.name.wire, walk.base)
        length = autopath.path.element(autopath.path, q, walk.step, wire + walk.base)
        if length < 1:
            return UP
        if walk.base + length <= NAME_MAX:
            break
    wire_name_copy(&name, wire, walk.base + length)
    if query_park(q, 0) < 0 or query_child(self, q, CHILD_CHAIN, &name, q.qtype) < 0:
        query_fail(q, RCODE_SERVFAIL, b"no slot is free for another step of the search path")
        return UP
    return PARKED


cdef void succeed(Handler *self, Query *q) noexcept nogil:
    """Counts, and leads from the name that the client asked for to the one that answers."""
    cdef Autopath *autopath = <Autopath *>self.state
    metric_add(autopath.successes[q.server.label], q.worker.id, 1)
    prepend_alias(q)


cdef void prepend_alias(Query *q) noexcept nogil:
    """A CNAME from the question to the first other owner among the answers, in front of them."""
    cdef Reply *reply = &q.reply
    cdef Record *record
    cdef Record alias
    cdef uint8_t *target
    cdef uint32_t i
    for i in range(reply.count):
        record = &reply.records[i]
        if record.section == SECTION_ANSWER and not (record.owner_length == q.name.length
                                                     and wire_name_equal(record.owner, q.name.wire, q.name.length)):
            break
    else:
        return
    memset(&alias, 0, sizeof(alias))
    alias.owner = q.name.wire
    alias.owner_length = q.name.length
    alias.type = TYPE_CNAME
    alias.klass = CLASS_IN
    alias.ttl = record.ttl
    alias.rdlength = record.owner_length
    alias.section = SECTION_ANSWER
    alias.flags = RECORD_OWNED
    target = reply_alloc(reply, alias.rdlength)
    if target == NULL:
        return
    memcpy(target, reply.records[i].owner, alias.rdlength)
    alias.rdata = target
    if reply_add(reply, SECTION_ANSWER) == NULL:
        return
    memmove(&reply.records[1], &reply.records[0], (reply.count - 1) * sizeof(Record))
    reply.records[0] = alias


# ---- a search path out of a file ----

cdef int element_of_file(SearchPath *path, Query *q, uint32_t index, uint8_t *out) noexcept nogil:
    cdef Elements *elements = <Elements *>path
    cdef const uint8_t *name
    if index >= elements.count:
        return 0
    name = elements.names + index * (NAME_MAX + 1)
    memcpy(out, name + 1, name[0])
    return name[0]


# ---- set-up ----

cdef Metric SUCCESSES = Metric("coredns_autopath_success_total", "Counter of requests that did autopath.", "counter", ("server",))


cdef class SearchPathHandle:
    pass


cdef class AutopathHandler(NativeHandler):
    def __cinit__(self, *args, **kwargs):
        handler_init(self)
        self.handler.query = on_query
        self.handler.reply = on_reply
        self.handler.resume = on_resume
        self.handler.scratch_size = sizeof(Walk)
        self.handler.state = &self.autopath

    def __init__(self, zones, search=None):
        NativeHandler.__init__(self, "autopath")
        self.zones = ZoneList(zones)
        self.autopath.zones = &(<ZoneList>self.zones).zones
        if search is not None:
            self.read(search)

    def __dealloc__(self):
        free(self.elements.names)
        free(self.autopath.successes)

    cdef int read(self, search) except -1:
        """Takes over the elements, given as text; the last one is the root."""
        cdef uint8_t *name
        self.elements.names = <uint8_t *>calloc(len(search) + 1, NAME_MAX + 1)
        if self.elements.names == NULL:
            raise MemoryError
        for text in search:
            wire = name_wire(text.lower())
            name = self.elements.names + self.elements.count * (NAME_MAX + 1)
            name[0] = <uint8_t>len(wire)
            memcpy(name + 1, <const uint8_t *><bytes>wire, len(wire))
            self.elements.count += 1
        self.elements.path.element = element_of_file
        self.autopath.path = &self.elements.path
        return 0

    def use(self, SearchPathHandle provider not None):
        """Ask another handler of the block for each client's path; before the chain is published."""
        self.provider = provider
        self.autopath.path = provider.path

    cpdef attach(self, list servers, str view):
        cdef uint32_t count = label_count(servers)
        free(self.autopath.successes)
        self.autopath.successes = <uint32_t *>calloc(count, sizeof(uint32_t))
        if self.autopath.successes == NULL:
            raise MemoryError
        for label, server in servers:
            self.autopath.successes[<uint32_t>label] = SUCCESSES.cell((server,))
