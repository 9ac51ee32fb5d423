"""Policies as sets, one for each value that a query may have: the policies that match a query are an intersection of a few sets, whatever their number.

A table has up to TABLE_MAX policies. A set has a bit for each, in words of 64, and a summary with a bit for each word that is not empty; the intersection
of the summaries says which words are looked at. The lowest bit is the first policy of the Corefile, which decides.
"""
from libc.stdint cimport int32_t, uint8_t, uint16_t, uint32_t, uint64_t
from fastdns.api.memory cimport Blocks
from fastdns.api.network cimport PrefixTree, Prefixes
from fastdns.api.query cimport Query
from fastdns.api.wire cimport RRTYPES_DENSE
from fastdns.plugins.acl._facts cimport NAMES, TARGETS, VALUE, Facts

cdef enum:
    TABLE_MAX = 4096            # policies of a table
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
    uint32_t rule               # the directive that it stands in
    uint32_t place              # of the policy in all directives
    uint32_t alternative_count
    const Alternative *alternatives     # of the conditions that no set has, one after another; all must hold

cdef struct Table:              # owned by a PolicyTable; constant
    const Line *lines
    const PolicySet *sets       # sets[0] is empty
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
    uint32_t conditional
    uint32_t untargeted         # without targets
    uint32_t targeted
    uint32_t any_target
    uint32_t own                # with the client's namespace as a target

cdef struct Candidates:         # the sets of one query; their union for networks and conditions
    uint64_t summary            # of the words where a policy may match, as far as is known
    const PolicySet *zone
    const PolicySet *type
    const PolicySet *networks[NETWORKS]
    uint32_t network_count
    const PolicySet *conditions[NAMES]
    uint32_t condition_count
    uint8_t conditions_read
    const PolicySet *targets[TARGETS][2]      # of each namespace that the question is for: as a name, and as the client's; NULL: none
    uint8_t targets_read

# The sets of a query in a table; zone: position of the longest zone that holds its name. False: no policy matches.
cdef bint candidates_begin(const Table *table, const Query *q, uint32_t zone, Candidates *found) noexcept nogil
# The first policy from position `least` on that matches, or -1. With `enforced`, audits do not count.
cdef int32_t candidates_next(const Table *table, Candidates *found, Facts *facts, uint32_t least, bint enforced) noexcept nogil

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
    cdef int put_sets(self) except -1
