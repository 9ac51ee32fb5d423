"""Policies as sets, one for each value that a query may have: the policies that match a query are an intersection of a few sets, whatever their number.

A table has up to TABLE_MAX policies. A set has a bit for each, in words of 64, and a summary with a bit for each word that is not empty; the intersection
of the summaries says which words are looked at. The lowest bit is the first policy of the Corefile, which decides.

Most tables have a single word. There a query intersects these words by the sets' numbers, without summaries.
"""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from fastdns.api.memory cimport Blocks
from fastdns.api.network cimport PrefixKey, PrefixNode, PrefixTree, Prefixes, prefixes_first, prefixes_next
from fastdns.api.query cimport Query
from fastdns.api.wire cimport RRTYPES_DENSE
from fastdns.plugins.acl._facts cimport NAMES, TARGETS, VALUE, Facts

cdef enum:
    TABLE_MAX = 4096            # policies of a table
    WORD = 64                   # of a table with a single word
    NETWORKS = 129              # that contain one address
    KEY_TARGET = 255            # in place of a name's number: the namespace that the question is for

cdef struct PolicySet:
    uint64_t summary
    const uint64_t *words       # from the summary's lowest bit to its highest one
    uint32_t first              # that lowest bit

cdef struct Alternative:        # a value that the client's may be
    uint8_t name
    uint8_t last                # of its condition
    uint8_t length
    char text[VALUE]

cdef struct Key:                # of the hash table of values
    uint64_t hash
    uint32_t set
    uint8_t used
    uint8_t name                # a name's number, or KEY_TARGET
    uint8_t length
    char text[VALUE]

cdef struct Line:               # a policy
    uint8_t action
    uint8_t audit
    uint8_t conditional         # has a condition with a key
    uint8_t targeted
    uint32_t rule               # the directive that it stands in
    uint32_t place              # of the policy in all directives
    uint32_t alternative_count
    const Alternative *alternatives     # of the conditions that no set has, one after another; all must hold

cdef struct Table:              # owned by a PolicyTable; constant
    const Line *lines
    const PolicySet *sets       # sets[0] is empty
    const uint64_t *words       # of the sets by their number, where the table has a single word; else NULL
    const uint32_t *zones       # set of the policies for names whose longest zone is that one
    const Prefixes *prefixes    # a node's value is the number of a set
    const Key *keys             # open addressing
    uint32_t key_mask
    uint32_t names              # a bit for each name that a key has
    uint32_t other_types        # set of the policies for types that no policy names
    uint32_t types[RRTYPES_DENSE]
    uint32_t sparse_count
    const uint32_t *sparse      # types from RRTYPES_DENSE on that policies name, each followed by its set
    uint32_t allow
    uint32_t audit
    uint32_t unconditional      # without a condition that has a key
    uint32_t untargeted         # without targets
    uint32_t any_target
    uint32_t own                # with the client's namespace as a target

cdef struct Candidates:         # the policies of one query that are left; its sets, and their union for networks and conditions
    uint64_t bits               # of `word`
    uint64_t summary            # of the words behind it where a policy may match, as far as is known; 0 where the table has a single one
    uint32_t word
    uint8_t enforced            # audits do not count
    uint8_t conditions_applied  # to `bits`
    uint8_t targets_applied
    uint8_t conditions_read
    uint8_t targets_read
    uint32_t network_count
    uint32_t condition_count
    const PolicySet *zone
    const PolicySet *type
    const PolicySet *networks[NETWORKS]
    const PolicySet *conditions[NAMES]
    const PolicySet *targets[TARGETS][2]      # of each namespace that the question is for: as a name, and as the client's; NULL: none

cdef inline uint32_t type_set(const Table *table, uint16_t qtype) noexcept nogil:
    cdef uint32_t i
    if qtype < RRTYPES_DENSE:
        return table.types[qtype]
    for i in range(table.sparse_count):
        if table.sparse[2 * i] == qtype:
            return table.sparse[2 * i + 1]
    return table.other_types

cdef inline uint64_t network_bits(const Table *table, const Query *q) noexcept nogil:
    """Of a table with a single word."""
    cdef PrefixKey key
    cdef uint64_t bits = 0
    cdef const PrefixNode *node = prefixes_first(table.prefixes, &q.client, &key)
    while node != NULL:
        bits |= table.words[node.value]
        node = prefixes_next(table.prefixes, node, &key)
    return bits

cdef inline bint candidates_begin(const Table *table, const Query *q, uint32_t zone, Candidates *found) noexcept nogil:
    """The sets of a query in a table; zone: position of the longest zone that holds its name. False: no policy matches."""
    cdef uint32_t of_zone = table.zones[zone], of_type = type_set(table, q.qtype)
    found.word = found.enforced = found.conditions_applied = found.targets_applied = found.conditions_read = found.targets_read = 0
    if table.words == NULL:
        return candidates_read(table, q, &table.sets[of_zone], &table.sets[of_type], found)
    found.summary = 0
    found.bits = table.words[of_zone] & table.words[of_type]
    if found.bits:
        found.bits &= network_bits(table, q)
    return found.bits != 0

# Of a table with several words.
cdef bint candidates_read(const Table *table, const Query *q, const PolicySet *zone, const PolicySet *type, Candidates *found) noexcept nogil
# The next policy that matches, the first one first; NULL: none does.
cdef const Line *candidates_next(const Table *table, Candidates *found, Facts *facts) noexcept nogil
# Audits do not count from here on.
cdef void candidates_enforce(const Table *table, Candidates *found) noexcept nogil

cdef class PolicyTable:
    cdef Table table
    cdef PrefixTree tree
    cdef Blocks blocks          # what the table points to
    cdef dict numbers           # set as a tuple of positions -> its number
    cdef void *take(self, size_t count, size_t size) except NULL
    cdef uint32_t number(self, positions) except? 0xFFFFFFFF
    cdef int put_lines(self, list lines, list rest, names) except -1
    cdef int put_types(self, list policies) except -1
    cdef int put_networks(self, list policies) except -1
    cdef int put_targets(self, list policies, dict keys) except -1
    cdef int put_keys(self, dict keys) except -1
    cdef int put_sets(self, size_t policy_count) except -1
