"""The services that a name asks for; see _lookup.pxd."""
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t
from libc.string cimport memcmp, memcpy
from fastdns.api.names cimport LABELS_MAX
from fastdns.api.wire cimport TYPE_TXT
from fastdns.api.memory cimport atomic_load_ns
from fastdns.plugins.etcd._snapshot cimport HOST_BROKEN, snapshot_bound

cdef enum:
    TTL_DEFAULT = 300
    FEW = 16                        # keys that are walked through before their end is searched for


# ---- names to keys ----

cdef bint is_wild(const uint8_t *text, uint32_t length) noexcept nogil:
    return length == 1 and text[0] == c"*" or length == 3 and memcmp(text, b"any", 3) == 0


cdef bint write_path(Lookup *lookup, const uint8_t *name, uint32_t *before) noexcept nogil:
    """The name's labels in reverse order with slashes between, and its octets before the first wildcard. False for a name that is no key."""
    cdef const uint8_t *labels[LABELS_MAX]
    cdef const uint8_t *label
    cdef uint32_t i, k, count = 0, used = 0
    while name[0]:
        labels[count] = name
        count += 1
        name += name[0] + 1
    before[0] = 0
    for i in range(count):
        label = labels[count - 1 - i]
        for k in range(<uint32_t>label[0]):
            if label[k + 1] == c"/":
                return False
        if is_wild(label + 1, label[0]):
            lookup.star = 1
        if used:
            lookup.path[used] = c"/"
            used += 1
        memcpy(lookup.path + used, label + 1, label[0])
        used += label[0]
        if used > 254:              # no name in wire form has more
            return False
        if not lookup.star:
            before[0] = used
    lookup.path_length = <uint16_t>used
    return True


cdef bint fits(const Lookup *lookup, const Service *service) noexcept nogil:
    """Are the key's first labels those of the name, where they are no wildcards?"""
    cdef const uint8_t *key = lookup.snapshot.octets + service.key
    cdef uint32_t i = 0, k = 0, from_i, from_k
    while i < lookup.path_length:
        if k > service.key_length or (k == service.key_length and k > 0):
            return False
        from_i = i
        from_k = k
        while i < lookup.path_length and lookup.path[i] != c"/":
            i += 1
        while k < service.key_length and key[k] != c"/":
            k += 1
        if not is_wild(lookup.path + from_i, i - from_i) and (i - from_i != k - from_k or memcmp(lookup.path + from_i, key + from_k, i - from_i) != 0):
            return False
        i += 1
        k += 1
    return True


cdef bint begins(const Snapshot *snapshot, uint32_t i, const uint8_t *prefix, uint32_t length) noexcept nogil:
    cdef const Service *service
    if i >= snapshot.count:
        return False
    service = &snapshot.services[i]
    return service.key_length >= length and memcmp(snapshot.octets + service.key, prefix, length) == 0


cdef bint find_range(Lookup *lookup, uint8_t *prefix, uint32_t length, bint exact) noexcept nogil:
    """The keys below a key, or that key itself where there are none, or only it is wanted. prefix has one octet more."""
    cdef const Snapshot *snapshot = lookup.snapshot
    cdef uint32_t at = snapshot_bound(snapshot, prefix, length)
    cdef uint32_t end
    cdef bint own = begins(snapshot, at, prefix, length) and snapshot.services[at].key_length == length
    lookup.first = at
    if not exact and length == 0:
        lookup.end = snapshot.count
        return snapshot.count > 0
    if not exact:
        at += own
        prefix[length] = c"/"
        # Keys like "a-b" stand between "a" and "a/b".
        if begins(snapshot, at, prefix, length) and snapshot.octets[snapshot.services[at].key + length] < c"/":
            at = snapshot_bound(snapshot, prefix, length + 1)
        end = at
        while end - at < FEW and begins(snapshot, end, prefix, length + 1):
            end += 1
        if end - at == FEW:         # '0' is what follows '/'
            prefix[length] = c"0"
            end = snapshot_bound(snapshot, prefix, length + 1)
        if end > at:
            lookup.first = at
            lookup.end = end
            return True
    lookup.end = lookup.first + 1
    return own


cdef Found lookup_begin(Lookup *lookup, const Snapshot *snapshot, const uint8_t *name, bint exact, uint16_t qtype) noexcept nogil:
    cdef uint8_t prefix[NAME_MAX + 1]
    cdef uint32_t i, length
    lookup.snapshot = snapshot
    lookup.broken = NULL
    lookup.qtype = qtype
    lookup.star = 0
    lookup.grouped = 0
    if not write_path(lookup, name, &length):
        return FOUND_NOTHING
    memcpy(prefix, lookup.path, length)
    if not find_range(lookup, prefix, length, exact):
        return FOUND_NOTHING
    for i in range(lookup.first, lookup.end):
        if snapshot.services[i].kind == HOST_BROKEN and (not lookup.star or fits(lookup, &snapshot.services[i])):
            lookup.broken = &snapshot.services[i]
            return FOUND_BROKEN
    lookup_again(lookup)
    choose_group(lookup)
    lookup_again(lookup)
    return FOUND_SOME


# ---- the services ----

cdef const Service *next_included(Lookup *lookup) noexcept nogil:
    """The next service that has what the type needs: a host, or for TXT a text."""
    cdef const Service *service
    while lookup.next < lookup.end:
        service = &lookup.snapshot.services[lookup.next]
        lookup.next += 1
        if (service.has_host or (lookup.qtype == TYPE_TXT and service.text_length)) and (not lookup.star or fits(lookup, service)):
            return service
    return NULL


cdef void lookup_again(Lookup *lookup) noexcept nogil:
    lookup.next = lookup.first


cdef bint same_group(const Lookup *lookup, const Service *service) noexcept nogil:
    return service.group_length == lookup.group_length and (
        memcmp(lookup.snapshot.octets + service.group, lookup.snapshot.octets + lookup.group, service.group_length) == 0)


cdef void choose_group(Lookup *lookup) noexcept nogil:
    """The group of the service with the shortest key rules; none does where services at that depth disagree."""
    cdef const Service *service = next_included(lookup)
    cdef uint16_t depth
    cdef uint32_t compared = lookup.end     # the position up to which depths count
    if service == NULL:
        return
    depth = service.depth
    lookup.group = service.group
    lookup.group_length = service.group_length
    while True:
        service = next_included(lookup)
        if service == NULL:
            break
        if service.depth < depth:
            if service.group_length == 0:
                compared = lookup.next
                break
            depth = service.depth
            lookup.group = service.group
            lookup.group_length = service.group_length
    if lookup.group_length == 0:
        return
    lookup_again(lookup)
    while lookup.next < compared:
        service = next_included(lookup)
        if service == NULL:
            break
        if service.group_length and service.depth == depth and not same_group(lookup, service):
            return
    lookup.grouped = 1


cdef const Service *lookup_next(Lookup *lookup) noexcept nogil:
    cdef const Service *service
    while True:
        service = next_included(lookup)
        if service == NULL or not lookup.grouped or service.group_length == 0 or same_group(lookup, service):
            return service


cdef uint32_t service_ttl(const Snapshot *snapshot, const Service *service, uint32_t least, uint32_t most, int64_t now) noexcept nogil:
    cdef int64_t left = 0
    cdef uint32_t leased = 0
    if service.lease >= 0 and <uint32_t>service.lease < snapshot.lease_count:
        left = (atomic_load_ns(&snapshot.leases[service.lease]) - now) // 1000000000
        if left > 0:
            leased = least if left < least else most if left > most else <uint32_t>left
    if leased == 0:
        return service.ttl if service.ttl else <uint32_t>TTL_DEFAULT
    return leased if service.ttl == 0 or leased < service.ttl else service.ttl
