"""The native handler of acl: each rule's networks are one radix tree, whose nodes name the policies that mention them."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memcpy
from fastdns.api.query cimport ANSWERED, DROPPED, NEXT, Handler, NativeHandler, Query, Verdict, handler_init, query_answer
from fastdns.api.names cimport ZoneList, ZoneName, Zones, zones_match
from fastdns.api.wire cimport EDNS_DO, RCODE_NOERROR, RCODE_REFUSED
from fastdns.api.metrics cimport Metric, metric_add
from fastdns.api.metadata cimport Label, LabelHandle, label_read
from fastdns.api.text cimport Text
from fastdns.api.network cimport PrefixKey, PrefixNode, PrefixTree, Prefixes, prefixes_first, prefixes_next
from fastdns._wire import name_text
from fastdns.plugins.acl.rules import ACTIONS, NAMES_MAX, VALUE_MAX, names_of

cdef enum:
    EDNS_SIZE = 4096            # of the OPT where the client sent none
    OPTION_SIZE = 6

cdef enum Action:               # ACTIONS' order
    ALLOW
    BLOCK
    FILTER
    DROP
    NO_ACTION

cdef enum:
    NAMES = 32                  # NAMES_MAX and VALUE_MAX as set-up has them
    VALUE = 63

cdef struct Alternative:        # a value that the client's may be
    uint8_t name                # number in Acl.labels
    uint8_t last                # of its condition
    uint8_t length
    char text[VALUE]

cdef struct Policy:
    uint16_t *types             # in the rule's `types`
    uint32_t type_count         # 0: every type
    uint32_t alternative_count
    Alternative *alternatives   # in the rule's; of all conditions, which must hold, one after another
    uint8_t action

cdef struct Mention:            # the policies that name one network: positions in ascending order
    uint32_t *policies
    uint32_t count

cdef struct Rule:               # all that it points to belongs to the handler
    const Zones *zones
    const Prefixes *prefixes    # a node's value is the number of its mention
    Mention *mentions           # mentions[0] is nobody's
    Policy *policies
    uint32_t policy_count
    uint32_t *cells             # of metrics: by server label, zone, and block, filter or drop

cdef struct Acl:
    Rule *rules
    uint32_t rule_count
    const Label *labels[NAMES]  # what conditions read; each borrowed from its handle
    uint32_t *allowed           # metric cells by server label

cdef struct Client:             # what was read of the client so far
    uint32_t read               # a bit for each of Acl.labels
    uint32_t known              # likewise: it has one
    uint8_t length[NAMES]
    char text[NAMES][VALUE]

# Extended DNS errors without a text (RFC 8914): code 15, two octets, Blocked or Filtered.
cdef const uint8_t *BLOCKED = b"\x00\x0f\x00\x02\x00\x0f"
cdef const uint8_t *FILTERED = b"\x00\x0f\x00\x02\x00\x11"


cdef inline bint has_type(const Policy *policy, uint16_t qtype) noexcept nogil:
    cdef uint32_t i
    if policy.type_count == 0:
        return True
    for i in range(policy.type_count):
        if policy.types[i] == qtype:
            return True
    return False


cdef void read_name(Client *client, const Label *label, uint32_t name, Query *q) noexcept nogil:
    cdef Text text
    text.out, text.used, text.capacity, text.full = client.text[name], 0, VALUE, 0
    client.read |= 1u << name
    if label != NULL and label_read(label, q, &text) and not text.full:
        client.known |= 1u << name
        client.length[name] = <uint8_t>text.used


cdef bint hold(const Acl *acl, const Policy *policy, Client *client, Query *q) noexcept nogil:
    """Whether all conditions do."""
    cdef const Alternative *wanted
    cdef bint found = False
    cdef uint32_t i
    for i in range(policy.alternative_count):
        wanted = &policy.alternatives[i]
        if not found:
            if not client.read >> wanted.name & 1:
                read_name(client, acl.labels[wanted.name], wanted.name, q)
            found = (client.known >> wanted.name & 1 and client.length[wanted.name] == wanted.length
                     and memcmp(client.text[wanted.name], wanted.text, wanted.length) == 0)
        if wanted.last:
            if not found:
                return False
            found = False
    return True


cdef inline Action decide(const Acl *acl, const Rule *rule, Query *q, Client *client) noexcept nogil:
    """What the first policy says that has the query's type and source, and whose conditions hold; client is NULL where no policy has any."""
    cdef PrefixKey key
    cdef const Mention *mention
    cdef const PrefixNode *node = prefixes_first(rule.prefixes, &q.client, &key)
    cdef uint32_t i, policy, best = rule.policy_count
    while node != NULL:
        mention = &rule.mentions[node.value]
        for i in range(mention.count):
            policy = mention.policies[i]
            if policy >= best:
                break
            if has_type(&rule.policies[policy], q.qtype) and (client == NULL or hold(acl, &rule.policies[policy], client, q)):
                best = policy
                break
        node = prefixes_next(rule.prefixes, node, &key)
    return <Action>rule.policies[best].action if best < rule.policy_count else NO_ACTION


cdef Verdict answer_empty(Query *q, uint16_t rcode, const uint8_t *option) noexcept nogil:
    """No records, and an OPT that says why, even to who sent none."""
    query_answer(q, rcode, 0)
    q.reply.edns.present = 1
    q.reply.edns.version = 0
    q.reply.edns.extended_rcode = 0
    q.reply.edns.udp_size = EDNS_SIZE
    q.reply.edns.flags = EDNS_DO
    q.reply.edns.options = option
    q.reply.edns.options_length = OPTION_SIZE
    return ANSWERED


cdef inline Verdict apply(Handler *self, Query *q, Client *client) noexcept nogil:
    cdef const Acl *acl = <const Acl *>self.state
    cdef const Rule *rule
    cdef const ZoneName *zone
    cdef Action action
    cdef uint32_t i
    for i in range(acl.rule_count):
        rule = &acl.rules[i]
        zone = zones_match(rule.zones, q.name)
        if zone == NULL:
            continue
        action = decide(acl, rule, q, client)
        if action == NO_ACTION:
            continue
        if action == ALLOW:
            break
        metric_add(rule.cells[3 * (q.server.label * rule.zones.count + <uint32_t>(zone - rule.zones.names)) + <uint32_t>action - BLOCK],
                   q.worker.id, 1)
        if action == BLOCK:
            return answer_empty(q, RCODE_REFUSED, BLOCKED)
        if action == FILTER:
            return answer_empty(q, RCODE_NOERROR, FILTERED)
        return DROPPED
    metric_add(acl.allowed[q.server.label], q.worker.id, 1)
    return NEXT


cdef Verdict acl_query(Handler *self, Query *q) noexcept nogil:
    return apply(self, q, NULL)


cdef Verdict acl_query_clients(Handler *self, Query *q) noexcept nogil:
    """Where policies have conditions."""
    cdef Client client
    client.read = client.known = 0
    return apply(self, q, &client)


cdef Metric BLOCKS = Metric("coredns_acl_blocked_requests_total", "Counter of DNS requests being blocked.", "counter", ("server", "zone", "view"))
cdef Metric FILTERS = Metric("coredns_acl_filtered_requests_total", "Counter of DNS requests being filtered.", "counter", ("server", "zone", "view"))
cdef Metric DROPS = Metric("coredns_acl_dropped_requests_total", "Counter of DNS requests being dropped.", "counter", ("server", "zone", "view"))
cdef Metric ALLOWS = Metric("coredns_acl_allowed_requests_total", "Counter of DNS requests being allowed.", "counter", ("server", "view"))


cdef void *zeroed(size_t count, size_t size) except NULL:
    cdef void *memory = calloc(count + 1, size)
    if memory == NULL:
        raise MemoryError
    return memory


cdef int set_alternative(Alternative *made, name, bytes octets) except -1:
    if name >= NAMES or len(octets) > VALUE:
        raise ValueError(f"{NAMES_MAX} names and {VALUE_MAX} octets at most")
    made.name = <uint8_t>name
    made.length = <uint8_t>len(octets)
    memcpy(made.text, <const char *>octets, len(octets))
    return 0


cdef class AclHandler(NativeHandler):
    cdef Acl acl
    cdef list zones             # ZoneList of each rule
    cdef list trees             # PrefixTree of each rule
    cdef list names             # of what conditions read
    cdef list labels            # LabelHandles

    def __init__(self, str name, rules):
        handler_init(self)
        NativeHandler.__init__(self, name)
        self.zones = []
        self.trees = []
        self.labels = []
        self.names = names_of(rules)
        self.handler.state = &self.acl
        self.handler.query = acl_query_clients if self.names else acl_query
        self.acl.rules = <Rule *>zeroed(len(rules), sizeof(Rule))
        for rule in rules:
            self.acl.rule_count += 1
            self.add(&self.acl.rules[self.acl.rule_count - 1], rule)

    def __dealloc__(self):
        cdef uint32_t i
        cdef Rule *rule
        for i in range(self.acl.rule_count):
            rule = &self.acl.rules[i]
            free(rule.cells)
            if rule.mentions != NULL:
                free(rule.mentions[0].policies)
            if rule.policies != NULL:
                free(rule.policies[rule.policy_count].types)
                free(rule.policies[rule.policy_count].alternatives)
            free(rule.mentions)
            free(rule.policies)
        free(self.acl.rules)
        free(self.acl.allowed)

    cdef int add(self, Rule *rule, given) except -1:
        """Takes over one rule of the Corefile. All mentions share a block of numbers, all policies one of types and one of values; the spare ones own them."""
        cdef ZoneList zones = ZoneList(given.zones)
        cdef PrefixTree tree
        cdef Policy *policy
        cdef uint32_t *number
        cdef uint16_t *types
        cdef Alternative *alternatives
        mentions = {}
        for position, wanted in enumerate(given.policies):
            for network in dict.fromkeys(wanted.networks):
                mentions.setdefault(masked(network), {})[position] = None
        tree = PrefixTree({network: place for place, network in enumerate(mentions, 1)})
        self.zones.append(zones)
        self.trees.append(tree)
        rule.zones = &zones.zones
        rule.prefixes = &tree.prefixes
        rule.policies = <Policy *>zeroed(len(given.policies), sizeof(Policy))
        rule.policy_count = <uint32_t>len(given.policies)
        types = <uint16_t *>zeroed(sum(len(wanted.types) for wanted in given.policies), sizeof(uint16_t))
        rule.policies[rule.policy_count].types = types
        alternatives = <Alternative *>zeroed(sum(len(condition) for wanted in given.policies for condition in wanted.conditions), sizeof(Alternative))
        rule.policies[rule.policy_count].alternatives = alternatives
        for position, wanted in enumerate(given.policies):
            policy = &rule.policies[<uint32_t>position]
            policy.action = <uint8_t>ACTIONS.index(wanted.action)
            policy.types = types
            for qtype in wanted.types:
                types[0] = qtype
                types += 1
            policy.type_count = <uint32_t>len(wanted.types)
            policy.alternatives = alternatives
            for condition in wanted.conditions:
                for name, value in condition:
                    octets = value.encode("utf-8", "surrogateescape")
                    set_alternative(alternatives, self.names.index(name), octets)
                    alternatives += 1
                (alternatives - 1).last = 1
            policy.alternative_count = <uint32_t>(alternatives - policy.alternatives)
        rule.mentions = <Mention *>zeroed(len(mentions), sizeof(Mention))
        number = <uint32_t *>zeroed(sum(map(len, mentions.values())), sizeof(uint32_t))
        rule.mentions[0].policies = number
        for place, positions in enumerate(mentions.values(), 1):
            rule.mentions[<uint32_t>place].policies = number
            rule.mentions[<uint32_t>place].count = <uint32_t>len(positions)
            for position in positions:
                number[0] = position
                number += 1
        return 0

    def use(self, str name not None, LabelHandle label not None):
        self.labels.append(label)
        self.acl.labels[<uint32_t>self.names.index(name)] = &label.label

    cpdef attach(self, list servers, str view):
        cdef uint32_t most = 0, i, j, at
        cdef Rule *rule
        for label, _ in servers:
            most = max(most, <uint32_t>label)
        free(self.acl.allowed)
        self.acl.allowed = <uint32_t *>zeroed(most + 1, sizeof(uint32_t))
        for i in range(self.acl.rule_count):
            rule = &self.acl.rules[i]
            free(rule.cells)
            rule.cells = NULL
            rule.cells = <uint32_t *>zeroed((most + 1) * rule.zones.count * 3, sizeof(uint32_t))
        for label, server in servers:
            self.acl.allowed[<uint32_t>label] = ALLOWS.cell((server, view))
            for i in range(self.acl.rule_count):
                rule = &self.acl.rules[i]
                for j in range(rule.zones.count):
                    zone = name_text(rule.zones.names[j].wire[:rule.zones.names[j].length])
                    at = 3 * (<uint32_t>label * rule.zones.count + j)
                    rule.cells[at] = BLOCKS.cell((server, zone, view))
                    rule.cells[at + 1] = FILTERS.cell((server, zone, view))
                    rule.cells[at + 2] = DROPS.cell((server, zone, view))


def masked(network):
    """The network without bits behind its prefix, so that two spellings of it are one."""
    octets, bits = network
    rest = 8 * len(octets) - bits
    return (int.from_bytes(octets, "big") >> rest << rest).to_bytes(len(octets), "big"), bits
