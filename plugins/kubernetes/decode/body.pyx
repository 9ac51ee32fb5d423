"""HTTP/1.1 message bodies as runs of octets; see _body.pxd."""

cdef enum:                          # states of the chunked form
    SIZE = 0
    EXTENSION = 1
    SIZE_LF = 2
    DATA = 3
    DATA_CR = 4
    DATA_LF = 5
    TRAILER_START = 6               # at the beginning of a line behind the last chunk
    TRAILER = 7
    TRAILER_LF = 8
    LAST_LF = 9
    END = 10


cdef void body_begin(Body *body, Transfer transfer, uint64_t length) noexcept nogil:
    body.transfer = transfer
    body.state = SIZE
    body.digits = 0
    body.left = length if transfer == TRANSFER_LENGTH else 0


cdef inline int hex_digit(uint8_t c) noexcept nogil:
    if 48 <= c <= 57:
        return c - 48
    c |= 0x20
    return c - 87 if 97 <= c <= 102 else -1


cdef int chunk_head(Body *body, uint8_t c) noexcept nogil:
    """One octet outside of the data. 0, or BODY_MALFORMED."""
    cdef int digit
    if body.state == SIZE:
        digit = hex_digit(c)
        if digit >= 0:
            if body.digits == 15:
                return BODY_MALFORMED
            body.left = body.left * 16 + <uint64_t>digit
            body.digits += 1
        elif body.digits == 0:
            return BODY_MALFORMED
        elif c == 13:
            body.state = SIZE_LF
        elif c == 59 or c == 32 or c == 9:
            body.state = EXTENSION
        else:
            return BODY_MALFORMED
    elif body.state == EXTENSION:
        if c == 13:
            body.state = SIZE_LF
        elif c == 10:
            return BODY_MALFORMED
    elif body.state == SIZE_LF:
        if c != 10:
            return BODY_MALFORMED
        body.state = DATA if body.left else TRAILER_START
    elif body.state == DATA_CR:
        if c != 13:
            return BODY_MALFORMED
        body.state = DATA_LF
    elif body.state == DATA_LF:
        if c != 10:
            return BODY_MALFORMED
        body.state = SIZE
        body.digits = 0
    elif body.state == TRAILER_START:
        body.state = LAST_LF if c == 13 else TRAILER
    elif body.state == TRAILER:
        if c == 13:
            body.state = TRAILER_LF
    elif body.state == TRAILER_LF:
        if c != 10:
            return BODY_MALFORMED
        body.state = TRAILER_START
    elif body.state == LAST_LF:
        if c != 10:
            return BODY_MALFORMED
        body.state = END
    return 0


cdef int body_next(Body *body, const uint8_t **at, const uint8_t *end, const uint8_t **run, uint64_t *length) noexcept nogil:
    cdef uint64_t available
    if body.transfer == TRANSFER_CHUNKED:
        while body.state != DATA:
            if body.state == END:
                return BODY_END
            if at[0] == end:
                return BODY_MORE
            if chunk_head(body, at[0][0]) < 0:
                return BODY_MALFORMED
            at[0] += 1
    elif body.transfer == TRANSFER_LENGTH and body.left == 0:
        return BODY_END
    available = <uint64_t>(end - at[0])
    if available == 0:
        return BODY_MORE
    if body.transfer != TRANSFER_CLOSE and available > body.left:
        available = body.left
    run[0] = at[0]
    length[0] = available
    at[0] += available
    if body.transfer != TRANSFER_CLOSE:
        body.left -= available
        if body.transfer == TRANSFER_CHUNKED and body.left == 0:
            body.state = DATA_CR
    return BODY_RUN
