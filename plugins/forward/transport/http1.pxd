"""Responses of HTTP/1.1 (RFC 9112)."""
from libc.stdint cimport uint8_t, uint32_t, int64_t
from fastdns.plugins.forward._upstream cimport ResponsePlace

cdef struct Response:
    uint8_t *body                   # in the octets that were read
    uint32_t size
    uint8_t close                   # no other one follows on this connection
    uint8_t too_long                # the failure: it exceeds a limit
    const char *failure             # why the octets are no response

# Reads one response at the beginning of octets; chunks of its body are moved together there. The number of octets that it takes, 0 while it is not
# whole, -1 where it never will be. ended: nothing comes behind these octets. place: zeroed, or of the call before, with fewer octets of the same response,
# which was not whole: what was looked at then is not looked at again. It is zeroed when the response is whole.
cdef int64_t http1_read(uint8_t *octets, uint32_t size, bint ended, ResponsePlace *place, Response *response) noexcept nogil
