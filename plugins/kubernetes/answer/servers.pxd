"""The zone's name servers: the services that this process's pod is behind, or the machine's own addresses (ns.dns)."""
from libc.stdint cimport uint8_t, uint32_t
from fastdns.plugins.kubernetes.store.records cimport EndpointRecord, ServiceNode, SliceRecord
from fastdns.plugins.kubernetes.answer.view cimport LocalAddress, View

cdef enum:
    SERVERS_MAX = 256

cdef struct Server:                 # one address, borrowed until the batch ends
    const uint8_t *ip
    uint8_t family
    const ServiceNode *service      # named by it; NULL: ns.dns
    const SliceRecord *slice        # of a headless service: named by the endpoint
    const EndpointRecord *endpoint

cdef enum Reach:                    # where the name servers' addresses are for
    INSIDE                          # cluster IPs, or endpoints of headless services
    OUTSIDE                         # external IPs
    OUTSIDE_HEADLESS                # external IPs, but endpoints of headless services

# The addresses, in CoreDNS's order; returns how many.
cdef uint32_t servers_collect(const View *view, Reach reach, Server *servers) noexcept nogil
# The server's name in wire form; out has 255 octets. 0 when it is too long.
cdef uint32_t server_write(uint8_t *out, const View *view, const Server *server, const uint8_t *zone, uint32_t zone_length) noexcept nogil
