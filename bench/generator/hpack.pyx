"""The status of a header block. The contract is in _hpack.pxd."""
from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memcmp

cdef enum:
    STATUS = 8                      # first of the static table's entries for it, and last
    STATUS_END = 14

cdef int INDEXED[7]
INDEXED[:] = [200, 204, 206, 304, 400, 404, 500]


cdef int hpack_status(const uint8_t *block, uint32_t length) noexcept nogil:
    cdef uint32_t at = 0, index
    # Changes of the table's size come first (6.3): to 0, for what is longer would be more than we allow.
    while at < length and block[at] & 0xE0 == 0x20:
        if block[at] & 0x1F == 0x1F:
            return -1
        at += 1
    if at >= length:
        return -1
    if block[at] & 0x80:
        index = block[at] & 0x7F
        return INDEXED[index - STATUS] if STATUS <= index <= STATUS_END else -1
    index = block[at] & (0x3F if block[at] & 0x40 else 0x0F)
    at += 1
    if index == 0:
        if length - at >= 8 and memcmp(block + at, b"\x07:status", 8) == 0:
            at += 8
        elif length - at >= 6 and memcmp(block + at, b"\x85\xb8\x84\x8d\x36\xa3", 6) == 0:
            at += 6
        else:
            return -1
    elif not STATUS <= index <= STATUS_END:
        return -1
    if at >= length or <uint32_t>(block[at] & 0x7F) > length - at - 1:
        return -1
    return number(block + at + 1, block[at] & 0x7F, block[at] & 0x80 != 0)


cdef int number(const uint8_t *at, uint32_t length, bint huffman) noexcept nogil:
    """Three digits, as they are or in HPACK's code: 00000 to 00010 are the first three, 011001 to 011111 the others."""
    cdef uint32_t bits = 0, left, i, code
    cdef int found = 0
    if not huffman:
        if length != 3:
            return 0
        for i in range(3):
            if not 48 <= at[i] <= 57:
                return 0
            found = found * 10 + at[i] - 48
        return found
    if not 2 <= length <= 3:
        return 0
    for i in range(length):
        bits |= <uint32_t>at[i] << (24 - 8 * i)
    left = 8 * length
    for i in range(3):
        code = bits >> 27
        if code <= 2:
            if left < 5:
                return 0
            bits <<= 5
            left -= 5
        else:
            code = bits >> 26
            if not 25 <= code <= 31 or left < 6:
                return 0
            code -= 22
            bits <<= 6
            left -= 6
        found = found * 10 + <int>code
    return found
