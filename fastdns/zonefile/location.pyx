"""Rdata of LOC. The contract is in zonefile/location.pxd; error texts are CoreDNS's."""
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from fastdns.zonefile.fields cimport RdataText, field_reserve, field_word
from fastdns.zonefile.lexer cimport LEX_END, LEX_LINE, LEX_WORD, LexKind, Token, lexer_next
from fastdns.zonefile.spans cimport span_number
from fastdns._wire cimport store32

cdef enum:
    ALTITUDE_BASE = 10000000    # centimetres below the reference spheroid
    METRES_MAX = 90000000


cdef inline int fail(RdataText *text, const char *why) noexcept nogil:
    text.failure = why
    return -1


cdef int decimal(const Token *token, uint32_t length, uint32_t places, uint64_t most, int64_t *out) noexcept nogil:
    """Reads a decimal number with an optional sign, in units of 10**-places; further digits are truncated."""
    cdef uint64_t number = 0
    cdef uint32_t at = 0, digits = 0, written = 0
    cdef bint negative = False, fraction = False
    if length and (token.text[0] == c'-' or token.text[0] == c'+'):
        negative = token.text[0] == c'-'
        at = 1
    while at < length:
        if token.text[at] == c'.' and not fraction:
            fraction = True
        elif token.text[at] < c'0' or token.text[at] > c'9':
            return -1
        else:
            digits += 1
            if not fraction or written < places:
                number = number * 10 + <uint8_t>token.text[at] - c'0'
                written += fraction
                if number > most * 1000:
                    return -1
        at += 1
    if digits == 0:
        return -1
    while written < places:
        number *= 10
        written += 1
    out[0] = -<int64_t>number if negative else <int64_t>number
    return 0


cdef int direction(const Token *token, uint8_t positive, uint8_t negative) noexcept nogil:
    """The sign of a direction: 1, -1, or 0 when the token is neither."""
    cdef uint8_t c
    if token.length != 1:
        return 0
    c = <uint8_t>token.text[0] | 32
    return 1 if c == positive else -1 if c == negative else 0


cdef int angle(RdataText *text, uint32_t degrees_most, uint8_t positive, uint8_t negative, bint latitude, uint32_t *out) noexcept nogil:
    """Reads degrees, minutes, seconds and a direction, in thousandths of a second of arc; 2**31 is the equator or the prime meridian (RFC 1876 2)."""
    cdef Token *token = &text.lexer.token
    cdef uint64_t degrees, minutes = 0
    cdef int64_t seconds = 0, thousandths
    cdef int sign
    if not field_word(text) or span_number(token.text, token.length, degrees_most, &degrees) < 0:
        return fail(text, b"bad LOC Latitude" if latitude else b"bad LOC Longitude")
    lexer_next(text.lexer)
    sign = direction(token, positive, negative)
    if sign == 0:
        if token.kind != LEX_WORD or span_number(token.text, token.length, 59, &minutes) < 0:
            return fail(text, b"bad LOC Latitude minutes" if latitude else b"bad LOC Longitude minutes")
        lexer_next(text.lexer)
        sign = direction(token, positive, negative)
    if sign == 0:
        if token.kind != LEX_WORD or decimal(token, token.length, 3, 60, &seconds) < 0 or seconds < 0 or seconds >= 60000:
            return fail(text, b"bad LOC Latitude seconds" if latitude else b"bad LOC Longitude seconds")
        lexer_next(text.lexer)
        sign = direction(token, positive, negative)
    thousandths = (<int64_t>degrees * 3600 + <int64_t>minutes * 60) * 1000 + seconds
    if sign == 0 or thousandths > <int64_t>degrees_most * 3600000:
        return fail(text, b"bad LOC Latitude North/South" if latitude else b"bad LOC Longitude East/West")
    out[0] = <uint32_t>((<int64_t>1 << 31) + sign * thousandths)
    return 0


cdef uint32_t without_unit(const Token *token) noexcept nogil:
    if token.length and (token.text[token.length - 1] | 32) == c'm':
        return token.length - 1
    return token.length


cdef int precision(const Token *token) noexcept nogil:
    """Reads metres with at most two decimals as centimetres: a digit and a power of ten in one octet (RFC 1876 2). -1: malformed or out of range."""
    cdef int64_t centimetres, most = METRES_MAX         # 64 bits: the product exceeds the range of int
    cdef uint32_t length = without_unit(token), i
    cdef uint8_t power = 0
    for i in range(length):
        if token.text[i] == c'.' and (length - i - 1 > 2 or i + 1 == length):
            return -1
    if length and (token.text[0] == c'-' or token.text[0] == c'+'):
        return -1
    if decimal(token, length, 2, METRES_MAX, &centimetres) < 0 or centimetres > most * 100:
        return -1
    if centimetres >= 100:
        centimetres = centimetres // 100     # whole metres, as CoreDNS reads them
        power = 2
    while centimetres >= 10:
        centimetres = centimetres // 10
        power += 1
    return <int>(centimetres << 4 | power)


cdef int location_field(RdataText *text) noexcept nogil:
    cdef Token *token = &text.lexer.token
    cdef uint32_t latitude, longitude, count = 0
    cdef uint8_t *out = field_reserve(text, 16)
    cdef int64_t altitude
    cdef LexKind kind
    cdef int octet
    if out == NULL:
        return fail(text, b"bad LOC Latitude")
    if angle(text, 90, c'n', c's', True, &latitude) < 0 or angle(text, 180, c'e', c'w', False, &longitude) < 0:
        return -1
    if not field_word(text) or decimal(token, without_unit(token), 2, 42849672, &altitude) < 0:
        return fail(text, b"bad LOC Altitude")
    altitude += ALTITUDE_BASE
    if altitude < 0 or altitude > <int64_t>0xFFFFFFFFu:
        return fail(text, b"bad LOC Altitude")
    out[0] = 0
    out[1] = 0x12               # size 1 m
    out[2] = 0x16               # horizontal precision 10,000 m
    out[3] = 0x13               # vertical precision 10 m
    store32(out + 4, latitude)
    store32(out + 8, longitude)
    store32(out + 12, <uint32_t>altitude)
    while True:
        kind = lexer_next(text.lexer)
        if kind == LEX_LINE or kind == LEX_END:
            return 0
        if kind != LEX_WORD or count == 3:
            return fail(text, b"bad LOC Size, HorizPre or VertPre")
        octet = precision(token)
        if octet < 0:
            return fail(text, b"bad LOC Size" if count == 0 else b"bad LOC HorizPre" if count == 1 else b"bad LOC VertPre")
        out[1 + count] = <uint8_t>octet
        count += 1
