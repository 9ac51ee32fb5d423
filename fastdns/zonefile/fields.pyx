"""Fields of rdata. The contract is in zonefile/fields.pxd."""
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset
from fastdns.zonefile.lexer cimport LEX_END, LEX_LINE, LEX_QUOTED, LEX_WORD, LexKind, Token, lexer_next, token_is
from fastdns.zonefile.spans cimport (Base64, base64_add, base64_whole, span_digit, span_escape, span_hex, span_name, span_number, span_octets,
                                     span_period, span_type)
from fastdns.system.address cimport address_from_text
from fastdns._wire cimport NAME_MAX, store16, store32

cdef const char *algorithm_names[256]       # IANA, "DNS Security Algorithm Numbers"
cdef const char *certificate_names[256]     # RFC 4398 2.1


cdef void fill() noexcept nogil:
    algorithm_names[1] = b"RSAMD5"
    algorithm_names[2] = b"DH"
    algorithm_names[3] = b"DSA"
    algorithm_names[5] = b"RSASHA1"
    algorithm_names[6] = b"DSA-NSEC3-SHA1"
    algorithm_names[7] = b"RSASHA1-NSEC3-SHA1"
    algorithm_names[8] = b"RSASHA256"
    algorithm_names[10] = b"RSASHA512"
    algorithm_names[12] = b"ECC-GOST"
    algorithm_names[13] = b"ECDSAP256SHA256"
    algorithm_names[14] = b"ECDSAP384SHA384"
    algorithm_names[15] = b"ED25519"
    algorithm_names[16] = b"ED448"
    algorithm_names[252] = b"INDIRECT"
    algorithm_names[253] = b"PRIVATEDNS"
    algorithm_names[254] = b"PRIVATEOID"
    certificate_names[1] = b"PKIX"
    certificate_names[2] = b"SPKI"
    certificate_names[3] = b"PGP"
    certificate_names[4] = b"IPIX"
    certificate_names[5] = b"ISPKI"
    certificate_names[6] = b"IPGP"
    certificate_names[7] = b"ACPKIX"
    certificate_names[8] = b"IACPKIX"
    certificate_names[253] = b"URI"
    certificate_names[254] = b"OID"


fill()


# ---- fields of one word ----

cdef int field_number(RdataText *text, uint32_t octets) noexcept nogil:
    cdef uint64_t number
    if not field_word(text):
        return -1
    if span_number(text.lexer.token.text, text.lexer.token.length, (<uint64_t>1 << 8 * octets) - 1, &number) < 0:
        return -1
    return put_number(text, octets, <uint32_t>number)


cdef int put_number(RdataText *text, uint32_t octets, uint32_t number) noexcept nogil:
    cdef uint8_t *out = field_reserve(text, octets)
    if out == NULL:
        return -1
    if octets == 1:
        out[0] = <uint8_t>number
    elif octets == 2:
        store16(out, number)
    else:
        store32(out, number)
    return 0


cdef int field_name(RdataText *text) noexcept nogil:
    cdef int length
    if not field_word(text) or RDATA_MAX - text.used < NAME_MAX:
        return -1
    length = span_name(text.lexer.token.text, text.lexer.token.length, text.origin, text.origin_length, text.out + text.used)
    if length < 0:
        return -1
    text.used += length
    return 0


cdef int field_address(RdataText *text, int family) noexcept nogil:
    cdef uint8_t *out
    if not field_word(text):
        return -1
    out = field_reserve(text, 4 if family == 4 else 16)
    if out == NULL:
        return -1
    return 0 if address_from_text(text.lexer.token.text, text.lexer.token.length, family, out) else -1


cdef int field_period(RdataText *text) noexcept nogil:
    cdef uint32_t seconds
    if not field_word(text) or span_period(text.lexer.token.text, text.lexer.token.length, &seconds) < 0:
        return -1
    return put_number(text, 4, seconds)


cdef inline uint32_t two(const char *digits) noexcept nogil:
    return (digits[0] - c'0') * 10 + (digits[1] - c'0')


cdef int64_t days_before(int64_t year, uint32_t month) noexcept nogil:
    """Days from 1970-01-01 to the first of a month."""
    cdef int64_t y = year - (month <= 2)
    cdef int64_t era = y // 400
    cdef int64_t day = (153 * (month - 3 if month > 2 else month + 9) + 2) // 5
    return era * 146097 + (y - era * 400) * 365 + (y - era * 400) // 4 - (y - era * 400) // 100 + day - 719468


cdef int field_moment(RdataText *text) noexcept nogil:
    """RFC 4034 3.2: fourteen digits are a date, others seconds; both modulo 2**32."""
    cdef const char *digits
    cdef uint64_t number
    cdef int64_t year, days
    cdef uint32_t month, day
    if not field_word(text):
        return -1
    digits = text.lexer.token.text
    if span_number(digits, text.lexer.token.length, 99999999999999u, &number) < 0:
        return -1
    if text.lexer.token.length != 14:
        return put_number(text, 4, <uint32_t>number) if number <= 0xFFFFFFFFu else -1
    year = two(digits) * 100 + two(digits + 2)
    month = two(digits + 4)
    day = two(digits + 6)
    if month < 1 or month > 12 or day < 1 or two(digits + 8) > 23 or two(digits + 10) > 59 or two(digits + 12) > 59:
        return -1
    days = days_before(year, month)
    if days + day > (days_before(year, month + 1) if month < 12 else days_before(year + 1, 1)):
        return -1
    return put_number(text, 4, <uint32_t>((days + day - 1) * 86400 + two(digits + 8) * 3600 + two(digits + 10) * 60 + two(digits + 12)))


cdef int field_type(RdataText *text) noexcept nogil:
    cdef int number
    if not field_word(text):
        return -1
    number = span_type(text.lexer.token.text, text.lexer.token.length)
    return put_number(text, 2, <uint32_t>number) if number >= 0 else -1


cdef int find_name(const Token *token, const char **names, bint any_case) noexcept nogil:
    cdef uint32_t i, j
    for i in range(256):
        if names[i] == NULL:
            continue
        j = 0
        while names[i][j] != 0:
            j += 1
        if not token_is(token, names[i], j):
            continue
        if any_case:
            return <int>i
        while j > 0 and token.text[j - 1] == names[i][j - 1]:
            j -= 1
        if j == 0:
            return <int>i
    return -1


cdef int field_algorithm(RdataText *text, bint any_case) noexcept nogil:
    cdef uint64_t number
    cdef int found
    if not field_word(text):
        return -1
    if span_number(text.lexer.token.text, text.lexer.token.length, 255, &number) == 0:
        return put_number(text, 1, <uint32_t>number)
    found = find_name(&text.lexer.token, algorithm_names, any_case)
    return put_number(text, 1, <uint32_t>found) if found >= 0 else -1


cdef int field_certificate(RdataText *text) noexcept nogil:
    cdef uint64_t number
    cdef int found
    if not field_word(text):
        return -1
    if span_number(text.lexer.token.text, text.lexer.token.length, 65535, &number) == 0:
        return put_number(text, 2, <uint32_t>number)
    found = find_name(&text.lexer.token, certificate_names, False)
    return put_number(text, 2, <uint32_t>found) if found >= 0 else -1


cdef int field_string(RdataText *text) noexcept nogil:
    cdef LexKind kind = lexer_next(text.lexer)
    cdef uint8_t *out
    cdef uint32_t space
    cdef int length
    if kind != LEX_WORD and kind != LEX_QUOTED:
        return -1
    out = field_reserve(text, 1)
    if out == NULL:
        return -1
    space = RDATA_MAX - text.used
    length = span_octets(text.lexer.token.text, text.lexer.token.length, out + 1, space if space < 255 else 255)
    if length < 0:
        return -1
    out[0] = <uint8_t>length
    text.used += length
    return 0


cdef int field_hex_string(RdataText *text, bint dash) noexcept nogil:
    cdef const Token *token = &text.lexer.token
    cdef uint8_t *out
    cdef uint32_t i
    cdef int high, low
    if not field_word(text):
        return -1
    if dash and token.length == 1 and token.text[0] == c'-':
        return put_number(text, 1, 0)
    if token.length % 2 or token.length > 510:
        return -1
    out = field_reserve(text, 1 + token.length // 2)
    if out == NULL:
        return -1
    out[0] = <uint8_t>(token.length // 2)
    for i in range(token.length // 2):
        high = span_hex(<uint8_t>token.text[2 * i])
        low = span_hex(<uint8_t>token.text[2 * i + 1])
        if high < 0 or low < 0:
            return -1
        out[1 + i] = <uint8_t>(high << 4 | low)
    return 0


cdef int field_base32_string(RdataText *text) noexcept nogil:
    """Base32 with the extended hex alphabet, without padding (RFC 4648 7), behind an octet with its length."""
    cdef const Token *token = &text.lexer.token
    cdef uint32_t i, bits = 0, count = 0, size
    cdef uint8_t *out
    cdef uint8_t c
    if not field_word(text):
        return -1
    size = token.length * 5 // 8
    if size == 0 or size > 255 or token.length * 5 - size * 8 >= 5:
        return -1
    out = field_reserve(text, 1 + size)
    if out == NULL:
        return -1
    out[0] = <uint8_t>size
    out += 1
    for i in range(token.length):
        c = <uint8_t>token.text[i]
        if span_digit(c):
            c -= c'0'
        elif c | 32 >= c'a' and c | 32 <= c'v':
            c = (c | 32) - c'a' + 10
        else:
            return -1
        bits = (bits << 5 | c) & 0xFFFF
        count += 5
        if count >= 8:
            count -= 8
            out[0] = <uint8_t>(bits >> count)
            out += 1
    return 0


cdef int field_eui(RdataText *text, uint32_t octets) noexcept nogil:
    """RFC 7043 3.2, 4.2: pairs of hex digits separated by dashes."""
    cdef const Token *token = &text.lexer.token
    cdef uint8_t *out
    cdef uint32_t i
    cdef int high, low
    if not field_word(text) or token.length != 3 * octets - 1:
        return -1
    out = field_reserve(text, octets)
    if out == NULL:
        return -1
    for i in range(octets):
        high = span_hex(<uint8_t>token.text[3 * i])
        low = span_hex(<uint8_t>token.text[3 * i + 1])
        if high < 0 or low < 0 or (i + 1 < octets and token.text[3 * i + 2] != c'-'):
            return -1
        out[i] = <uint8_t>(high << 4 | low)
    return 0


cdef int field_node(RdataText *text) noexcept nogil:
    """RFC 6742 2.1: four groups of four hex digits, such as 0014:4fff:ff20:ee64."""
    cdef const Token *token = &text.lexer.token
    cdef uint8_t *out
    cdef uint32_t i
    cdef int high, low
    if not field_word(text) or token.length != 19:
        return -1
    out = field_reserve(text, 8)
    if out == NULL:
        return -1
    for i in range(8):
        high = span_hex(<uint8_t>token.text[2 * i + i // 2])
        low = span_hex(<uint8_t>token.text[2 * i + i // 2 + 1])
        if high < 0 or low < 0 or (i % 2 and i < 7 and token.text[2 * i + i // 2 + 2] != c':'):
            return -1
        out[i] = <uint8_t>(high << 4 | low)
    return 0


# ---- to the end of the line ----

cdef int field_end(RdataText *text) noexcept nogil:
    cdef LexKind kind = lexer_next(text.lexer)
    return 0 if kind == LEX_LINE or kind == LEX_END else -1


cdef int add_strings(RdataText *text) noexcept nogil:
    """Appends the token as <character-string>s; one longer than 255 octets becomes several."""
    cdef const char *at = text.lexer.token.text
    cdef uint32_t left = text.lexer.token.length, taken, space
    cdef int count = 0, octet, escape
    cdef uint8_t *out
    while True:
        out = field_reserve(text, 1)
        if out == NULL:
            return -1
        space = RDATA_MAX - text.used
        taken = 0
        while left and taken < 255:
            if taken == space:
                return -1
            octet = <uint8_t>at[0]
            at += 1
            left -= 1
            if octet == c'\\':
                escape = span_escape(at, left, &octet)
                if escape < 0:
                    return -1
                at += escape
                left -= escape
            out[1 + taken] = <uint8_t>octet
            taken += 1
        out[0] = <uint8_t>taken
        text.used += taken
        count += 1
        if left == 0:
            return count


cdef int field_strings(RdataText *text, uint32_t least) noexcept nogil:
    cdef uint32_t count = 0
    cdef LexKind kind
    cdef int added
    while True:
        kind = lexer_next(text.lexer)
        if kind == LEX_LINE or kind == LEX_END:
            return 0 if count >= least else -1
        if kind != LEX_WORD and kind != LEX_QUOTED:
            return -1
        added = add_strings(text)
        if added < 0:
            return -1
        count += added


cdef int field_hex(RdataText *text) noexcept nogil:
    cdef const Token *token = &text.lexer.token
    cdef LexKind kind
    cdef int digit, high = -1
    cdef uint32_t i
    cdef uint8_t *out
    while True:
        kind = lexer_next(text.lexer)
        if kind == LEX_LINE or kind == LEX_END:
            return 0 if high < 0 else -1
        if kind != LEX_WORD:
            return -1
        for i in range(token.length):
            digit = span_hex(<uint8_t>token.text[i])
            if digit < 0:
                return -1
            if high < 0:
                high = digit
                continue
            out = field_reserve(text, 1)
            if out == NULL:
                return -1
            out[0] = <uint8_t>(high << 4 | digit)
            high = -1


cdef int field_base64(RdataText *text) noexcept nogil:
    cdef Base64 state
    cdef LexKind kind
    cdef int added
    memset(&state, 0, sizeof(Base64))
    while True:
        kind = lexer_next(text.lexer)
        if kind == LEX_LINE or kind == LEX_END:
            return 0 if base64_whole(&state) else -1
        if kind != LEX_WORD:
            return -1
        added = base64_add(&state, text.lexer.token.text, text.lexer.token.length, text.out + text.used, RDATA_MAX - text.used)
        if added < 0:
            return -1
        text.used += added


cdef int field_bitmap(RdataText *text) noexcept nogil:
    """Appends a type bitmap (RFC 4034 4.1.2)."""
    cdef LexKind kind
    cdef int number
    cdef int status = 0, last = -1
    while True:
        kind = lexer_next(text.lexer)
        if kind != LEX_WORD:
            break
        number = span_type(text.lexer.token.text, text.lexer.token.length)
        if number < 0:
            break
        text.bitmap[number >> 3] |= <uint8_t>(0x80 >> (number & 7))
        if number >> 8 > last:
            last = number >> 8
    if kind != LEX_LINE and kind != LEX_END:
        status = -1
    return write_windows(text, <uint32_t>(last + 1), status)


cdef int write_windows(RdataText *text, uint32_t windows, int status) noexcept nogil:
    """Reads types up to the end of the line. text.bitmap is zero again at the end, also after an error."""
    cdef uint32_t window, length
    cdef uint8_t *bits
    cdef uint8_t *out
    for window in range(windows):
        bits = text.bitmap + 32 * window
        length = 32
        while length and bits[length - 1] == 0:
            length -= 1
        if length == 0:
            continue
        if status == 0:
            out = field_reserve(text, 2 + length)
            if out == NULL:
                status = -1
            else:
                out[0] = <uint8_t>window
                out[1] = <uint8_t>length
                memcpy(out + 2, bits, length)
        memset(bits, 0, 32)
    return status


cdef int field_octets(RdataText *text) noexcept nogil:
    cdef LexKind kind = lexer_next(text.lexer)
    cdef int length
    if kind != LEX_WORD and kind != LEX_QUOTED:
        return -1
    length = span_octets(text.lexer.token.text, text.lexer.token.length, text.out + text.used, RDATA_MAX - text.used)
    if length < 0:
        return -1
    text.used += length
    return field_end(text)
