"""Responses of HTTP/1.1. The contract is in _http1.pxd."""
from libc.stdint cimport uint8_t, uint32_t, int64_t
from libc.string cimport memchr, memcmp, memmove, memset, strlen

cdef enum:
    HEAD_MAX = 65536
    BODY_MAX = 65536

cdef struct Head:
    int64_t length                  # of the body; -1: not said
    bint chunked
    bint close
    bint informational              # 1xx: the response follows


cdef const uint8_t *line_end(const uint8_t *at, const uint8_t *end) noexcept nogil:
    """Its line feed, or NULL."""
    return <const uint8_t *>memchr(at, c'\n', end - at)


cdef bint has_word(const uint8_t *at, const uint8_t *end, const char *word) noexcept nogil:
    """Whether a list has a word, which is in lower case, in whatever case."""
    cdef size_t i, length = strlen(word)
    while at + length <= end:
        for i in range(length):
            if (at[i] | 32) != <uint8_t>word[i] and at[i] != <uint8_t>word[i]:
                break
        else:
            return True
        at += 1
    return False


cdef bint is_field(const uint8_t *at, const uint8_t *colon, const char *name) noexcept nogil:
    return <size_t>(colon - at) == strlen(name) and has_word(at, colon, name)


cdef bint read_field(const uint8_t *at, const uint8_t *end, Head *head, bint old) noexcept nogil:
    """False: its value makes no sense."""
    cdef const uint8_t *colon = <const uint8_t *>memchr(at, c':', end - at)
    if colon == NULL:
        return True
    if is_field(at, colon, b"content-length"):
        at = colon + 1
        while at < end and (at[0] == c' ' or at[0] == c'\t'):
            at += 1
        while end > at and ((end - 1)[0] == c' ' or (end - 1)[0] == c'\r' or (end - 1)[0] == c'\t'):
            end -= 1
        head.length = 0
        if at == end:
            return False
        while at < end:
            if not c'0' <= at[0] <= c'9' or head.length > BODY_MAX:
                return False
            head.length = 10 * head.length + at[0] - c'0'
            at += 1
        return head.length <= BODY_MAX
    if is_field(at, colon, b"transfer-encoding"):
        head.chunked = has_word(colon, end, b"chunked")
    elif is_field(at, colon, b"connection"):
        head.close = not has_word(colon, end, b"keep-alive") and (old or has_word(colon, end, b"close"))
    return True


cdef int64_t read_head(const uint8_t *octets, uint32_t size, Head *head, Response *response) noexcept nogil:
    """The length of status line and fields."""
    cdef const uint8_t *at = octets
    cdef const uint8_t *end = octets + size
    cdef const uint8_t *line
    cdef bint old
    memset(head, 0, sizeof(Head))
    head.length = -1
    if size >= 12 and memcmp(octets, b"HTTP/1.", 7) != 0:
        response.failure = b"https: malformed response"
        return -1
    old = size >= 8 and octets[7] == c'0'
    head.close = old
    head.informational = size >= 10 and octets[9] == c'1'
    while True:
        line = line_end(at, end)
        if line == NULL or line - octets > HEAD_MAX:
            if size > HEAD_MAX:
                response.failure = b"https: header too long"
                return -1
            return 0
        if line == at or line == at + 1 and at[0] == c'\r':
            return line + 1 - octets
        if at != octets and not read_field(at, line, head, old):
            response.failure = b"https: body too long"
            return -1
        at = line + 1


cdef int64_t read_chunks(uint8_t *octets, uint32_t size, Response *response) noexcept nogil:
    """The length of a body in chunks (RFC 9112 7.1), with its trailers. They are moved together once the last one is there."""
    cdef uint8_t *at = octets
    cdef uint8_t *end = octets + size
    cdef uint8_t *line
    cdef uint32_t length, total = 0
    cdef int _pass, digit
    for _pass in range(2):
        at = octets
        total = 0
        while True:
            line = <uint8_t *>line_end(at, end)
            if line == NULL:
                return 0
            length = 0
            digit = hexadecimal(at[0])
            if digit < 0:
                response.failure = b"https: malformed chunk"
                return -1
            while digit >= 0:
                length = 16 * length + <uint32_t>digit
                if total + length > BODY_MAX:
                    response.failure = b"https: body too long"
                    return -1
                at += 1
                digit = hexadecimal(at[0])
            at = line + 1
            if length == 0:
                break
            if <size_t>(end - at) < length + 2:
                return 0
            if _pass:
                memmove(octets + total, at, length)
            total += length
            at += length
            at += 2 if at[0] == c'\r' else 1
        while True:                 # trailers
            line = <uint8_t *>line_end(at, end)
            if line == NULL:
                return 0
            if line == at or line == at + 1 and at[0] == c'\r':
                break
            at = line + 1
    response.body = octets
    response.size = total
    return line + 1 - octets


cdef inline int hexadecimal(uint8_t octet) noexcept nogil:
    if c'0' <= octet <= c'9':
        return octet - c'0'
    octet |= 32
    return octet - c'a' + 10 if c'a' <= octet <= c'f' else -1


cdef int64_t http1_read(uint8_t *octets, uint32_t size, bint ended, Response *response) noexcept nogil:
    cdef Head head
    cdef int64_t before = 0, length, body
    memset(response, 0, sizeof(Response))
    while True:
        length = read_head(octets + before, size - <uint32_t>before, &head, response)
        if length <= 0:
            return length
        before += length
        if not head.informational:
            break
    response.close = head.close
    response.body = octets + before
    if head.chunked:
        body = read_chunks(octets + before, size - <uint32_t>before, response)
        return before + body if body > 0 else body
    if head.length < 0:
        if size - before > BODY_MAX:
            response.failure = b"https: body too long"
            return -1
        response.close = True
        response.size = size - <uint32_t>before
        return size if ended else 0
    if size - before < head.length:
        return 0
    response.size = <uint32_t>head.length
    return before + head.length
