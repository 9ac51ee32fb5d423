"""How a plugin that asks two upstreams one question tells *recorder* of both: a header alone, so that nobody has to load the recorder for it."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, int64_t
from fastdns.api.query cimport Query

cdef enum Fate:                 # what became of a question, as far as is known
    FATE_WAITING                # nothing yet, or nothing until the query ended
    FATE_ANSWERED               # the query has its answer
    FATE_REPLIED                # there was a reply, which was not the answer
    FATE_TIMEOUT
    FATE_FAILED                 # it could not be sent, or the connection ended
    FATE_DISCARDED              # the other one was answered first: a reply that comes later is discarded

cdef struct AskedUpstream:
    const char *upstream        # its address as text; NULL: there are no two questions
    int64_t asked               # ns, monotonic: when the attempt began
    uint32_t took               # microseconds until its fate was known
    uint16_t rcode              # of its reply
    uint8_t fate                # Fate
    uint8_t udp                 # it went in UDP packets

# The query's question has gone to two upstreams, the first one first; or one of the two fates is known. On the query's worker; copies what it keeps.
ctypedef void (*asked_func)(Query *q, const AskedUpstream *pair) noexcept nogil
