"""LOC (RFC 1876), from words to wire."""
from fastdns.zonefile.fields cimport RdataText

# To the end of the line. 0, or -1 with text.failure.
cdef int location_field(RdataText *text) noexcept nogil
