"""Addresses and networks of expressions, as Go's net.ParseIP and net.ParseCIDR read them."""
from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memcmp
from fastdns.expression.value cimport VALUE_STRING, Value, set_bool
from fastdns.system.address cimport address_parse


cdef int in_network(const Value *address, const Value *network, Value *out) noexcept nogil:
    cdef uint8_t own[16]
    cdef uint8_t other[16]
    cdef uint32_t slash = 0, bits = 0, i, whole
    cdef uint8_t family, network_family
    cdef bint colon = False
    if address.kind != VALUE_STRING or network.kind != VALUE_STRING:
        return -1
    family = address_parse(address.text, address.length, own)
    while slash < network.length and network.text[slash] != c'/':
        colon |= network.text[slash] == c':'
        slash += 1
    if family == 0 or slash + 1 >= network.length or network.length - slash > 4:
        return -1
    for i in range(slash + 1, network.length):
        if not c'0' <= network.text[i] <= c'9':
            return -1
        bits = bits * 10 + network.text[i] - c'0'
    network_family = address_parse(network.text, slash, other)
    if network_family == 0 or bits > (128 if colon else 32):
        return -1
    set_bool(out, False)
    if colon and network_family == 4:             # an IPv4-mapped network: the prefix length counts from the IPv6 address
        if bits < 96:
            return 0
        bits -= 96
    if network_family != family:
        return 0
    whole = bits >> 3
    set_bool(out, memcmp(own, other, whole) == 0 and (bits & 7 == 0 or (own[whole] ^ other[whole]) >> (8 - (bits & 7)) == 0))
    return 0
