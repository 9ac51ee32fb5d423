"""Heads of HTTP/2's frames (RFC 9113 4.1), for both sides of a connection: they are read before libnghttp2, which passes over many frames without a word.

A frame that carries no part of a request or of a response has a weight. A peer whose weights exceed what its requests allow has its connection ended.
"""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy
from fastdns._wire cimport load32

cdef enum:
    FRAME_HEAD = 9                  # octets
    FRAME_DATA = 0                  # type
    FRAME_PADDED = 8                # flag of DATA
    FRAME_SMALL = 256               # octets of DATA, below which a frame has a weight
    FRAMES_IDLE_MAX = 1000          # weight of a connection's frames (pings, settings, empty data...),
    FRAMES_IDLE_EACH = 10           # and so much more for each request

cdef struct FrameScan:              # of the frames that a peer sends
    uint8_t head[FRAME_HEAD]        # the last one, or the beginning of the one that comes
    uint8_t head_used
    uint32_t skipped                # octets up to the next head
    uint32_t idle                   # weights so far

cdef inline uint32_t frame_length(const uint8_t *head) noexcept nogil:
    return load32(head) >> 8

cdef inline uint32_t frame_weight(const uint8_t *head) noexcept nogil:
    """One, and one more for each KiB: unknown frames and fields cost by their octets. DATA has none, unless there is little of it, or padding."""
    if head[3] == FRAME_DATA and frame_length(head) >= FRAME_SMALL and not head[4] & FRAME_PADDED:
        return 0
    return 1 + (frame_length(head) >> 10)

cdef inline bint frames_are_idle(const FrameScan *scan, uint32_t requests) noexcept nogil:
    """True if the connection has to end."""
    return scan.idle > FRAMES_IDLE_MAX + <uint64_t>FRAMES_IDLE_EACH * requests

cdef inline bint frames_next(FrameScan *scan, const uint8_t *octets, uint32_t size, uint32_t *at) noexcept nogil:
    """Moves *at behind the next head, which is in scan.head then. False: the octets are through."""
    cdef uint32_t step
    while at[0] < size:
        if scan.skipped:
            step = min(scan.skipped, size - at[0])
            scan.skipped -= step
        else:
            step = min(<uint32_t>FRAME_HEAD - scan.head_used, size - at[0])
            memcpy(scan.head + scan.head_used, octets + at[0], step)
            scan.head_used += <uint8_t>step
        at[0] += step
        if scan.head_used == FRAME_HEAD:
            scan.head_used = 0
            scan.skipped = frame_length(scan.head)
            return True
    return False

cdef inline uint32_t frames_before(uint32_t at) noexcept nogil:
    """The octets before the head that ends at `at`, which the library may have if that frame is refused."""
    return at - min(at, <uint32_t>FRAME_HEAD)
