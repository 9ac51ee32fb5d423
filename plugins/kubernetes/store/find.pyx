"""Reading the store; see _find.pxd."""
from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memcmp, memcpy, strlen
from fastdns.api.wire cimport octets_equal
from fastdns.plugins.kubernetes.store.records cimport (AddressRecord, Cluster, NodeRecord, PodRecord, ServiceNode, ServiceRecord, node_service,
                                                       service_externals, service_ip4, service_ip6)

cdef extern from "<arpa/inet.h>" nogil:
    int AF_INET6
    const char *inet_ntop(int family, const void *address, char *out, uint32_t size)


cdef PodRecord *find_pod(const Cluster *cluster, const uint8_t *ip, uint8_t family) noexcept nogil:
    cdef Probe probe
    probe_begin(&probe, &cluster.pod_addresses, address_hash(ip, family))
    return next_pod(&probe, ip, family)


cdef NodeRecord *find_node(const Cluster *cluster, const char *name, uint32_t length) noexcept nogil:
    cdef NodeRecord *node
    cdef Probe probe
    probe_begin(&probe, &cluster.nodes, node_hash(name, length))
    while True:
        node = <NodeRecord *>probe_next(&probe)
        if node == NULL or (node.length == length and octets_equal(<const uint8_t *>node.name, <const uint8_t *>name, length)):
            return node


cdef bint has_address(const ServiceNode *node, const uint8_t *ip, uint8_t family) noexcept nogil:
    cdef const ServiceRecord *record = node_service(node)
    cdef uint32_t i
    if record == NULL:
        return False
    if family == 4:
        for i in range(record.ip4_count):
            if memcmp(service_ip4(record) + 4 * i, ip, 4) == 0:
                return True
        return False
    for i in range(record.ip6_count):
        if memcmp(service_ip6(record) + 16 * i, ip, 16) == 0:
            return True
    return False


cdef bint service_has_external(const ServiceRecord *record, const uint8_t *ip, uint8_t family) noexcept nogil:
    cdef const AddressRecord *externals = service_externals(record)
    cdef uint32_t i
    for i in range(record.external_count):
        if externals[i].family == family and memcmp(externals[i].ip, ip, 4 if family == 4 else 16) == 0:
            return True
    return False


cdef ServiceNode *find_service_by_address(const Cluster *cluster, const uint8_t *ip, uint8_t family, accept_func accept,
                                          const void *context) noexcept nogil:
    cdef Probe probe
    cdef ServiceNode *node
    probe_begin(&probe, &cluster.service_addresses, address_hash(ip, family))
    while True:
        node = <ServiceNode *>probe_next(&probe)
        if node == NULL or (has_address(node, ip, family) and (accept == NULL or accept(context, node.namespace))):
            return node


cdef uint32_t address_text(const uint8_t *ip, uint8_t family, char *out) noexcept nogil:
    """inet_ntop writes IPv6 addresses of the forms ::a.b.c.d and ::ffff:a.b.c.d with dots; Go keeps to colons, and nothing mapped comes here."""
    cdef char full[46]
    cdef uint32_t length, dot = 0
    cdef int a, b
    if family == 4:
        return ip4_text(ip, out)
    inet_ntop(AF_INET6, ip, full, sizeof(full))
    length = <uint32_t>strlen(full)
    while dot < length and full[dot] != c'.':
        dot += 1
    if dot < length:                # ::a.b.c.d
        a = (ip[12] << 8) | ip[13]
        b = (ip[14] << 8) | ip[15]
        memcpy(out, <const char *>"::", 2)
        length = 2
        if a:
            length += hex_text(a, out + length)
            out[length] = c':'
            length += 1
        return length + hex_text(b, out + length)
    memcpy(out, full, length)
    return length


cdef uint32_t ip4_text(const uint8_t *ip, char *out) noexcept nogil:
    """Thousands of names of endpoints are made for one SRV answer: no printf here."""
    cdef uint32_t i, value, used = 0
    for i in range(4):
        value = ip[i]
        if i:
            out[used] = c'.'
            used += 1
        if value >= 100:
            out[used] = <char>(48 + value // 100)
            used += 1
        if value >= 10:
            out[used] = <char>(48 + value // 10 % 10)
            used += 1
        out[used] = <char>(48 + value % 10)
        used += 1
    return used


cdef uint32_t hex_text(int value, char *out) noexcept nogil:
    cdef uint32_t length = 0
    cdef int shift = 12
    cdef int digit
    while shift >= 0:
        digit = (value >> shift) & 15
        if digit or length or shift == 0:
            out[length] = <char>(48 + digit if digit < 10 else 87 + digit)
            length += 1
        shift -= 4
    return length
