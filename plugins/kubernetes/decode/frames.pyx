"""Single objects out of a streamed list or watch; see _frames.pxd."""
from libc.stdlib cimport free, realloc
from libc.string cimport memcmp, memcpy, memmove, memset

from fastdns.plugins.kubernetes.decode.protobuf cimport varint_at

cdef enum:                          # states of a protobuf list
    MAGIC = 0
    ENVELOPE = 1                    # fields of runtime.Unknown before the list
    ITEMS = 2
    TAIL = 3                        # fields of runtime.Unknown behind the list

cdef enum:                          # states of JSON
    OUTSIDE = 0                     # watch: between two values; list: around the items
    INSIDE = 1                      # in an object that will be a frame
    BETWEEN = 2                     # list: between two items
    DONE = 3                        # list: behind the whole value

cdef enum:
    KEEP = 262144                   # octets a buffer keeps when it falls empty


cdef void frames_init(Frames *frames) noexcept nogil:
    memset(frames, 0, sizeof(Frames))


cdef void frames_free(Frames *frames) noexcept nogil:
    free(frames.data)
    free(frames.around)
    memset(frames, 0, sizeof(Frames))


cdef void frames_begin(Frames *frames, Framing framing) noexcept nogil:
    frames.framing = framing
    frames.length = frames.used = frames.scanned = frames.left = frames.skip = 0
    frames.state = MAGIC if framing == FRAMING_PROTOBUF_LIST else OUTSIDE
    frames.text = 0
    frames.key_length = 0
    frames.depth = 0
    frames.around_length = 0


cdef void drop_used(Frames *frames) noexcept nogil:
    """Moves what is pending to the front, and gives a large buffer back when nothing is."""
    if frames.used == 0:
        return
    frames.length -= frames.used
    frames.scanned -= frames.used if frames.scanned >= frames.used else frames.scanned
    if frames.length:
        memmove(frames.data, frames.data + frames.used, frames.length)
    elif frames.capacity > KEEP:
        free(frames.data)
        frames.data = NULL
        frames.capacity = 0
    frames.used = 0


cdef int frames_add(Frames *frames, const uint8_t *data, uint64_t length) noexcept nogil:
    cdef uint64_t capacity
    cdef void *moved
    drop_used(frames)
    if length == 0:
        return 0
    if frames.skip:
        if frames.skip >= length:
            frames.skip -= length
            return 0
        data += frames.skip
        length -= frames.skip
        frames.skip = 0
    if frames.length + length > (RAW_MAX if frames.framing == FRAMING_RAW else 2 * FRAME_MAX):
        return STEP_TOO_LARGE
    if frames.length + length > frames.capacity:
        capacity = frames.capacity * 2 if frames.capacity else 16384
        while capacity < frames.length + length:
            capacity *= 2
        moved = realloc(frames.data, capacity)
        if moved == NULL:
            return STEP_NO_MEMORY
        frames.data = <uint8_t *>moved
        frames.capacity = capacity
    memcpy(frames.data + frames.length, data, length)
    frames.length += length
    return 0


cdef int frames_next(Frames *frames, Span *frame) noexcept nogil:
    if frames.framing == FRAMING_PROTOBUF_WATCH:
        return protobuf_event(frames, frame)
    if frames.framing == FRAMING_PROTOBUF_LIST:
        return protobuf_item(frames, frame)
    if frames.framing == FRAMING_JSON_WATCH or frames.framing == FRAMING_JSON_LIST:
        return json_value(frames, frame)
    return STEP_MORE


cdef bint frames_complete(const Frames *frames) noexcept nogil:
    if frames.framing == FRAMING_RAW:
        return True
    if frames.skip or frames.used != frames.length:
        return False
    if frames.framing == FRAMING_PROTOBUF_LIST:
        return frames.state == TAIL
    if frames.framing == FRAMING_JSON_LIST:
        return frames.state == DONE
    return frames.depth == 0


# ---- protobuf ----

cdef int protobuf_event(Frames *frames, Span *frame) noexcept nogil:
    cdef uint64_t available = frames.length - frames.used
    cdef const uint8_t *at = frames.data + frames.used
    cdef uint64_t length
    if available < 4:
        return STEP_MORE
    length = (<uint64_t>at[0] << 24) | (<uint64_t>at[1] << 16) | (<uint64_t>at[2] << 8) | at[3]
    if length > FRAME_MAX:
        return STEP_TOO_LARGE
    if available - 4 < length:
        return STEP_MORE
    frame.data = <const char *>at + 4
    frame.length = <uint32_t>length
    frames.used += 4 + length
    return STEP_FRAME


cdef int field_at(const uint8_t *at, uint64_t available, uint64_t *tag, uint64_t *header, uint64_t *length) noexcept nogil:
    """The head of a field: its tag, how long the head is and how long what follows. 1, 0 when octets are missing, -1 when malformed."""
    cdef int n = varint_at(at, available, tag)
    cdef int m
    cdef uint64_t value
    if n <= 0:
        return n
    header[0] = <uint64_t>n
    if tag[0] & 7 == 2:
        m = varint_at(at + n, available - n, length)
        if m <= 0:
            return m
        header[0] += <uint64_t>m
    elif tag[0] & 7 == 0:
        m = varint_at(at + n, available - n, &value)
        if m <= 0:
            return m
        length[0] = <uint64_t>m
    elif tag[0] & 7 == 1:
        length[0] = 8
    elif tag[0] & 7 == 5:
        length[0] = 4
    else:
        return -1
    return 1


cdef int protobuf_item(Frames *frames, Span *frame) noexcept nogil:
    """Walks envelope and list; large fields that nobody wants are jumped over."""
    cdef uint64_t available, tag = 0, header = 0, length = 0, bound
    cdef const uint8_t *at
    cdef int status
    while True:
        available = frames.length - frames.used
        at = frames.data + frames.used
        if frames.state == MAGIC:
            if available < 4:
                return STEP_MORE
            if memcmp(at, b"k8s\0", 4) != 0:
                return STEP_MALFORMED
            frames.used += 4
            frames.state = ENVELOPE
            continue
        if frames.state == ITEMS and frames.left == 0:
            frames.state = TAIL
        bound = frames.left if frames.state == ITEMS and frames.left < available else available
        if available == 0:
            return STEP_MORE
        status = field_at(at, bound, &tag, &header, &length)
        if status == 0 and bound < 20:                  # a head has at most 20 octets
            return STEP_MALFORMED if frames.state == ITEMS and bound == frames.left else STEP_MORE
        if status <= 0:
            return STEP_MALFORMED
        if frames.state == ENVELOPE and tag == ((2 << 3) | 2):      # Unknown.raw: the list
            frames.used += header
            frames.left = length
            frames.state = ITEMS
            continue
        if length > FRAME_MAX:
            return STEP_TOO_LARGE
        if frames.state == ITEMS and header + length > frames.left:
            return STEP_MALFORMED
        if frames.state == ITEMS and (tag == ((1 << 3) | 2) or tag == ((2 << 3) | 2)):
            if header + length > available:
                return STEP_MORE
            frame.data = <const char *>at + header
            frame.length = <uint32_t>length
            frames.used += header + length
            frames.left -= header + length
            return STEP_META if tag >> 3 == 1 else STEP_FRAME
        if frames.state == ITEMS:
            frames.left -= header + length
        if header + length > available:
            frames.skip = header + length - available
            frames.used = frames.length
            return STEP_MORE
        frames.used += header + length


# ---- JSON ----

cdef int keep_around(Frames *frames, uint64_t upto) noexcept nogil:
    """Moves octets that belong to no item from the front of what is pending to `around`. 0, STEP_NO_MEMORY or STEP_TOO_LARGE."""
    cdef uint64_t length = upto - frames.used
    cdef uint32_t capacity
    cdef void *moved
    if length == 0:
        return 0
    if frames.around_length + length > RAW_MAX:
        return STEP_TOO_LARGE
    if frames.around_length + length > frames.around_capacity:
        capacity = 1024
        while capacity < frames.around_length + length:
            capacity *= 2
        moved = realloc(frames.around, capacity)
        if moved == NULL:
            return STEP_NO_MEMORY
        frames.around = <uint8_t *>moved
        frames.around_capacity = capacity
    if length:
        memcpy(frames.around + frames.around_length, frames.data + frames.used, length)
    frames.around_length += <uint32_t>length
    frames.used = upto
    return 0


cdef inline uint64_t string_end(const uint8_t *data, uint64_t at, uint64_t end) noexcept nogil:
    """The next quote or backslash from `at` on, else `end`."""
    while at < end and data[at] != b'"' and data[at] != b'\\':
        at += 1
    return at


cdef int json_value(Frames *frames, Span *frame) noexcept nogil:
    """Finds where values begin and end by depth and strings alone; the decoder sees whether they are JSON."""
    cdef bint watch = frames.framing == FRAMING_JSON_WATCH
    cdef uint8_t *data = frames.data
    cdef uint64_t i = frames.scanned if frames.scanned > frames.used else frames.used
    cdef uint64_t end = frames.length
    cdef uint64_t stop
    cdef uint32_t depth
    cdef uint8_t c
    cdef int kept
    while i < end:
        c = data[i]
        depth = frames.depth
        if frames.text == 2:
            frames.text = 1
            frames.key_length = 255                     # no key of ours is escaped
        elif frames.text == 1:
            stop = string_end(data, i, end)
            if not watch and frames.depth == 1 and frames.key_length != 255:
                if frames.key_length + (stop - i) > sizeof(frames.key):
                    frames.key_length = 255
                else:
                    memcpy(frames.key + frames.key_length, data + i, stop - i)
                    frames.key_length += <uint8_t>(stop - i)
            if frames.depth >= DEPTH_MAX:
                memset(data + i, c' ', stop - i)
            i = stop
            if i == end:
                break
            frames.text = 2 if data[i] == b'\\' else 0
        elif c == b'"':
            if frames.depth == 0 or (not watch and frames.state == BETWEEN):
                return STEP_MALFORMED
            frames.text = 1
            frames.key_length = 0
        elif c == b'{' or c == b'[':
            if watch and frames.depth == 0:
                if c != b'{':
                    return STEP_MALFORMED
                frames.used = i
            elif not watch and frames.state == BETWEEN:
                if c != b'{':
                    return STEP_MALFORMED
                frames.used = i
                frames.state = INSIDE
            elif not watch and frames.state == DONE:
                return STEP_MALFORMED
            frames.depth += 1
            if not watch and c == b'[' and frames.depth == 2 and frames.state == OUTSIDE and frames.key_length == 5 \
                    and memcmp(frames.key, b"items", 5) == 0:
                kept = keep_around(frames, i + 1)
                if kept < 0:
                    return kept
                frames.state = BETWEEN
        elif c == b'}' or c == b']':
            if frames.depth == 0:
                return STEP_MALFORMED
            frames.depth -= 1
            if watch:
                if frames.depth == 0:
                    frame.data = <const char *>data + frames.used
                    frame.length = <uint32_t>(i + 1 - frames.used)
                    frames.used = frames.scanned = i + 1
                    return STEP_FRAME if frame.length <= FRAME_MAX else STEP_TOO_LARGE
            elif frames.state == INSIDE and frames.depth == 2:
                frame.data = <const char *>data + frames.used
                frame.length = <uint32_t>(i + 1 - frames.used)
                frames.used = frames.scanned = i + 1
                frames.state = BETWEEN
                return STEP_FRAME if frame.length <= FRAME_MAX else STEP_TOO_LARGE
            elif frames.state == BETWEEN:               # the end of the items
                if c != b']':
                    return STEP_MALFORMED
                frames.used = i
                frames.state = OUTSIDE
                frames.key_length = 255
            elif frames.depth == 0:
                kept = keep_around(frames, i + 1)
                if kept < 0:
                    return kept
                frames.state = DONE
        elif c > 32 and (frames.state == DONE or (frames.depth == 0) or (frames.state == BETWEEN and c != b',')):
            return STEP_MALFORMED
        if depth >= DEPTH_MAX and frames.depth >= DEPTH_MAX:
            data[i] = c' '          # inside of a container at that level
        i += 1
    frames.scanned = end
    if frames.state == DONE or frames.state == BETWEEN or (watch and frames.depth == 0):
        frames.used = end                               # white space and commas
    elif not watch and frames.state == OUTSIDE:
        kept = keep_around(frames, end)
        if kept < 0:
            return kept
    return STEP_MORE
