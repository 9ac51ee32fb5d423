"""What clients get is counted while there are two configurations: out of line, so that replies pay for it in a branch alone (`ChainSet.tallies`)."""
from fastdns.walk.query cimport Query

cdef void tally_reply(const Query *q) noexcept nogil
cdef void tally_dropped(const Query *q) noexcept nogil
