"""What is known of a question that went to two upstreams (`hedge`), for `fastdns explain` and *recorder*.

Each query that waits has its own copy behind its `Waiting`, and only where the instance has `hedge`. One that comes for the same question when
one of the two is over has none: it waits for one upstream. A later attempt that is late as well takes the place of the earlier pair.
"""
from libc.stdint cimport uint32_t
from fastdns.api.query cimport Explanation, Handler, Query
from fastdns.plugins.forward._instance cimport Waiting
from fastdns.plugins.forward._upstream cimport Exchange
from fastdns.plugins.recorder._asked cimport Fate

# A second question was sent, or could not be: both are awaited.
cdef void pair_begin(Exchange *first, Exchange *second) noexcept nogil
# A query waits for the first question as well, as the one that came before it.
cdef void pair_join(Exchange *first, Query *q, const Waiting *waiting) noexcept nogil
# What became of one of the two, which the exchange is; the first call counts.
cdef void pair_end(Exchange *e, Fate fate, uint32_t rcode) noexcept nogil
# The handler's `explain`.
cdef void pair_explain(Handler *self, Query *q, Explanation *out) noexcept nogil
