"""Which PROXY headers count. The contract is in proxy/policy.pxd."""
from libc.stdint cimport uint8_t, uint32_t, int64_t
from libc.stdio cimport snprintf
from fastdns.index.prefixes cimport PrefixKey, PrefixNode, prefixes_first, prefixes_next
from fastdns.proxy.header cimport PROXY_ABSENT, PROXY_MALFORMED, PROXY_PARTIAL, PROXY_PRESENT, proxy_is_udp, proxy_parse
from fastdns.proxy.sessions cimport session_find, session_store
from fastdns.proxy.tlvs cimport tlvs_new, tlvs_unref
from fastdns.system.address cimport address_text
from fastdns.telemetry.log_line cimport LOG_WARNING, log_put
from fastdns.telemetry.metrics cimport METRIC_CONTROL

cdef enum:
    WARNINGS_MAX = 20               # warnings of a worker in a second; further ones are not logged
    SECOND = 1000000000             # ns

cdef struct Allowance:              # of a worker
    int64_t second
    uint32_t warnings

cdef Allowance allowances[METRIC_CONTROL + 1]


cdef ProxyRule proxy_rule(const ProxyPolicy *policy, const Address *sender) noexcept nogil:
    cdef PrefixKey key
    cdef const PrefixNode *node
    if policy.allowed != NULL:
        node = prefixes_first(policy.allowed, sender, &key)
        while node != NULL:
            if node.value:
                return PROXY_USE
            node = prefixes_next(policy.allowed, node, &key)
    return policy.otherwise


cdef ProxyStatus proxy_open(ProxyRule rule, const uint8_t *octets, uint32_t length, bint at_end, ProxyHeader *header) noexcept nogil:
    cdef ProxyStatus status = proxy_parse(octets, length, header)
    if status == PROXY_PARTIAL and at_end:
        status = PROXY_ABSENT if header.error == NULL else PROXY_MALFORMED
    if status == PROXY_PRESENT and rule == PROXY_REJECT:
        return PROXY_MALFORMED
    if rule == PROXY_IGNORE:
        header.addressed = 0
    return status


cdef ProxyTlvs *proxy_tlvs(const ProxyPolicy *policy, ProxyRule rule, const uint8_t *octets, const ProxyHeader *header, uint32_t worker) noexcept nogil:
    if not policy.tlvs or rule != PROXY_USE or header.tlvs == 0:
        return NULL
    return tlvs_new(octets + header.length - header.tlvs, header.tlvs, worker)


# ---- datagrams ----

cdef inline void find_session(const ProxyPolicy *policy, ProxyRule rule, const Address *peer, int64_t now, uint32_t worker, Address *client,
                              ProxyTlvs **tlvs) noexcept nogil:
    if rule == PROXY_USE and policy.sessions != NULL:
        session_find(policy.sessions, peer, now, policy.lifetime, worker, client, tlvs if policy.tlvs else NULL)


cdef void proxy_session(const ProxyPolicy *policy, const Address *peer, int64_t now, uint32_t worker, Address *client, ProxyTlvs **tlvs) noexcept nogil:
    find_session(policy, proxy_rule(policy, peer), peer, now, worker, client, tlvs)


cdef ProxyTlvs *proxy_datagram_tlvs(const ProxyPolicy *policy, const uint8_t *octets, uint32_t length, const Address *peer, int64_t now,
                                    uint32_t worker) noexcept nogil:
    cdef ProxyHeader header
    cdef ProxyTlvs *found = NULL
    cdef Address client
    if not policy.tlvs:
        return NULL
    if length == 0:
        proxy_session(policy, peer, now, worker, &client, &found)
        return found
    if proxy_parse(octets, length, &header) != PROXY_PRESENT:
        return NULL
    return proxy_tlvs(policy, proxy_rule(policy, peer), octets, &header, worker)


cdef int proxy_strip(const ProxyPolicy *policy, const uint8_t *datagram, uint32_t length, const Address *peer, int64_t now, uint32_t worker,
                     Address *client, ProxyTlvs **tlvs) noexcept nogil:
    cdef ProxyRule rule = proxy_rule(policy, peer)
    cdef ProxyHeader header
    cdef ProxyStatus status
    cdef ProxyTlvs *found = NULL
    client[0] = peer[0]
    if tlvs != NULL:
        tlvs[0] = NULL
    if rule == PROXY_SKIP:
        return 0
    status = proxy_parse(datagram, length, &header)
    if status == PROXY_MALFORMED or status == PROXY_PARTIAL and header.error != NULL:
        warn(policy, peer, now, worker, length, &header)
        return -1
    if status != PROXY_PRESENT:
        find_session(policy, rule, peer, now, worker, client, tlvs)
        return 0
    # LOCAL is a proxy's own query, for example to see whether the server is alive.
    if header.version != 2 or header.transport and not proxy_is_udp(&header) or rule == PROXY_REJECT:
        warn(policy, peer, now, worker, length, &header)
        return -1
    if rule == PROXY_USE and header.addressed:
        client[0] = header.source
        if tlvs != NULL or policy.sessions != NULL:
            found = proxy_tlvs(policy, rule, datagram, &header, worker)
        if policy.sessions != NULL:
            session_store(policy.sessions, peer, now, policy.lifetime, worker, client, found)
            if header.length == length:
                tlvs_unref(found, worker)
                return -1
        if tlvs != NULL:
            tlvs[0] = found
        else:
            tlvs_unref(found, worker)
    return <int>header.length


cdef void warn(const ProxyPolicy *policy, const Address *peer, int64_t now, uint32_t worker, uint32_t length, const ProxyHeader *header) noexcept nogil:
    """CoreDNS's line. Anybody can send such datagrams, so their number is limited."""
    cdef Allowance *allowance = &allowances[worker]
    cdef char line[512]
    cdef char address[64]
    cdef char why[256]
    cdef int size
    if allowance.second != now // SECOND:
        allowance.second = now // SECOND
        allowance.warnings = 0
    allowance.warnings += 1
    if allowance.warnings > WARNINGS_MAX:
        return
    if header.error != NULL:
        snprintf(why, sizeof(why), b"parsing Proxy Protocol header (packet size: %u): %s", length, header.error)
    elif header.version != 2:
        snprintf(why, sizeof(why), b"unsupported Proxy Protocol version %u (only v2 supported for UDP)", <unsigned int>header.version)
    elif header.transport and not proxy_is_udp(header):
        snprintf(why, sizeof(why), b"PROXY Protocol header is not UDP type (transport protocol: 0x%x)", <unsigned int>header.transport)
    else:
        snprintf(why, sizeof(why), b"connection rejected by Proxy Protocol connection policy")
    address_text(peer, address)
    size = snprintf(line, sizeof(line), b"dropping invalid Proxy Protocol packet from %s%s%s:%u: %s", b"[" if peer.family == 6 else b"", address,
                    b"]" if peer.family == 6 else b"", <unsigned int>peer.port, why)
    log_put(worker, LOG_WARNING, NULL, line, <uint32_t>size)


RULES = {"use": PROXY_USE, "ignore": PROXY_IGNORE, "reject": PROXY_REJECT, "skip": PROXY_SKIP}


cdef class ProxyProtocol:
    def __init__(self, networks, str otherwise not None, int64_t lifetime, Sessions sessions, bint tlvs=False):
        if networks:
            self.tree = PrefixTree({network: 1 for network in networks})
            self.policy.allowed = &self.tree.prefixes
        self.policy.otherwise = <ProxyRule><int>RULES[otherwise]
        self.policy.tlvs = tlvs
        if sessions is not None and lifetime > 0:
            self.sessions = sessions
            self.policy.sessions = &sessions.table
            self.policy.lifetime = lifetime

    def rule(self, bytes sender not None):
        cdef Address address
        cdef int i
        address.family = 4 if len(sender) == 4 else 6
        for i in range(4 if address.family == 4 else 16):
            address.octets[i] = sender[i]
        found = proxy_rule(&self.policy, &address)
        return next(name for name, rule in RULES.items() if rule == found)
