"""Addresses as text. The contract is in system/address.pxd."""
from libc.stdio cimport snprintf
from libc.string cimport memchr, memcpy, memset, strlen
from fastdns.system.socket cimport AF_INET6, socklen_t

cdef extern from "<arpa/inet.h>" nogil:
    const char *inet_ntop(int family, const void *source, char *out, socklen_t size)
    int inet_pton(int family, const char *text, void *out)

cdef extern from "<net/if.h>" nogil:
    char *if_indextoname(unsigned int index, char *name)

cdef enum:
    TEXT_MAX = 45                   # characters of an IPv6 address that ends as IPv4


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


cdef inline bint is_digit(uint8_t octet) noexcept nogil:
    return <uint8_t>(octet - c"0") < 10


cdef bint read_v4(const char *text, uint32_t length, uint8_t *octets) noexcept nogil:
    cdef const uint8_t *at = <const uint8_t *>text
    cdef const uint8_t *end = at + length
    cdef uint32_t part, number
    for part in range(4):
        if part:
            if at == end or at[0] != c".":
                return False
            at += 1
        if at == end or not is_digit(at[0]):
            return False
        number = at[0] - c"0"
        at += 1
        while number and at < end and is_digit(at[0]):     # behind a 0 no digit follows
            number = number * 10 + at[0] - c"0"
            at += 1
            if number > 255:
                return False
        octets[part] = <uint8_t>number
    return at == end


cdef bint address_from_text(const char *text, uint32_t length, uint8_t family, uint8_t *octets) noexcept nogil:
    cdef char copy[TEXT_MAX + 1]
    if family == 4:
        return read_v4(text, length, octets)
    if length == 0 or length > TEXT_MAX or memchr(text, 0, length) != NULL:
        return False
    memcpy(copy, text, length)
    copy[length] = 0
    return inet_pton(AF_INET6, copy, octets) == 1


cdef uint8_t address_parse(const char *text, uint32_t length, uint8_t *octets) noexcept nogil:
    cdef Address address
    memset(octets, 0, 16)
    if read_v4(text, length, octets):
        return 4
    memset(octets, 0, 4)
    if not address_from_text(text, length, 6, octets):
        return 0
    address_from_octets(&address, octets)
    if address.family == 4:
        memset(octets, 0, 16)
        memcpy(octets, address.octets, 4)
    return address.family
