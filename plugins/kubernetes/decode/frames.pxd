"""Single objects out of a streamed list or watch: pending octets are at most one object and one read.

Four framings: protobuf watch events (four octets of length before each), a protobuf list (items of a message of unknown end), JSON watch events
(one value after another) and a JSON list (elements of the top-level "items").
"""
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from fastdns.plugins.kubernetes.decode.objects cimport Span

cdef enum Framing:
    FRAMING_RAW = 0                 # no frames: everything is kept (error replies)
    FRAMING_PROTOBUF_WATCH = 1
    FRAMING_PROTOBUF_LIST = 2
    FRAMING_JSON_WATCH = 3
    FRAMING_JSON_LIST = 4

cdef enum:
    FRAME_MAX = 33554432            # octets of one object; etcd's limit is 1.5 MB
    RAW_MAX = 1048576               # octets kept of an error reply, or of a JSON list around its items
    DEPTH_MAX = 100                 # levels of a JSON value that the decoder sees, which recurses; nothing that is read lies deeper

cdef enum Step:
    STEP_MORE = 0                   # needs more octets
    STEP_FRAME = 1                  # an object or event in `frame`
    STEP_META = 2                   # a protobuf list's metadata in `frame`
    STEP_MALFORMED = -1
    STEP_NO_MEMORY = -2
    STEP_TOO_LARGE = -3

cdef struct Frames:
    Framing framing
    uint8_t *data                   # pending octets; owned
    uint64_t length
    uint64_t capacity
    uint64_t used                   # octets at the front that are done with
    uint64_t scanned                # JSON: octets looked at
    uint64_t left                   # protobuf list: octets still to come of the list's message
    uint64_t skip                   # octets to jump over
    uint8_t state
    uint8_t text                    # JSON: inside of a string, 2 behind a backslash
    uint8_t key[6]                  # JSON list: the last string at depth 1
    uint8_t key_length
    uint32_t depth                  # JSON
    uint8_t *around                 # JSON list: what stands around the items; owned
    uint32_t around_length
    uint32_t around_capacity

cdef void frames_init(Frames *frames) noexcept nogil
cdef void frames_free(Frames *frames) noexcept nogil
# Forgets everything pending; buffers stay.
cdef void frames_begin(Frames *frames, Framing framing) noexcept nogil
# Takes octets in. 0, or STEP_NO_MEMORY or STEP_TOO_LARGE.
cdef int frames_add(Frames *frames, const uint8_t *data, uint64_t length) noexcept nogil
# The next frame; it is borrowed until the next call of any function here. A JSON array or object at level DEPTH_MAX is empty.
cdef int frames_next(Frames *frames, Span *frame) noexcept nogil
# Whether the body may end here: nothing half read.
cdef bint frames_complete(const Frames *frames) noexcept nogil
