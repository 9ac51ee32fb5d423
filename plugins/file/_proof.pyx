"""Which records prove what. The contract is in _proof.pxd."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from libc.string cimport memcpy, memset
from fastdns.api.reply cimport SECTION_AUTHORITY
from fastdns.api.names cimport NAME_MAX, Name
from fastdns.api.wire cimport TYPE_NSEC, TYPE_NSEC3
from fastdns.api.records cimport IndexNode, IndexResult, denial_before, denial_hash, denial_hashed, node_rrset
from fastdns.plugins.file._sections cimport add_set, add_signatures

cdef enum:
    SHOWN_MAX = 4               # different records in one proof

cdef struct Shown:              # what the reply has already
    uint32_t count
    const IndexNode *nodes[SHOWN_MAX]


cdef void show(Ask *ask, Shown *shown, const IndexNode *node, uint16_t type) noexcept nogil:
    cdef uint32_t i
    if node == NULL:
        return
    for i in range(shown.count):
        if shown.nodes[i] == node:
            return
    if shown.count < SHOWN_MAX:
        shown.nodes[shown.count] = node
        shown.count += 1
    add_set(ask, SECTION_AUTHORITY, node.name, node.length, node, node_rrset(node, type))
    add_signatures(ask, SECTION_AUTHORITY, node.name, node.length, node, type)


# ---- NSEC ----

cdef inline void show_before(Ask *ask, Shown *shown, const uint8_t *lower) noexcept nogil:
    show(ask, shown, denial_before(ask.version, lower), TYPE_NSEC)


cdef bint wildcard_below(const IndexNode *encloser, uint8_t *out) noexcept nogil:
    if encloser.length + 2 > NAME_MAX:
        return False
    out[0] = 1
    out[1] = c'*'
    memcpy(out + 2, encloser.name, encloser.length)
    return True


# ---- NSEC3 ----

cdef bint show_hashed(Ask *ask, Shown *shown, const uint8_t *lower, uint32_t length, bint match) noexcept nogil:
    """Shows the record that matches the name, or (match 0) covers it. False when a match was wanted and there is none."""
    cdef uint8_t hash[20]
    cdef bint exact
    cdef const IndexNode *node
    if denial_hash(ask.version, lower, length, hash) < 0:
        return False
    node = denial_hashed(ask.version, hash, &exact)
    if exact != match:
        return False
    show(ask, shown, node, TYPE_NSEC3)
    return True


cdef uint32_t show_closest(Ask *ask, Shown *shown, const Name *name, uint32_t label) noexcept nogil:
    """Proves the closest encloser, from the one at `label` upwards: with opt-out the first may have no record (RFC 5155 7.2.1). Its label."""
    cdef uint32_t last = name.labels - ask.version.apex.labels
    while label <= last:
        if show_hashed(ask, shown, name.lower + name.offset[label], name.length - name.offset[label], True):
            break
        label += 1
    if 0 < label <= last:
        show_hashed(ask, shown, name.lower + name.offset[label - 1], name.length - name.offset[label - 1], False)
    return label


# ---- proofs ----

cdef void prove_absent_name(Ask *ask, const Name *name, const IndexNode *encloser) noexcept nogil:
    cdef Shown shown
    cdef uint8_t wildcard[NAME_MAX + 2]
    memset(&shown, 0, sizeof(shown))
    if ask.version.nsec3.count:
        show_closest(ask, &shown, name, name.labels - encloser.labels)
        if wildcard_below(encloser, wildcard):
            show_hashed(ask, &shown, wildcard, <uint32_t>encloser.length + 2, False)
    elif ask.version.nsec.count:
        show_before(ask, &shown, name.lower)
        if wildcard_below(encloser, wildcard):
            show_before(ask, &shown, wildcard)


cdef void prove_absent_type(Ask *ask, const IndexResult *found) noexcept nogil:
    cdef const Name *name = ask.q.name
    cdef const IndexNode *node = found.node
    cdef Shown shown
    memset(&shown, 0, sizeof(shown))
    if ask.version.nsec3.count:
        if found.wildcard:
            show_closest(ask, &shown, name, found.label)
            show_hashed(ask, &shown, node.name, node.length, True)
        elif not show_hashed(ask, &shown, name.lower, name.length, True) and name.labels > ask.version.apex.labels:
            show_closest(ask, &shown, name, 1)             # opt-out
    elif ask.version.nsec.count:
        if found.wildcard:
            if node.rrsets:
                show_before(ask, &shown, node.name)
            show_before(ask, &shown, name.lower)
        else:
            show_before(ask, &shown, name.lower)


cdef void prove_expansion(Ask *ask, const Name *name, const IndexResult *found) noexcept nogil:
    cdef Shown shown
    cdef uint32_t next = name.offset[found.label - 1]
    memset(&shown, 0, sizeof(shown))
    if ask.version.nsec3.count:
        show_hashed(ask, &shown, name.lower + next, name.length - next, False)
    elif ask.version.nsec.count:
        show_before(ask, &shown, name.lower)


cdef void prove_referral(Ask *ask, const IndexNode *cut) noexcept nogil:
    cdef const Name *name = ask.q.name
    cdef Shown shown
    cdef uint32_t label
    memset(&shown, 0, sizeof(shown))
    if ask.version.nsec3.count == 0 or show_hashed(ask, &shown, cut.name, cut.length, True):
        return
    # The cut is on the way to the query's name, or (an alias led to it) elsewhere: then it has no proof here.
    label = name.labels - cut.labels if name.labels >= cut.labels else 255
    if label < name.labels and name.offset[label] + cut.length == name.length:
        show_closest(ask, &shown, name, label + 1)
