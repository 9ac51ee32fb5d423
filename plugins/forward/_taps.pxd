"""What a question to an upstream and its reply look like to the block's *dnstap*."""
from libc.stdint cimport uint8_t, uint32_t
from fastdns.plugins.dnstap._tap cimport Tap
from fastdns.plugins.forward._upstream cimport Exchange

# An attempt has ended: the reply, or NULL. The exchange is still where it was.
cdef void taps_tell(Tap **taps, uint32_t count, Exchange *e, const uint8_t *packet, uint32_t length) noexcept nogil
