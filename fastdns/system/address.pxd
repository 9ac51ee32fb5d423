"""Addresses of clients, servers and upstreams, and how the kernel has them."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset
from fastdns.system.byteorder cimport load32, store32
from fastdns.system.socket cimport AF_INET, AF_INET6, htons, ntohs, sockaddr_in, sockaddr_in6

cdef struct Address:            # a socket address, as the kernel has it
    uint8_t family              # 4 or 6; 6 with a v4-mapped address counts as 4: octets then hold the IPv4 address
    uint8_t octets[16]          # network order; the first 4 for IPv4
    uint16_t port               # host order
    uint32_t scope              # IPv6 zone

cdef inline void address_from_octets(Address *address, const uint8_t *octets) noexcept nogil:
    """IPv6 octets; v4-mapped ones become IPv4."""
    cdef uint64_t first
    memcpy(&first, octets, 8)
    if first == 0 and load32(octets + 8) == 0xFFFF:
        address.family = 4
        memcpy(address.octets, octets + 12, 4)
    else:
        address.family = 6
        memcpy(address.octets, octets, 16)

cdef inline void address_from_socket(Address *address, const sockaddr_in6 *peer) noexcept nogil:
    """A kernel address as ours; v4-mapped ones become IPv4."""
    cdef const sockaddr_in *v4 = <const sockaddr_in *>peer
    if v4.sin_family == AF_INET:
        address.family = 4
        address.port = ntohs(v4.sin_port)
        memcpy(address.octets, &v4.sin_addr, 4)
        address.scope = 0
        return
    address.port = ntohs(peer.sin6_port)
    address.scope = peer.sin6_scope_id
    address_from_octets(address, peer.sin6_addr.s6_addr)

cdef inline uint64_t address_network(const Address *address) noexcept nogil:
    """Which clients count as one: those of an IPv4 address, and those of an IPv6 /64, of which a client has as many addresses as it likes."""
    cdef uint64_t network
    if address.family == 4:
        return load32(address.octets)
    memcpy(&network, address.octets, 8)
    return network

cdef inline uint64_t address_prefix(const Address *address) noexcept nogil:
    """Which networks may be one client's: an IPv4 /24, and an IPv6 /56."""
    cdef uint64_t prefix = 0
    memcpy(&prefix, address.octets, 3 if address.family == 4 else 7)
    return prefix

cdef inline void address_to_octets(const Address *address, uint8_t *octets) noexcept nogil:
    if address.family == 4:
        memset(octets, 0, 8)
        store32(octets + 8, 0xFFFF)
        memcpy(octets + 12, address.octets, 4)
    else:
        memcpy(octets, address.octets, 16)

cdef inline uint32_t address_to_socket(const Address *address, uint8_t family, sockaddr_in6 *peer) noexcept nogil:
    """The way back; family (4 or 6) is the socket's: IPv4 addresses are mapped on an IPv6 socket. Returns the length."""
    cdef sockaddr_in *v4 = <sockaddr_in *>peer
    if family == 4:
        v4.sin_family = AF_INET
        v4.sin_port = htons(address.port)
        memcpy(&v4.sin_addr, address.octets, 4)
        return sizeof(sockaddr_in)
    peer.sin6_family = AF_INET6
    peer.sin6_port = htons(address.port)
    peer.sin6_flowinfo = 0
    peer.sin6_scope_id = address.scope
    address_to_octets(address, peer.sin6_addr.s6_addr)
    return sizeof(sockaddr_in6)

# Text as Go prints it (no brackets, %scope for link-local); out has 64 octets. Returns the length.
cdef int address_text(const Address *address, char *out) noexcept nogil
# The 4 or 16 octets of a text of that family (4 or 6), which is not terminated and as Go's net.ParseIP takes it: no zeros lead, and no scope
# follows. False where it is none; what is in octets is then of no use.
cdef bint address_from_text(const char *text, uint32_t length, uint8_t family, uint8_t *octets) noexcept nogil
# The same of either family, which is returned; 0: it is none. An IPv4-mapped address is one of IPv4. There are 16 octets, and those that the family does
# not need become 0.
cdef uint8_t address_parse(const char *text, uint32_t length, uint8_t *octets) noexcept nogil
