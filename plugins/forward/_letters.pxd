"""Letters of the question in mixed case (draft-vixie-dnsext-dns0x20): what a forged reply over UDP must guess besides port and id.

Only upstreams get it that keep the letters in replies and find names in any case. Both are seen with queries of clients: after LEARN_AFTER replies some of them
are sent in mixed case. The reply to such a trial is used if it has the letters and answers; otherwise the query is sent again as the client wrote it, and
that reply counts; where names without answers are the rule, trials become rare. TRIALS good ones, and the upstream gets all queries in mixed case, until a
reply has other letters.
"""
from libc.stdint cimport uint8_t, uint32_t
from fastdns.plugins.forward._upstream cimport Exchange, Peer

cdef enum Trial:
    TRIAL_NONE
    TRIAL_MIXED                     # the question was sent in mixed case to see what comes of it
    TRIAL_PLAIN                     # and had no answers: it was sent as the client wrote it

# Before a question is sent over UDP: writes its letters as this attempt wants them, and whether they are compared.
cdef void letters_write(Exchange *e, Peer *peer) noexcept nogil
# Before a question is sent over anything else, or again: its letters are those of a client that waits.
cdef void letters_restore(Exchange *e) noexcept nogil
# Whether a reply has the question's letters, where that matters. If not, the upstream counts as one that does not keep them.
cdef bint letters_match(Exchange *e, Peer *peer, const uint8_t *packet) noexcept nogil
# Gives the question in a reply the letters of the first client that waits; the names that are compressed with it get them, too.
cdef void letters_rewrite(Exchange *e, const uint8_t *packet) noexcept nogil
# Undoes letters_rewrite.
cdef void letters_reset(Exchange *e, const uint8_t *packet) noexcept nogil
# After a whole reply: learns from it. True when the question has to be sent again as the client wrote it.
cdef bint letters_judge(Exchange *e, Peer *peer, const uint8_t *packet, uint32_t rcode) noexcept nogil
# Nothing came in time. As letters_judge.
cdef bint letters_lost(Exchange *e, Peer *peer) noexcept nogil
