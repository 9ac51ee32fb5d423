"""Rdata of every record type. The contract is in zonefile/rdata.pxd."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memmove, memset
from fastdns.zonefile.fields cimport (BITMAP_OCTETS, RDATA_MAX, RdataText, field_address, field_algorithm, field_base32_string, field_base64,
                                      field_bitmap, field_certificate, field_end, field_eui, field_hex, field_hex_string, field_moment, field_name,
                                      field_node, field_number, field_octets, field_period, field_reserve, field_string, field_strings, field_type,
                                      field_word)
from fastdns.zonefile.lexer cimport LEX_END, LEX_LINE, LEX_QUOTED, LEX_WORD, Lexer, LexKind, Token, lexer_begin, lexer_keep, lexer_next
from fastdns.zonefile.location cimport location_field
from fastdns.zonefile.spans cimport span_base64, span_number
from fastdns.zonefile.svcb cimport svcb_parameters, svcb_valid
from fastdns.system.address cimport address_from_text
from fastdns._wire cimport NAME_MAX, load16, store16
from fastdns.protocol.rrtypes cimport (BLOCK_STRING, FIELD_A, FIELD_AAAA, FIELD_ALGORITHM, FIELD_ALGORITHM_ANY_CASE, FIELD_BASE64, FIELD_BITMAP,
                                       FIELD_CERTIFICATE, FIELD_DISCOVERY, FIELD_END, FIELD_EUI48, FIELD_EUI64, FIELD_FIRST_STRING, FIELD_FLOAT,
                                       FIELD_GATEWAY, FIELD_HASH32, FIELD_HEX, FIELD_HOST_IDENTITY, FIELD_LOCATION, FIELD_NAME, FIELD_NODE,
                                       FIELD_PAIR, FIELD_PARAMETERS, FIELD_PERIOD, FIELD_PREFIXES, FIELD_QUOTED, FIELD_RELAY, FIELD_SALT,
                                       FIELD_STRING, FIELD_STRINGS, FIELD_TARGET, FIELD_TIME, FIELD_TYPE, FIELD_U8, FIELD_U16, FIELD_U32,
                                       RR_CANONICAL, RR_ZONE_LOWER, Field, block_is_name, rrtype_get, rrtype_is_meta, rrtype_lower, rrtype_names)

from fastdns.protocol.parameters import type_text


# ---- presentation form ----

cdef int rdata_parse(RdataText *text, uint16_t type) noexcept nogil:
    cdef const Field *fields = rrtype_get(type).fields
    cdef LexKind kind = lexer_next(text.lexer)
    text.used = 0
    text.failure = NULL
    if kind == LEX_LINE or kind == LEX_END:
        text.failure = b"unexpected newline"
        return -1
    if kind == LEX_WORD and text.lexer.token.length == 2 and text.lexer.token.text[0] == c'\\' and text.lexer.token.text[1] == c'#':
        return parse_generic(text, type)
    lexer_keep(text.lexer)
    if fields == NULL:
        text.failure = b"bad RFC3597 Rdata"
        return -1
    return parse_fields(text, fields)


cdef int parse_generic(RdataText *text, uint16_t type) noexcept nogil:
    """Reads rdata in the form of RFC 3597 5: a length and hex digits."""
    cdef uint64_t length
    text.failure = b"bad RFC3597 Rdata"
    if not field_word(text) or span_number(text.lexer.token.text, text.lexer.token.length, RDATA_MAX, &length) < 0 or field_hex(text) < 0:
        return -1
    if text.used != length or not rdata_valid(type, text.out, text.used):
        return -1
    text.failure = NULL
    return 0


cdef int parse_fields(RdataText *text, const Field *field) noexcept nogil:
    cdef uint8_t kind = FIELD_END
    while field.kind != FIELD_END:
        kind = field.kind
        if parse_field(text, kind) < 0:
            if text.failure == NULL:
                text.failure = text.lexer.token.text if text.lexer.failed else field.failure
            return -1
        field += 1
    if to_the_end(kind):
        return 0
    if field_end(text) < 0:
        text.failure = b"garbage after rdata"
        return -1
    return 0


cdef inline bint to_the_end(uint8_t kind) noexcept nogil:
    """Whether a field of this kind reads up to the end of the line."""
    return (kind >= FIELD_STRINGS and kind <= FIELD_BITMAP) or kind == FIELD_LOCATION or kind >= FIELD_PREFIXES


cdef int parse_field(RdataText *text, uint8_t kind) noexcept nogil:
    if kind == FIELD_A:
        return field_address(text, 4)
    if kind == FIELD_NAME:
        return field_name(text)
    if kind == FIELD_U16:
        return field_number(text, 2)
    if kind == FIELD_U8:
        return field_number(text, 1)
    if kind == FIELD_U32:
        return field_number(text, 4)
    if kind == FIELD_AAAA:
        return field_address(text, 6)
    if kind == FIELD_STRINGS:
        return field_strings(text, 1)
    if kind == FIELD_PERIOD:
        return field_period(text)
    if kind == FIELD_BASE64:
        return field_base64(text)
    if kind == FIELD_TYPE:
        return field_type(text)
    if kind == FIELD_TIME:
        return field_moment(text)
    if kind == FIELD_BITMAP:
        return field_bitmap(text)
    if kind == FIELD_SALT:
        return field_hex_string(text, True)
    if kind == FIELD_HASH32:
        return field_base32_string(text)
    if kind == FIELD_HEX:
        return field_hex(text)
    if kind == FIELD_ALGORITHM or kind == FIELD_ALGORITHM_ANY_CASE:
        return field_algorithm(text, kind == FIELD_ALGORITHM_ANY_CASE)
    if kind == FIELD_CERTIFICATE:
        return field_certificate(text)
    if kind == FIELD_PARAMETERS:
        return svcb_parameters(text)
    if kind == FIELD_TARGET:
        return field_octets(text)
    if kind == FIELD_STRING:
        return field_string(text)
    return parse_rare_field(text, kind)


cdef int parse_rare_field(RdataText *text, uint8_t kind) noexcept nogil:
    cdef LexKind next
    if kind == FIELD_QUOTED:
        next = lexer_next(text.lexer)
        lexer_keep(text.lexer)
        return field_string(text) if next == LEX_QUOTED else -1
    if kind == FIELD_FLOAT:
        next = lexer_next(text.lexer)
        lexer_keep(text.lexer)
        return field_string(text) if next == LEX_WORD and is_float(&text.lexer.token) else -1
    if kind == FIELD_PAIR:
        return parse_pair(text)
    if kind == FIELD_FIRST_STRING:
        return parse_first(text)
    if kind == FIELD_EUI48 or kind == FIELD_EUI64:
        return field_eui(text, 6 if kind == FIELD_EUI48 else 8)
    if kind == FIELD_NODE:
        return field_node(text)
    if kind == FIELD_GATEWAY:
        return parse_gateway(text, text.out[1])
    if kind == FIELD_RELAY:
        return parse_relay(text)
    if kind == FIELD_DISCOVERY:
        return parse_discovery(text)
    if kind == FIELD_LOCATION:
        return location_field(text)
    if kind == FIELD_PREFIXES:
        return parse_prefixes(text)
    return parse_host(text)


cdef bint is_float(const Token *token) noexcept nogil:
    cdef uint32_t i, digits = 0, dots = 0
    for i in range(token.length):
        if token.text[i] >= c'0' and token.text[i] <= c'9':
            digits += 1
        elif token.text[i] == c'.':
            dots += 1
        elif i or (token.text[i] != c'-' and token.text[i] != c'+'):
            return False
    return digits > 0 and dots < 2


cdef int parse_first(RdataText *text) noexcept nogil:
    if field_strings(text, 1) < 0:
        return -1
    text.used = 1 + text.out[0]
    return 0


cdef int parse_pair(RdataText *text) noexcept nogil:
    """HINFO: two strings. The second is all but the first joined by blanks; a single string is split at its first blank."""
    cdef uint8_t *out = text.out
    cdef uint32_t first, at, i, length
    if field_strings(text, 1) < 0:
        return -1
    first = 1 + out[0]
    if first == text.used:
        i = 1
        while i < first and out[i] != c' ':
            i += 1
        if i == first:
            if text.used == RDATA_MAX:
                return -1
            out[first] = 0
            text.used += 1
        else:
            out[0] = <uint8_t>(i - 1)
            out[i] = <uint8_t>(first - i - 1)       # the blank becomes the second one's length
        return 0
    at = first + 1 + out[first]
    length = out[first]
    while at < text.used:                           # each further length becomes a blank
        length += 1 + out[at]
        i = at
        at += 1 + out[at]
        out[i] = c' '
    if length > 255:
        return -1
    out[first] = <uint8_t>length
    return 0


cdef int parse_discovery(RdataText *text) noexcept nogil:
    """AMTRELAY's discovery bit. It takes an octet, which `parse_relay` removes when it moves the bit into the relay type's octet."""
    cdef uint8_t *out = field_reserve(text, 1)
    if out == NULL or not field_word(text) or text.lexer.token.length != 1:
        return -1
    out[0] = <uint8_t>(text.lexer.token.text[0] - c'0')
    return 0 if out[0] < 2 else -1


cdef int parse_relay(RdataText *text) noexcept nogil:
    """AMTRELAY's relay (RFC 8777 4.2), behind precedence, discovery bit and type."""
    if text.out[2] > 127:
        return -1
    text.out[1] = <uint8_t>(text.out[1] << 7 | text.out[2])
    text.used = 2
    return parse_gateway(text, text.out[1] & 0x7F)


cdef int parse_gateway(RdataText *text, uint8_t type) noexcept nogil:
    """A gateway or relay by its type: nothing, an address or a name (RFC 4025 2.3)."""
    if type == 1 or type == 2:
        if field_address(text, 4 if type == 1 else 6) < 0:
            text.failure = b"gateway IP invalid"
    elif type == 3:
        if field_name(text) < 0:
            text.failure = b"invalid gateway host"
    elif not field_word(text) or type > 3 or text.lexer.token.length != 1 or text.lexer.token.text[0] != c'.':
        text.failure = b"gateway type none with gateway set"
    return 0 if text.failure == NULL else -1


cdef int parse_prefixes(RdataText *text) noexcept nogil:
    """APL (RFC 3123 5): [!]family:address/prefix."""
    cdef Token *token = &text.lexer.token
    cdef LexKind kind
    cdef uint32_t at, slash, octets
    cdef uint64_t family, prefix
    cdef uint8_t *out
    cdef bint negated
    while True:
        kind = lexer_next(text.lexer)
        if kind == LEX_LINE or kind == LEX_END:
            return 0
        if kind != LEX_WORD:
            text.failure = b"unexpected APL field"
            return -1
        negated = token.text[0] == c'!'
        at = negated
        while at < token.length and token.text[at] != c':':
            at += 1
        if at == token.length:
            text.failure = b"missing colon in APL field"
            return -1
        if span_number(token.text + negated, at - negated, 65535, &family) < 0 or family < 1 or family > 2:
            text.failure = b"unrecognized APL family"
            return -1
        slash = at + 1
        while slash < token.length and token.text[slash] != c'/':
            slash += 1
        octets = 4 if family == 1 else 16
        out = field_reserve(text, 4 + octets)
        if out == NULL or slash == token.length or span_number(token.text + slash + 1, token.length - slash - 1, 8 * octets, &prefix) < 0 or (
                not address_from_text(token.text + at + 1, slash - at - 1, 4 if family == 1 else 6, out + 4)):
            text.failure = b"failed to parse APL address"
            return -1
        if not clear_behind(out + 4, octets, <uint32_t>prefix):
            text.failure = b"extra bits in APL address"
            return -1
        while octets and out[4 + octets - 1] == 0:      # trailing zeros are not encoded (RFC 3123 4)
            octets -= 1
            text.used -= 1
        store16(out, <uint32_t>family)
        out[2] = <uint8_t>prefix
        out[3] = <uint8_t>((0x80 if negated else 0) | octets)


cdef bint clear_behind(const uint8_t *address, uint32_t octets, uint32_t prefix) noexcept nogil:
    cdef uint32_t i
    for i in range(prefix, 8 * octets):
        if address[i >> 3] & (0x80 >> (i & 7)):
            return False
    return True


cdef int parse_host(RdataText *text) noexcept nogil:
    """HIP (RFC 8005 5): algorithm, HIT in hex, key in base64, servers. In wire form the lengths precede HIT and key."""
    cdef uint8_t *out = text.out
    cdef LexKind kind
    cdef int key
    field_reserve(text, 1)
    if field_number(text, 1) < 0:
        return -1
    field_reserve(text, 2)
    if field_hex_string(text, False) < 0 or out[4] == 0:
        text.failure = b"bad HIP Hit"
        return -1
    out[0] = out[4]                                 # the length moves to the front
    memmove(out + 4, out + 5, out[0])
    text.used -= 1
    key = span_base64(text.lexer.token.text, text.lexer.token.length, out + text.used, RDATA_MAX - text.used) if field_word(text) else -1
    if key <= 0:
        text.failure = b"bad HIP PublicKey"
        return -1
    store16(out + 2, <uint32_t>key)
    text.used += key
    while True:
        kind = lexer_next(text.lexer)
        if kind == LEX_LINE or kind == LEX_END:
            return 0
        lexer_keep(text.lexer)
        if field_name(text) < 0:
            text.failure = b"bad HIP RendezvousServers"
            return -1


# ---- wire form ----

cdef struct Walk:
    const uint8_t *octets
    uint32_t at
    uint32_t length


cdef inline bint skip(Walk *walk, uint32_t octets) noexcept nogil:
    if walk.length - walk.at < octets:
        return False
    walk.at += octets
    return True


cdef bint skip_string(Walk *walk) noexcept nogil:
    return walk.at < walk.length and skip(walk, 1 + <uint32_t>walk.octets[walk.at])


cdef bint skip_strings(Walk *walk, uint32_t least) noexcept nogil:
    cdef uint32_t count = 0
    while walk.at < walk.length:
        if not skip_string(walk):
            return False
        count += 1
    return count >= least


cdef bint skip_name(Walk *walk) noexcept nogil:
    cdef uint32_t begin = walk.at, size
    while walk.at < walk.length:
        size = walk.octets[walk.at]
        if size == 0:
            walk.at += 1
            return walk.at - begin <= NAME_MAX
        if size > 63 or not skip(walk, 1 + size):
            return False
    return False


cdef bint skip_windows(Walk *walk) noexcept nogil:
    cdef int last = -1
    cdef uint32_t size
    while walk.at < walk.length:
        if walk.length - walk.at < 3 or walk.octets[walk.at] <= last:
            return False
        last = walk.octets[walk.at]
        size = walk.octets[walk.at + 1]
        if size == 0 or size > 32 or not skip(walk, 2 + size):
            return False
    return True


cdef bint skip_gateway(Walk *walk) noexcept nogil:
    cdef uint8_t type = walk.octets[1] & 0x7F
    if type == 0:
        return True
    if type == 3:
        return skip_name(walk)
    return type < 3 and skip(walk, 4 if type == 1 else 16)


cdef bint skip_prefixes(Walk *walk) noexcept nogil:
    while walk.at < walk.length:
        if walk.length - walk.at < 4 or not skip(walk, 4 + <uint32_t>(walk.octets[walk.at + 3] & 0x7F)):
            return False
    return True


cdef bint skip_host(Walk *walk) noexcept nogil:
    if walk.length < 4 or not skip(walk, 4 + <uint32_t>walk.octets[0] + load16(walk.octets + 2)):
        return False
    while walk.at < walk.length:
        if not skip_name(walk):
            return False
    return True


cdef bint skip_field(Walk *walk, const Field *field) noexcept nogil:
    cdef uint8_t kind = field.kind
    if field.block > 0:
        return skip(walk, <uint32_t>field.block)
    if block_is_name(field.block):
        return skip_name(walk)
    if field.block == BLOCK_STRING:
        return skip_string(walk)
    if kind == FIELD_STRINGS or kind == FIELD_PAIR:
        return skip_strings(walk, 1)
    if kind == FIELD_HEX or kind == FIELD_BASE64 or kind == FIELD_TARGET:
        walk.at = walk.length
        return True
    if kind == FIELD_BITMAP:
        return skip_windows(walk)
    if kind == FIELD_GATEWAY or kind == FIELD_RELAY:
        return skip_gateway(walk)
    if kind == FIELD_PREFIXES:
        return skip_prefixes(walk)
    if kind == FIELD_HOST_IDENTITY:
        return skip_host(walk)
    if kind == FIELD_PARAMETERS:
        if not svcb_valid(walk.octets + walk.at, walk.length - walk.at):
            return False
        walk.at = walk.length
        return True
    return kind == FIELD_DISCOVERY      # it shares the next field's octet


cdef bint rdata_valid(uint16_t type, const uint8_t *rdata, uint32_t length) noexcept nogil:
    cdef const Field *field = rrtype_get(type).fields
    cdef Walk walk
    if rrtype_is_meta(type):
        return False
    if field == NULL:
        return True
    walk.octets = rdata
    walk.at = 0
    walk.length = length
    while field.kind != FIELD_END:
        if not skip_field(&walk, field):
            return False
        field += 1
    return walk.at == walk.length


cdef void rdata_lower(uint16_t type, uint8_t *rdata, uint32_t length) noexcept nogil:
    cdef uint32_t start
    cdef int end
    if rrtype_get(type).flags & (RR_CANONICAL | RR_ZONE_LOWER):
        end = rrtype_names(type, rdata, length, &start)
        if end > 0:
            rrtype_lower(rdata, start, <uint32_t>end)


# ---- Python ----

def parse(uint16_t qtype, str text not None, bytes origin=None) -> bytes:
    cdef bytes octets = text.encode("utf-8", "surrogateescape")
    cdef Lexer lexer
    cdef RdataText state
    cdef uint8_t *buffer = <uint8_t *>calloc(1, RDATA_MAX + BITMAP_OCTETS)
    cdef int status
    if buffer == NULL:
        raise MemoryError
    memset(&state, 0, sizeof(RdataText))
    lexer_begin(&lexer, octets, len(octets), 1)
    lexer.fresh = 0
    state.lexer = &lexer
    state.origin = origin if origin is not None else b"\0"
    state.origin_length = <uint32_t>len(origin) if origin is not None else 1
    state.out = buffer
    state.bitmap = buffer + RDATA_MAX
    try:
        with nogil:
            status = rdata_parse(&state, qtype)
            if status == 0 and lexer_next(&lexer) != LEX_END:
                state.failure = b"garbage after rdata"
                status = -1
        if status < 0:
            raise ValueError(f"{state.failure.decode()}: {text!r}")
        return buffer[:state.used]
    finally:
        free(buffer)


def valid(uint16_t qtype, bytes rdata not None) -> bool:
    return rdata_valid(qtype, rdata, <uint32_t>len(rdata))


def lower(uint16_t qtype, bytes rdata not None) -> bytes:
    cdef bytearray copy = bytearray(rdata)
    if not rdata_valid(qtype, rdata, <uint32_t>len(rdata)):
        raise ValueError(f"not rdata of type {type_text(qtype)}")
    rdata_lower(qtype, copy, <uint32_t>len(copy))
    return bytes(copy)
