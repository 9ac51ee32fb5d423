"""Heads of HTTP/1.1. The contract is in engine/http/head.pxd."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, int64_t
from libc.string cimport memchr, memcmp, memmove, strlen

cdef extern from "<string.h>" nogil:
    void *memmem(const void *where, size_t length, const void *what, size_t size)

cdef extern from "<strings.h>" nogil:
    int strncasecmp(const char *a, const char *b, size_t n)

cdef enum:
    METHOD_MAX = 32
    LENGTH_DIGITS_MAX = 15
    CHUNK_DIGITS_MAX = 7
    CHUNK_LINE_MAX = 256            # octets of a chunk's size and its extensions
    TRAILERS_MAX = 16384

cdef uint8_t tokens[256]            # octets of names and methods (RFC 9110 5.6.2)
cdef uint8_t texts[256]             # octets of values
cdef int _i
for _i in range(256):
    tokens[_i] = chr(_i) in "!#$%&'*+-.^_`|~" or _i < 128 and chr(_i).isalnum()
    texts[_i] = _i == 9 or _i >= 32 and _i != 127


# ---- a head ----

cdef int http_parse_head(const uint8_t *octets, uint32_t size, HttpHead *head) noexcept nogil:
    cdef const uint8_t *end = <const uint8_t *>memmem(octets, size, b"\r\n\r\n", 4)
    cdef const uint8_t *at
    cdef int status
    if end == NULL:
        return HEAD_INCOMPLETE if may_begin(octets, size) else 400
    head.length = <uint32_t>(end + 4 - octets)
    at = <const uint8_t *>memchr(octets, c'\r', head.length)
    status = parse_line(octets, at, head)
    return parse_fields(at, end + 2, head) if status == HEAD_COMPLETE else status


cdef bint http_lacks_end(const uint8_t *octets, uint32_t size, uint32_t scanned) noexcept nogil:
    scanned -= min(scanned, <uint32_t>3)
    return memmem(octets + scanned, size - scanned, b"\r\n\r\n", 4) == NULL


cdef int http_parse_status(const uint8_t *octets, uint32_t size, HttpHead *head, uint16_t *status) noexcept nogil:
    """HTTP/1.x STATUS REASON"""
    cdef const uint8_t *end = <const uint8_t *>memmem(octets, size, b"\r\n\r\n", 4)
    cdef uint32_t i
    if memcmp(octets, b"HTTP/1.", min(size, <uint32_t>7)) != 0:
        return 400
    if end == NULL:
        return HEAD_INCOMPLETE
    head.length = <uint32_t>(end + 4 - octets)
    if head.length < 16 or not c'0' <= octets[7] <= c'9' or octets[8] != c' ':
        return 400
    head.minor = octets[7] - c'0'
    status[0] = 0
    for i in range(9, 12):
        if not c'0' <= octets[i] <= c'9':
            return 400
        status[0] = 10 * status[0] + octets[i] - c'0'
    return parse_fields(<const uint8_t *>memchr(octets, c'\r', head.length), end + 2, head)


cdef int parse_fields(const uint8_t *at, const uint8_t *end, HttpHead *head) noexcept nogil:
    """at: the end of the first line; end: the empty line."""
    cdef const uint8_t *line
    cdef int status
    head.fields = 0
    head.hosts = 0
    head.chunked = head.expects = 0
    head.content_length = -1
    head.close = head.minor == 0
    while at + 2 < end:
        if at[1] != c'\n':
            return 400
        line = at + 2
        at = <const uint8_t *>memchr(line, c'\r', end - line)
        status = parse_field(line, at, head)
        if status != HEAD_COMPLETE:
            return status
    # With both, two recipients may not agree where the request ends (RFC 9112 6.1).
    return 400 if head.chunked and head.content_length >= 0 else HEAD_COMPLETE


cdef bint may_begin(const uint8_t *octets, uint32_t size) noexcept nogil:
    """Whether the first octets may be a method."""
    cdef uint32_t i
    for i in range(min(size, <uint32_t>METHOD_MAX + 1)):
        if octets[i] == c' ':
            return i > 0
        if not tokens[octets[i]]:
            return False
    return size <= METHOD_MAX


cdef int parse_line(const uint8_t *line, const uint8_t *end, HttpHead *head) noexcept nogil:
    """METHOD TARGET HTTP/1.x"""
    cdef const uint8_t *at = line
    cdef const uint8_t *version
    while at < end and tokens[at[0]]:
        at += 1
    head.method = line
    head.method_length = <uint32_t>(at - line)
    if at == line or head.method_length > METHOD_MAX or at == end or at[0] != c' ':
        return 400
    at += 1
    head.target = at
    while at < end and 32 < at[0] < 127:
        at += 1
    head.target_length = <uint32_t>(at - head.target)
    version = at + 1
    if head.target_length == 0 or at == end or at[0] != c' ' or end - version != 8 or strncasecmp(<const char *>version, b"HTTP/", 5) != 0:
        return 400
    if not c'0' <= version[5] <= c'9' or version[6] != c'.' or not c'0' <= version[7] <= c'9':
        return 400
    if version[5] != c'1':
        return 505
    head.minor = version[7] - c'0'
    return HEAD_COMPLETE


cdef int parse_field(const uint8_t *line, const uint8_t *end, HttpHead *head) noexcept nogil:
    cdef const uint8_t *value = line
    cdef const uint8_t *at
    cdef uint32_t name, length
    while value < end and tokens[value[0]]:
        value += 1
    name = <uint32_t>(value - line)
    if name == 0 or value == end or value[0] != c':':
        return 400
    value += 1
    while value < end and (value[0] == c' ' or value[0] == c'\t'):
        value += 1
    while end > value and ((end - 1)[0] == c' ' or (end - 1)[0] == c'\t'):
        end -= 1
    length = <uint32_t>(end - value)
    at = value
    while at < end:
        if not texts[at[0]]:
            return 400
        at += 1
    head.fields += name + length + 32
    if http_is(line, name, b"host"):
        head.hosts += 1
    elif http_is(line, name, b"content-length"):
        return take_length(value, length, head)
    elif http_is(line, name, b"transfer-encoding"):
        if not http_is(value, length, b"chunked") or head.chunked:
            return 501
        head.chunked = 1
    elif http_is(line, name, b"connection"):
        head.close |= lists(value, length, b"close")
    elif http_is(line, name, b"expect"):
        head.expects = http_is(value, length, b"100-continue")
    return HEAD_COMPLETE


cdef bint http_next_field(const uint8_t **at, const uint8_t *end, const uint8_t **name, uint32_t *name_length, const uint8_t **value,
                          uint32_t *length) noexcept nogil:
    cdef const uint8_t *begin = <const uint8_t *>memchr(at[0], c'\n', end - at[0]) + 1
    if begin[0] == c'\r':
        return False
    name[0] = begin
    begin = <const uint8_t *>memchr(begin, c':', end - begin)
    name_length[0] = <uint32_t>(begin - name[0])
    end = <const uint8_t *>memchr(begin, c'\r', end - begin)
    at[0] = end
    begin += 1
    while begin < end and (begin[0] == c' ' or begin[0] == c'\t'):
        begin += 1
    while end > begin and ((end - 1)[0] == c' ' or (end - 1)[0] == c'\t'):
        end -= 1
    value[0] = begin
    length[0] = <uint32_t>(end - begin)
    return True


cdef int take_length(const uint8_t *value, uint32_t length, HttpHead *head) noexcept nogil:
    """Several are all right as long as they say the same (RFC 9112 6.3)."""
    cdef int64_t number = 0
    cdef uint32_t i
    if length == 0 or length > LENGTH_DIGITS_MAX:
        return 400
    for i in range(length):
        if not c'0' <= value[i] <= c'9':
            return 400
        number = number * 10 + value[i] - c'0'
    if head.content_length >= 0 and head.content_length != number:
        return 400
    head.content_length = number
    return HEAD_COMPLETE


cdef bint http_is(const uint8_t *octets, uint32_t length, const char *word) noexcept nogil:
    return strlen(word) == length and strncasecmp(<const char *>octets, word, length) == 0


cdef bint lists(const uint8_t *value, uint32_t length, const char *word) noexcept nogil:
    """Whether a word is in a list with commas."""
    cdef uint32_t at = 0, begin, end
    while at < length:
        begin = at
        while at < length and value[at] != c',':
            at += 1
        end = at
        at += 1
        while begin < end and (value[begin] == c' ' or value[begin] == c'\t'):
            begin += 1
        while end > begin and (value[end - 1] == c' ' or value[end - 1] == c'\t'):
            end -= 1
        if http_is(value + begin, end - begin, word):
            return True
    return False


cdef bint http_split_target(const uint8_t *target, uint32_t length, const uint8_t **path, uint32_t *path_length, const uint8_t **query,
                            uint32_t *query_length) noexcept nogil:
    cdef const uint8_t *end = target + length
    cdef const uint8_t *found
    if length == 0:
        return False
    if target[0] != c'/':
        found = <const uint8_t *>memmem(target, length, b"://", 3)
        if found == NULL:
            return False
        target = <const uint8_t *>memchr(found + 3, c'/', end - found - 3)
        if target == NULL:
            return False
    found = <const uint8_t *>memchr(target, c'?', end - target)
    path[0] = target
    path_length[0] = <uint32_t>((end if found == NULL else found) - target)
    query[0] = end if found == NULL else found + 1
    query_length[0] = <uint32_t>(end - query[0])
    return True


# ---- chunks ----

cdef int http_digit(uint8_t octet) noexcept nogil:
    if c'0' <= octet <= c'9':
        return octet - c'0'
    octet |= 32
    return octet - c'a' + 10 if c'a' <= octet <= c'f' else -1


cdef int chunk_line(const uint8_t *octets, uint32_t size, uint32_t *line, uint32_t *chunk) noexcept nogil:
    """The line before a chunk: its octets and the chunk's. 1, 0: it is not complete, -1: it is none."""
    cdef uint32_t at = 0, value = 0
    while at < size and http_digit(octets[at]) >= 0:
        value = value * 16 + <uint32_t>http_digit(octets[at])
        at += 1
        if at > CHUNK_DIGITS_MAX:
            return -1
    if at == size:
        return 0
    if at == 0 or octets[at] != c'\r' and octets[at] != c';' and octets[at] != c' ' and octets[at] != c'\t':
        return -1
    while at < size and octets[at] != c'\r':
        if not texts[octets[at]] or at > CHUNK_LINE_MAX:
            return -1
        at += 1
    if at + 1 >= size:
        return 0
    if octets[at + 1] != c'\n':
        return -1
    line[0] = at + 2
    chunk[0] = value
    return 1


cdef int http_scan_chunks(const uint8_t *octets, uint32_t size, uint32_t most, HttpChunks *chunks, uint32_t *total) noexcept nogil:
    cdef uint32_t at, line = 0, chunk = 0, trailers
    cdef const uint8_t *end
    cdef int status
    while True:
        at = chunks.at
        status = chunk_line(octets + at, size - at, &line, &chunk)
        if status <= 0:
            return status
        at += line
        if chunk == 0:
            break
        if chunks.body + chunk > most:
            chunks.body += chunk
            return -1
        if size - at < chunk + 2:
            return 0
        at += chunk
        if octets[at] != c'\r' or octets[at + 1] != c'\n':
            return -1
        chunks.at = at + 2
        chunks.body += chunk
    trailers = at - 2                       # the last chunk's line ends with what an empty line after it follows
    end = <const uint8_t *>memmem(octets + trailers, size - trailers, b"\r\n\r\n", 4)
    if end == NULL:
        return 0 if size - trailers < TRAILERS_MAX else -1
    total[0] = <uint32_t>(end + 4 - octets)
    return 1


cdef void http_join_chunks(uint8_t *octets) noexcept nogil:
    cdef uint32_t at = 0, line = 0, chunk = 0, used = 0
    while chunk_line(octets + at, <uint32_t>-1, &line, &chunk) == 1 and chunk:
        memmove(octets + used, octets + at + line, chunk)
        used += chunk
        at += line + chunk + 2
