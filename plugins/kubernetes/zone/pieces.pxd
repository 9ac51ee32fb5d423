"""Messages of objects that one record does not hold, in several.

A piece is a message of its own: decoders append what a field of another piece has, so the pieces of an object, one behind the other, are the object. All but
the first begin with their number in a field that no decoder reads. Replicas order parts by their octets, and so keep the order of ports and addresses.
"""
from libc.stdint cimport uint32_t
from fastdns.plugins.kubernetes.decode.objects cimport Kind, Span
from fastdns.plugins.kubernetes.store.encode cimport Output

cdef enum:
    PIECE_MOST = 32000              # octets of a piece, its number included

cdef struct Pieces:                 # the pieces of one message
    Kind kind
    Span rest                       # fields that are in no piece yet
    Span inner                      # fields that are in no piece yet, of a field that one piece does not hold
    uint32_t outer                  # the number of that field
    uint32_t count                  # pieces given

cdef enum Cut:
    CUT_END = 0
    CUT_PIECE = 1
    CUT_TOO_LARGE = -1              # a field that cannot be divided, or too many pieces
    CUT_MALFORMED = -2

# Begins with a message that is borrowed until the last piece.
cdef void pieces_begin(Pieces *pieces, Kind kind, Span message) noexcept nogil
# Appends the next piece to `out`, which says if memory ran out.
cdef Cut pieces_next(Pieces *pieces, Output *out) noexcept nogil
