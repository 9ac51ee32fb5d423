"""Parameters of SVCB and HTTPS (RFC 9460): from words to wire, and what wire may be."""
from libc.stdint cimport uint8_t, uint32_t
from fastdns.zonefile.fields cimport RdataText

# From the next word to the end of the line. 0, or -1 with text.failure.
cdef int svcb_parameters(RdataText *text) noexcept nogil
# Are these octets parameters in strictly rising order?
cdef bint svcb_valid(const uint8_t *octets, uint32_t length) noexcept nogil
