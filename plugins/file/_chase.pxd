"""Where aliases lead: inside the zone by itself, outside of it through the server."""
from fastdns.api.query cimport Handler, Verdict
from fastdns.api.records cimport IndexResult
from fastdns.plugins.file._sections cimport Ask

# Follows the CNAME in found.rrset, whose owner is the query's name.
cdef Verdict chase_alias(Handler *self, Ask *ask, const IndexResult *found) noexcept nogil
# Follows the DNAME in found.rrset (RFC 6672 2.2).
cdef Verdict chase_dname(Handler *self, Ask *ask, const IndexResult *found) noexcept nogil
cdef Verdict chase_resume(Ask *ask) noexcept nogil
