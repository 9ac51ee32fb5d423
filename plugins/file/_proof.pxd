"""Proofs of denial in the authority section: NSEC (RFC 4035 3.1.3) or NSEC3 (RFC 5155 7.2), as the zone has them; nothing where it is not signed."""
from fastdns.api.names cimport Name
from fastdns.api.records cimport IndexNode, IndexResult
from fastdns.plugins.file._answer cimport Ask

# The name is not there, nor a wildcard for it; encloser is its closest one.
cdef void prove_absent_name(Ask *ask, const Name *name, const IndexNode *encloser) noexcept nogil
# The type is not at the query's name, or not at the wildcard that stands for it (found.wildcard).
cdef void prove_absent_type(Ask *ask, const IndexResult *found) noexcept nogil
# No name closer than the wildcard that answers.
cdef void prove_expansion(Ask *ask, const Name *name, const IndexResult *found) noexcept nogil
# The delegation has no DS. With NSEC nothing is shown, as in CoreDNS: who needs it asks for DS.
cdef void prove_referral(Ask *ask, const IndexNode *cut) noexcept nogil
