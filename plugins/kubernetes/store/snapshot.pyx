"""The snapshot's file: a head, the objects of each kind as protobuf, and a checksum.

    fastdns kubernetes snapshot 1 LF
    a JSON object on one line LF
    for each object: kind (1 octet), length (4, little-endian), message (see _encode.pyx)
    255, then CRC-32 of everything before it (4, little-endian)
"""
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from fastdns.api.network cimport write_all
from fastdns.plugins.kubernetes.store.encode cimport Output, encode_object, output_add, output_free
from fastdns.plugins.kubernetes.decode.fields cimport DECODED, NO_MEMORY, Scratch, scratch_free, scratch_init
from fastdns.plugins.kubernetes.decode.objects cimport KIND_COUNT, SOURCE_SNAPSHOT, Kind, Object, ObjectSink, Sink, Span
from fastdns.plugins.kubernetes.decode.protobuf cimport skim_object

MAGIC = b"fastdns kubernetes snapshot 1\n"

cdef enum:
    PIECE = 262144                  # octets written at once
    LAST = 255

cdef uint32_t crc_table[256]


cdef void make_table() noexcept:
    cdef uint32_t value
    cdef int i, _
    for i in range(256):
        value = <uint32_t>i
        for _ in range(8):
            value = (value >> 1) ^ (0xedb88320U if value & 1 else 0)
        crc_table[i] = value


make_table()


cdef uint32_t crc_add(uint32_t crc, const uint8_t *data, uint64_t length) noexcept nogil:
    """CRC-32 as zlib's, continued."""
    cdef uint64_t i
    crc = ~crc
    for i in range(length):
        crc = crc_table[(crc ^ data[i]) & 0xff] ^ (crc >> 8)
    return ~crc


cdef inline void put32(uint8_t *at, uint32_t value) noexcept nogil:
    cdef int i
    for i in range(4):
        at[i] = <uint8_t>(value >> (8 * i))


cdef inline uint32_t get32(const uint8_t *at) noexcept nogil:
    return at[0] | (<uint32_t>at[1] << 8) | (<uint32_t>at[2] << 16) | (<uint32_t>at[3] << 24)


# ---- writing ----

cdef struct Writer:
    Output out
    int fd
    int failed                      # errno of a write, -1 when memory ran out
    uint32_t crc
    uint64_t octets
    uint64_t objects


cdef int writer_flush(Writer *w) noexcept nogil:
    cdef int status
    if w.out.failed:
        w.failed = -1
        return -1
    w.crc = crc_add(w.crc, w.out.data, w.out.length)
    status = write_all(w.fd, w.out.data, w.out.length)
    if status:
        w.failed = status
        return -1
    w.octets += w.out.length
    w.out.length = 0
    return 0


cdef int writer_upsert(void *self, Kind kind, const Object *object) noexcept nogil:
    cdef Writer *w = <Writer *>self
    cdef uint8_t head[5]
    cdef uint64_t start = w.out.length
    head[0] = <uint8_t>kind
    put32(head + 1, 0)
    output_add(&w.out, head, 5)
    if encode_object(&w.out, kind, object) < 0 or w.out.failed:
        w.failed = -1
        return -1
    put32(w.out.data + start + 1, <uint32_t>(w.out.length - start - 5))
    w.objects += 1
    return writer_flush(w) if w.out.length >= PIECE else 0


def save(Sink sink not None, kinds, int fd, bytes head not None):
    """Writes the standing objects of some kinds to a file; ``head`` is the JSON line. Returns (octets, objects).

    OSError, MemoryError.
    """
    cdef Writer w
    cdef ObjectSink calls = Sink().calls
    cdef uint8_t tail[5]
    cdef Kind kind
    cdef int number
    cdef bytes begin = MAGIC + head + b"\n"
    w.out.data = NULL
    w.out.length = w.out.capacity = 0
    w.out.failed = 0
    w.fd = fd
    w.failed = 0
    w.crc = 0
    w.octets = w.objects = 0
    calls.upsert = writer_upsert
    output_add(&w.out, <const char *>begin, <uint64_t>len(begin))
    try:
        for number in kinds:
            kind = <Kind>number
            with nogil:
                sink.replay(kind, &calls, &w)
            if w.failed:
                break
        with nogil:
            if not w.failed:
                tail[0] = LAST
                output_add(&w.out, tail, 1)
                if writer_flush(&w) == 0:
                    put32(tail, w.crc)
                    output_add(&w.out, tail, 4)
                    writer_flush(&w)
    finally:
        output_free(&w.out)
    if w.failed < 0:
        raise MemoryError
    if w.failed:
        raise OSError(w.failed, "cannot write the snapshot")
    return w.octets, w.objects


# ---- reading ----

def check(const uint8_t[::1] data not None):
    """The JSON line of a snapshot and where its objects begin. ValueError when it is not whole."""
    cdef uint64_t length = <uint64_t>data.shape[0]
    cdef const uint8_t *at
    cdef uint32_t crc
    if length < <uint64_t>len(MAGIC) + 6 or bytes(data[:len(MAGIC)]) != MAGIC:
        raise ValueError("not a snapshot of this version")
    at = &data[0]
    with nogil:
        crc = crc_add(0, at, length - 4)
    if crc != get32(at + length - 4) or at[length - 5] != LAST:
        raise ValueError("the checksum does not match")
    end = bytes(data[len(MAGIC):min(length, 65536)]).find(b"\n")
    if end < 0:
        raise ValueError("no head")
    return bytes(data[len(MAGIC):len(MAGIC) + end]), len(MAGIC) + end + 1


def load(Sink sink not None, const uint8_t[::1] data not None, Py_ssize_t start, kinds):
    """Hands the objects of some kinds to a sink, each kind as a full list. Returns how many. ValueError, MemoryError."""
    cdef Scratch scratch
    cdef const Object *object = NULL
    cdef const uint8_t *at
    cdef const uint8_t *end
    cdef Span body, version
    cdef uint8_t wanted[KIND_COUNT]
    cdef Kind kind
    cdef int number, status = DECODED
    cdef uint64_t objects = 0
    if not 0 <= start <= data.shape[0] - 5:
        raise ValueError("no objects")
    for number in range(KIND_COUNT):
        wanted[number] = number in kinds
        if wanted[number]:
            kind = <Kind>number
            sink.calls.begin(sink.self_, kind, SOURCE_SNAPSHOT)
    at = &data[0] + start
    end = &data[0] + data.shape[0] - 5
    scratch_init(&scratch)
    with nogil:
        while at < end:
            if end - at < 5 or at[0] >= KIND_COUNT:
                status = -1
                break
            body.data = <const char *>at + 5
            body.length = get32(at + 1)
            if body.length > <uint64_t>(end - at - 5):
                status = -1
                break
            if wanted[at[0]]:
                kind = <Kind>at[0]
                status = skim_object(kind, body, True, &scratch, &object, &version)
                if status != DECODED:
                    break
                if sink.calls.upsert(sink.self_, kind, object) < 0:
                    status = NO_MEMORY
                    break
                objects += 1
            at += 5 + body.length
        scratch_free(&scratch)
        for number in range(KIND_COUNT):
            if wanted[number]:
                kind = <Kind>number
                if status == DECODED and sink.calls.commit(sink.self_, kind) < 0:
                    status = NO_MEMORY
                if status != DECODED:
                    sink.calls.drop(sink.self_, kind)
        sink.calls.flush(sink.self_)
    if status == NO_MEMORY:
        raise MemoryError
    if status != DECODED:
        raise ValueError("malformed object")
    return objects
