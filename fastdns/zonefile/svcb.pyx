"""Parameters of SVCB and HTTPS. The contract is in zonefile/svcb.pxd; error texts are CoreDNS's."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memmove
from fastdns.zonefile.fields cimport RDATA_MAX, RdataText, field_reserve
from fastdns.zonefile.lexer cimport LEX_END, LEX_LINE, LEX_QUOTED, LEX_WORD, LexKind, lexer_keep, lexer_next
from fastdns.zonefile.spans cimport span_base64, span_number, span_octets
from fastdns.system.address cimport address_from_text
from fastdns._wire cimport load16, store16

cdef enum:                      # RFC 9460 14.3.2, RFC 9461, RFC 9540
    KEY_MANDATORY = 0
    KEY_ALPN = 1
    KEY_NO_DEFAULT_ALPN = 2
    KEY_PORT = 3
    KEY_IPV4HINT = 4
    KEY_ECH = 5
    KEY_IPV6HINT = 6
    KEY_DOHPATH = 7
    KEY_OHTTP = 8
    KEYS = 9

cdef const char *key_names[KEYS]
cdef uint32_t key_lengths[KEYS]


cdef int fill() except -1:
    cdef uint32_t i
    key_names[KEY_MANDATORY] = b"mandatory"
    key_names[KEY_ALPN] = b"alpn"
    key_names[KEY_NO_DEFAULT_ALPN] = b"no-default-alpn"
    key_names[KEY_PORT] = b"port"
    key_names[KEY_IPV4HINT] = b"ipv4hint"
    key_names[KEY_ECH] = b"ech"
    key_names[KEY_IPV6HINT] = b"ipv6hint"
    key_names[KEY_DOHPATH] = b"dohpath"
    key_names[KEY_OHTTP] = b"ohttp"
    for i in range(KEYS):
        key_lengths[i] = <uint32_t>len(key_names[i])
    return 0


fill()


cdef inline bint same(const char *a, uint32_t length, const char *b, uint32_t other) noexcept nogil:
    cdef uint32_t i
    if length != other:
        return False
    for i in range(length):
        if a[i] != b[i]:
            return False
    return True


cdef int key_number(const char *text, uint32_t length) noexcept nogil:
    cdef uint64_t number
    cdef uint32_t i
    for i in range(KEYS):
        if same(text, length, key_names[i], key_lengths[i]):
            return <int>i
    if length < 4 or not same(text, 3, b"key", 3) or text[3] == c'0':
        return -1
    if span_number(text + 3, length - 3, 65534, &number) < 0 or number < KEYS:
        return -1
    return <int>number


cdef inline int fail(RdataText *text, const char *why) noexcept nogil:
    text.failure = why
    return -1


cdef int svcb_parameters(RdataText *text) noexcept nogil:
    cdef uint32_t begin = text.used, head
    cdef LexKind kind
    cdef bint glued = False     # the word before was a quoted value
    cdef int key
    cdef const char *word
    cdef const char *value
    cdef uint32_t length, i
    while True:
        kind = lexer_next(text.lexer)
        if kind == LEX_LINE or kind == LEX_END:
            return 0
        if kind == LEX_QUOTED:
            return fail(text, b"SVCB key can't contain double quotes")
        if kind != LEX_WORD:
            return fail(text, b"bad SVCB values")
        if glued and not text.lexer.token.blank:
            return fail(text, b"bad SVCB value quotation")
        glued = False
        word = text.lexer.token.text
        length = text.lexer.token.length
        i = 0
        while i < length and word[i] != c'=':
            i += 1
        key = key_number(word, i)
        if key < 0:
            return fail(text, b"bad SVCB key")
        value = word + i + 1
        length = length - i - 1 if i < length else 0
        if i == text.lexer.token.length:
            value = word + i
        elif length == 0:
            kind = lexer_next(text.lexer)       # "=" and then, at once, a quoted value
            if kind == LEX_QUOTED and not text.lexer.token.blank:
                value = text.lexer.token.text
                length = text.lexer.token.length
                glued = True
            elif kind == LEX_QUOTED or text.lexer.failed:
                return fail(text, b"bad SVCB value")
            else:
                lexer_keep(text.lexer)
        head = text.used
        if field_reserve(text, 4) == NULL:
            return fail(text, b"bad SVCB values")
        if write_value(text, key, value, length) < 0:
            return -1
        if text.used - head - 4 > 65535:
            return fail(text, b"bad SVCB values")
        store16(text.out + head, <uint32_t>key)
        store16(text.out + head + 2, text.used - head - 4)
        if sort_in(text.out + begin, head - begin, text.used - begin, text.out + text.used, RDATA_MAX - text.used) < 0:
            return fail(text, b"bad SVCB values")


cdef int sort_in(uint8_t *octets, uint32_t last, uint32_t length, uint8_t *spare, uint32_t capacity) noexcept nogil:
    """Moves the last parameter to its place among the sorted ones before it (RFC 9460 2.2). -1: its key is a duplicate."""
    cdef uint32_t key = load16(octets + last), size = length - last, at = 0
    while at < last and load16(octets + at) < key:
        at += 4 + load16(octets + at + 2)
    if at == last:
        return 0
    if load16(octets + at) == key or size > capacity:
        return -1
    memcpy(spare, octets + last, size)
    memmove(octets + at + size, octets + at, last - at)
    memcpy(octets + at, spare, size)
    return 0


cdef int write_value(RdataText *text, int key, const char *value, uint32_t length) noexcept nogil:
    cdef uint64_t number
    cdef uint8_t *out
    cdef int size
    if key == KEY_MANDATORY:
        return write_mandatory(text, value, length)
    if key == KEY_ALPN:
        return write_alpn(text, value, length)
    if key == KEY_PORT:
        out = field_reserve(text, 2)
        if out == NULL or span_number(value, length, 65535, &number) < 0:
            return fail(text, b"bad svcbport: port out of range")
        store16(out, <uint32_t>number)
        return 0
    if key == KEY_IPV4HINT or key == KEY_IPV6HINT:
        return write_hint(text, 4 if key == KEY_IPV4HINT else 6, value, length)
    if key == KEY_NO_DEFAULT_ALPN:
        return 0 if length == 0 else fail(text, b"bad svcbnodefaultalpn: no-default-alpn must have no value")
    if key == KEY_OHTTP:
        return 0 if length == 0 else fail(text, b"bad svcbotthp: svcbotthp must have no value")
    if key == KEY_ECH:
        size = span_base64(value, length, text.out + text.used, RDATA_MAX - text.used)
        if size < 0:
            return fail(text, b"bad svcbech: bad base64 ech")
    else:
        size = span_octets(value, length, text.out + text.used, RDATA_MAX - text.used)
        if size < 0:
            return fail(text, b"bad svcbdohpath: bad escaped octet" if key == KEY_DOHPATH else
                        b"bad svcblocal: svcb private/experimental key bad escaped octet")
    text.used += size
    return 0


cdef int write_mandatory(RdataText *text, const char *value, uint32_t length) noexcept nogil:
    """Reads a list of keys and sorts it."""
    cdef uint32_t at = 0, end, begin = text.used, i
    cdef uint16_t moved
    cdef int key
    cdef uint8_t *out
    while at < length:
        end = at
        while end < length and value[end] != c',':
            end += 1
        key = key_number(value + at, end - at)
        out = field_reserve(text, 2)
        if key < 0 or out == NULL:
            return fail(text, b"bad SVCB key")
        i = text.used - 2
        while i > begin and load16(text.out + i - 2) > <uint32_t>key:
            moved = load16(text.out + i - 2)
            store16(text.out + i, moved)
            i -= 2
        store16(text.out + i, <uint32_t>key)
        at = end + 1
    return 0


cdef int write_alpn(RdataText *text, const char *value, uint32_t length) noexcept nogil:
    """Reads a comma-separated list (RFC 9460 A.1): the escapes of the <character-string> are decoded first, then those of the list."""
    cdef uint32_t at, end, head
    cdef uint8_t *out
    cdef int size = span_octets(value, length, text.out + text.used, RDATA_MAX - text.used)
    if size < 0:
        return fail(text, b"bad svcbalpn: unterminated escape")
    # The list is written behind its unescaped form and then moved to the front: it is at most one octet longer.
    if RDATA_MAX - text.used < <uint32_t>size * 2 + 1:
        return fail(text, b"bad SVCB values")
    if size == 0:
        return 0
    out = text.out + text.used + size
    at = text.used
    end = text.used + size
    head = 0
    length = 1                  # octets written; out[head] is the length octet of the current identifier
    while at < end:
        if text.out[at] == c',':
            if close_alpn(text, out, head, length) < 0:
                return -1
            head = length
            length += 1
        else:
            if text.out[at] == c'\\':
                at += 1
                if at == end:
                    return fail(text, b"bad svcbalpn: unterminated escape decoding comma-separated list")
                if text.out[at] != c'\\' and text.out[at] != c',':
                    return fail(text, b"bad svcbalpn: bad escaped character decoding comma-separated list")
            out[length] = text.out[at]
            length += 1
        at += 1
    if length - head == 1:
        return fail(text, b"bad svcbalpn: last protocol identifier empty")
    if close_alpn(text, out, head, length) < 0:
        return -1
    memmove(text.out + text.used, out, length)
    text.used += length
    return 0


cdef int close_alpn(RdataText *text, uint8_t *out, uint32_t head, uint32_t length) noexcept nogil:
    if length - head == 1:
        return fail(text, b"bad svcbalpn: empty protocol identifier")
    if length - head > 256:
        return fail(text, b"bad SVCB values")
    out[head] = <uint8_t>(length - head - 1)
    return 0


cdef int write_hint(RdataText *text, int family, const char *value, uint32_t length) noexcept nogil:
    cdef uint32_t at = 0, end
    cdef uint8_t *out
    if length == 0:
        return fail(text, b"bad svcbipv4hint: empty hint" if family == 4 else b"bad svcbipv6hint: empty hint")
    while at < length:
        end = at
        while end < length and value[end] != c',':
            end += 1
        out = field_reserve(text, 4 if family == 4 else 16)
        if out == NULL:
            return fail(text, b"bad SVCB values")
        if not address_from_text(value + at, end - at, family, out):
            return fail(text, b"bad svcbipv4hint: bad ip" if family == 4 else b"bad svcbipv6hint: bad ip")
        at = end + 1
    return 0


cdef bint svcb_valid(const uint8_t *octets, uint32_t length) noexcept nogil:
    cdef uint32_t at = 0
    cdef int last = -1
    while at < length:
        if length - at < 4 or load16(octets + at) <= last:
            return False
        last = load16(octets + at)
        at += 4 + load16(octets + at + 2)
    return at == length
