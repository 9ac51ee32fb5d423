"""Policies as sets; see _table.pxd."""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memset
from fastdns.api.memory cimport blocks_free, blocks_take
from fastdns.api.random cimport hash_octets, hash_seed
from fastdns.api.wire cimport RRTYPES_DENSE
from fastdns.plugins.acl._cluster cimport UNSYNCED_CLIENTS, UNSYNCED_NAMES
from fastdns.plugins.acl._facts cimport NAMES, VALUE, Facts, facts_has, facts_read_targets, facts_unsynced, facts_zone
from fastdns.plugins.acl._networks cimport networks_set
from fastdns.plugins.acl.rules import ACTIONS, ANY_TARGET, EVERYWHERE, OWN
from collections import Counter

# ---- sets ----

cdef inline const PolicySet *key_set(const Table *table, uint8_t name, const char *text, uint8_t length) noexcept nogil:
    """The policies that have a value as a key."""
    cdef uint64_t hash = key_hash(name, text, length)
    cdef uint64_t i = hash
    cdef const Key *key
    while True:
        key = &table.keys[i & table.key_mask]
        if not key.used:
            return table.sets
        if key.hash == hash and key.name == name and key.length == length and memcmp(key.text, text, length) == 0:
            return &table.sets[key.set]
        i += 1


cdef inline uint64_t key_hash(uint8_t name, const char *text, uint8_t length) noexcept nogil:
    return hash_octets(<const uint8_t *>text, length, hash_seed) + name


# ---- which policies match ----

cdef const Line *candidates_search(const Table *table, Candidates *found, Facts *facts) noexcept nogil:
    """What policies depend on is looked at when the first policy that is left does."""
    cdef const Line *line
    cdef uint32_t needs
    while True:
        while found.bits == 0:
            if found.summary == 0:
                return NULL
            read_word(table, found, facts)
        line = &table.lines[64 * found.word + <uint32_t>__builtin_ctzll(found.bits)]
        needs = line.needs & ~<uint32_t>found.read
        if needs == 0:
            found.bits &= found.bits - 1
            if line.alternative_count == 0 or hold(line, found, facts):
                return line
        elif needs & NEED_ZONE:
            found.read |= NEED_ZONE
            found.zone = &table.sets[table.zones[facts_zone(facts) - facts.sources.zones.names]]
            found.summary &= found.zone.summary
            found.bits &= word_of(found.zone, found.word)
        elif needs & NEED_TYPE:
            found.read |= NEED_TYPE
            found.type = &table.sets[table.classes[type_class(table, facts.q.qtype)]]
            found.summary &= found.type.summary
            found.bits &= word_of(found.type, found.word)
        elif needs & NEED_CONDITIONS:
            found.read |= NEED_CONDITIONS
            read_conditions(table, found, facts)
            found.bits &= condition_bits(table, found)
        else:
            found.read |= NEED_TARGETS
            read_targets(table, found, facts)
            found.bits &= target_bits(table, found, facts)


cdef inline void read_word(const Table *table, Candidates *found, Facts *facts) noexcept nogil:
    """The next word's intersection of the sets that are known."""
    found.word = <uint32_t>__builtin_ctzll(found.summary)
    found.summary &= found.summary - 1
    found.bits = word_of(found.first, found.word)
    if found.enforced:
        candidates_enforce(table, found)
    if found.read & NEED_ZONE:
        found.bits &= word_of(found.zone, found.word)
    if found.read & NEED_TYPE:
        found.bits &= word_of(found.type, found.word)
    if found.read & NEED_CONDITIONS:
        found.bits &= condition_bits(table, found)
    if found.read & NEED_TARGETS:
        found.bits &= target_bits(table, found, facts)


cdef void candidates_enforce(const Table *table, Candidates *found) noexcept nogil:
    found.enforced = 1
    found.bits &= ~table.kinds[found.word].audit


cdef inline void read_conditions(const Table *table, Candidates *found, Facts *facts) noexcept nogil:
    cdef uint64_t summary = table.summary.unconditional
    cdef uint32_t i, names = table.names
    found.condition_count = 0
    found.denied = facts_unsynced(facts) & UNSYNCED_CLIENTS
    if found.denied:
        return
    while names:
        i = <uint32_t>__builtin_ctzll(names)
        names &= names - 1
        if facts_has(facts, i):
            found.conditions[found.condition_count] = key_set(table, <uint8_t>i, facts.text[i], facts.length[i])
            summary |= found.conditions[found.condition_count].summary
            found.condition_count += 1
    found.summary &= summary


cdef inline uint64_t condition_bits(const Table *table, const Candidates *found) noexcept nogil:
    cdef uint64_t bits = table.kinds[found.word].unconditional
    cdef uint32_t i
    if found.denied:
        return bits | ~table.kinds[found.word].allow
    for i in range(found.condition_count):
        bits |= word_of(found.conditions[i], found.word)
    return bits


cdef void read_targets(const Table *table, Candidates *found, Facts *facts) noexcept nogil:
    cdef const uint8_t *label
    cdef uint64_t summary = table.summary.untargeted
    cdef uint32_t i, name = facts.sources.namespace
    cdef uint8_t unsynced = facts_unsynced(facts)
    cdef bint own
    found.denied = unsynced & UNSYNCED_CLIENTS
    own = table.summary.own != 0 and not found.denied and facts_has(facts, name)
    if not facts.targets_read:
        facts_read_targets(facts)
        if unsynced & UNSYNCED_NAMES and is_reverse(facts):
            facts.all_targets = 1
    if facts.all_targets:
        return
    if facts.target_count:
        summary |= table.summary.any_target
    for i in range(facts.target_count):
        label = facts.target[i]
        found.targets[i] = key_set(table, KEY_TARGET, <const char *>label + 1, label[0])
        summary |= found.targets[i].summary
        found.own[i] = own and facts.length[name] == label[0] and memcmp(facts.text[name], label + 1, label[0]) == 0
        if found.own[i] or found.denied:
            summary |= table.summary.own
    found.summary &= summary


cdef inline bint is_reverse(const Facts *facts) noexcept nogil:
    """True for names whose namespace the cluster's objects tell, and not the name itself."""
    cdef uint32_t length = facts.q.name.length
    return length >= 6 and memcmp(facts.q.name.lower + length - 6, b"\x04arpa\0", 6) == 0


cdef uint64_t target_bits(const Table *table, const Candidates *found, const Facts *facts) noexcept nogil:
    """Where the answer may name several namespaces, one that is a target is enough to be blocked; to be allowed, all must be."""
    cdef const Kinds *kinds = &table.kinds[found.word]
    cdef uint64_t all = ~<uint64_t>0, some = 0, bits
    cdef uint32_t i
    if facts.all_targets:
        return kinds.untargeted | kinds.any_target | ~kinds.allow
    if facts.target_count == 0:
        return kinds.untargeted
    for i in range(facts.target_count):
        bits = kinds.any_target | word_of(found.targets[i], found.word)
        if found.own[i]:
            bits |= kinds.own
        all &= bits
        some |= bits
    if found.denied:                # the namespace may be the client's own
        some |= kinds.own
    return kinds.untargeted | all & kinds.allow | some & ~kinds.allow


cdef bint hold(const Line *line, const Candidates *candidates, Facts *facts) noexcept nogil:
    """True if the query meets every condition that is not indexed as a set."""
    cdef const Alternative *wanted
    cdef bint found = False
    cdef uint32_t i
    if candidates.denied:
        return True                 # not an allow, see condition_bits
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
        if len(lines) > TABLE_MAX or len(names) > NAMES:
            raise ValueError(f"{TABLE_MAX} policies and {NAMES} names at most")
        self.width = <uint32_t>(len(lines) + WORD - 1) // WORD
        self.numbers = {bytes(8 * self.width): 0}
        rest = keyed(policies, list(names), keys)
        self.put_networks(policies)
        self.put_types(policies)
        everywhere = self.put_zones(lines, zones)
        self.put_lines(lines, rest, names, everywhere)
        self.put_kinds(policies)
        self.put_keys(keys)
        self.put_sets()

    def __dealloc__(self):
        blocks_free(&self.blocks)

    cdef void *take(self, size_t count, size_t size) except NULL:
        cdef void *memory = blocks_take(&self.blocks, count * size)
        if memory == NULL:
            raise MemoryError
        self.size += count * size
        return memory

    cdef uint32_t number(self, places) except? 0xFFFFFFFF:
        """Of the set of these policies."""
        cdef uint64_t words[WORDS]
        cdef uint32_t place
        memset(words, 0, sizeof(words))
        for place in places:
            words[place // WORD] |= <uint64_t>1 << place % WORD
        return self.number_of(words)

    cdef uint32_t number_of(self, const uint64_t *words) except? 0xFFFFFFFF:
        return self.numbers.setdefault((<const char *>words)[:8 * self.width], len(self.numbers))

    cdef set put_zones(self, list lines, list zones):
        """Returns the directives that apply to all zones."""
        cdef uint32_t *numbers = <uint32_t *>self.take(len(zones), sizeof(uint32_t))
        cdef dict of_rule = {}
        self.table.zones = numbers
        for place, (_, rule, _) in enumerate(lines):
            of_rule.setdefault(rule, []).append(place)
        for rules in zones:
            numbers[0] = self.number([line for rule in rules if rule in of_rule for line in of_rule[rule]])
            numbers += 1
        return set(zones[0]).intersection(*zones) if zones else set()

    cdef int put_lines(self, list lines, list rest, names, set everywhere) except -1:
        cdef Line *made = <Line *>self.take(len(lines), sizeof(Line))
        cdef Alternative *alternatives = <Alternative *>self.take(sum([len(condition) for conditions in rest for condition in conditions]), sizeof(Alternative))
        self.table.lines = made
        for (place, rule, policy), conditions in zip(lines, rest):
            made.action = <uint8_t>ACTIONS.index(policy.action)
            made.audit = policy.audit
            if rule not in everywhere:
                made.needs |= NEED_ZONE
            if policy.types and not self.table.class_mask:
                made.needs |= NEED_TYPE
            if policy.conditions:
                made.needs |= NEED_CONDITIONS
            if policy.targets:
                made.needs |= NEED_TARGETS
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

    cdef int put_kinds(self, list policies) except -1:
        cdef Kinds *kinds = <Kinds *>self.take(self.width, sizeof(Kinds))
        cdef size_t place
        self.table.kinds = kinds
        for place in range(<size_t>len(policies)):
            policy = policies[place]
            put_kind(&kinds[place // WORD], policy, <uint64_t>1 << place % WORD)
            put_kind(&self.table.summary, policy, <uint64_t>1 << place // WORD)
        return 0

    cdef int put_networks(self, list policies) except -1:
        cdef dict networks = {}
        everywhere = [place for place, policy in enumerate(policies) if policy.networks == EVERYWHERE]
        for network in EVERYWHERE if everywhere else ():
            networks[network] = everywhere.copy()
        for place, policy in enumerate(policies):
            for network in policy.networks if policy.networks != EVERYWHERE else ():
                networks.setdefault(masked(network), []).append(place)
        numbered = {network: self.number(places) for network, places in networks.items()}
        sets = list(self.numbers)

        def union(wider, own):
            both = combined(sets[wider], sets[own], False)
            number = self.numbers.setdefault(both, len(sets))
            if number == len(sets):
                sets.append(both)
            return number

        self.size += networks_set(&self.table.networks, &self.blocks, numbered, union)
        return 0

    cdef int put_types(self, list policies) except -1:
        """After the networks, whose sets have the first numbers: these are the rows of pairs."""
        cdef uint32_t rows = <uint32_t>len(self.numbers)
        cdef list classes = []
        cdef dict named = {}
        cdef uint32_t *sparse
        cdef uint32_t i
        every = [place for place, policy in enumerate(policies) if not policy.types]
        for place, policy in enumerate(policies):
            for qtype in policy.types:
                named.setdefault(qtype, []).append(place)
        self.table.other_types = class_of(classes, self.number(every))
        for i in range(RRTYPES_DENSE):
            self.table.types[i] = class_of(classes, self.number(every + named.pop(i))) if i in named else self.table.other_types
        sparse = <uint32_t *>self.take(2 * len(named), sizeof(uint32_t))
        self.table.sparse = sparse
        self.table.sparse_count = <uint32_t>len(named)
        for qtype, places in named.items():
            sparse[0] = qtype
            sparse[1] = class_of(classes, self.number(every + places))
            sparse += 2
        return self.put_pairs(classes, rows)

    cdef int put_pairs(self, list classes, uint32_t rows) except -1:
        cdef uint32_t *sets = <uint32_t *>self.take(len(classes), sizeof(uint32_t))
        cdef uint32_t *pairs
        cdef uint32_t i, j
        cdef list octets = list(self.numbers)
        for i in range(<uint32_t>len(classes)):
            sets[i] = classes[i]
        self.table.classes = sets
        self.table.columns = <uint32_t>len(classes) if rows * len(classes) <= PAIRS else 1
        self.table.class_mask = 0 if self.table.columns == 1 and len(classes) > 1 else 0xFFFFFFFF
        pairs = <uint32_t *>self.take(rows * self.table.columns, sizeof(uint32_t))
        self.table.pairs = pairs
        for i in range(rows):
            for j in range(self.table.columns):
                pairs[0] = self.numbers.setdefault(combined(octets[i], octets[sets[j]], True), len(self.numbers)) if self.table.class_mask else i
                pairs += 1
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

    cdef int put_sets(self) except -1:
        cdef size_t count = <size_t>len(self.numbers), filled = 0, i
        cdef PolicySet *sets = <PolicySet *>self.take(count, sizeof(PolicySet))
        cdef uint8_t *places = <uint8_t *>self.take(count, self.width)
        cdef uint64_t *single = <uint64_t *>self.take(count, sizeof(uint64_t)) if self.width == 1 else NULL
        cdef uint64_t all[WORDS]
        cdef uint64_t *words
        cdef bytes octets
        self.table.sets = sets
        self.table.words = single
        for octets in self.numbers:
            memcpy(all, <const char *>octets, 8 * self.width)
            for i in range(self.width):
                filled += all[i] != 0
        words = <uint64_t *>self.take(count + filled, sizeof(uint64_t))
        for octets in self.numbers:         # in the order of their numbers
            memcpy(all, <const char *>octets, 8 * self.width)
            sets.places = places
            sets.words = words
            words += 1
            for i in range(self.width):
                if all[i]:
                    words[0] = all[i]
                    places[i] = <uint8_t>(words - sets.words)
                    sets.summary |= <uint64_t>1 << i
                    words += 1
            if single != NULL:
                single[0] = all[0]
                single += 1
            places += self.width
            sets += 1
        self.numbers = {}
        return 0


cdef int put_kind(Kinds *kinds, policy, uint64_t bit) except -1:
    if policy.action == "allow":
        kinds.allow |= bit
    if policy.audit:
        kinds.audit |= bit
    if not policy.conditions:
        kinds.unconditional |= bit
    if not policy.targets:
        kinds.untargeted |= bit
    if ANY_TARGET in policy.targets:
        kinds.any_target |= bit
    if OWN in policy.targets:
        kinds.own |= bit
    return 0


cdef uint32_t class_of(list classes, uint32_t number) except? 0xFFFFFFFF:
    """Types that have the same set are one."""
    if number not in classes:
        classes.append(number)
    return classes.index(number)


cdef bytes combined(bytes one, bytes other, bint common):
    """The policies that both sets have, or those of either."""
    cdef uint64_t words[WORDS]
    cdef uint64_t others[WORDS]
    cdef size_t i, size = <size_t>len(one)
    memcpy(words, <const char *>one, size)
    memcpy(others, <const char *>other, size)
    for i in range(size // 8):
        words[i] = words[i] & others[i] if common else words[i] | others[i]
    return (<const char *>words)[:size]


def keyed(list policies not None, list names not None, dict keys not None):
    """Of each policy the condition whose values fewest others have becomes a key, and so do targets. Returns what other conditions each has."""
    rest = []
    values = Counter(value for policy in policies for condition in policy.conditions for value in set(condition))
    for place, policy in enumerate(policies):
        conditions = sorted(policy.conditions, key=lambda condition: max(values[value] for value in condition))
        rest.append(conditions[1:])
        found = [(names.index(name), octets_of(value)) for name, value in conditions[0]] if conditions else []
        found += [(<int>KEY_TARGET, octets_of(target)) for target in policy.targets if target not in (OWN, ANY_TARGET)]
        for key in found:
            keys.setdefault(key, []).append(place)
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
