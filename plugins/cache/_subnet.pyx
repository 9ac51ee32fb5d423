"""Client subnets in keys. The contract is in _subnet.pxd."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from libc.string cimport memcmp, memcpy
from fastdns.api.query cimport Query
from fastdns.api.reply cimport Reply
from fastdns.api.wire cimport OPTION_SUBNET, Edns, load16, wire_option

cdef enum:
    OPTION_MAX = 20             # octets of a subnet: family, prefixes, an IPv6 address


cdef bint has_another(const Edns *edns, const uint8_t *option) noexcept nogil:
    """Whether a second subnet follows: which of them the upstream looks at is not known."""
    cdef Edns rest = edns[0]
    cdef uint32_t behind = <uint32_t>(option - edns.options) + 4 + load16(option + 2)
    rest.options += behind
    rest.options_length = <uint16_t>(edns.options_length - behind)
    return wire_option(&rest, OPTION_SUBNET) != NULL


cdef int subnet_write(const Query *q, const uint8_t *bits, uint8_t *out) noexcept nogil:
    cdef const uint8_t *option = wire_option(&q.edns, OPTION_SUBNET)
    cdef uint32_t size = 0, width, used = 1
    if option != NULL:
        size = load16(option + 2)
        if size < 4 or size > OPTION_MAX or has_another(&q.edns, option):
            return -1
        memcpy(out + used, option + 4, size)
        used += size
    elif not bits[0] and not bits[1]:
        return 0
    out[0] = <uint8_t>size
    if bits[0] or bits[1]:
        width = bits[0 if q.client.family == 4 else 1]
        size = (width + 7) >> 3
        out[used] = q.client.family
        memcpy(out + used + 1, q.client.octets, size)
        used += 1 + size
        if width & 7:
            out[used - 1] &= <uint8_t>(0xFF00 >> (width & 7))
    return <int>used


cdef bint subnet_is_shared(const Query *q, const Reply *reply) noexcept nogil:
    cdef const uint8_t *asked = wire_option(&q.edns, OPTION_SUBNET)
    cdef const uint8_t *sent = wire_option(&reply.edns, OPTION_SUBNET)
    # The query's scope is 0, too: the options are equal as a whole.
    return asked != NULL and sent != NULL and load16(asked + 2) >= 4 and asked[7] == 0 and memcmp(asked, sent, 4) == 0 and memcmp(
        asked + 4, sent + 4, load16(asked + 2)) == 0
