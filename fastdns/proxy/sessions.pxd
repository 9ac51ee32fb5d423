"""UDP sessions through a proxy that sends its PROXY header only once (Cloudflare Spectrum): whose datagrams follow from an address and port of the proxy.

A bounded table for all workers of a listening address. When it is full, the proxy (by its address) that has the most sessions loses the one that was
used least recently. The table has parts with a lock each. Only workers take these locks.
"""
from libc.stdint cimport uint8_t, uint32_t, uint64_t, int64_t
from fastdns.proxy.tlvs cimport ProxyTlvs
from fastdns.system.address cimport Address

cdef enum:
    SESSION_PARTS = 16              # of a large table
    SESSION_PART_MIN = 512          # sessions of a part, or the table has fewer of them
    SESSION_OWNERS = 256            # buckets by the address of the proxy
    SESSIONS_MAX = 16777216         # of a table
    SESSION_TLVS = 256              # octets of TLVs for each session of a part, on average: for more of them sessions end

cdef struct Session:
    Address peer                    # of the proxy
    Address client
    ProxyTlvs *tlvs                 # a reference; NULL: none
    int64_t used                    # ns, monotonic
    uint32_t next                   # of the same hash, or of the free list; 0: none. Indexes into Part.sessions, from 1 on
    uint32_t newer                  # of the same owner
    uint32_t older
    uint8_t owner

cdef struct SessionOwner:           # sessions of the proxies whose addresses have one hash
    uint32_t count
    uint32_t newest                 # by use
    uint32_t oldest
    int64_t oldest_used             # ns: `used` of the oldest, here so that a search for the one to evict reads no session

cdef struct SessionPart:
    uint32_t lock
    uint32_t count
    uint32_t made                   # sessions that were ever in use
    uint32_t free                   # list of those that are not
    uint64_t tlvs                   # octets of all
    uint32_t *buckets               # first session by hash
    Session *sessions               # sessions[0] is unused
    SessionOwner owners[SESSION_OWNERS]

cdef struct SessionTable:
    uint32_t parts                  # power of two
    uint32_t capacity               # sessions of a part
    uint32_t mask                   # of SessionPart.buckets
    SessionPart *part

# The client of a session that was used in the last `lifetime` ns; it is used now. False: there is none. Sets *tlvs to a reference of its TLVs, or leaves
# it; NULL: they are not wanted. worker: the caller's.
cdef bint session_find(SessionTable *table, const Address *peer, int64_t now, int64_t lifetime, uint32_t worker, Address *client,
                       ProxyTlvs **tlvs) noexcept nogil
# Begins a session, or changes its client. tlvs: of its header, which the session takes a reference of; NULL: none.
cdef void session_store(SessionTable *table, const Address *peer, int64_t now, int64_t lifetime, uint32_t worker, const Address *client,
                        ProxyTlvs *tlvs) noexcept nogil

cdef class Sessions:                # Sessions(capacity)
    cdef SessionTable table
    cdef readonly uint32_t capacity
