"""The parser of PROXY headers. The contract is in proxy/header.pxd."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from libc.string cimport memchr, memcmp, memcpy, memset
from fastdns.system.address cimport Address, address_from_octets, address_from_text
from fastdns.system.byteorder cimport load16

cdef enum:
    WORD_SIZE = 5                   # octets of "PROXY"
    SIGNATURE_SIZE = 12             # octets of the signature of version 2
    LINE_MIN = 15                   # octets of "PROXY UNKNOWN\r\n", the shortest header of version 1
    COMMAND_LOCAL = 0x20            # version and command of version 2
    COMMAND_PROXY = 0x21
    TCP_IPV4 = 0x11                 # address family and protocol
    TCP_IPV6 = 0x21
    FAMILY_IPV4 = 0x10
    FAMILY_IPV6 = 0x20
    FAMILY_UNIX = 0x30
    BLOCK_IPV4 = 12                 # octets of the addresses and ports
    BLOCK_IPV6 = 36
    BLOCK_UNIX = 216

cdef const char *WORD = b"PROXY"
cdef const char *SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"


cdef ProxyStatus proxy_parse(const uint8_t *octets, uint32_t length, ProxyHeader *header) noexcept nogil:
    memset(header, 0, sizeof(ProxyHeader))
    if length == 0:
        return partial(header, 1, NULL)
    if octets[0] == WORD[0] and memcmp(octets, WORD, min(length, WORD_SIZE)) == 0:
        if length < WORD_SIZE:
            return partial(header, LINE_MIN, NULL)
        return parse_line(octets, length, header)
    if octets[0] == SIGNATURE[0] and memcmp(octets, SIGNATURE, min(length, SIGNATURE_SIZE)) == 0:
        if length < SIGNATURE_SIZE:
            return partial(header, PROXY_FIXED_SIZE, NULL)
        return parse_binary(octets, length, header)
    return PROXY_ABSENT


cdef inline ProxyStatus partial(ProxyHeader *header, uint32_t wanted, const char *error) noexcept nogil:
    header.wanted = wanted
    header.error = error
    return PROXY_PARTIAL


cdef inline ProxyStatus malformed(ProxyHeader *header, const char *error) noexcept nogil:
    header.error = error
    return PROXY_MALFORMED


# ---- version 2 ----

cdef ProxyStatus parse_binary(const uint8_t *octets, uint32_t length, ProxyHeader *header) noexcept nogil:
    cdef uint32_t block, addresses
    cdef uint8_t family
    header.version = 2
    if length == SIGNATURE_SIZE:
        return partial(header, PROXY_FIXED_SIZE, b"proxyproto: can't read proxy protocol version and command: EOF")
    if octets[12] != COMMAND_LOCAL and octets[12] != COMMAND_PROXY:
        return malformed(header, b"proxyproto: unsupported proxy protocol version and command")
    if length == SIGNATURE_SIZE + 1:
        return partial(header, PROXY_FIXED_SIZE, b"proxyproto: can't read address family or protocol: EOF")
    header.transport = octets[13]
    family = header.transport & 0xF0
    if header.transport and (family > FAMILY_UNIX or not 1 <= header.transport & 0x0F <= 2 or family == 0):
        return malformed(header, b"proxyproto: unsupported address family and protocol")
    if header.transport == 0 and octets[12] == COMMAND_PROXY:
        return malformed(header, b"proxyproto: unsupported address family and protocol")
    if length < PROXY_FIXED_SIZE:
        return partial(header, PROXY_FIXED_SIZE, b"proxyproto: can't read length: EOF" if length == 14 else b"proxyproto: can't read length: unexpected EOF")
    block = load16(octets + 14)
    addresses = BLOCK_IPV4 if family == FAMILY_IPV4 else BLOCK_IPV6 if family == FAMILY_IPV6 else BLOCK_UNIX if family == FAMILY_UNIX else 0
    # With LOCAL the receiver skips the block, whatever is in it.
    if block > PROXY_BLOCK_MAX or block < addresses and octets[12] == COMMAND_PROXY:
        return malformed(header, b"proxyproto: invalid length")
    if length < PROXY_FIXED_SIZE + block:
        return partial(header, PROXY_FIXED_SIZE + block, cut_error(length - PROXY_FIXED_SIZE, addresses if octets[12] == COMMAND_PROXY else 0))
    header.length = PROXY_FIXED_SIZE + block
    if octets[12] == COMMAND_LOCAL:
        header.transport = 0
        return PROXY_PRESENT
    header.tlvs = <uint16_t>(block - addresses)
    if family == FAMILY_IPV4:
        header.addressed = 1
        ipv4(&header.source, octets + 16, octets + 24)
        ipv4(&header.destination, octets + 20, octets + 26)
    elif family == FAMILY_IPV6:
        header.addressed = 1
        ipv6(&header.source, octets + 16, octets + 48)
        ipv6(&header.destination, octets + 32, octets + 50)
    return PROXY_PRESENT


cdef const char *cut_error(uint32_t length, uint32_t addresses) noexcept nogil:
    """What a block lacks that ends after so many octets."""
    if length < addresses:
        return b"proxyproto: invalid address: unexpected EOF" if length else b"proxyproto: invalid address: EOF"
    return b"proxyproto: invalid length" if length == addresses else b"unexpected EOF"


cdef inline void ipv4(Address *address, const uint8_t *octets, const uint8_t *port) noexcept nogil:
    address.family = 4
    memcpy(address.octets, octets, 4)
    address.port = load16(port)


cdef inline void ipv6(Address *address, const uint8_t *octets, const uint8_t *port) noexcept nogil:
    address_from_octets(address, octets)
    address.port = load16(port)


# ---- version 1: PROXY TCP4|TCP6 SOURCE DESTINATION PORT PORT, or PROXY UNKNOWN and anything, with one space between two words ----

cdef ProxyStatus parse_line(const uint8_t *octets, uint32_t length, ProxyHeader *header) noexcept nogil:
    cdef const uint8_t *end = <const uint8_t *>memchr(octets, c"\n", min(length, PROXY_LINE_MAX))
    cdef uint32_t size
    header.version = 1
    if end == NULL:
        if length >= PROXY_LINE_MAX:
            return malformed(header, b"proxyproto: version 1 header must be 107 bytes or less")
        return partial(header, max(LINE_MIN, length + 1), b"proxyproto: can't read version 1 header")
    if (end - 1)[0] != c"\r":
        return malformed(header, b"proxyproto: version 1 header is invalid, must end with \\r\\n")
    size = <uint32_t>(end - octets) - 1
    header.length = size + 2
    if size == WORD_SIZE:
        return malformed(header, b"proxyproto: can't read address family or protocol")
    if octets[WORD_SIZE] != c" ":
        return malformed(header, b"proxyproto: can't read version 1 header")
    return parse_words(octets + WORD_SIZE + 1, octets + size, header)


cdef inline uint32_t word_size(const uint8_t *at, const uint8_t *end) noexcept nogil:
    """Characters before the next space, or before the end of the line."""
    cdef const uint8_t *space = <const uint8_t *>memchr(at, c" ", end - at)
    return <uint32_t>((end if space == NULL else space) - at)


cdef ProxyStatus parse_words(const uint8_t *at, const uint8_t *end, ProxyHeader *header) noexcept nogil:
    """What follows "PROXY " on the line."""
    cdef const uint8_t *words[4]        # source, destination, and their ports
    cdef uint32_t sizes[4]
    cdef uint32_t size = word_size(at, end)
    cdef int i
    if size == 7 and memcmp(at, b"UNKNOWN", 7) == 0:
        return PROXY_PRESENT
    if size != 4 or memcmp(at, b"TCP4", 4) != 0 and memcmp(at, b"TCP6", 4) != 0:
        return malformed(header, b"proxyproto: can't read address family or protocol")
    header.transport = TCP_IPV4 if at[3] == c"4" else TCP_IPV6
    for i in range(4):
        at += size
        if at == end:
            return malformed(header, b"proxyproto: can't read address family or protocol")
        at += 1
        size = word_size(at, end)
        words[i] = at
        sizes[i] = size
    if at + size != end:
        return malformed(header, b"proxyproto: can't read address family or protocol")
    if not read_address(&header.source, header.transport, words[0], sizes[0]) or (
            not read_address(&header.destination, header.transport, words[1], sizes[1])):
        return malformed(header, b"proxyproto: invalid address")
    if not read_port(&header.source, words[2], sizes[2]) or not read_port(&header.destination, words[3], sizes[3]):
        return malformed(header, b"proxyproto: invalid port number")
    header.addressed = 1
    return PROXY_PRESENT


cdef bint read_address(Address *address, uint8_t transport, const uint8_t *text, uint32_t size) noexcept nogil:
    cdef uint8_t octets[16]
    if transport == TCP_IPV4:
        address.family = 4
        return address_from_text(<const char *>text, size, 4, address.octets)
    if not address_from_text(<const char *>text, size, 6, octets):
        return False
    address_from_octets(address, octets)
    return True


cdef bint read_port(Address *address, const uint8_t *text, uint32_t size) noexcept nogil:
    """Decimal, without leading zeros."""
    cdef uint32_t i, number = 0
    if not 1 <= size <= 5 or size > 1 and text[0] == c"0":
        return False
    for i in range(size):
        if not c"0" <= text[i] <= c"9":
            return False
        number = 10 * number + text[i] - c"0"
    if number > 65535:
        return False
    address.port = <unsigned short>number
    return True


# ---- for tests ----

cdef tuple pair(const Address *address):
    octets = address.octets[:4 if address.family == 4 else 16]
    return bytes(octets), address.port


def parse(bytes octets not None):
    """See proxy/header.pyi."""
    cdef ProxyHeader header
    cdef ProxyStatus status = proxy_parse(octets, <uint32_t>len(octets), &header)
    if status == PROXY_ABSENT:
        return None
    if status == PROXY_PRESENT:
        clients = (pair(&header.source), pair(&header.destination)) if header.addressed else None
        return header.version, header.length, header.transport, clients
    error = header.error.decode() if header.error != NULL else ""
    if status == PROXY_PARTIAL:
        return header.wanted, error
    raise ValueError(error)
