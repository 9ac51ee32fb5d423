"""The native handler of hosts: one look-up in a flat index, a second one where there are wildcards."""
from libc.stdint cimport uint8_t
from fastdns.api.query cimport ANSWERED, NEXT, Handler, NativeHandler, Query, Verdict, handler_init, query_answer, query_fail
from fastdns.api.reply cimport SECTION_ANSWER
from fastdns.api.names cimport ZoneList, Zones, zones_hold
from fastdns.api.wire cimport FLAG_AA, RCODE_NOERROR, RCODE_SERVFAIL, TYPE_A, TYPE_AAAA, TYPE_PTR
from fastdns.api.records cimport Index, IndexCore, IndexNode, RRset, index_exact, index_wildcard, node_rrset, reply_add_rrset
from fastdns.api.memory cimport atomic_peek8, atomic_poke8

cdef struct HostsState:
    const IndexCore *index
    const Zones *zones
    const Zones *fall           # where a name that is not there goes on
    uint8_t unsupported         # types other than A, AAAA and PTR go on there too
    uint8_t wildcards           # some name begins with "*."


cdef inline bint has_address(const IndexNode *node) noexcept nogil:
    """Is it a name of some line? A node may also be nothing but the reverse name of an address."""
    return node != NULL and (node_rrset(node, TYPE_A) != NULL or node_rrset(node, TYPE_AAAA) != NULL)


cdef Verdict answer(Query *q, const IndexNode *node, const RRset *rrset) noexcept nogil:
    """The records, or none: NODATA, which has no SOA here. The owner is the name in lower case."""
    query_answer(q, RCODE_NOERROR, FLAG_AA)
    if rrset != NULL:
        reply_add_rrset(&q.reply, SECTION_ANSWER, q.name.lower, q.name.length, node, rrset)
    return ANSWERED


cdef Verdict hosts_query(Handler *self, Query *q) noexcept nogil:
    cdef const HostsState *state = <const HostsState *>self.state
    cdef const IndexNode *node
    cdef const RRset *rrset
    if q.qtype == TYPE_PTR:             # whatever the zones
        node = index_exact(state.index, q.name.lower, q.name.length, q.name.hash[0])
        rrset = node_rrset(node, TYPE_PTR) if node != NULL else NULL
        return answer(q, node, rrset) if rrset != NULL else NEXT
    if not zones_hold(state.zones, q.name):
        return NEXT
    if state.unsupported and q.qtype != TYPE_A and q.qtype != TYPE_AAAA and zones_hold(state.fall, q.name):
        return NEXT
    node = index_exact(state.index, q.name.lower, q.name.length, q.name.hash[0])
    if not has_address(node):
        # "*" alone is a name like any other: no wildcard stands directly below the root.
        node = index_wildcard(state.index, q.name) if atomic_peek8(&state.wildcards) and q.name.labels > 1 else NULL
        if not has_address(node):
            return NEXT if zones_hold(state.fall, q.name) else query_fail(q, RCODE_SERVFAIL, NULL)
    return answer(q, node, node_rrset(node, q.qtype) if q.qtype == TYPE_A or q.qtype == TYPE_AAAA else NULL)


cdef class HostsHandler(NativeHandler):
    cdef HostsState state
    cdef Index index
    cdef ZoneList zones
    cdef ZoneList fall

    def __init__(self, str name, Index index not None, ZoneList zones not None, ZoneList fall not None, bint unsupported):
        handler_init(self)
        NativeHandler.__init__(self, name)
        self.index = index
        self.zones = zones
        self.fall = fall
        self.state.index = index.core
        self.state.zones = &zones.zones
        self.state.fall = &fall.zones
        self.state.unsupported = unsupported
        self.handler.state = &self.state
        self.handler.query = hosts_query

    @property
    def wildcards(self):
        return bool(self.state.wildcards)

    @wildcards.setter
    def wildcards(self, bint value):
        atomic_poke8(&self.state.wildcards, value)
