"""What policies look at of a client and of its question: read when a policy asks for it, and once for a query."""
from libc.stdint cimport uint8_t, uint32_t
from fastdns.api.metadata cimport Label
from fastdns.api.memory cimport atomic_peek8
from fastdns.api.names cimport ZoneName, Zones, zones_find
from fastdns.api.query cimport Query
from fastdns.plugins.acl._cluster cimport ClusterNames

cdef enum:
    NAMES = 32                  # NAMES_MAX and VALUE_MAX as set-up has them
    VALUE = 63
    NO_NAME = 255
    TARGETS = 8                 # namespaces that a question may be for; one for more is for all
    TARGETS_OCTETS = 512        # of their labels, with the length octets

cdef struct Sources:
    const Zones *zones          # of all rules
    const Label *labels[NAMES]  # by the number of a name; NULL: a client never has it. Each borrowed from its handle
    uint8_t namespace           # number of the name for the client's namespace, or NO_NAME
    const ClusterNames *cluster     # NULL: no name is one of a namespace. Borrowed likewise
    const uint8_t *unsynced     # bits of what is not known any more (_cluster.pxd); NULL: the last state counts. Borrowed likewise

cdef struct Facts:
    Query *q
    const Sources *sources
    const ZoneName *zone        # the longest one that holds the name; NULL: it was not looked for, or there is none
    uint32_t read               # a bit for each name
    uint32_t known              # likewise: the client has one
    uint8_t length[NAMES]
    char text[NAMES][VALUE]
    uint8_t targets_read
    uint8_t all_targets         # more than TARGETS namespaces, or the whole zone
    uint32_t target_count
    uint8_t targets[TARGETS_OCTETS]
    const uint8_t *target[TARGETS]  # labels of namespaces in wire form

cdef inline void facts_begin(Facts *facts, Query *q, const Sources *sources) noexcept nogil:
    facts.q = q
    facts.sources = sources
    facts.zone = NULL
    facts.read = facts.known = 0
    facts.targets_read = 0

# Reads what a client has for a name.
cdef void facts_read(Facts *facts, uint32_t name) noexcept nogil
# Reads the namespaces that the question is for.
cdef void facts_read_targets(Facts *facts) noexcept nogil

cdef inline const ZoneName *facts_zone(Facts *facts) noexcept nogil:
    if facts.zone == NULL:
        facts.zone = zones_find(facts.sources.zones, facts.q.name)
    return facts.zone

cdef inline bint facts_has(Facts *facts, uint32_t name) noexcept nogil:
    """Whether the client has something for a name: `text` and `length` are set then."""
    if not facts.read >> name & 1:
        facts_read(facts, name)
    return facts.known >> name & 1

cdef inline uint8_t facts_unsynced(const Facts *facts) noexcept nogil:
    return 0 if facts.sources.unsynced == NULL else atomic_peek8(facts.sources.unsynced)
