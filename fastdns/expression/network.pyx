"""Addresses and networks of expressions, as Go's net.ParseIP and net.ParseCIDR read them."""
from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memcmp, memcpy
from fastdns.expression.value cimport VALUE_STRING, Value, set_bool

cdef extern from "<arpa/inet.h>" nogil:
    enum:
        AF_INET
        AF_INET6
    int inet_pton(int family, const char *text, void *out)


cdef uint32_t read_address(const char *text, uint32_t length, uint8_t *out) noexcept nogil:
    """Number of octets of an address, 4 or 16; 0 when it is malformed. An IPv4-mapped address counts as IPv4."""
    cdef char copy[64]
    if length == 0 or length >= sizeof(copy):
        return 0
    memcpy(copy, text, length)
    copy[length] = 0
    if inet_pton(AF_INET, copy, out) == 1:
        return 4
    if inet_pton(AF_INET6, copy, out) != 1:
        return 0
    if memcmp(out, b"\0\0\0\0\0\0\0\0\0\0\xff\xff", 12) == 0:
        memcpy(out, out + 12, 4)
        return 4
    return 16


cdef int in_network(const Value *address, const Value *network, Value *out) noexcept nogil:
    cdef uint8_t own[16]
    cdef uint8_t other[16]
    cdef uint32_t size, network_size, slash = 0, bits = 0, i, whole
    cdef bint colon = False
    if address.kind != VALUE_STRING or network.kind != VALUE_STRING:
        return -1
    size = read_address(address.text, address.length, own)
    while slash < network.length and network.text[slash] != c'/':
        colon |= network.text[slash] == c':'
        slash += 1
    if size == 0 or slash + 1 >= network.length or network.length - slash > 4:
        return -1
    for i in range(slash + 1, network.length):
        if not c'0' <= network.text[i] <= c'9':
            return -1
        bits = bits * 10 + network.text[i] - c'0'
    network_size = read_address(network.text, slash, other)
    if network_size == 0 or bits > (128 if colon else 32):
        return -1
    set_bool(out, False)
    if colon and network_size == 4:             # an IPv4-mapped network: the prefix length counts from the IPv6 address
        if bits < 96:
            return 0
        bits -= 96
    if network_size != size:
        return 0
    whole = bits >> 3
    set_bool(out, memcmp(own, other, whole) == 0 and (bits & 7 == 0 or (own[whole] ^ other[whole]) >> (8 - (bits & 7)) == 0))
    return 0
