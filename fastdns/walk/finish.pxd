"""From a finished reply to a message: OPT, fit to size, TC, compression (spec/server.md 6 and 7)."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from fastdns.walk.query cimport Query

# Settles what is sent: the OPT, the records that fit, TC, whether to compress; sets reply.size and reply.message_size.
# -1 when nothing can be sent (an extended rcode without an OPT).
cdef int finish_fit(Query *q) noexcept nogil
# Writes the fitted message: reply.message_size octets into out. Returns their number.
cdef uint32_t finish_write(Query *q, uint8_t *out) noexcept nogil
# Has options of this code echoed from now on, in the whole process (rewrite's rules name them); from the control side.
cdef void finish_echo(uint16_t code) noexcept nogil
