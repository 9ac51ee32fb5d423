"""Proofs of denial in the authority section: NSEC (RFC 4035 3.1.3) or NSEC3 (RFC 5155 7.2), as the zone has them; nothing where it is not signed."""
from fastdns.api.reply cimport SECTION_AUTHORITY
from fastdns.api.names cimport Name
from fastdns.api.wire cimport TYPE_DS, TYPE_NS
from fastdns.api.records cimport IndexNode, IndexResult, RRset, node_rrset
from fastdns.plugins.file._sections cimport Ask, add_glue, add_set, add_whole

# The name is not there, nor a wildcard for it; encloser is its closest one.
cdef void prove_absent_name(Ask *ask, const Name *name, const IndexNode *encloser) noexcept nogil
# The type is not at the name, or not at the wildcard that stands for it (found.wildcard).
cdef void prove_absent_type(Ask *ask, const Name *name, const IndexResult *found) noexcept nogil
# No name closer than the wildcard that answers.
cdef void prove_expansion(Ask *ask, const Name *name, const IndexResult *found) noexcept nogil
# The delegation, at or above the name, has no DS (RFC 4035 3.1.4.1, RFC 5155 7.2.7).
cdef void prove_referral(Ask *ask, const Name *name, const IndexNode *cut) noexcept nogil

cdef inline void add_referral(Ask *ask, const Name *name, const IndexNode *cut) noexcept nogil:
    """A delegation, at or above the name: its servers, DS records or the proof that there are none, glue."""
    cdef const RRset *ns = node_rrset(cut, TYPE_NS)
    cdef const RRset *ds
    add_set(ask, SECTION_AUTHORITY, cut.name, cut.length, cut, ns)
    if ask.signed:
        ds = node_rrset(cut, TYPE_DS)
        if ds != NULL:
            add_whole(ask, SECTION_AUTHORITY, cut, ds)
        else:
            prove_referral(ask, name, cut)
    add_glue(ask, cut, ns)
