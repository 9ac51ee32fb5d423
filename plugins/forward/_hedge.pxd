"""Second questions: what an upstream has not answered after a while is asked of another one as well, and the first usable answer counts.

A second question is an exchange of its own, without queries of its own: it borrows those of the first one, which alone is in the table of equal questions.
If it is answered first, or the first one fails, it takes the place of the first one (`hedge_promote`).

Their budget: each client network and each zone of names has a token bucket, which gets `hedge_percent` hundredths of a token for each question that goes
upstream, and a second question takes one token from both. Buckets are found by keyed hashes, so nobody can choose one. So however many questions of a network,
or of a zone's names, are answered late, their tokens come from their own questions, and at most one full bucket of them from others in the same one.
"""
from libc.stdint cimport uint32_t, int64_t
from fastdns.api.query cimport Query
from fastdns.plugins.forward._upstream cimport Exchange, Peer, Share

# Of a share whose settings have hedge_percent. False: out of memory.
cdef bint hedge_init(Share *share) noexcept nogil
cdef void hedge_free(Share *share) noexcept nogil
# A query's question is to go upstream.
cdef void hedge_fill(Exchange *e, const Query *q) noexcept nogil
# An attempt begins: after a while a second question follows.
cdef void hedge_expect(Exchange *e, Peer *peer) noexcept nogil
# It has ended.
cdef void hedge_forget(Exchange *e) noexcept nogil
# How long a reply took, ns.
cdef void hedge_learn(Peer *peer, int64_t took) noexcept nogil
# Whether the reply to a second question is the answer, although the first one is awaited. failover: its code is one of these.
cdef bint hedge_wins(Exchange *second, uint32_t rcode, bint failover) noexcept nogil
# The second question goes on in place of the first one, which ends.
cdef void hedge_promote(Exchange *first) noexcept nogil
# The first one was answered, or has failed for good.
cdef void hedge_drop(Exchange *first) noexcept nogil
# Nobody waits any more: `last` was the last query that did.
cdef void hedge_abandon(Exchange *first, Query *last) noexcept nogil
# The second question ends, and the wait for the first one goes on.
cdef void hedge_end(Exchange *second) noexcept nogil
