"""Look-up of NSEC and NSEC3 records. The contract is in index/denial.pxd."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, qsort
from libc.string cimport memcmp, memcpy
from fastdns.system.digest cimport HASH_SHA1, digest_of, digest_offered
from fastdns.index.index cimport compare_names
from fastdns.index.nodes cimport INDEX_MEMORY, IndexNode, IndexRecord, IndexTable, RRset, is_node, node_rrset, rrset_record
from fastdns._wire cimport load16
from fastdns.index.version cimport NSEC3_ITERATIONS, ZONE_ITERATIONS, ZONE_NO_SHA1, ZONE_OK, HashedNode, OrderedNode, ZoneVersion
from fastdns.protocol.rrtypes cimport TYPE_NSEC, TYPE_NSEC3, TYPE_NSEC3PARAM

cdef enum:
    HASH_TEXT = 32              # characters of a hash in base32hex


# ---- canonical order ----

cdef uint64_t order_key(const uint8_t *name, uint32_t below) noexcept nogil:
    """The sort key of a name: the first 8 octets of its labels, rightmost first, without the `below` rightmost ones.

    A zero ends each label, and octets 0 and 1 become two octets. Two keys that differ have the canonical order of their names.
    """
    cdef uint8_t offset[128]
    cdef uint32_t labels = 0, at = 0, used = 0, i
    cdef uint64_t key = 0
    cdef const uint8_t *label
    while name[at] != 0:
        offset[labels] = <uint8_t>at
        labels += 1
        at += name[at] + 1
    labels -= below
    while labels > 0 and used < 8:
        labels -= 1
        label = name + offset[labels]
        i = 1
        while i <= label[0] and used < 8:
            if label[i] < 2:
                key = key << 8 | 1
                used += 1
                if used == 8:
                    break
            key = key << 8 | label[i]
            used += 1
            i += 1
        if used < 8:
            key <<= 8
            used += 1
    return key << (8 * (8 - used)) if 0 < used < 8 else key


cdef int compare_ordered(const void *a, const void *b) noexcept nogil:
    cdef const OrderedNode *x = <const OrderedNode *>a
    cdef const OrderedNode *y = <const OrderedNode *>b
    if x.key != y.key:
        return -1 if x.key < y.key else 1
    return compare_names(x.node.name, y.node.name)


cdef const IndexNode *denial_before(const ZoneVersion *version, const uint8_t *lower) noexcept nogil:
    cdef uint32_t low = 0, high = version.nsec_count, middle
    cdef uint64_t key
    cdef const OrderedNode *entry
    cdef int order
    if high == 0:
        return NULL
    key = order_key(lower, version.apex.labels)
    while low < high:                       # the first that is greater
        middle = low + (high - low) // 2
        entry = &version.nsec[middle]
        if entry.key != key:
            order = -1 if entry.key < key else 1
        else:
            order = compare_names(entry.node.name, lower)
        if order <= 0:
            low = middle + 1
        else:
            high = middle
    # The NSEC chain is circular: the predecessor of the first name is the last one.
    return version.nsec[low - 1 if low else version.nsec_count - 1].node


# ---- NSEC3 ----

cdef int denial_hash(const ZoneVersion *version, const uint8_t *lower, uint32_t length, uint8_t *out) noexcept nogil:
    cdef uint8_t input[512]
    cdef uint32_t i
    memcpy(input, lower, length)
    memcpy(input + length, version.salt, version.salt_length)
    if digest_of(HASH_SHA1, input, length + version.salt_length, out) < 0:
        return -1
    for i in range(version.iterations):
        memcpy(input, out, 20)
        memcpy(input + 20, version.salt, version.salt_length)
        if digest_of(HASH_SHA1, input, 20 + <uint32_t>version.salt_length, out) < 0:
            return -1
    return 0


cdef int compare_hashed(const void *a, const void *b) noexcept nogil:
    return memcmp((<const HashedNode *>a).hash, (<const HashedNode *>b).hash, 20)


cdef const IndexNode *denial_hashed(const ZoneVersion *version, const uint8_t *hash, bint *exact) noexcept nogil:
    cdef uint32_t low = 0, high = version.nsec3_count, middle
    exact[0] = False
    if high == 0:
        return NULL
    while low < high:
        middle = low + (high - low) // 2
        if memcmp(version.nsec3[middle].hash, hash, 20) <= 0:
            low = middle + 1
        else:
            high = middle
    if low and memcmp(version.nsec3[low - 1].hash, hash, 20) == 0:
        exact[0] = True
    return version.nsec3[low - 1 if low else version.nsec3_count - 1].node


cdef bint read_hash(const IndexNode *node, uint8_t *out) noexcept nogil:
    """Decodes the hash in a name's first label (base32hex, RFC 4648 7)."""
    cdef uint64_t bits = 0
    cdef uint32_t i, have = 0, used = 0
    cdef uint8_t c
    if node.name[0] != HASH_TEXT:
        return False
    for i in range(1, HASH_TEXT + 1):
        c = node.name[i]
        if c'0' <= c <= c'9':
            c -= c'0'
        elif c'a' <= c <= c'v':
            c -= c'a' - 10
        else:
            return False
        bits = bits << 5 | c
        have += 5
        if have >= 8:
            have -= 8
            out[used] = <uint8_t>(bits >> have)
            used += 1
    return True


cdef bint has_parameters(const ZoneVersion *version, const uint8_t *rdata, uint16_t length) noexcept nogil:
    return (length >= 5 + <uint32_t>version.salt_length and rdata[0] == 1 and load16(rdata + 2) == version.iterations
            and rdata[4] == version.salt_length and memcmp(rdata + 5, version.salt, version.salt_length) == 0)


cdef int read_parameters(ZoneVersion *version) noexcept nogil:
    """1 when the zone has an NSEC3 chain that can be served, 0 when it has none, or an error below 0."""
    cdef const RRset *rrset = node_rrset(version.apex, TYPE_NSEC3PARAM)
    cdef const uint8_t *entry = NULL
    cdef IndexRecord record
    cdef uint32_t _i
    if rrset == NULL:
        return 0
    for _i in range(rrset.count):
        entry = rrset_record(version.apex, rrset, entry, &record)
        # Flags other than 0: not to be used (RFC 5155 4.1.2).
        if record.rdlength < 5 or record.rdata[0] != 1 or record.rdata[1] != 0 or record.rdlength != 5 + <uint32_t>record.rdata[4]:
            continue
        version.iterations = load16(record.rdata + 2)
        version.salt_length = record.rdata[4]
        memcpy(version.salt, record.rdata + 5, version.salt_length)
        if version.iterations > NSEC3_ITERATIONS:
            return ZONE_ITERATIONS
        return 1 if digest_offered(HASH_SHA1) else ZONE_NO_SHA1
    return 0


# ---- building ----

cdef int denial_build(ZoneVersion *version, const IndexTable *table) noexcept nogil:
    cdef int chain = read_parameters(version)
    if chain < 0:
        return chain
    if node_rrset(version.apex, TYPE_NSEC) != NULL and collect_nsec(version, table) < 0:
        return INDEX_MEMORY
    if chain and collect_nsec3(version, table) < 0:
        return INDEX_MEMORY
    return ZONE_OK


cdef uint32_t count_nodes(const IndexTable *table, uint16_t type) noexcept nogil:
    cdef uint32_t i, count = 0
    for i in range(table.capacity):
        if is_node(table.slots[i].node) and node_rrset(table.slots[i].node, type) != NULL:
            count += 1
    return count


cdef int collect_nsec(ZoneVersion *version, const IndexTable *table) noexcept nogil:
    cdef uint32_t i, count = count_nodes(table, TYPE_NSEC)
    cdef OrderedNode *entry
    version.nsec = <OrderedNode *>malloc((<uint64_t>count + 1) * sizeof(OrderedNode))
    if version.nsec == NULL:
        return -1
    for i in range(table.capacity):
        if is_node(table.slots[i].node) and node_rrset(table.slots[i].node, TYPE_NSEC) != NULL:
            entry = &version.nsec[version.nsec_count]
            version.nsec_count += 1
            entry.node = table.slots[i].node
            entry.key = order_key(entry.node.name, version.apex.labels)
    qsort(version.nsec, version.nsec_count, sizeof(OrderedNode), compare_ordered)
    return 0


cdef int collect_nsec3(ZoneVersion *version, const IndexTable *table) noexcept nogil:
    cdef uint32_t i, count = count_nodes(table, TYPE_NSEC3)
    cdef const RRset *rrset
    cdef IndexRecord record
    cdef HashedNode *entry
    version.nsec3 = <HashedNode *>malloc((<uint64_t>count + 1) * sizeof(HashedNode))
    if version.nsec3 == NULL:
        return -1
    for i in range(table.capacity):
        if not is_node(table.slots[i].node):
            continue
        rrset = node_rrset(table.slots[i].node, TYPE_NSEC3)
        if rrset == NULL:
            continue
        rrset_record(table.slots[i].node, rrset, NULL, &record)
        entry = &version.nsec3[version.nsec3_count]
        entry.node = table.slots[i].node
        if has_parameters(version, record.rdata, record.rdlength) and read_hash(entry.node, entry.hash):
            version.nsec3_count += 1
    qsort(version.nsec3, version.nsec3_count, sizeof(HashedNode), compare_hashed)
    return 0


cdef void denial_free(ZoneVersion *version) noexcept nogil:
    free(version.nsec)
    free(version.nsec3)
