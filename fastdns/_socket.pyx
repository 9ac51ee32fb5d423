"""The kernel's socket addresses. The contract is in _socket.pxd."""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdio cimport snprintf
from libc.string cimport memcpy, memset, strlen
from fastdns._mux cimport Address
from fastdns._wire cimport load32

cdef extern from "<arpa/inet.h>" nogil:
    const char *inet_ntop(int family, const void *source, char *out, socklen_t size)

cdef extern from "<net/if.h>" nogil:
    char *if_indextoname(unsigned int index, char *name)


# ---- addresses ----

cdef void address_from_socket(Address *address, const sockaddr_in6 *peer) noexcept nogil:
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


cdef void address_from_octets(Address *address, const uint8_t *octets) noexcept nogil:
    """IPv6 octets; v4-mapped ones become IPv4."""
    cdef uint64_t first
    memcpy(&first, octets, 8)
    if first == 0 and load32(octets + 8) == 0xFFFF:
        address.family = 4
        memcpy(address.octets, octets + 12, 4)
    else:
        address.family = 6
        memcpy(address.octets, octets, 16)


cdef uint32_t address_to_socket(const Address *address, uint8_t family, sockaddr_in6 *peer) noexcept nogil:
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


cdef void address_to_octets(const Address *address, uint8_t *octets) noexcept nogil:
    if address.family == 4:
        memset(octets, 0, 10)
        octets[10] = 0xFF
        octets[11] = 0xFF
        memcpy(octets + 12, address.octets, 4)
    else:
        memcpy(octets, address.octets, 16)


cdef int address_text(const Address *address, char *out) noexcept nogil:
    cdef char interface[16]
    cdef int length
    if address.family == 4:
        return snprintf(out, 64, b"%u.%u.%u.%u", address.octets[0], address.octets[1], address.octets[2], address.octets[3])
    inet_ntop(AF_INET6, address.octets, out, 46)
    length = <int>strlen(out)
    if address.scope and address.octets[0] == 0xFE and address.octets[1] & 0xC0 == 0x80 and if_indextoname(address.scope, interface) != NULL:
        length += snprintf(out + length, 18, b"%%%s", interface)
    return length
