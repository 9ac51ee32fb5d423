"""Single words of master files. The contract is in zonefile/spans.pxd."""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset
from fastdns.zonefile.lexer cimport Token, token_is
from fastdns._wire cimport NAME_MAX
from fastdns.protocol.rrtypes cimport CLASS_ANY, CLASS_CH, CLASS_CS, CLASS_HS, CLASS_IN, CLASS_NONE, rrtype_number


cdef int span_octets(const char *text, uint32_t length, uint8_t *out, uint32_t capacity) noexcept nogil:
    cdef uint32_t at = 0, used = 0
    cdef int octet, taken
    while at < length:
        if used == capacity:
            return -1
        octet = <uint8_t>text[at]
        at += 1
        if octet == c'\\':
            taken = span_escape(text + at, length - at, &octet)
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
        if not span_digit(<uint8_t>text[i]):
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
        if span_digit(c):
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
            taken = span_escape(text + at, length - at, &octet)
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
    """The number behind TYPE or CLASS. -1: the word begins otherwise, -2: there is no number."""
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
    cdef int number = rrtype_number(text, length)
    return number if number >= 0 else numbered(text, length, b"TYPE", 4)


cdef int span_class(const char *text, uint32_t length) noexcept nogil:
    cdef Token token
    token.text = text
    token.length = length
    if length == 2:
        if token_is(&token, b"IN", 2):
            return CLASS_IN
        if token_is(&token, b"CS", 2):
            return CLASS_CS
        if token_is(&token, b"CH", 2):
            return CLASS_CH
        if token_is(&token, b"HS", 2):
            return CLASS_HS
        return -1
    if token_is(&token, b"ANY", 3):
        return CLASS_ANY
    if token_is(&token, b"NONE", 4):
        return CLASS_NONE
    return numbered(text, length, b"CLASS", 5)


cdef inline int base64_digit(uint8_t c) noexcept nogil:
    if c >= c'A' and c <= c'Z':
        return c - c'A'
    if c >= c'a' and c <= c'z':
        return c - c'a' + 26
    if span_digit(c):
        return c - c'0' + 52
    if c == c'+':
        return 62
    return 63 if c == c'/' else -1


cdef int base64_add(Base64 *state, const char *text, uint32_t length, uint8_t *out, uint32_t capacity) noexcept nogil:
    """Returns the octets that the piece completes, or -1."""
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
            if used == capacity:
                return -1
            out[used] = <uint8_t>(state.bits >> (4 if state.digits % 4 == 2 else 2 if state.digits % 4 == 3 else 0))
            used += 1
    return <int>used


cdef int span_base64(const char *text, uint32_t length, uint8_t *out, uint32_t capacity) noexcept nogil:
    cdef Base64 state
    cdef int used
    memset(&state, 0, sizeof(Base64))
    used = base64_add(&state, text, length, out, capacity)
    return used if used >= 0 and base64_whole(&state) else -1
