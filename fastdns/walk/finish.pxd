"""From a finished reply to a message: OPT, fit to size, TC, compression (spec/server.md 6 and 7)."""
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t
from fastdns.walk.query cimport Query

# Settles the octets that are sent: the OPT, the records that fit, TC, whether to compress; sets reply.size and reply.message_size. OPT, DO and size are
# those that the client's message asks for at most, whatever handlers made of `edns` and of `message`: an extended rcode without an OPT is SERVFAIL.
cdef void finish_fit(Query *q) noexcept nogil
# Writes the fitted message: reply.message_size octets into out. Returns their number.
cdef uint32_t finish_write(Query *q, uint8_t *out) noexcept nogil
# Has options of this code echoed from now on, in the whole process (rewrite's rules name them); from the control side.
cdef void finish_echo(uint16_t code) noexcept nogil

# ---- what hooks call ----

# Adds an option to the OPT of an answer, for a client that sent one. `data` is copied; without memory, or room in an OPT, nothing is added.
cdef void query_option(Query *q, uint16_t code, const uint8_t *data, uint16_t length) noexcept nogil
# The same for an extended DNS error (RFC 8914): its code, and a text of up to 256 octets ("" for none).
cdef void query_error(Query *q, uint16_t code, const char *text) noexcept nogil
# To an answer with a zone's SOA: for how long a secondary may serve the zone (RFC 7314), for a client that asks. expire: seconds, of the SOA;
# age: ns since the zone was last known to be as its primary has it, 0 on the primary.
cdef void query_expire(Query *q, uint32_t expire, int64_t age) noexcept nogil
