"""DNS over HTTPS (RFC 8484): from a request to a query, and from its reply to a response."""
from fastdns.engine.http.request cimport HttpService

cdef enum DohStatus:                # the cells of a listening address, from StreamService.cells on: responses by status
    DOH_200
    DOH_400
    DOH_404
    DOH_431
    DOH_500

cdef HttpService doh_service
