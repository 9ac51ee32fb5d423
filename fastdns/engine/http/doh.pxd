"""DNS over HTTPS (RFC 8484): from a request to a query, and from its reply to a response."""
from fastdns.engine.http.request cimport HttpRequest

cdef enum DohStatus:                # the cells of a listening address, from StreamService.cells on: responses by status
    DOH_200
    DOH_400
    DOH_404
    DOH_431
    DOH_500

# A request that is whole, or too large. It is answered now or later.
cdef void doh_ask(HttpRequest *request) noexcept nogil
# Refuses one whose fields are too large.
cdef void doh_refuse_fields(HttpRequest *request) noexcept nogil
