"""Parts of answers from a zone: RRsets with their signatures, glue, addresses of targets."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from libc.string cimport memset
from fastdns.api.query cimport Query
from fastdns.api.reply cimport SECTION_ADDITIONAL, SECTION_ANSWER, SECTION_AUTHORITY, Record, reply_add_record
from fastdns.api.names cimport Name, wire_is_below, wire_name_copy, wire_name_length
from fastdns.api.wire cimport CLASS_IN, RR_ADDITIONAL, TYPE_A, TYPE_AAAA, TYPE_RRSIG, load16, rrtype_get, rrtype_name_offset
from fastdns.api.records cimport (FOUND_DNAME, NODE_CNAME, NODE_HASHED, IndexNode, IndexRecord, IndexResult, IndexTable, RRset, ZoneState, ZoneVersion,
                                  node_rrset, reply_add_rrset, rrset_record, table_exact, table_find)
from fastdns.api.memory cimport atomic_peek8, atomic_peek32

cdef enum:
    TARGETS_MAX = 768           # different targets whose addresses one answer shows
    TARGET_SLOTS = 1024

cdef enum:                      # Ask.options
    ANSWER_PLAIN_REFERRALS = 1  # auto: AA is cleared even when an alias leads to the delegation
    ANSWER_PASS_REFERRALS = 2   # hosted zones: names in `fall` also go on where they are delegated, or where no version is there
    ANSWER_ALONE = 4            # without the zone's NS records beside an answer, as k8s_gateway

cdef struct Ask:                # a question and what is looked at for it
    Query *q
    const ZoneState *zone
    const IndexTable *table
    const ZoneVersion *version
    uint8_t signed              # DO: signatures and proofs too
    uint8_t options

cdef inline void add_set(Ask *ask, int section, const uint8_t *owner, uint8_t owner_length, const IndexNode *node, const RRset *rrset) noexcept nogil:
    reply_add_rrset(&ask.q.reply, section, owner, owner_length, node, rrset)

cdef inline void add_signatures(Ask *ask, int section, const uint8_t *owner, uint8_t owner_length, const IndexNode *node, uint16_t type) noexcept nogil:
    """The signatures of a type at a node."""
    cdef const RRset *rrset = node_rrset(node, TYPE_RRSIG)
    cdef const uint8_t *entry = NULL
    cdef IndexRecord record
    cdef uint32_t _i
    if rrset == NULL:
        return
    for _i in range(rrset.count):
        entry = rrset_record(node, rrset, entry, &record)
        if load16(record.rdata) == type:
            reply_add_record(&ask.q.reply, section, owner, owner_length, TYPE_RRSIG, CLASS_IN, record.ttl, record.rdata, record.rdlength)

cdef inline void add_whole(Ask *ask, int section, const IndexNode *node, const RRset *rrset) noexcept nogil:
    """An RRset under its own name, with its signatures when they are wanted."""
    if rrset == NULL:
        return
    add_set(ask, section, node.name, node.length, node, rrset)
    if ask.signed:
        add_signatures(ask, section, node.name, node.length, node, rrset.type)

cdef inline void add_soa(Ask *ask) noexcept nogil:
    """The SOA record of a negative answer: its TTL is how long that may be kept (RFC 2308 3)."""
    cdef uint32_t i, before = ask.q.reply.count
    add_whole(ask, SECTION_AUTHORITY, ask.version.apex, ask.version.soa)
    for i in range(before, ask.q.reply.count):
        ask.q.reply.records[i].ttl = min(ask.q.reply.records[i].ttl, ask.version.negative_ttl)

cdef inline void add_servers(Ask *ask, int section) noexcept nogil:
    add_whole(ask, section, ask.version.apex, ask.version.ns)

cdef inline void add_authority(Ask *ask) noexcept nogil:
    if not ask.options & ANSWER_ALONE:
        add_servers(ask, SECTION_AUTHORITY)

cdef inline bint is_name(const Ask *ask, const IndexNode *node) noexcept nogil:
    """Has the node records that CoreDNS's tree would have?"""
    return node != NULL and node.rrsets != 0 and not atomic_peek8(&node.flags) & NODE_HASHED and (node != ask.version.apex or not ask.version.bare)

cdef inline const IndexNode *find_host(Ask *ask, const Name *name) noexcept nogil:
    """The node whose addresses a record may show that names the host; NULL: none. Addresses beside a CNAME and below a DNAME do not count
    (RFC 2181 10.1, RFC 6672 2.4)."""
    cdef const IndexNode *node = table_exact(ask.table, name.lower, name.length, name.hash[0])
    cdef IndexResult found
    if not is_name(ask, node) or atomic_peek8(&node.flags) & NODE_CNAME:
        return NULL
    if atomic_peek32(&ask.table.dnames) and table_find(ask.table, ask.zone.index, name, TYPE_A, &found) == FOUND_DNAME:
        return NULL
    return node

cdef inline void add_addresses(Ask *ask, const IndexNode *node) noexcept nogil:
    add_whole(ask, SECTION_ADDITIONAL, node, node_rrset(node, TYPE_A))
    add_whole(ask, SECTION_ADDITIONAL, node, node_rrset(node, TYPE_AAAA))

cdef inline void add_glue(Ask *ask, const IndexNode *node, const RRset *ns) noexcept nogil:
    """The addresses of servers that the zone has: of those at or below the delegated name, which cannot be found otherwise, then of the others
    (RFC 9471 2)."""
    add_server_addresses(ask, node, ns, True)
    add_server_addresses(ask, node, ns, False)

cdef inline void add_server_addresses(Ask *ask, const IndexNode *node, const RRset *ns, bint within) noexcept nogil:
    cdef const uint8_t *entry = NULL
    cdef const IndexNode *server
    cdef IndexRecord record
    cdef Name name
    cdef uint32_t _i
    for _i in range(ns.count):
        entry = rrset_record(node, ns, entry, &record)
        if wire_is_below(record.rdata, record.rdlength, node.name, node.length) == within:
            wire_name_copy(&name, record.rdata, record.rdlength)
            server = find_host(ask, &name)
            if server != NULL:
                add_addresses(ask, server)

cdef inline bint has_target(uint16_t type) noexcept nogil:
    """Does a record of the type name a host whose addresses belong into the additional section?"""
    return rrtype_get(type).flags & RR_ADDITIONAL != 0

cdef inline void add_targets(Ask *ask) noexcept nogil:
    """A and AAAA of the targets of the answer's SRV, MX, SVCB and HTTPS records that are in the zone, each target once."""
    cdef const IndexNode *seen[TARGET_SLOTS]
    cdef uint32_t i, slot, found = 0, answers = ask.q.reply.count
    cdef const Record *record
    cdef const IndexNode *node
    cdef Name name
    cdef int at
    for i in range(answers):
        record = &ask.q.reply.records[i]
        if not has_target(record.type) or record.section != SECTION_ANSWER or found == TARGETS_MAX:
            continue
        at = rrtype_name_offset(record.type, record.rdata, record.rdlength)
        if at < 0:
            continue
        wire_name_copy(&name, record.rdata + at, wire_name_length(record.rdata + at))
        if not wire_is_below(name.lower, name.length, ask.version.apex.name, ask.version.apex.length):
            continue
        node = find_host(ask, &name)
        if node == NULL:
            continue
        if found == 0:
            memset(seen, 0, sizeof(seen))
        slot = name.hash[0] % TARGET_SLOTS
        while seen[slot] != NULL and seen[slot] != node:
            slot = (slot + 1) % TARGET_SLOTS
        if seen[slot] == node:
            continue
        seen[slot] = node
        found += 1
        add_addresses(ask, node)
