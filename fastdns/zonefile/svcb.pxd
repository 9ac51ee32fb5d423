"""Parameters of SVCB and HTTPS (RFC 9460): conversion from presentation form to wire form, and checks of the wire form."""
from libc.stdint cimport uint8_t, uint32_t
from fastdns.zonefile.fields cimport RdataText

# Reads from the next word up to the end of the line. 0, or -1 with text.failure.
cdef int svcb_parameters(RdataText *text) noexcept nogil
# Whether these octets are parameters whose keys are in strictly increasing order (RFC 9460 2.2).
cdef bint svcb_valid(const uint8_t *octets, uint32_t length) noexcept nogil
