"""Headers of the PROXY protocol, by which a proxy says who its client is (haproxy's proxy-protocol.txt, 2.1 and 2.2): octets to a struct.

Version 1 is a line of text, version 2 is binary. No octet behind `length` is read, and nothing is allocated.
"""
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from fastdns.system.address cimport Address

cdef enum:
    PROXY_LINE_MAX = 107            # octets of a header of version 1, CR LF included
    PROXY_FIXED_SIZE = 16           # octets of a header of version 2 before its addresses
    PROXY_BLOCK_MAX = 4096          # octets of its addresses and TLVs; more is refused, as in CoreDNS
    PROXY_HEADER_MAX = 4112         # octets of a header

cdef enum ProxyStatus:
    PROXY_ABSENT                    # the octets begin no header
    PROXY_PRESENT                   # a whole header
    PROXY_PARTIAL                   # too few octets to tell; `error`: why they are no header if there are no more, NULL if none has begun
    PROXY_MALFORMED                 # `error` says why

cdef struct ProxyHeader:
    uint32_t length                 # PROXY_PRESENT: octets of the header
    uint32_t wanted                 # PROXY_PARTIAL: octets from the start without which it cannot be parsed further
    uint8_t version                 # 1 or 2
    uint8_t transport               # address family and protocol as version 2 has them: 0x11 TCP over IPv4; 0: LOCAL, unknown
    uint16_t tlvs                   # octets of its TLVs, with which it ends: not with LOCAL. They are not looked into
    uint8_t addressed               # it has an IPv4 or IPv6 client: not with LOCAL, UNKNOWN, AF_UNSPEC and AF_UNIX
    Address source                  # of the client; `addressed`
    Address destination             # that the client has asked
    const char *error               # static

cdef ProxyStatus proxy_parse(const uint8_t *octets, uint32_t length, ProxyHeader *header) noexcept nogil

cdef inline bint proxy_is_udp(const ProxyHeader *header) noexcept nogil:
    """Does it stand for a datagram of a client?"""
    return header.transport == 0x12 or header.transport == 0x22
