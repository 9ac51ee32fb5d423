"""Rdata of LOC (RFC 1876): conversion from presentation form to wire form."""
from fastdns.zonefile.fields cimport RdataText

# Reads up to the end of the line and appends 16 octets. 0, or -1 with text.failure.
cdef int location_field(RdataText *text) noexcept nogil
