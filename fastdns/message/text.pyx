"""Presentation form for log lines. The contract is in message/text.pxd."""
from libc.string cimport memcpy, strlen

from fastdns._wire cimport NAME_MAX, wire_name_text
from fastdns.protocol.rrtypes cimport RRType, rrtype_get

from fastdns.protocol.parameters import CLASSES, RCODES

cdef extern from "<arpa/inet.h>" nogil:
    const char *inet_ntop(int family, const void *address, char *out, unsigned int capacity)
    enum: AF_INET6

cdef enum:
    TEXT_SIZE = 12

cdef char class_names[256][TEXT_SIZE]
cdef char rcode_names[32][TEXT_SIZE]


cdef int store(char *place, str name) except -1:
    cdef bytes octets = name.encode("ascii")
    if len(octets) >= TEXT_SIZE:
        raise ValueError(name)
    memcpy(place, <const char *>octets, len(octets) + 1)
    return 0


cdef int fill() except -1:
    cdef uint32_t number
    for number, name in CLASSES.items():
        store(class_names[number], name)
    for number, name in RCODES.items():
        store(rcode_names[number], name)
    return 0


fill()


cdef void text_put(Text *text, const char *what, uint32_t length) noexcept nogil:
    if text.full or length > text.capacity - text.used:
        text.full = 1
        return
    memcpy(text.out + text.used, what, length)
    text.used += length


cdef void text_char(Text *text, char c) noexcept nogil:
    text_put(text, &c, 1)


cdef void text_string(Text *text, const char *what) noexcept nogil:
    text_put(text, what, <uint32_t>strlen(what))


cdef void text_number(Text *text, uint64_t number) noexcept nogil:
    cdef char digits[20]
    cdef uint32_t at = 20
    while True:
        at -= 1
        digits[at] = <char>(c'0' + number % 10)
        number //= 10
        if not number:
            break
    text_put(text, digits + at, 20 - at)


cdef void text_type(Text *text, uint16_t type) noexcept nogil:
    cdef const RRType *known = rrtype_get(type)
    if known.length:
        text_put(text, <const char *>known.mnemonic, known.length)
        return
    text_string(text, b"TYPE")
    text_number(text, type)


cdef void text_class(Text *text, uint16_t klass) noexcept nogil:
    if klass < 256 and class_names[klass][0]:
        text_string(text, class_names[klass])
        return
    text_string(text, b"CLASS")
    text_number(text, klass)


cdef void text_rcode(Text *text, uint16_t rcode) noexcept nogil:
    if rcode < 32 and rcode_names[rcode][0]:
        text_string(text, rcode_names[rcode])
    else:
        text_number(text, rcode)


cdef void text_name(Text *text, const uint8_t *wire) noexcept nogil:
    if text.full or text.capacity - text.used < 1024:   # the longest name in presentation form, so that no name is cut
        text.full = 1
        return
    text.used += <uint32_t>wire_name_text(wire, text.out + text.used)


cdef void text_address(Text *text, const Address *address) noexcept nogil:
    cdef char out[48]
    cdef uint32_t i
    if address.family == 4:
        for i in range(4):
            if i:
                text_char(text, c'.')
            text_number(text, address.octets[i])
        return
    out[0] = 0
    inet_ntop(AF_INET6, address.octets, out, sizeof(out))
    text_char(text, c'[')
    text_string(text, out)
    if address.scope:
        text_char(text, c'%')
        text_number(text, address.scope)
    text_char(text, c']')


cdef void text_seconds(Text *text, int64_t ns) noexcept nogil:
    cdef char digits[9]
    cdef uint32_t i, used = 9
    cdef int64_t part
    if ns < 0:
        ns = 0
    text_number(text, ns // 1000000000)
    part = ns % 1000000000
    if part:
        for i in range(9):
            digits[8 - i] = <char>(c'0' + part % 10)
            part //= 10
        while digits[used - 1] == c'0':
            used -= 1
        text_char(text, c'.')
        text_put(text, digits, used)
    text_char(text, c's')


cdef void text_printable(Text *text, const char *what) noexcept nogil:
    cdef uint8_t octet
    while what[0] and not text.full:
        octet = <uint8_t>what[0]
        if octet >= 32 and octet < 127:
            text_char(text, octet)
        else:
            text_char(text, c'\\')
            text_char(text, c'0' + octet // 100)
            text_char(text, c'0' + octet // 10 % 10)
            text_char(text, c'0' + octet % 10)
        what += 1


# ---- reading ----

cdef int text_read_name(const char *text, uint32_t length, uint8_t *out) noexcept nogil:
    """Wire form of a name without escapes, in one pass."""
    cdef uint32_t i, start = 0
    cdef char c = 0
    if length < 2 or length > NAME_MAX - 2 or text[length - 1] != c'.':
        return read_escaped(text, length, out)
    for i in range(length):
        c = text[i]
        out[i + 1] = <uint8_t>c
        if c == c'.':
            if i - start - 1 > 62:             # also an empty label
                return -1
            out[start] = <uint8_t>(i - start)
            start = i + 1
        elif c == c'\\':
            return read_escaped(text, length, out)
    out[start] = 0
    return <int>length + 1


cdef int read_escaped(const char *text, uint32_t length, uint8_t *out) noexcept nogil:
    cdef uint32_t i = 0, start = 0, used = 1
    cdef uint8_t octet
    if length == 1 and text[0] == c'.':
        out[0] = 0
        return 1
    while i < length:
        octet = <uint8_t>text[i]
        i += 1
        if octet == c'.':
            if used == start + 1:               # an empty label
                return -1
            out[start] = <uint8_t>(used - start - 1)
            start = used
            used += 1
            continue
        if octet == c'\\':
            if i == length:
                return -1
            octet = <uint8_t>text[i]
            i += 1
            if c'0' <= octet <= c'9' and i + 1 < length and c'0' <= text[i] <= c'9' and c'0' <= text[i + 1] <= c'9':
                if (octet - c'0') * 100 + (text[i] - c'0') * 10 + (text[i + 1] - c'0') > 255:
                    return -1
                octet = <uint8_t>((octet - c'0') * 100 + (text[i] - c'0') * 10 + (text[i + 1] - c'0'))
                i += 2
        if used - start > 63 or used >= NAME_MAX - 1:
            return -1
        out[used] = octet
        used += 1
    if used > start + 1:                        # no final dot
        out[start] = <uint8_t>(used - start - 1)
        start = used
        used += 1
    elif length == 0:
        return -1
    if used > NAME_MAX:
        return -1
    out[start] = 0
    return <int>used


def read_name(bytes text not None):
    cdef uint8_t out[NAME_MAX]
    cdef int length = text_read_name(text, <uint32_t>len(text), out)
    return None if length < 0 else out[:length]
