"""Which records prove what. The contract is in _proof.pxd."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from libc.string cimport memcmp, memcpy
from fastdns.api.reply cimport SECTION_AUTHORITY, Record, Reply
from fastdns.api.names cimport NAME_MAX, Name
from fastdns.api.wire cimport TYPE_NSEC, TYPE_NSEC3
from fastdns.api.records cimport IndexNode, IndexResult, denial_before, denial_hash, denial_hashed, node_rrset
from fastdns.plugins.file._sections cimport add_set, add_signatures

cdef void show(Ask *ask, const IndexNode *node, uint16_t type) noexcept nogil:
    """Adds a set and its signatures unless the reply has it: a chain of aliases may need it for several of its names."""
    cdef const Reply *reply = &ask.q.reply
    cdef const Record *record
    cdef uint32_t i
    if node == NULL:
        return
    for i in range(reply.count):
        record = &reply.records[i]
        if record.section == SECTION_AUTHORITY and record.type == type and record.owner_length == node.length and (
                memcmp(record.owner, node.name, node.length) == 0):
            return
    add_set(ask, SECTION_AUTHORITY, node.name, node.length, node, node_rrset(node, type))
    add_signatures(ask, SECTION_AUTHORITY, node.name, node.length, node, type)


# ---- NSEC ----

cdef inline void show_before(Ask *ask, const uint8_t *lower) noexcept nogil:
    show(ask, denial_before(ask.version, lower), TYPE_NSEC)


cdef bint wildcard_below(const IndexNode *encloser, uint8_t *out) noexcept nogil:
    if encloser.length + 2 > NAME_MAX:
        return False
    out[0] = 1
    out[1] = c'*'
    memcpy(out + 2, encloser.name, encloser.length)
    return True


# ---- NSEC3 ----

cdef bint show_hashed(Ask *ask, const uint8_t *lower, uint32_t length, bint match) noexcept nogil:
    """Shows the record that matches the name, or (match 0) covers it. False when a match was wanted and there is none."""
    cdef uint8_t hash[20]
    cdef bint exact
    cdef const IndexNode *node
    if denial_hash(ask.version, lower, length, hash) < 0:
        return False
    node = denial_hashed(ask.version, hash, &exact)
    if exact != match:
        return False
    show(ask, node, TYPE_NSEC3)
    return True


cdef uint32_t show_closest(Ask *ask, const Name *name, uint32_t label) noexcept nogil:
    """Proves the closest encloser, from the one at `label` upwards: with opt-out the first may have no record (RFC 5155 7.2.1). Its label."""
    cdef uint32_t last = name.labels - ask.version.apex.labels
    while label <= last:
        if show_hashed(ask, name.lower + name.offset[label], name.length - name.offset[label], True):
            break
        label += 1
    if 0 < label <= last:
        show_hashed(ask, name.lower + name.offset[label - 1], name.length - name.offset[label - 1], False)
    return label


# ---- proofs ----

cdef void prove_absent_name(Ask *ask, const Name *name, const IndexNode *encloser) noexcept nogil:
    cdef uint8_t wildcard[NAME_MAX + 2]
    if ask.version.nsec3.count:
        show_closest(ask, name, name.labels - encloser.labels)
        if wildcard_below(encloser, wildcard):
            show_hashed(ask, wildcard, <uint32_t>encloser.length + 2, False)
    elif ask.version.nsec.count:
        show_before(ask, name.lower)
        if wildcard_below(encloser, wildcard):
            show_before(ask, wildcard)


cdef void prove_absent_type(Ask *ask, const Name *name, const IndexResult *found) noexcept nogil:
    cdef const IndexNode *node = found.node
    if ask.version.nsec3.count:
        if found.wildcard:
            show_closest(ask, name, found.label)
            show_hashed(ask, node.name, node.length, True)
        elif not show_hashed(ask, name.lower, name.length, True) and name.labels > ask.version.apex.labels:
            show_closest(ask, name, 1)             # opt-out
    elif ask.version.nsec.count:
        if found.wildcard:
            if node.rrsets:
                show_before(ask, node.name)
            show_before(ask, name.lower)
        else:
            show_before(ask, name.lower)


cdef void prove_expansion(Ask *ask, const Name *name, const IndexResult *found) noexcept nogil:
    cdef uint32_t next = name.offset[found.label - 1]
    if ask.version.nsec3.count:
        show_hashed(ask, name.lower + next, name.length - next, False)
    elif ask.version.nsec.count:
        show_before(ask, name.lower)


cdef void prove_referral(Ask *ask, const Name *name, const IndexNode *cut) noexcept nogil:
    if ask.version.nsec3.count == 0:
        if node_rrset(cut, TYPE_NSEC) != NULL:
            show(ask, cut, TYPE_NSEC)
    elif not show_hashed(ask, cut.name, cut.length, True):
        show_closest(ask, name, name.labels - cut.labels + 1)
