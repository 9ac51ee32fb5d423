"""EDNS options of a request (RFC 6891 6.1.2), rewritten in the query's own memory."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from fastdns.api.query cimport Query
from fastdns.api.wire cimport Edns
from fastdns.plugins.rewrite._work cimport Work
from fastdns.plugins.rewrite._rules cimport Plain, Rule

# Applies a rule to q.edns. True: the rule matched. `plain` is the question's name as it stands.
cdef bint options_apply(Query *q, Work *work, const Rule *rule, const Plain *plain) noexcept nogil
# Removes the first option of a code, or all.
cdef void options_remove(Query *q, Edns *edns, uint16_t code, bint all_of_them) noexcept nogil
# Gives the first option of a code other data; nothing when there is none.
cdef void options_replace(Query *q, Edns *edns, uint16_t code, const uint8_t *data, uint32_t length) noexcept nogil
