"""Policies as sets, one for each value that a query may have: the policies that match a query are an intersection of a few sets, whatever their number.

A table has up to TABLE_MAX policies. A set has a bit for each, in words of 64, and a summary with a bit for each word that is not empty; the intersection
of the summaries says which words are looked at. The lowest bit is the first policy of the Corefile, which decides.

A query begins with one set, that of its address and its type. Set-up makes it: the set of an address is that of the narrowest network it is in, to which
those of the wider ones are added, and each of these is intersected with each set of types, if that gives no more than PAIRS. Otherwise the type is looked at
like the zone, what the client is and which namespaces the question is for: when the first policy that is left depends on it.

A set takes 32 octets, one for each word of the table and 8 for each of its own words that is not empty: 608 at most. A table has no more sets than PAIRS and
its policies' zones, types, networks and values.

Many tables have a single word. There a query needs no summary.
"""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from fastdns.api.memory cimport Blocks
from fastdns.api.query cimport Query
from fastdns.api.wire cimport RRTYPES_DENSE
from fastdns.plugins.acl._facts cimport NAMES, TARGETS, VALUE, Facts
from fastdns.plugins.acl._networks cimport Networks, networks_find

cdef extern from *:
    int __builtin_ctzll(unsigned long long) noexcept nogil

cdef enum:
    TABLE_MAX = 4096            # policies of a table
    PAIRS = 8192                # of the sets of networks and of types
    WORD = 64                   # policies
    WORDS = 64                  # TABLE_MAX / WORD
    KEY_TARGET = 255            # in place of a name's number: the namespace that the question is for

cdef enum Need:
    NEED_ZONE = 1               # it does not apply to all zones
    NEED_TYPE = 2
    NEED_CONDITIONS = 4         # it has one with a key
    NEED_TARGETS = 8

cdef struct PolicySet:
    uint64_t summary
    const uint8_t *places       # of each word of the table in `words`
    const uint64_t *words       # 0, and behind it those that are not

cdef struct Kinds:              # of the policies of a word: a bit for each that
    uint64_t allow
    uint64_t audit
    uint64_t unconditional      # has no condition with a key
    uint64_t untargeted         # has no targets
    uint64_t any_target
    uint64_t own                # has the client's namespace as a target

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
    uint8_t needs               # what else it depends on than what the first set knows: bits of Need
    uint32_t rule               # the directive that it stands in
    uint32_t place              # of the policy in all directives
    uint32_t alternative_count
    const Alternative *alternatives     # of the conditions that no set has, one after another; all must hold

cdef struct Table:              # owned by a PolicyTable; constant
    const Line *lines
    const PolicySet *sets       # sets[0] is empty
    const uint64_t *words       # of the sets by their number, where the table has a single word; else NULL
    const uint32_t *zones       # set of the policies for names whose longest zone is that one
    Networks networks
    const uint32_t *pairs       # set by that of the address and the class of the type: a row for each of the former
    uint32_t columns            # 1: the sets of the addresses themselves
    uint32_t class_mask         # 0 then, else all ones
    const uint32_t *classes     # set of each class of types
    const Kinds *kinds          # by word
    Kinds summary               # a bit for each word that is not empty
    const Key *keys             # open addressing
    uint32_t key_mask
    uint32_t names              # a bit for each name that a key has
    uint32_t other_types        # class of the types that no policy names
    uint32_t types[RRTYPES_DENSE]       # likewise of each other type
    uint32_t sparse_count
    const uint32_t *sparse      # types from RRTYPES_DENSE on that policies name, each followed by its class

cdef struct Candidates:         # the policies of one query that are left, and its sets
    uint64_t bits               # of `word`
    uint64_t summary            # of the words behind it where a policy may match, as far as is known; 0 where the table has a single one
    uint32_t word
    uint8_t enforced            # audits do not count
    uint8_t read                # bits of Need: the sets that are known
    uint8_t denied              # what policies ask of the client's pod does not count: an allow does not match by it, every other action does
    uint32_t condition_count
    const PolicySet *first      # where the table has several words
    const PolicySet *zone
    const PolicySet *type
    const PolicySet *conditions[NAMES]
    const PolicySet *targets[TARGETS]       # of each namespace that the question is for
    uint8_t own[TARGETS]        # it is the client's, and policies have that as a target

cdef inline uint32_t type_class(const Table *table, uint16_t qtype) noexcept nogil:
    cdef uint32_t i
    if qtype < RRTYPES_DENSE:
        return table.types[qtype]
    for i in range(table.sparse_count):
        if table.sparse[2 * i] == qtype:
            return table.sparse[2 * i + 1]
    return table.other_types

cdef inline uint64_t word_of(const PolicySet *policies, uint32_t word) noexcept nogil:
    return policies.words[policies.places[word]]

cdef inline bint candidates_begin(const Table *table, const Query *q, Candidates *found) noexcept nogil:
    """False: no policy matches."""
    cdef uint32_t number = table.pairs[networks_find(&table.networks, &q.client) * table.columns + (type_class(table, q.qtype) & table.class_mask)]
    cdef const PolicySet *policies
    found.word = 0
    found.summary = 0
    found.enforced = found.read = 0
    if table.words != NULL:
        found.bits = table.words[number]
        return found.bits != 0
    policies = &table.sets[number]
    if policies.summary == 0:
        return False
    found.first = policies
    found.word = <uint32_t>__builtin_ctzll(policies.summary)
    found.summary = policies.summary & (policies.summary - 1)
    found.bits = policies.words[1]
    return True

# candidates_next where more than the first set may be needed.
cdef const Line *candidates_search(const Table *table, Candidates *found, Facts *facts) noexcept nogil

cdef inline const Line *candidates_next(const Table *table, Candidates *found, Facts *facts) noexcept nogil:
    """The next policy that matches, the first one first; NULL: none does."""
    cdef const Line *line
    if found.bits:
        line = &table.lines[64 * found.word + <uint32_t>__builtin_ctzll(found.bits)]
        if line.needs == 0:
            found.bits &= found.bits - 1
            return line
    return candidates_search(table, found, facts)

# Audits do not count from here on.
cdef void candidates_enforce(const Table *table, Candidates *found) noexcept nogil

cdef class PolicyTable:
    cdef Table table
    cdef Blocks blocks          # what the table points to
    cdef readonly size_t size   # octets of these
    cdef uint32_t width         # words
    cdef dict numbers           # set, as the octets of its words -> its number
    cdef void *take(self, size_t count, size_t size) except NULL
    cdef uint32_t number(self, places) except? 0xFFFFFFFF
    cdef uint32_t number_of(self, const uint64_t *words) except? 0xFFFFFFFF
    cdef set put_zones(self, list lines, list zones)
    cdef int put_lines(self, list lines, list rest, names, set everywhere) except -1
    cdef int put_kinds(self, list policies) except -1
    cdef int put_networks(self, list policies) except -1
    cdef int put_types(self, list policies) except -1
    cdef int put_pairs(self, list classes, uint32_t rows) except -1
    cdef int put_keys(self, dict keys) except -1
    cdef int put_sets(self) except -1
