"""What a reply is worth to the cache: whether it may be kept, in which store, and for how long (RFC 2308, and CoreDNS where it differs)."""
from libc.stdint cimport uint16_t, uint32_t
from fastdns.api.reply cimport Reply
from fastdns.api.names cimport Name

cdef enum:
    TTL_LEAST = 5               # seconds: of what has no TTL to go by
    ALIASES_MOST = 64           # CNAMEs followed inside one answer; longer chains count as loops

cdef struct Limits:             # seconds
    uint32_t success
    uint32_t success_least
    uint32_t denial
    uint32_t denial_least
    uint32_t failure            # SERVFAIL and NOTIMP; 0: not kept

cdef struct Worth:
    uint32_t ttl                # seconds to live, and the TTL that the records get, kept or not
    int kind                    # of the store: SUCCESS or DENIAL
    bint storable
    bint answering              # an answer to this question, its aliases followed
    bint refreshing             # good enough to take the place of a stale entry (RFC 8767 section 4)
    bint usable                 # a complete answer: what prefer_positive asks for

# The worth of a written reply to the question of name, type and class.
cdef Worth reply_worth(const Reply *reply, const Name *name, uint16_t qtype, uint16_t qclass, int opcode, const Limits *limits) noexcept nogil
# Only its ttl: for a reply that will not be kept.
cdef uint32_t reply_ttl(const Reply *reply, const Name *name, uint16_t qtype, uint16_t qclass, int opcode, const Limits *limits) noexcept nogil
