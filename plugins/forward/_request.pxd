"""The message that goes upstream for a query, and what of the reply's OPT is for its client."""
from libc.stdint cimport uint32_t
from fastdns.api.query cimport Query
from fastdns.plugins.forward._upstream cimport Exchange

# Writes the request into the exchange, id 0: the client's octets as they are, or, where handlers above changed name, type, class or EDNS,
# or options are not to be forwarded, a message made anew. Its OPT says at most EDNS_SIZE octets. -1 when there is no memory.
cdef int request_write(Exchange *e, Query *q) noexcept nogil
# Whether a request that was just written may share the question of another one, which is under way: all octets equal but the id, the case of the name
# and the cookie.
cdef bint request_equal(const Exchange *a, const Exchange *b) noexcept nogil
# The most octets of a reply from an upstream, as the request allows: handlers may have changed what the client's own limit is.
cdef uint32_t request_limit(const Query *q) noexcept nogil
# Drops from the OPT of the reply, which reply_parse has filled, what the upstream says to this server alone: kept are extended errors and the options
# that the query had, unless they are hop by hop.
cdef void request_clear_options(Query *q) noexcept nogil
