"""A skimmer of Kubernetes' protobuf: it walks the fields that DNS needs and jumps over the rest, without the GIL and without copies.

Field numbers are those of the published generated.proto files of k8s.io/api and k8s.io/apimachinery. All reads go through `Reader`, which is
bounds-checked and sticky: after the first bad read all reads give 0 and `bad` stays set.
"""
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t

from fastdns.plugins.kubernetes.decode.fields cimport Scratch
from fastdns.plugins.kubernetes.decode.objects cimport Kind, Object, Span

cdef struct Reader:
    const uint8_t *at
    const uint8_t *end
    uint8_t bad

cdef struct Field:                  # one field of a message
    uint32_t number
    uint8_t wire                    # wire type: 0 varint, 1 eight octets, 2 length-delimited, 5 four octets
    uint64_t value                  # of wire types 0, 1 and 5
    Span span                       # of wire type 2; borrowed

cdef enum EventType:
    EVENT_UNKNOWN = 0
    EVENT_ADDED = 1
    EVENT_MODIFIED = 2
    EVENT_DELETED = 3
    EVENT_BOOKMARK = 4
    EVENT_ERROR = 5

cdef struct Event:                  # a WatchEvent
    EventType type
    Span object                     # the message of the object, unwrapped

cdef struct Status:                 # an API error
    int32_t code
    int32_t retry_after             # s; 0 when absent
    Span message
    Span reason

cdef struct ListMeta:
    Span version
    Span following                  # the token for the next chunk; empty at the end

cdef struct Bookmark:
    Span version
    uint8_t initial_end             # the annotation k8s.io/initial-events-end is "true"

cdef inline Reader reader(Span span) noexcept nogil:
    cdef Reader r
    r.at = <const uint8_t *>span.data
    r.end = r.at + span.length
    r.bad = 0
    return r

# `next_field`, of any field.
cdef bint read_field(Reader *r, Field *field) noexcept nogil

cdef inline bint next_field(Reader *r, Field *field) noexcept nogil:
    """The next field; False at the end or after a bad read."""
    cdef const uint8_t *at = r.at
    # A text, or a message, of less than 128 octets, with a number below 16: nearly all are.
    if r.end - at < 2 or at[0] & 0x87 != 2 or at[0] < 8 or at[1] & 0x80 or at[1] > r.end - at - 2:
        return read_field(r, field)
    field.number = at[0] >> 3
    field.wire = 2
    field.value = 0
    field.span.data = <const char *>at + 2
    field.span.length = at[1]
    r.at = at + 2 + at[1]
    return True

# A varint of at most 10 octets at `at`: its length, 0 when octets are missing, -1 when it is malformed.
cdef int varint_at(const uint8_t *at, uint64_t available, uint64_t *value) noexcept nogil
# Takes the envelope off ("k8s\0" and runtime.Unknown). 0, or -1.
cdef int unwrap(Span wrapped, Span *raw) noexcept nogil
cdef int skim_event(Span frame, Event *event) noexcept nogil
cdef int skim_status(Span body, Status *status) noexcept nogil
cdef int skim_list_meta(Span body, ListMeta *meta) noexcept nogil
cdef int skim_bookmark(Span body, Bookmark *bookmark) noexcept nogil
# Decodes an object of a kind into scratch; *object is the struct in it and *version its resource version's text. A DecodeResult.
# A ServiceImport has no protobuf in the API: its field numbers here are the snapshot's own (see _snapshot.pyx).
cdef int skim_object(Kind kind, Span body, bint labels, Scratch *scratch, const Object **object, Span *version) noexcept nogil
