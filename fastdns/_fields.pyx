"""Fields of rdata. The contract is in _fields.pxd."""
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset
from fastdns._lexer cimport LEX_END, LEX_LINE, LEX_QUOTED, LEX_WORD, LexKind, Token, lexer_next, token_is
from fastdns._wire cimport NAME_MAX, store16, store32

from fastdns.parameters import TYPES

cdef extern from "<arpa/inet.h>" nogil:
    int inet_pton(int family, const char *text, void *out)
    enum: AF_INET6

cdef enum:
    WORD_MAX = 11               # octets of the name of a type
    BUCKETS = 1024              # of the table of types; far more than there are

cdef struct Named:              # a name and its number
    char text[WORD_MAX + 1]
    uint16_t number
    uint8_t length

cdef Named types[BUCKETS]

cdef const char *algorithm_names[256]       # RFC 4034 A.1 and what came later
cdef const char *certificate_names[256]     # RFC 4398 2.1


cdef inline uint32_t word_hash(const char *text, uint32_t length) noexcept nogil:
    cdef uint32_t hash = 2166136261u, i
    for i in range(length):
        hash = (hash ^ (<uint8_t>text[i] & 0xDF)) * 16777619u
    return hash


cdef int fill() except -1:
    cdef uint32_t at
    cdef bytes word
    for number, name in TYPES.items():
        if number == 0 or number == 65535:
            continue
        word = name.encode("ascii")
        if len(word) > WORD_MAX:
            raise ValueError(name)
        at = word_hash(word, <uint32_t>len(word)) % BUCKETS
        while types[at].length:
            at = (at + 1) % BUCKETS
        memcpy(types[at].text, <const char *>word, len(word))
        types[at].length = <uint8_t>len(word)
        types[at].number = number
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
    return 0


fill()


# ---- spans ----

cdef inline bint is_digit(uint8_t c) noexcept nogil:
    return c >= c'0' and c <= c'9'


cdef inline int hex_digit(uint8_t c) noexcept nogil:
    if is_digit(c):
        return c - c'0'
    c |= 32
    return c - c'a' + 10 if c >= c'a' and c <= c'f' else -1


cdef inline int unescape(const char *text, uint32_t left, int *octet) noexcept nogil:
    """The octet that an escape (text begins behind its backslash) stands for, in *octet; how much of text it takes, or -1."""
    if left == 0:
        return -1
    if not is_digit(<uint8_t>text[0]):
        octet[0] = <uint8_t>text[0]
        return 1
    if left < 3 or not is_digit(<uint8_t>text[1]) or not is_digit(<uint8_t>text[2]):
        octet[0] = <uint8_t>text[0]         # as the Go library reads it
        return 1
    octet[0] = (text[0] - c'0') * 100 + (text[1] - c'0') * 10 + (text[2] - c'0')
    return 3 if octet[0] < 256 else -1


cdef int span_octets(const char *text, uint32_t length, uint8_t *out, uint32_t room) noexcept nogil:
    cdef uint32_t at = 0, used = 0
    cdef int octet, taken
    while at < length:
        if used == room:
            return -1
        octet = <uint8_t>text[at]
        at += 1
        if octet == c'\\':
            taken = unescape(text + at, length - at, &octet)
            if taken < 0:
                return -1
            at += taken
        out[used] = <uint8_t>octet
        used += 1
    return <int>used


cdef int span_number(const char *text, uint32_t length, uint64_t most, uint64_t *out) noexcept nogil:
    cdef uint64_t number = 0
    cdef uint32_t i
    if length == 0:
        return -1
    for i in range(length):
        if not is_digit(<uint8_t>text[i]):
            return -1
        number = number * 10 + <uint8_t>text[i] - c'0'
        if number > most:
            return -1
    out[0] = number
    return 0


cdef int span_period(const char *text, uint32_t length, uint32_t *out) noexcept nogil:
    cdef uint64_t seconds = 0, number = 0
    cdef uint32_t i
    cdef uint8_t c
    for i in range(length):
        c = <uint8_t>text[i]
        if is_digit(c):
            number = number * 10 + c - c'0'
            if number > 0xFFFFFFFFu:
                return -1
            continue
        c |= 32
        if c == c'm':
            number *= 60
        elif c == c'h':
            number *= 3600
        elif c == c'd':
            number *= 86400
        elif c == c'w':
            number *= 604800
        elif c != c's':
            return -1
        seconds += number
        number = 0
        if seconds > 0xFFFFFFFFu:
            return -1
    if seconds + number > 0xFFFFFFFFu:
        return -1
    out[0] = <uint32_t>(seconds + number)
    return 0


cdef int span_address4(const char *text, uint32_t length, uint8_t *out) noexcept nogil:
    cdef uint32_t at = 0, part, number, digits
    for part in range(4):
        if part:
            if at == length or text[at] != c'.':
                return -1
            at += 1
        number = 0
        digits = 0
        while at < length and is_digit(<uint8_t>text[at]):
            number = number * 10 + <uint8_t>text[at] - c'0'
            digits += 1
            at += 1
            if number > 255 or digits > 3 or (digits > 1 and number < 10):
                return -1
        if digits == 0:
            return -1
        out[part] = <uint8_t>number
    return 0 if at == length else -1


cdef int span_address(const char *text, uint32_t length, int family, uint8_t *out) noexcept nogil:
    cdef char copy[64]
    if family == 4:
        return span_address4(text, length, out)
    if length >= sizeof(copy):
        return -1
    memcpy(copy, text, length)
    copy[length] = 0
    return 0 if inet_pton(AF_INET6, copy, out) == 1 else -1


cdef int span_name(const char *text, uint32_t length, const uint8_t *origin, uint32_t origin_length, uint8_t *out) noexcept nogil:
    cdef uint32_t at = 0, used = 1, head = 0, size
    cdef int octet, taken
    if length == 1:
        if text[0] == c'.':
            out[0] = 0
            return 1
        if text[0] == c'@':
            if origin == NULL:
                return -1
            memcpy(out, origin, origin_length)
            return <int>origin_length
    if length == 0:
        return -1
    while at < length:
        octet = <uint8_t>text[at]
        at += 1
        if octet == c'.':
            size = used - head - 1
            if size == 0 or size > 63:
                return -1
            out[head] = <uint8_t>size
            head = used
            used += 1
            if used > NAME_MAX:
                return -1
            continue
        if octet == c'\\':
            taken = unescape(text + at, length - at, &octet)
            if taken < 0:
                return -1
            at += taken
        if used >= NAME_MAX:
            return -1
        out[used] = <uint8_t>octet
        used += 1
    size = used - head - 1
    if size == 0:                           # it ended with a dot
        out[head] = 0
        return <int>used
    if size > 63 or origin == NULL or used + origin_length > NAME_MAX:
        return -1
    out[head] = <uint8_t>size
    memcpy(out + used, origin, origin_length)
    return <int>(used + origin_length)


cdef int numbered(const char *text, uint32_t length, const char *prefix, uint32_t prefix_length) noexcept nogil:
    """The number behind TYPE or CLASS; -1: it begins otherwise, -2: no number."""
    cdef uint64_t number
    cdef Token head
    if length < prefix_length:
        return -1
    head.text = text
    head.length = prefix_length
    if not token_is(&head, prefix, prefix_length):
        return -1
    if span_number(text + prefix_length, length - prefix_length, 65535, &number) < 0:
        return -2
    return <int>number


cdef int span_type(const char *text, uint32_t length) noexcept nogil:
    cdef uint32_t at
    cdef Token token
    if length <= WORD_MAX:
        token.text = text
        token.length = length
        at = word_hash(text, length) % BUCKETS
        while types[at].length:
            if types[at].length == length and token_is(&token, types[at].text, length):
                return types[at].number
            at = (at + 1) % BUCKETS
    return numbered(text, length, b"TYPE", 4)


cdef int span_class(const char *text, uint32_t length) noexcept nogil:
    cdef Token token
    token.text = text
    token.length = length
    if length == 2:
        if token_is(&token, b"IN", 2):
            return 1
        if token_is(&token, b"CS", 2):
            return 2
        if token_is(&token, b"CH", 2):
            return 3
        if token_is(&token, b"HS", 2):
            return 4
        return -1
    if token_is(&token, b"ANY", 3):
        return 255
    if token_is(&token, b"NONE", 4):
        return 254
    return numbered(text, length, b"CLASS", 5)


cdef inline int base64_digit(uint8_t c) noexcept nogil:
    if c >= c'A' and c <= c'Z':
        return c - c'A'
    if c >= c'a' and c <= c'z':
        return c - c'a' + 26
    if is_digit(c):
        return c - c'0' + 52
    if c == c'+':
        return 62
    return 63 if c == c'/' else -1


cdef struct Base64:
    uint32_t bits
    uint32_t digits             # read
    uint32_t pads

cdef int base64_add(Base64 *state, const char *text, uint32_t length, uint8_t *out, uint32_t room) noexcept nogil:
    """Octets that were completed, or -1."""
    cdef uint32_t i, used = 0
    cdef int digit
    for i in range(length):
        if text[i] == c'=':
            state.pads += 1
            if state.pads > 2:
                return -1
            continue
        digit = base64_digit(<uint8_t>text[i])
        if digit < 0 or state.pads:
            return -1
        state.bits = (state.bits << 6 | <uint32_t>digit) & 0xFFFFFF
        state.digits += 1
        if state.digits % 4 != 1:
            if used == room:
                return -1
            out[used] = <uint8_t>(state.bits >> (4 if state.digits % 4 == 2 else 2 if state.digits % 4 == 3 else 0))
            used += 1
    return <int>used


cdef inline bint base64_whole(const Base64 *state) noexcept nogil:
    return state.digits % 4 != 1 and (state.digits + state.pads) % 4 == 0


cdef int span_base64(const char *text, uint32_t length, uint8_t *out, uint32_t room) noexcept nogil:
    cdef Base64 state
    cdef int used
    memset(&state, 0, sizeof(Base64))
    used = base64_add(&state, text, length, out, room)
    return used if used >= 0 and base64_whole(&state) else -1


# ---- fields of one word ----

cdef int field_number(RdataText *text, uint32_t octets) noexcept nogil:
    cdef uint64_t number
    cdef uint8_t *out
    if not field_word(text):
        return -1
    if span_number(text.lexer.token.text, text.lexer.token.length, (<uint64_t>1 << 8 * octets) - 1, &number) < 0:
        return -1
    return put_number(text, octets, <uint32_t>number)


cdef int put_number(RdataText *text, uint32_t octets, uint32_t number) noexcept nogil:
    cdef uint8_t *out = field_room(text, octets)
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
    out = field_room(text, 4 if family == 4 else 16)
    return -1 if out == NULL else span_address(text.lexer.token.text, text.lexer.token.length, family, out)


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
    cdef uint32_t room
    cdef int length
    if kind != LEX_WORD and kind != LEX_QUOTED:
        return -1
    out = field_room(text, 1)
    if out == NULL:
        return -1
    room = RDATA_MAX - text.used
    length = span_octets(text.lexer.token.text, text.lexer.token.length, out + 1, room if room < 255 else 255)
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
    out = field_room(text, 1 + token.length // 2)
    if out == NULL:
        return -1
    out[0] = <uint8_t>(token.length // 2)
    for i in range(token.length // 2):
        high = hex_digit(<uint8_t>token.text[2 * i])
        low = hex_digit(<uint8_t>token.text[2 * i + 1])
        if high < 0 or low < 0:
            return -1
        out[1 + i] = <uint8_t>(high << 4 | low)
    return 0


cdef int field_base32_string(RdataText *text) noexcept nogil:
    """RFC 4648 7 (extended hex) without padding, with its length before it."""
    cdef const Token *token = &text.lexer.token
    cdef uint32_t i, bits = 0, count = 0, size
    cdef uint8_t *out
    cdef uint8_t c
    if not field_word(text):
        return -1
    size = token.length * 5 // 8
    if size == 0 or size > 255 or token.length * 5 - size * 8 >= 5:
        return -1
    out = field_room(text, 1 + size)
    if out == NULL:
        return -1
    out[0] = <uint8_t>size
    out += 1
    for i in range(token.length):
        c = <uint8_t>token.text[i]
        if is_digit(c):
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
    """RFC 7043: pairs of hex digits with dashes between."""
    cdef const Token *token = &text.lexer.token
    cdef uint8_t *out
    cdef uint32_t i
    cdef int high, low
    if not field_word(text) or token.length != 3 * octets - 1:
        return -1
    out = field_room(text, octets)
    if out == NULL:
        return -1
    for i in range(octets):
        high = hex_digit(<uint8_t>token.text[3 * i])
        low = hex_digit(<uint8_t>token.text[3 * i + 1])
        if high < 0 or low < 0 or (i + 1 < octets and token.text[3 * i + 2] != c'-'):
            return -1
        out[i] = <uint8_t>(high << 4 | low)
    return 0


cdef int field_node(RdataText *text) noexcept nogil:
    """RFC 6742: 0014:4fff:ff20:ee64, all digits written."""
    cdef const Token *token = &text.lexer.token
    cdef uint8_t *out
    cdef uint32_t i
    cdef int high, low
    if not field_word(text) or token.length != 19:
        return -1
    out = field_room(text, 8)
    if out == NULL:
        return -1
    for i in range(8):
        high = hex_digit(<uint8_t>token.text[2 * i + i // 2])
        low = hex_digit(<uint8_t>token.text[2 * i + i // 2 + 1])
        if high < 0 or low < 0 or (i % 2 and i < 7 and token.text[2 * i + i // 2 + 2] != c':'):
            return -1
        out[i] = <uint8_t>(high << 4 | low)
    return 0


# ---- to the end of the line ----

cdef int field_end(RdataText *text) noexcept nogil:
    cdef LexKind kind = lexer_next(text.lexer)
    return 0 if kind == LEX_LINE or kind == LEX_END else -1


cdef int add_strings(RdataText *text) noexcept nogil:
    """The token as <character-string>s: what is longer than 255 octets is cut into several."""
    cdef const char *at = text.lexer.token.text
    cdef uint32_t left = text.lexer.token.length, taken, room
    cdef int count = 0, octet, escape
    cdef uint8_t *out
    while True:
        out = field_room(text, 1)
        if out == NULL:
            return -1
        room = RDATA_MAX - text.used
        taken = 0
        while left and taken < 255:
            if taken == room:
                return -1
            octet = <uint8_t>at[0]
            at += 1
            left -= 1
            if octet == c'\\':
                escape = unescape(at, left, &octet)
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
            digit = hex_digit(<uint8_t>token.text[i])
            if digit < 0:
                return -1
            if high < 0:
                high = digit
                continue
            out = field_room(text, 1)
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
    """Types as windows (RFC 4034 4.1.2)."""
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
    """Leaves the bitmap zero whatever comes."""
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
            out = field_room(text, 2 + length)
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
