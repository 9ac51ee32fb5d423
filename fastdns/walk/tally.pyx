"""Counts of both configurations. The contract is in tally.pxd."""
from fastdns.walk.canary cimport canary_count
from fastdns.walk.query cimport TALLY_DROPPED, TALLY_OTHERS


cdef void tally_reply(const Query *q) noexcept nogil:
    canary_count(q, min(q.reply.rcode, TALLY_OTHERS))


cdef void tally_dropped(const Query *q) noexcept nogil:
    canary_count(q, TALLY_DROPPED)
