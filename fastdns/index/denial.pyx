"""Look-up of NSEC and NSEC3 records. The contract is in index/denial.pxd."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp, memcpy
from fastdns.system.digest cimport HASH_SHA1, digest_of, digest_offered
from fastdns.index.chain cimport Chain, OrderedNode, chain_before, chain_build, chain_put, chain_remove, chain_share
from fastdns.index.edits cimport IndexEdit, IndexEdits
from fastdns.index.nodes cimport INDEX_MEMORY, IndexNode, IndexRecord, IndexTable, RRset, node_rrset, rrset_record, slot_node
from fastdns._wire cimport NAME_MAX, load16
from fastdns.index.version cimport NSEC3_ITERATIONS, ZONE_DENIAL, ZONE_ITERATIONS, ZONE_NO_SHA1, ZONE_OK, ZoneVersion
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


cdef const IndexNode *denial_before(const ZoneVersion *version, const uint8_t *lower) noexcept nogil:
    return chain_before(&version.nsec, order_key(lower, version.apex.labels), lower)


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


cdef inline uint64_t hash_key(const uint8_t *hash) noexcept nogil:
    cdef uint64_t key = 0
    cdef uint32_t i
    for i in range(8):
        key = key << 8 | hash[i]
    return key


cdef void write_hash(const uint8_t *hash, uint8_t *out) noexcept nogil:
    """The label of a hash: base32hex (RFC 4648 7) in lower case, which has the hashes' order."""
    cdef uint64_t bits = 0
    cdef uint32_t i, have = 0, used = 1, digit
    out[0] = HASH_TEXT
    for i in range(20):
        bits = bits << 8 | hash[i]
        have += 8
        while have >= 5:
            have -= 5
            digit = <uint32_t>(bits >> have) & 31
            out[used] = <uint8_t>(c'0' + digit if digit < 10 else c'a' + digit - 10)
            used += 1


cdef const IndexNode *denial_hashed(const ZoneVersion *version, const uint8_t *hash, bint *exact) noexcept nogil:
    cdef uint8_t name[NAME_MAX + HASH_TEXT + 1]
    cdef const IndexNode *node
    exact[0] = False
    if version.nsec3.count == 0:
        return NULL
    write_hash(hash, name)
    memcpy(name + HASH_TEXT + 1, version.apex.name, version.apex.length)
    node = chain_before(&version.nsec3, hash_key(hash), name)
    exact[0] = memcmp(node.name, name, HASH_TEXT + 1) == 0
    return node


cdef bint read_hash(const IndexNode *node, uint8_t *out) noexcept nogil:
    """Decodes the hash in a name's first label (base32hex, RFC 4648 7)."""
    cdef uint64_t bits = 0
    cdef uint32_t i, have = 0, used = 0
    cdef uint8_t c
    cdef const uint8_t *name = node.name        # longer than the struct declares it: a subscript of the field itself is undefined beyond that
    if name[0] != HASH_TEXT:
        return False
    for i in range(1, HASH_TEXT + 1):
        c = name[i]
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
    cdef int chain = 0
    if rrset == NULL:
        return 0
    for _i in range(rrset.count):
        entry = rrset_record(version.apex, rrset, entry, &record)
        # Flags other than 0: not to be used (RFC 5155 4.1.2).
        if record.rdlength < 5 or record.rdata[0] != 1 or record.rdata[1] != 0 or record.rdlength != 5 + <uint32_t>record.rdata[4]:
            continue
        if load16(record.rdata + 2) > NSEC3_ITERATIONS:
            chain = ZONE_ITERATIONS     # unless there is another chain, whatever the order of the records
            continue
        version.iterations = load16(record.rdata + 2)
        version.salt_length = record.rdata[4]
        memcpy(version.salt, record.rdata + 5, version.salt_length)
        return 1 if digest_offered(HASH_SHA1) else ZONE_NO_SHA1
    return chain


# ---- chains ----

cdef bint nsec_entry(const ZoneVersion *version, const IndexNode *node, OrderedNode *out) noexcept nogil:
    """Whether the node has an NSEC record, and its entry in the chain."""
    if node == NULL or node_rrset(node, TYPE_NSEC) == NULL:
        return False
    out.node = node
    out.key = order_key(node.name, version.apex.labels)
    return True


cdef bint nsec3_entry(const ZoneVersion *version, const IndexNode *node, OrderedNode *out) noexcept nogil:
    """Whether the node has an NSEC3 record of the version's chain, and its entry there."""
    cdef const RRset *rrset
    cdef IndexRecord record
    cdef uint8_t hash[20]
    rrset = node_rrset(node, TYPE_NSEC3) if node != NULL and node.labels == version.apex.labels + 1 else NULL
    if rrset == NULL:
        return False
    rrset_record(node, rrset, NULL, &record)
    if not has_parameters(version, record.rdata, record.rdlength) or not read_hash(node, hash):
        return False
    out.node = node
    out.key = hash_key(hash)
    return True


cdef int collect(const ZoneVersion *version, const IndexTable *table, bint hashed, Chain *chain) noexcept nogil:
    cdef uint32_t i, count = 0
    cdef int status
    cdef OrderedNode entry
    cdef OrderedNode *nodes = <OrderedNode *>malloc((<uint64_t>table.live + 1) * sizeof(OrderedNode))
    cdef const IndexNode *node
    if nodes == NULL:
        return -1
    for i in range(table.capacity):
        node = slot_node(table, table.slots[i].node)
        if nsec3_entry(version, node, &entry) if hashed else nsec_entry(version, node, &entry):
            nodes[count] = entry
            count += 1
    status = chain_build(chain, nodes, count)
    free(nodes)
    return status


cdef int denial_build(ZoneVersion *version, const IndexTable *table) noexcept nogil:
    cdef int chain = read_parameters(version)
    if chain < 0:
        return chain
    version.hashed = <uint8_t>chain
    if node_rrset(version.apex, TYPE_NSEC) != NULL and collect(version, table, False, &version.nsec) < 0:
        return INDEX_MEMORY
    if chain and collect(version, table, True, &version.nsec3) < 0:
        return INDEX_MEMORY
    return ZONE_OK


cdef int denial_change(ZoneVersion *version, const ZoneVersion *former, const IndexEdits *edits) noexcept nogil:
    cdef const IndexEdit *edit = edits.first
    cdef int chain = read_parameters(version)
    if chain < 0:
        return chain
    version.hashed = <uint8_t>chain
    if version.hashed != former.hashed or (node_rrset(version.apex, TYPE_NSEC) != NULL) != (former.nsec.count != 0):
        return ZONE_DENIAL
    if chain and (version.iterations != former.iterations or version.salt_length != former.salt_length
                  or memcmp(version.salt, former.salt, version.salt_length) != 0):
        return ZONE_DENIAL
    if chain_share(&version.nsec, &former.nsec) < 0 or chain_share(&version.nsec3, &former.nsec3) < 0:
        return INDEX_MEMORY
    while edit != NULL:
        if edit.before != edit.after and change_entries(version, edit) < 0:
            return INDEX_MEMORY
        edit = edit.following
    return ZONE_OK


cdef int change_entries(ZoneVersion *version, const IndexEdit *edit) noexcept nogil:
    cdef OrderedNode entry
    cdef int status = 0
    if version.nsec.count:
        if nsec_entry(version, edit.after, &entry):
            status = chain_put(&version.nsec, entry.key, entry.node)
        elif nsec_entry(version, edit.before, &entry):
            status = chain_remove(&version.nsec, entry.key, entry.node.name)
    if version.hashed and status == 0:
        if nsec3_entry(version, edit.after, &entry):
            status = chain_put(&version.nsec3, entry.key, entry.node)
        elif nsec3_entry(version, edit.before, &entry):
            status = chain_remove(&version.nsec3, entry.key, entry.node.name)
    return status
