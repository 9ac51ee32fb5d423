"""Divides the message of an object between records."""
from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memset
from fastdns.plugins.kubernetes.decode.objects cimport KIND_SERVICE
from fastdns.plugins.kubernetes.decode.protobuf cimport Field, Reader, read_field, reader
from fastdns.plugins.kubernetes.store.encode cimport output_add

cdef enum:
    PIECES_MOST = 1024              # of an object: 32 MB
    FIELD_META = 1
    FIELD_SPEC = 2                  # of a Service
    NUMBER_TAG = 0x7D               # field 15 of four octets
    NUMBER_OCTETS = 5
    HEAD_MOST = 6                   # octets of a divided field's tag and length


cdef void pieces_begin(Pieces *pieces, Kind kind, Span message) noexcept nogil:
    memset(pieces, 0, sizeof(Pieces))
    pieces.kind = kind
    pieces.rest = message


cdef inline bint is_divided(const Pieces *pieces, const Field *field) noexcept nogil:
    """True if decoders append what several fields of this number have."""
    return field.wire == 2 and (field.number == FIELD_META or (field.number == FIELD_SPEC and pieces.kind == KIND_SERVICE))


cdef void skip(Span *span, uint32_t octets) noexcept nogil:
    span.data += octets
    span.length -= octets


cdef uint32_t fitting(Span fields, uint32_t room, bint *bad) noexcept nogil:
    """Returns the octets of the first fields that fit."""
    cdef Reader r = reader(fields)
    cdef Field field
    cdef uint32_t used = 0
    bad[0] = False
    while read_field(&r, &field):
        if <uint32_t>(r.at - <const uint8_t *>fields.data) > room:
            return used
        used = <uint32_t>(r.at - <const uint8_t *>fields.data)
    bad[0] = r.bad
    return used


cdef Cut put_inner(Pieces *pieces, Output *out, uint32_t room) noexcept nogil:
    """Appends a field with as many of the inner fields as fit."""
    cdef bint bad
    cdef uint32_t length = fitting(pieces.inner, room - HEAD_MOST, &bad) if room > HEAD_MOST else 0, left = length
    cdef uint8_t head[HEAD_MOST]
    cdef uint32_t used = 1
    if length == 0:
        return CUT_MALFORMED if bad else CUT_TOO_LARGE
    head[0] = <uint8_t>(pieces.outer << 3 | 2)
    while left >= 0x80:
        head[used] = <uint8_t>(left | 0x80)
        left >>= 7
        used += 1
    head[used] = <uint8_t>left
    output_add(out, head, used + 1)
    output_add(out, pieces.inner.data, length)
    skip(&pieces.inner, length)
    return CUT_PIECE


cdef Cut open_field(Pieces *pieces) noexcept nogil:
    """Turns to the inner fields of a field that no piece holds."""
    cdef Reader r = reader(pieces.rest)
    cdef Field field
    if not read_field(&r, &field):
        return CUT_MALFORMED
    if not is_divided(pieces, &field):
        return CUT_TOO_LARGE
    pieces.outer = field.number
    pieces.inner = field.span
    skip(&pieces.rest, <uint32_t>(r.at - <const uint8_t *>pieces.rest.data))
    return CUT_PIECE


cdef Cut pieces_next(Pieces *pieces, Output *out) noexcept nogil:
    cdef uint8_t number[NUMBER_OCTETS]
    cdef uint32_t room = PIECE_MOST, length, i
    cdef bint bad
    cdef Cut status
    if pieces.rest.length == 0 and pieces.inner.length == 0:
        return CUT_END
    if pieces.count == PIECES_MOST:
        return CUT_TOO_LARGE
    if pieces.count:
        number[0] = NUMBER_TAG
        for i in range(4):
            number[1 + i] = <uint8_t>(pieces.count >> (24 - 8 * i))
        output_add(out, number, NUMBER_OCTETS)
        room -= NUMBER_OCTETS
    pieces.count += 1
    if pieces.inner.length:
        return put_inner(pieces, out, room)
    length = fitting(pieces.rest, room, &bad)
    if bad:
        return CUT_MALFORMED
    if length:
        output_add(out, pieces.rest.data, length)
        skip(&pieces.rest, length)
        return CUT_PIECE
    status = open_field(pieces)
    return put_inner(pieces, out, room) if status == CUT_PIECE else status
