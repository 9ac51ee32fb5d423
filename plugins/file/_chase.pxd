"""Where aliases lead: inside the zone by itself, outside of it through the server."""
from libc.stdint cimport uint16_t
from fastdns.api.query cimport Handler, Verdict
from fastdns.api.records cimport NODE_CNAME, IndexNode, IndexResult, node_rrset
from fastdns.api.wire cimport TYPE_CNAME, TYPE_NSEC, TYPE_RRSIG
from fastdns.plugins.file._sections cimport Ask

cdef inline bint leads_on(const IndexNode *node, uint16_t qtype) noexcept nogil:
    """Is the node an alias for the type? Its own signatures and its NSEC record are beside the CNAME record (RFC 4035 2.5)."""
    if not node.flags & NODE_CNAME or qtype == TYPE_CNAME:
        return False
    return qtype != TYPE_RRSIG and qtype != TYPE_NSEC or node_rrset(node, qtype) == NULL

# Follows the CNAME in found.rrset, whose owner is the query's name.
cdef Verdict chase_alias(Handler *self, Ask *ask, const IndexResult *found) noexcept nogil
# Follows the DNAME in found.rrset (RFC 6672 2.2).
cdef Verdict chase_dname(Handler *self, Ask *ask, const IndexResult *found) noexcept nogil
cdef Verdict chase_resume(Ask *ask) noexcept nogil
