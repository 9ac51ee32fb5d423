"""Server cookies for handlers that stand above *cookies* in the chain, which have to know before it whether a client has its address."""
from fastdns.api.query cimport Handler, Query

# True if the query has a valid server cookie; sets COOKIE_VALID then. self: the handler of *cookies* in the query's own chain, which later
# checks no valid cookie a second time.
cdef bint cookies_check(Handler *self, Query *q) noexcept nogil
