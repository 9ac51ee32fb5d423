"""The message that goes upstream for a query."""
from fastdns.api.query cimport Query
from fastdns.plugins.forward._upstream cimport Exchange

# Writes the request into the exchange, id 0: the client's octets as they are, or, where handlers above changed name, type, class or EDNS,
# a message made anew. -1 when there is no memory.
cdef int request_write(Exchange *e, Query *q) noexcept nogil
# Whether two requests may share one question upstream: all octets equal but the id and the case of the name.
cdef bint request_equal(const Exchange *a, const Exchange *b) noexcept nogil
