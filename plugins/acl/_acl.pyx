"""The native handler of acl: what the first policy that matches a query says, is done; what audits would do, is counted and logged."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from libc.stdio cimport snprintf
from fastdns.api.query cimport (ANSWERED, DROPPED, NEXT, TAILORED_WALK, Explanation, Handler, NativeHandler, Query, Verdict, handler_init, query_answer,
                                query_error, query_scratch)
from fastdns.api.memory cimport Blocks, blocks_free, blocks_take
from fastdns.api.names cimport ZoneList, ZoneName, Zones, zones_find
from fastdns.api.wire cimport FLAG_AA, RCODE_NOERROR, RCODE_NXDOMAIN, RCODE_REFUSED
from fastdns.api.metrics cimport Metric, label_count, metric_add
from fastdns.api.metadata cimport LabelHandle
from fastdns.plugins.acl._audit cimport AuditLog, audit_log
from fastdns.plugins.acl._cluster cimport ClusterNamesHandle, Unsynced
from fastdns.plugins.acl._facts cimport NO_NAME, Facts, Sources, facts_begin, facts_zone
from fastdns.plugins.acl._table cimport TABLE_MAX, Candidates, Line, PolicyTable, Table, candidates_begin, candidates_enforce, candidates_next
from fastdns._wire import name_text
from fastdns.plugins.acl.rules import NAMESPACE, names_of

cdef enum:
    REFUSALS = 4                # actions other than ALLOW
    PLACE_MAX = 128             # octets of a policy's file and line, with the final zero

cdef enum Action:               # ACTIONS' order
    ALLOW
    BLOCK
    FILTER
    DROP
    NXDOMAIN

cdef struct Rule:               # a directive
    const Zones *zones
    uint32_t *cells             # of metrics: by server label, zone and refusal

cdef struct Place:              # of a policy
    char text[PLACE_MAX]        # file and line
    uint32_t *audits            # metric cells of an audit, by server label and zone of its rule; NULL: it is none

cdef struct Acl:                # all that it points to belongs to the handler
    const Table **tables
    uint32_t table_count
    Rule *rules
    uint32_t rule_count
    Place *places               # by Line.place
    uint32_t place_count
    Sources sources
    AuditLog *log               # NULL: there is no audit
    uint8_t by_client           # some policy looks at the client
    uint32_t *allowed           # metric cells by server label

cdef struct Decision:           # in the query's scratch, for `fastdns explain`: place + 1 of
    uint32_t decided            # the policy that decided; 0: none did
    uint32_t audited            # the audit that would have
    uint8_t action              # of the former
    uint8_t audited_action

cdef enum ExtendedError:        # RFC 8914
    ERROR_BLOCKED = 15
    ERROR_FILTERED = 17

cdef inline const char *word_of(uint8_t action) noexcept nogil:
    """For explain and the log."""
    if action == BLOCK:
        return b"block"
    if action == FILTER:
        return b"filter"
    if action == DROP:
        return b"drop"
    return b"nxdomain" if action == NXDOMAIN else b"allow"


# ---- what is done ----

cdef Verdict answer_empty(Query *q, uint16_t rcode, ExtendedError error) noexcept nogil:
    """No records, and for clients with EDNS the reason."""
    query_answer(q, rcode, 0)
    query_error(q, error, b"")
    return ANSWERED


cdef Verdict answer_nxdomain(const Acl *acl, Query *q) noexcept nogil:
    """As the zone itself would (RFC 2308), where it is one of the cluster."""
    query_answer(q, RCODE_NXDOMAIN, 0)
    if acl.sources.cluster != NULL:
        acl.sources.cluster.soa(acl.sources.cluster, q)
        if q.reply.count:
            q.reply.flags |= FLAG_AA
    query_error(q, ERROR_BLOCKED, b"")
    return ANSWERED


cdef Verdict refuse(const Acl *acl, Query *q, const Line *line) noexcept nogil:
    cdef const Rule *rule = &acl.rules[line.rule]
    metric_add(rule.cells[REFUSALS * zone_of(rule, q) + line.action - BLOCK], q.worker.id, 1)
    if line.action == BLOCK:
        return answer_empty(q, RCODE_REFUSED, ERROR_BLOCKED)
    if line.action == FILTER:
        return answer_empty(q, RCODE_NOERROR, ERROR_FILTERED)
    if line.action == NXDOMAIN:
        return answer_nxdomain(acl, q)
    return DROPPED


cdef inline uint32_t zone_of(const Rule *rule, const Query *q) noexcept nogil:
    """The row of cells of this server and of the rule's zone that has the name."""
    return q.server.label * rule.zones.count + <uint32_t>(zones_find(rule.zones, q.name) - rule.zones.names)


# ---- hooks ----

cdef Verdict acl_query(Handler *self, Query *q) noexcept nogil:
    cdef const Acl *acl = <const Acl *>self.state
    cdef Decision *decision = <Decision *>query_scratch(self, q)
    cdef const Line *line
    cdef Facts facts
    cdef uint32_t i
    decision.decided = decision.audited = 0
    facts_begin(&facts, q, &acl.sources)
    if acl.sources.zones.all or facts_zone(&facts) != NULL:
        if acl.by_client:
            q.tailored |= TAILORED_WALK
        for i in range(acl.table_count):
            line = decide(acl, acl.tables[i], &facts, decision)
            if line != NULL:
                decision.decided = line.place + 1
                decision.action = line.action
                if line.action == ALLOW:
                    break
                return refuse(acl, q, line)
    metric_add(acl.allowed[q.server.label], q.worker.id, 1)
    return NEXT


cdef inline const Line *decide(const Acl *acl, const Table *table, Facts *facts, Decision *decision) noexcept nogil:
    """The first policy that matches, or NULL. An audit before it is what would decide, were it none: only the first one counts."""
    cdef Candidates found
    cdef const Line *line
    if not candidates_begin(table, facts.q, &found):
        return NULL
    if decision.audited:
        candidates_enforce(table, &found)
    while True:
        line = candidates_next(table, &found, facts)
        if line == NULL or not line.audit:
            return line
        decision.audited = line.place + 1
        decision.audited_action = line.action
        metric_add(acl.places[line.place].audits[zone_of(&acl.rules[line.rule], facts.q)], facts.q.worker.id, 1)
        candidates_enforce(table, &found)


cdef void acl_done(Handler *self, Query *q) noexcept nogil:
    """Where there are audits. What is explained is not logged."""
    cdef const Acl *acl = <const Acl *>self.state
    cdef const Decision *decision = <const Decision *>query_scratch(self, q)
    cdef Facts facts
    if decision.audited:
        facts_begin(&facts, q, &acl.sources)
        audit_log(acl.log, &facts, decision.audited, word_of(decision.audited_action), acl.places[decision.audited - 1].text)


cdef void acl_explain(Handler *self, Query *q, Explanation *out) noexcept nogil:
    cdef const Acl *acl = <const Acl *>self.state
    cdef const Decision *decision = <const Decision *>query_scratch(self, q)
    cdef int used = 0
    if decision.audited:
        used = snprintf(out.note, sizeof(out.note), b"audit: %s by %s", word_of(decision.audited_action), acl.places[decision.audited - 1].text)
    if decision.decided:
        snprintf(out.note + used, sizeof(out.note) - used, b"%s%s by %s", <const char *>b"; " if used else <const char *>b"",
                 word_of(decision.action), acl.places[decision.decided - 1].text)


# ---- metrics ----

cdef Metric ALLOWS = Metric("coredns_acl_allowed_requests_total", "Counter of DNS requests being allowed.", "counter", ("server", "view"))
cdef Metric AUDITS = Metric(
    "fastdns_acl_audited_requests_total", "Counter of DNS requests that passed an audit which would have stopped them.", "counter",
    ("server", "zone", "view", "action", "rule"),
)

#: Of each action but allow, in their order.
STOPPED = [
    Metric("coredns_acl_blocked_requests_total", "Counter of DNS requests being blocked.", "counter", ("server", "zone", "view")),
    Metric("coredns_acl_filtered_requests_total", "Counter of DNS requests being filtered.", "counter", ("server", "zone", "view")),
    Metric("coredns_acl_dropped_requests_total", "Counter of DNS requests being dropped.", "counter", ("server", "zone", "view")),
    Metric("fastdns_acl_nxdomain_requests_total", "Counter of DNS requests answered with NXDOMAIN.", "counter", ("server", "zone", "view")),
]


# ---- set-up ----

cdef class AclHandler(NativeHandler):
    cdef Acl acl
    cdef Blocks blocks          # what the acl points to
    cdef Blocks cells           # likewise, of the present servers
    cdef ZoneList zones         # of all rules
    cdef list zone_lists        # of each rule
    cdef list tables            # PolicyTables
    cdef list policies          # (number of the rule, policy), by place
    cdef list names             # of what policies look at
    cdef list handles           # LabelHandles and a ClusterNamesHandle

    def __init__(self, str name, rules):
        handler_init(self)
        NativeHandler.__init__(self, name)
        self.handles = []
        self.names = names_of(rules)
        self.policies = [(number, policy) for number, rule in enumerate(rules) for policy in rule.policies]
        self.handler.state = &self.acl
        self.handler.query = acl_query
        self.handler.explain = acl_explain
        self.handler.scratch_size = sizeof(Decision)
        self.acl.by_client = any([policy.by_client for _, policy in self.policies])
        self.acl.sources.namespace = <uint8_t>(self.names.index(NAMESPACE) if NAMESPACE in self.names else NO_NAME)
        self.add_rules(rules)
        self.add_places()
        self.add_tables(rules)

    def __dealloc__(self):
        blocks_free(&self.blocks)
        blocks_free(&self.cells)

    cdef int add_rules(self, rules) except -1:
        cdef ZoneList zones
        self.zone_lists = []
        self.acl.rules = <Rule *>take(&self.blocks, len(rules), sizeof(Rule))
        for rule in rules:
            zones = ZoneList(rule.zones)
            self.zone_lists.append(zones)
            self.acl.rules[self.acl.rule_count].zones = &zones.zones
            self.acl.rule_count += 1
        self.zones = ZoneList([zone for rule in rules for zone in rule.zones])
        self.acl.sources.zones = &self.zones.zones
        return 0

    cdef int add_places(self) except -1:
        self.acl.places = <Place *>take(&self.blocks, len(self.policies), sizeof(Place))
        for _, policy in self.policies:
            text = place_text(policy).encode("utf-8", "surrogateescape")
            snprintf(self.acl.places[self.acl.place_count].text, PLACE_MAX, b"%s", <const char *><bytes>text)
            self.acl.place_count += 1
        if any([policy.audit for _, policy in self.policies]):
            self.acl.log = <AuditLog *>take(&self.blocks, 1, sizeof(AuditLog))
            self.handler.done = acl_done
        return 0

    cdef int add_tables(self, rules) except -1:
        cdef PolicyTable table
        zones = self.rules_of_zones(rules)
        lines = [(place, number, policy) for place, (number, policy) in enumerate(self.policies)]
        self.tables = [PolicyTable(lines[first:first + TABLE_MAX], zones, self.names) for first in range(0, len(lines), TABLE_MAX)]
        self.acl.tables = <const Table **>take(&self.blocks, len(self.tables), sizeof(Table *))
        for made in self.tables:
            table = made
            self.acl.tables[self.acl.table_count] = &table.table
            self.acl.table_count += 1
        return 0

    cdef list rules_of_zones(self, rules):
        """For each zone of any rule, the numbers of those that apply to names in it: they have the zone, or one above."""
        cdef list found = []
        cdef uint32_t i
        having = {}
        for number in range(self.acl.rule_count):
            for i in range(self.acl.rules[<uint32_t>number].zones.count):
                having.setdefault(wire_of(&self.acl.rules[<uint32_t>number].zones.names[i]), []).append(number)
        for i in range(self.zones.zones.count):
            wire = wire_of(&self.zones.zones.names[i])
            numbers = set(having[wire])
            while wire != b"\0":
                wire = wire[wire[0] + 1:]
                numbers.update(having.get(wire, ()))
            found.append(numbers)
        return found

    def use(self, str name not None, LabelHandle label not None):
        self.handles.append(label)
        self.acl.sources.labels[<uint32_t>self.names.index(name)] = &label.label

    def use_cluster(self, ClusterNamesHandle cluster not None):
        self.handles.append(cluster)
        self.acl.sources.cluster = &cluster.names

    def use_unsynced(self, Unsynced unsynced not None):
        self.handles.append(unsynced)
        self.acl.sources.unsynced = &unsynced.flags

    cpdef set_traits(self, traits):
        """Its `done` hook alone has side effects: the plugin itself runs in check."""
        NativeHandler.set_traits(self, traits)
        self.handler.side_effects = 1

    cpdef attach(self, list servers, str view):
        cdef uint32_t labels = label_count(servers), i, j
        cdef Rule *rule
        cdef Place *place
        blocks_free(&self.cells)
        self.acl.allowed = <uint32_t *>take(&self.cells, labels, sizeof(uint32_t))
        for i in range(self.acl.rule_count):
            rule = &self.acl.rules[i]
            rule.cells = <uint32_t *>take(&self.cells, labels * rule.zones.count * REFUSALS, sizeof(uint32_t))
            for label, server in servers:
                for j in range(rule.zones.count):
                    zone = name_text(wire_of(&rule.zones.names[j]))
                    for refusal in range(REFUSALS):
                        rule.cells[REFUSALS * (<uint32_t>label * rule.zones.count + j) + <uint32_t>refusal] = (
                            (<Metric>STOPPED[refusal]).cell((server, zone, view)))
        for label, server in servers:
            self.acl.allowed[<uint32_t>label] = ALLOWS.cell((server, view))
        for i in range(self.acl.place_count):
            number, policy = self.policies[i]
            if policy.audit:
                rule = &self.acl.rules[<uint32_t>number]
                place = &self.acl.places[i]
                place.audits = <uint32_t *>take(&self.cells, labels * rule.zones.count, sizeof(uint32_t))
                for label, server in servers:
                    for j in range(rule.zones.count):
                        zone = name_text(wire_of(&rule.zones.names[j]))
                        place.audits[<uint32_t>label * rule.zones.count + j] = AUDITS.cell((server, zone, view, policy.action, place_text(policy)))


cdef bytes wire_of(const ZoneName *zone):
    return zone.wire[:zone.length]


cdef str place_text(policy):
    return "" if policy.place is None else f"{policy.place.file}:{policy.place.line}"


cdef void *take(Blocks *blocks, size_t count, size_t size) except NULL:
    cdef void *memory = blocks_take(blocks, count * size)
    if memory == NULL:
        raise MemoryError
    return memory
