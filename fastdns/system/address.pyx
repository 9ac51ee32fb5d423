"""Addresses as text. The contract is in system/address.pxd."""
from libc.stdio cimport snprintf
from libc.string cimport strlen
from fastdns.system.socket cimport AF_INET6, socklen_t

cdef extern from "<arpa/inet.h>" nogil:
    const char *inet_ntop(int family, const void *source, char *out, socklen_t size)

cdef extern from "<net/if.h>" nogil:
    char *if_indextoname(unsigned int index, char *name)


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
