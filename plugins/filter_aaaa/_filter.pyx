"""The native handler of filter_aaaa and filter_a.

The client's question for the family that is withheld becomes one for the other family, from a child that asks the handlers below: the client asks for both,
so it is in the cache, or under way. What comes of it says what to answer: NXDOMAIN, NODATA where there is an address of the other family, and else the
question goes down as it is. So addresses that the client would not get are not asked for. With `no_lookup` the other family is not asked for either.

A client that validates (DO) gets signed answers unchanged, unless `break_dnssec` says otherwise. So its questions go down first.
"""
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from libc.stdio cimport snprintf
from libc.string cimport memcmp, memcpy
from fastdns.api.memory cimport Blocks, blocks_free, blocks_take
from fastdns.api.metadata cimport Label, LabelHandle, label_read
from fastdns.api.metrics cimport Metric, label_count, metric_add
from fastdns.api.names cimport ZoneList, Zones, zones_find
from fastdns.api.network cimport PrefixKey, PrefixNode, PrefixTree, Prefixes, prefixes_first, prefixes_next
from fastdns.api.query cimport (ANSWERED, CHILD_CHAIN, NEXT, PARKED, TAILORED_WALK, UP, Explanation, Handler, NativeHandler, Query, Verdict,
                                handler_init, query_answer, query_child, query_do, query_fail, query_park, query_scratch)
from fastdns.api.reply cimport SECTION_ANSWER, reply_append, reply_copy, reply_has
from fastdns.api.text cimport Text
from fastdns.api.wire cimport (CLASS_IN, FLAG_AA, FLAG_AD, FLAG_TC, OPCODE_QUERY, RCODE_NOERROR, RCODE_NXDOMAIN, RCODE_SERVFAIL, TYPE_A, TYPE_AAAA, TYPE_AXFR,
                               TYPE_IXFR, flags_opcode)
from fastdns.plugins.acl._cluster cimport ClusterNames, ClusterNamesHandle
from fastdns.plugins.filter_aaaa._strip cimport (AddressFamily, Stripped, strip_has, strip_is_signed, strip_reply, strip_to_nodata)
from fastdns.plugins.acl.rules import EVERYWHERE, VALUE_MAX

cdef enum:
    HINT_IPV4 = 4               # RFC 9460 14.3.2
    HINT_IPV6 = 6
    VALUE = 63                  # VALUE_MAX as set-up has it

cdef struct Namespace:
    uint8_t length
    char text[VALUE]

cdef struct Rule:               # all that it points to belongs to the handler
    const Zones *zones
    const Zones *excluded
    const Prefixes *prefixes    # NULL: all addresses
    const Namespace *namespaces     # sorted
    uint32_t namespace_count    # 0: all clients
    uint8_t family              # of the client's address; 0: both
    uint8_t always
    uint8_t no_lookup
    uint8_t break_dnssec
    uint8_t by_client

cdef struct Cells:              # of metrics, for one server
    uint32_t questions
    uint32_t records
    uint32_t hints

cdef struct Filter:
    AddressFamily family
    Rule *rules
    uint32_t rule_count
    const Label *namespace      # borrowed from its handle, as `cluster` is
    const ClusterNames *cluster     # NULL: the block has none
    const Zones *cluster_zones      # its names cost no upstream anything: `no_lookup` does not apply to them. NULL likewise
    Cells *cells                # by server label

cdef enum Step:
    STEP_REPLY                  # the reply is looked at
    STEP_DONE                   # it is not: nothing is withheld, or what is withheld is not in it
    STEP_ASKED                  # the other family is asked for instead
    STEP_VALIDATED              # the reply is looked at, and is unchanged if it is signed
    STEP_CHECKED                # the reply has addresses; the other family is asked for

cdef struct Work:               # in each query's scratch
    const Rule *rule
    uint8_t step                # Step
    uint8_t withheld            # for `fastdns explain`: the question was answered without being asked
    uint32_t records            # likewise: that were removed
    uint32_t hints


# ---- whom it is for ----

cdef const Rule *find_rule(const Filter *filter, Query *q) noexcept nogil:
    """The first rule that holds, or NULL."""
    cdef const Rule *rule
    cdef uint32_t i
    for i in range(filter.rule_count):
        rule = &filter.rules[i]
        if zones_find(rule.zones, q.name) == NULL or zones_find(rule.excluded, q.name) != NULL:
            continue
        if rule.by_client:
            q.tailored |= TAILORED_WALK
            if rule.family and rule.family != q.client.family:
                continue
            if rule.prefixes != NULL and not is_in(rule.prefixes, q):
                continue
            if rule.namespace_count and not is_pod_of(filter, rule, q):
                continue
        return rule
    return NULL


cdef bint is_in(const Prefixes *prefixes, const Query *q) noexcept nogil:
    cdef PrefixKey key
    cdef const PrefixNode *node = prefixes_first(prefixes, &q.client, &key)
    while node != NULL:
        if node.value:
            return True
        node = prefixes_next(prefixes, node, &key)
    return False


cdef bint is_pod_of(const Filter *filter, const Rule *rule, Query *q) noexcept nogil:
    """Whether the client is a pod of one of the rule's namespaces; False where that is not certain."""
    cdef Text text
    cdef char name[VALUE]
    cdef uint32_t first = 0, end = rule.namespace_count, middle
    cdef const Namespace *found
    cdef int order
    text.out, text.used, text.capacity, text.full = name, 0, VALUE, 0
    if filter.namespace == NULL or not label_read(filter.namespace, q, &text) or text.full:
        return False
    while first < end:
        middle = first + (end - first) // 2
        found = &rule.namespaces[middle]
        order = memcmp(found.text, name, min(<uint32_t>found.length, text.used))
        if order == 0:
            order = <int>found.length - <int>text.used
        if order == 0:
            return True
        if order < 0:
            first = middle + 1
        else:
            end = middle
    return False


# ---- down ----

cdef Verdict filter_query(Handler *self, Query *q) noexcept nogil:
    cdef const Filter *filter = <const Filter *>self.state
    cdef Work *work
    if q.qtype != filter.family.type and q.qtype != TYPE_AXFR and q.qtype != TYPE_IXFR and q.parent == NULL:
        return NEXT
    work = <Work *>query_scratch(self, q)
    work.step = STEP_DONE
    # A child's reply becomes a part of its parent's, which this handler looks at: dns64 needs the A records that the client must not have.
    if q.parent != NULL and q.parent.chain == q.chain:
        return NEXT
    if q.qtype == TYPE_AXFR or q.qtype == TYPE_IXFR or q.qclass != CLASS_IN or flags_opcode(q.message.flags) != OPCODE_QUERY:
        return NEXT
    if q.qtype != filter.family.type:
        work.step = STEP_REPLY
        return NEXT
    work.rule = find_rule(filter, q)
    if work.rule == NULL:
        return NEXT
    if query_do(q) and not work.rule.break_dnssec:
        work.step = STEP_VALIDATED
        return NEXT
    if work.rule.no_lookup and (filter.cluster_zones == NULL or zones_find(filter.cluster_zones, q.name) == NULL):
        # AA as from every plugin that answers by itself: without it and RA glibc takes a reply without records for that of a broken server.
        query_answer(q, RCODE_NOERROR, FLAG_AA)
        return answer_withheld(filter, q, work)
    work.step = STEP_ASKED
    return ask_other(self, q)


cdef Verdict answer_withheld(const Filter *filter, Query *q, Work *work) noexcept nogil:
    work.withheld = 1
    metric_add(filter.cells[q.server.label].questions, q.worker.id, 1)
    return ANSWERED


cdef Verdict ask_other(Handler *self, Query *q) noexcept nogil:
    cdef const Filter *filter = <const Filter *>self.state
    if query_park(q, 0) < 0 or query_child(self, q, CHILD_CHAIN, q.name, filter.family.other) < 0:
        return query_fail(q, RCODE_SERVFAIL, b"no slot is free for the query for the other family's addresses")
    return PARKED


cdef Verdict filter_resume(Handler *self, Query *q) noexcept nogil:
    cdef const Filter *filter = <const Filter *>self.state
    cdef Work *work = <Work *>query_scratch(self, q)
    cdef const Query *child = q.child
    cdef bint has_other = (child != NULL and child.reply.written and child.reply.rcode == RCODE_NOERROR
                           and reply_has(&child.reply, SECTION_ANSWER, filter.family.other))
    if work.step == STEP_CHECKED:
        if has_other:
            remove(filter, q, work, True)
            withhold(filter, q, child)
        return UP
    work.step = STEP_DONE
    if has_other:
        withhold(filter, q, child)
    elif child != NULL and child.reply.written and (child.reply.rcode == RCODE_NXDOMAIN or work.rule.always):
        take_reply(q, child)
        if child.reply.rcode == RCODE_NOERROR:
            q.reply.flags &= ~<uint16_t>FLAG_AD
    elif not work.rule.always:
        return NEXT
    elif child != NULL and child.reply.rcode != RCODE_NOERROR:
        return query_fail(q, child.reply.rcode, child.error)
    else:
        return query_fail(q, RCODE_SERVFAIL, b"the question for the other family's addresses was dropped")
    return answer_withheld(filter, q, work)


cdef void withhold(const Filter *filter, Query *q, const Query *child) noexcept nogil:
    """NODATA (RFC 2308 2.2) from the reply of the other family, whose aliases are the same."""
    take_reply(q, child)
    q.reply.flags &= ~<uint16_t>(FLAG_AD | FLAG_TC)
    strip_to_nodata(&q.reply, filter.family.other)
    if q.reply.count == 0 and filter.cluster != NULL:
        filter.cluster.soa(filter.cluster, q)


cdef void take_reply(Query *q, const Query *child) noexcept nogil:
    query_answer(q, child.reply.rcode, child.reply.flags)
    q.error[0] = 0
    q.reply.verbatim = child.reply.verbatim
    q.reply.edns = child.reply.edns
    if child.reply.edns.options_length:
        q.reply.edns.options = reply_copy(&q.reply, child.reply.edns.options, child.reply.edns.options_length)
        if q.reply.edns.options == NULL:
            q.reply.edns.options_length = 0
    reply_append(&q.reply, &child.reply, -1)


# ---- up ----

cdef Verdict filter_reply(Handler *self, Query *q) noexcept nogil:
    cdef const Filter *filter = <const Filter *>self.state
    cdef Work *work = <Work *>query_scratch(self, q)
    if work.step == STEP_DONE or not q.reply.written or not strip_has(&q.reply, &filter.family):
        return UP
    if work.step == STEP_REPLY:
        if q.qclass != CLASS_IN or flags_opcode(q.message.flags) != OPCODE_QUERY:
            return UP
        work.rule = find_rule(filter, q)
        if work.rule == NULL:
            return UP
    if query_do(q) and not work.rule.break_dnssec and strip_is_signed(&q.reply):
        return UP
    if work.step == STEP_VALIDATED and not work.rule.always:
        if not reply_has(&q.reply, SECTION_ANSWER, filter.family.type):
            return UP
        work.step = STEP_CHECKED
        return ask_other(self, q)
    remove(filter, q, work, work.rule.always)
    return UP


cdef void remove(const Filter *filter, Query *q, Work *work, bint always) noexcept nogil:
    cdef const Cells *cells = &filter.cells[q.server.label]
    cdef Stripped found = strip_reply(&q.reply, &filter.family, always)
    if found.records or found.hints:
        q.reply.flags &= ~<uint16_t>FLAG_AD
    if found.records:
        metric_add(cells.records, q.worker.id, found.records)
    if found.hints:
        metric_add(cells.hints, q.worker.id, found.hints)
    work.records, work.hints = found.records, found.hints


cdef void filter_explain(Handler *self, Query *q, Explanation *out) noexcept nogil:
    cdef const Work *work = <const Work *>query_scratch(self, q)
    if work.withheld:
        snprintf(out.note, sizeof(out.note), b"withheld")
    elif work.records or work.hints:
        snprintf(out.note, sizeof(out.note), b"removed: %u records, %u hints", work.records, work.hints)


# ---- metrics ----

cdef Metric QUESTIONS = Metric(
    "fastdns_filter_questions_total", "Counter of questions for a withheld family that were answered without being asked.", "counter",
    ("server", "view", "type"))
cdef Metric RECORDS = Metric(
    "fastdns_filter_records_total", "Counter of address records that were removed from replies.", "counter", ("server", "view", "type"))
cdef Metric HINTS = Metric(
    "fastdns_filter_hints_total", "Counter of HTTPS and SVCB records whose address hints were removed.", "counter", ("server", "view", "type"))


# ---- set-up ----

cdef class FilterHandler(NativeHandler):
    cdef Filter filter_
    cdef Blocks blocks          # what the filter points to
    cdef Blocks cells           # likewise, of the present servers
    cdef list kept              # ZoneLists, PrefixTrees and handles

    def __init__(self, str name, list rules, bint is_ipv4):
        handler_init(self)
        NativeHandler.__init__(self, name)
        self.kept = []
        self.filter_.family.type = TYPE_A if is_ipv4 else TYPE_AAAA
        self.filter_.family.other = TYPE_AAAA if is_ipv4 else TYPE_A
        self.filter_.family.hint = HINT_IPV4 if is_ipv4 else HINT_IPV6
        self.handler.state = &self.filter_
        self.handler.query = filter_query
        self.handler.reply = filter_reply
        self.handler.resume = filter_resume
        self.handler.explain = filter_explain
        self.handler.scratch_size = sizeof(Work)
        self.filter_.rules = <Rule *>take(&self.blocks, len(rules), sizeof(Rule))
        for rule in rules:
            self.add_rule(&self.filter_.rules[self.filter_.rule_count], rule)
            self.filter_.rule_count += 1

    def __dealloc__(self):
        blocks_free(&self.blocks)
        blocks_free(&self.cells)

    cdef int add_rule(self, Rule *made, rule) except -1:
        cdef PrefixTree tree
        cdef Namespace *namespace
        made.zones = self.zones(rule.zones)
        made.excluded = self.zones(rule.excluded)
        made.family = rule.family
        made.always = rule.always
        made.no_lookup = rule.no_lookup
        made.break_dnssec = rule.break_dnssec
        made.by_client = rule.by_client
        if rule.networks != EVERYWHERE:
            tree = PrefixTree({network: 1 for network in rule.networks})
            self.kept.append(tree)
            made.prefixes = &tree.prefixes
        names = sorted({name.encode("utf-8", "surrogateescape") for name in rule.namespaces})
        namespace = <Namespace *>take(&self.blocks, len(names), sizeof(Namespace))
        made.namespaces = namespace
        made.namespace_count = <uint32_t>len(names)
        for octets in names:
            if len(octets) > VALUE:
                raise ValueError(f"{VALUE_MAX} octets at most")
            namespace.length = <uint8_t>len(octets)
            memcpy(namespace.text, <const char *><bytes>octets, len(octets))
            namespace += 1
        return 0

    cdef const Zones *zones(self, texts) except NULL:
        cdef ZoneList zones = ZoneList(texts)
        self.kept.append(zones)
        return &zones.zones

    def use(self, LabelHandle namespace not None):
        self.kept.append(namespace)
        self.filter_.namespace = &namespace.label

    def use_cluster(self, ClusterNamesHandle cluster not None):
        self.kept.append(cluster)
        self.filter_.cluster = &cluster.names
        self.filter_.cluster_zones = self.zones(cluster.zones)

    cpdef attach(self, list servers, str view):
        cdef uint32_t count = label_count(servers)
        cdef Cells *cells
        withheld = "A" if self.filter_.family.type == TYPE_A else "AAAA"
        blocks_free(&self.cells)
        self.filter_.cells = <Cells *>take(&self.cells, count, sizeof(Cells))
        for label, server in servers:
            cells = &self.filter_.cells[<uint32_t>label]
            cells.questions = QUESTIONS.cell((server, view, withheld))
            cells.records = RECORDS.cell((server, view, withheld))
            cells.hints = HINTS.cell((server, view, withheld))


cdef void *take(Blocks *blocks, size_t count, size_t size) except NULL:
    cdef void *memory = blocks_take(blocks, count * size)
    if memory == NULL:
        raise MemoryError
    return memory
