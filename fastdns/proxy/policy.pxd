"""Whose PROXY headers count on a listening address, and what becomes of a datagram with one."""
from libc.stdint cimport uint8_t, uint32_t, int64_t
from fastdns.index.prefixes cimport Prefixes, PrefixTree
from fastdns.proxy.header cimport ProxyHeader, ProxyStatus
from fastdns.proxy.sessions cimport Sessions, SessionTable
from fastdns.proxy.tlvs cimport ProxyTlvs
from fastdns.system.address cimport Address

cdef enum ProxyRule:                # what a server does with the headers of a sender
    PROXY_USE                       # takes the client's address from it; it may be missing
    PROXY_IGNORE                    # removes it
    PROXY_REJECT                    # takes nothing that has one
    PROXY_SKIP                      # does not look for it

cdef struct ProxyPolicy:            # owned by a ProxyProtocol
    const Prefixes *allowed         # senders with PROXY_USE; NULL: no such list
    ProxyRule otherwise             # for all others
    uint8_t tlvs                    # those of headers that count are kept
    int64_t lifetime                # ns that a UDP session lives after its last use; 0: no sessions
    SessionTable *sessions          # NULL: none

# What is done with the headers of a sender.
cdef ProxyRule proxy_rule(const ProxyPolicy *policy, const Address *sender) noexcept nogil
# The beginning of a stream, under a rule other than PROXY_SKIP. at_end: no more octets will come. PROXY_PRESENT: header.length octets are to be
# removed, and header.addressed says whether there is a client to take from it. PROXY_MALFORMED: the connection is to be closed.
cdef ProxyStatus proxy_open(ProxyRule rule, const uint8_t *octets, uint32_t length, bint at_end, ProxyHeader *header) noexcept nogil
# The header before the payload of a datagram: its length in octets, 0 for none, or -1 when the datagram is to be dropped (a warning is logged, but
# for one that only opens a session). Sets *client, and *tlvs (NULL: they are not wanted) to a reference of the header's or the session's TLVs, or to NULL.
# now: ns, monotonic; worker: of the log.
cdef int proxy_strip(const ProxyPolicy *policy, const uint8_t *datagram, uint32_t length, const Address *peer, int64_t now, uint32_t worker,
                     Address *client, ProxyTlvs **tlvs) noexcept nogil
# A reference of the TLVs of a header, all of whose octets these are. NULL: it has none, or the policy, or the rule for its sender, keeps none.
cdef ProxyTlvs *proxy_tlvs(const ProxyPolicy *policy, ProxyRule rule, const uint8_t *octets, const ProxyHeader *header, uint32_t worker) noexcept nogil
# The same for a datagram whose client proxy_strip has found: of its header, whose octets these are, or without one (length 0) of its session.
cdef ProxyTlvs *proxy_datagram_tlvs(const ProxyPolicy *policy, const uint8_t *octets, uint32_t length, const Address *peer, int64_t now,
                                    uint32_t worker) noexcept nogil
# Sets *client, and *tlvs (NULL: they are not wanted) to a reference, as proxy_strip does for a datagram without a header. Leaves both where there is no
# session.
cdef void proxy_session(const ProxyPolicy *policy, const Address *peer, int64_t now, uint32_t worker, Address *client, ProxyTlvs **tlvs) noexcept nogil

cdef class ProxyProtocol:           # ProxyProtocol(networks, otherwise, lifetime, sessions, tlvs)
    cdef ProxyPolicy policy
    cdef PrefixTree tree
    cdef readonly Sessions sessions
