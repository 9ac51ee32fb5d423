"""Policies as sets; see _table.pxd."""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy
from fastdns.api.memory cimport blocks_free, blocks_take
from fastdns.api.network cimport PrefixKey, PrefixNode, PrefixTree, prefixes_first, prefixes_next
from fastdns.api.query cimport Query
from fastdns.api.random cimport hash_octets, hash_seed
from fastdns.api.wire cimport RRTYPES_DENSE
from fastdns.plugins.acl._facts cimport NAMES, VALUE, Facts, facts_has, facts_read_targets
from fastdns.plugins.acl.rules import ACTIONS, ANY_TARGET, OWN
from collections import Counter

cdef extern from *:
    int __builtin_ctzll(unsigned long long) noexcept nogil


# ---- sets ----

cdef inline uint64_t word_of(const PolicySet *policies, uint32_t word) noexcept nogil:
    return policies.words[word - policies.first] if policies.summary >> word & 1 else 0


cdef inline const PolicySet *key_set(const Table *table, uint8_t name, const char *text, uint8_t length) noexcept nogil:
    """The policies that have a value as a key; NULL: none."""
    cdef uint64_t hash = key_hash(name, text, length)
    cdef uint64_t i = hash
    cdef const Key *key
    while True:
        key = &table.keys[i & table.key_mask]
        if not key.used:
            return NULL
        if key.hash == hash and key.name == name and key.length == length and memcmp(key.text, text, length) == 0:
            return &table.sets[key.set]
        i += 1


cdef inline uint64_t key_hash(uint8_t name, const char *text, uint8_t length) noexcept nogil:
    return hash_octets(<const uint8_t *>text, length, hash_seed) + name


# ---- which policies match ----

cdef bint candidates_read(const Table *table, const Query *q, const PolicySet *zone, const PolicySet *type, Candidates *found) noexcept nogil:
    cdef PrefixKey key
    cdef const PrefixNode *node
    cdef const PolicySet *policies
    cdef uint64_t summary = 0
    found.bits = 0
    found.zone = zone
    found.type = type
    found.summary = zone.summary & type.summary
    if found.summary == 0:
        return False
    found.network_count = 0
    node = prefixes_first(table.prefixes, &q.client, &key)
    while node != NULL:
        if node.value:
            policies = &table.sets[node.value]
            summary |= policies.summary
            found.networks[found.network_count] = policies
            found.network_count += 1
        node = prefixes_next(table.prefixes, node, &key)
    found.summary &= summary
    return found.summary != 0


cdef const Line *candidates_next(const Table *table, Candidates *found, Facts *facts) noexcept nogil:
    """Conditions and targets are looked at when the first policy that is left has some."""
    cdef const Line *line
    while True:
        while found.bits == 0:
            if found.summary == 0:
                return NULL
            read_word(table, found)
        line = &table.lines[64 * found.word + <uint32_t>__builtin_ctzll(found.bits)]
        if line.conditional and not found.conditions_applied:
            found.bits &= condition_bits(table, found, facts, found.word)
            found.conditions_applied = 1
        elif line.targeted and not found.targets_applied:
            found.bits &= target_bits(table, found, facts, found.word)
            found.targets_applied = 1
        else:
            found.bits &= found.bits - 1
            if line.alternative_count == 0 or hold(line, facts):
                return line


cdef void read_word(const Table *table, Candidates *found) noexcept nogil:
    """The next word's intersection of the sets that are known at once."""
    cdef uint32_t word = <uint32_t>__builtin_ctzll(found.summary), i
    found.summary &= found.summary - 1
    found.word = word
    found.bits = 0
    for i in range(found.network_count):
        found.bits |= word_of(found.networks[i], word)
    found.bits &= word_of(found.zone, word) & word_of(found.type, word)
    if found.enforced:
        candidates_enforce(table, found)
    found.conditions_applied = found.targets_applied = 0


cdef void candidates_enforce(const Table *table, Candidates *found) noexcept nogil:
    found.enforced = 1
    found.bits &= ~word_of(&table.sets[table.audit], found.word)


cdef uint64_t condition_bits(const Table *table, Candidates *found, Facts *facts, uint32_t word) noexcept nogil:
    cdef uint64_t bits = word_of(&table.sets[table.unconditional], word)
    cdef uint64_t summary
    cdef const PolicySet *policies
    cdef uint32_t i, names
    if not found.conditions_read:
        found.conditions_read = 1
        found.condition_count = 0
        summary = table.sets[table.unconditional].summary
        names = table.names
        while names:
            i = <uint32_t>__builtin_ctzll(names)
            names &= names - 1
            if facts_has(facts, i):
                policies = key_set(table, <uint8_t>i, facts.text[i], facts.length[i])
                if policies != NULL:
                    found.conditions[found.condition_count] = policies
                    found.condition_count += 1
                    summary |= policies.summary
        found.summary &= summary
    for i in range(found.condition_count):
        bits |= word_of(found.conditions[i], word)
    return bits


cdef uint64_t target_bits(const Table *table, Candidates *found, Facts *facts, uint32_t word) noexcept nogil:
    """Where the answer may name several namespaces, one that is a target is enough to be blocked; to be allowed, all must be."""
    cdef uint64_t any_target = word_of(&table.sets[table.any_target], word)
    cdef uint64_t allow, all, some = 0, bits
    cdef uint32_t i
    if not found.targets_read:
        read_targets(table, found, facts)
    if facts.all_targets:
        allow = word_of(&table.sets[table.allow], word)
        return word_of(&table.sets[table.untargeted], word) | any_target | ~allow
    if facts.target_count == 0:
        return word_of(&table.sets[table.untargeted], word)
    all = ~<uint64_t>0
    for i in range(facts.target_count):
        bits = any_target
        if found.targets[i][0] != NULL:
            bits |= word_of(found.targets[i][0], word)
        if found.targets[i][1] != NULL:
            bits |= word_of(found.targets[i][1], word)
        all &= bits
        some |= bits
    allow = word_of(&table.sets[table.allow], word)
    return word_of(&table.sets[table.untargeted], word) | all & allow | some & ~allow


cdef void read_targets(const Table *table, Candidates *found, Facts *facts) noexcept nogil:
    cdef const uint8_t *label
    cdef uint64_t summary = table.sets[table.untargeted].summary
    cdef uint32_t i, name = facts.sources.namespace
    cdef bint own = table.own != 0 and facts_has(facts, name)
    found.targets_read = 1
    if not facts.targets_read:
        facts_read_targets(facts)
    for i in range(facts.target_count):
        label = facts.target[i]
        found.targets[i][0] = key_set(table, KEY_TARGET, <const char *>label + 1, label[0])
        found.targets[i][1] = NULL
        if own and facts.length[name] == label[0] and memcmp(facts.text[name], label + 1, label[0]) == 0:
            found.targets[i][1] = &table.sets[table.own]
            summary |= found.targets[i][1].summary
        if found.targets[i][0] != NULL:
            summary |= found.targets[i][0].summary
    if facts.target_count:
        summary |= table.sets[table.any_target].summary
    if not facts.all_targets:
        found.summary &= summary


cdef bint hold(const Line *line, Facts *facts) noexcept nogil:
    """Whether all conditions do that have no set."""
    cdef const Alternative *wanted
    cdef bint found = False
    cdef uint32_t i
    for i in range(line.alternative_count):
        wanted = &line.alternatives[i]
        if not found:
            found = (facts_has(facts, wanted.name) and facts.length[wanted.name] == wanted.length
                     and memcmp(facts.text[wanted.name], wanted.text, wanted.length) == 0)
        if wanted.last:
            if not found:
                return False
            found = False
    return True


# ---- set-up ----

cdef class PolicyTable:
    def __init__(self, list lines, list zones, names):
        """See _table.pyi."""
        cdef list policies = [policy for _, _, policy in lines]
        cdef dict keys = {}
        cdef uint32_t *numbers
        if len(lines) > TABLE_MAX or len(names) > NAMES:
            raise ValueError(f"{TABLE_MAX} policies and {NAMES} names at most")
        self.numbers = {(): 0}
        rest = keyed(policies, list(names), keys)
        numbers = <uint32_t *>self.take(len(zones), sizeof(uint32_t))
        of_rule = {}
        for place, (_, rule, _) in enumerate(lines):
            of_rule.setdefault(rule, []).append(place)
        for place, rules in enumerate(zones):
            numbers[<uint32_t>place] = self.number([line for rule in rules if rule in of_rule for line in of_rule[rule]])
        self.table.zones = numbers
        self.table.allow = self.number(place for place, policy in enumerate(policies) if policy.action == "allow")
        self.table.audit = self.number(place for place, policy in enumerate(policies) if policy.audit)
        self.table.unconditional = self.number(place for place, policy in enumerate(policies) if not policy.conditions)
        self.put_lines(lines, rest, names)
        self.put_types(policies)
        self.put_networks(policies)
        self.put_targets(policies, keys)
        self.put_keys(keys)
        self.put_sets(len(lines))

    def __dealloc__(self):
        blocks_free(&self.blocks)

    cdef void *take(self, size_t count, size_t size) except NULL:
        cdef void *memory = blocks_take(&self.blocks, count * size)
        if memory == NULL:
            raise MemoryError
        return memory

    cdef uint32_t number(self, positions) except? 0xFFFFFFFF:
        """Of the set of these policies."""
        cdef tuple policies = tuple(sorted(set(positions)))
        return self.numbers.setdefault(policies, len(self.numbers))

    cdef int put_lines(self, list lines, list rest, names) except -1:
        cdef Line *made = <Line *>self.take(len(lines), sizeof(Line))
        cdef Alternative *alternatives = <Alternative *>self.take(sum([len(condition) for conditions in rest for condition in conditions]), sizeof(Alternative))
        self.table.lines = made
        for (place, rule, policy), conditions in zip(lines, rest):
            made.action = <uint8_t>ACTIONS.index(policy.action)
            made.audit = policy.audit
            made.conditional = bool(policy.conditions)
            made.targeted = bool(policy.targets)
            made.rule = rule
            made.place = place
            made.alternatives = alternatives
            for condition in conditions:
                for name, value in condition:
                    set_alternative(alternatives, names.index(name), octets_of(value))
                    alternatives += 1
                (alternatives - 1).last = 1
            made.alternative_count = <uint32_t>(alternatives - made.alternatives)
            made += 1
        return 0

    cdef int put_types(self, list policies) except -1:
        cdef dict named = {}
        cdef uint32_t *sparse
        cdef uint32_t i
        every = [place for place, policy in enumerate(policies) if not policy.types]
        for place, policy in enumerate(policies):
            for qtype in policy.types:
                named.setdefault(qtype, []).append(place)
        self.table.other_types = self.number(every)
        for i in range(RRTYPES_DENSE):
            self.table.types[i] = self.number(every + named.pop(i)) if i in named else self.table.other_types
        sparse = <uint32_t *>self.take(2 * len(named), sizeof(uint32_t))
        self.table.sparse = sparse
        self.table.sparse_count = <uint32_t>len(named)
        for qtype, places in named.items():
            sparse[0] = qtype
            sparse[1] = self.number(every + places)
            sparse += 2
        return 0

    cdef int put_networks(self, list policies) except -1:
        cdef dict networks = {}
        for place, policy in enumerate(policies):
            for network in policy.networks:
                networks.setdefault(masked(network), []).append(place)
        self.tree = PrefixTree({network: self.number(places) for network, places in networks.items()})
        self.table.prefixes = &self.tree.prefixes
        return 0

    cdef int put_targets(self, list policies, dict keys) except -1:
        for place, policy in enumerate(policies):
            for target in policy.targets:
                if target not in (OWN, ANY_TARGET):
                    keys.setdefault((<int>KEY_TARGET, octets_of(target)), []).append(place)
        self.table.untargeted = self.number([place for place, policy in enumerate(policies) if not policy.targets])
        self.table.any_target = self.number([place for place, policy in enumerate(policies) if ANY_TARGET in policy.targets])
        self.table.own = self.number([place for place, policy in enumerate(policies) if OWN in policy.targets])
        return 0

    cdef int put_keys(self, dict keys) except -1:
        """At most half of the places are used."""
        cdef uint64_t at, size = 8
        cdef Key *table
        cdef Key *key
        cdef bytes octets
        while size < 2 * <uint64_t>len(keys):
            size *= 2
        table = <Key *>self.take(size, sizeof(Key))
        self.table.keys = table
        self.table.key_mask = <uint32_t>(size - 1)
        for (name, value), places in keys.items():
            octets = value
            if len(octets) > VALUE:
                raise ValueError(f"{VALUE} octets at most")
            at = key_hash(name, octets, <uint8_t>len(octets))
            while table[at & self.table.key_mask].used:
                at += 1
            key = &table[at & self.table.key_mask]
            key.hash = key_hash(name, octets, <uint8_t>len(octets))
            key.used = 1
            key.name = name
            key.length = <uint8_t>len(octets)
            memcpy(key.text, <const char *>octets, len(octets))
            key.set = self.number(places)
            if name != KEY_TARGET:
                self.table.names |= 1u << <uint32_t>name
        return 0

    cdef int put_sets(self, size_t policy_count) except -1:
        cdef PolicySet *sets = <PolicySet *>self.take(len(self.numbers), sizeof(PolicySet))
        cdef PolicySet *made = sets
        cdef uint64_t *single = NULL
        cdef uint64_t *words
        cdef uint32_t place, last
        if policy_count <= WORD:
            single = <uint64_t *>self.take(len(self.numbers), sizeof(uint64_t))
            self.table.words = single
        for policies in self.numbers:       # in the order of their numbers
            if policies:
                made.first = <uint32_t>policies[0] // 64
                last = <uint32_t>policies[len(policies) - 1] // 64
                words = <uint64_t *>self.take(last - made.first + 1, sizeof(uint64_t))
                made.words = words
                for position in policies:
                    place = position
                    made.summary |= <uint64_t>1 << (place // 64)
                    words[place // 64 - made.first] |= <uint64_t>1 << (place % 64)
                if single != NULL:
                    single[made - sets] = words[0]
            made += 1
        self.table.sets = sets
        self.numbers = {}
        return 0


def keyed(list policies not None, list names not None, dict keys not None):
    """Of each policy the condition whose values fewest others have becomes a key. Returns what other conditions each has."""
    rest = []
    values = Counter(value for policy in policies for condition in policy.conditions for value in set(condition))
    for place, policy in enumerate(policies):
        conditions = sorted(policy.conditions, key=lambda condition: max(values[value] for value in condition))
        rest.append(conditions[1:])
        for name, value in conditions[0] if conditions else ():
            keys.setdefault((names.index(name), octets_of(value)), []).append(place)
    return rest


cdef bytes octets_of(str text):
    return text.encode("utf-8", "surrogateescape")


cdef int set_alternative(Alternative *made, name, bytes octets) except -1:
    if name >= NAMES or len(octets) > VALUE:
        raise ValueError(f"{NAMES} names and {VALUE} octets at most")
    made.name = <uint8_t>name
    made.length = <uint8_t>len(octets)
    memcpy(made.text, <const char *>octets, len(octets))
    return 0


cdef masked(network):
    """The network without bits behind its prefix, so that two spellings of it are one."""
    octets, bits = network
    rest = 8 * len(octets) - bits
    return (int.from_bytes(octets, "big") >> rest << rest).to_bytes(len(octets), "big"), bits
