"""Files of JSON values, cut into the values; see splitter.pyi."""
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport uint8_t, uint64_t

from fastdns.plugins.kubernetes.decode.frames cimport (FRAMING_JSON_LIST, FRAMING_JSON_WATCH, STEP_FRAME, STEP_MORE, STEP_NO_MEMORY, STEP_TOO_LARGE,
                                                       Frames, frames_add, frames_begin, frames_complete, frames_free, frames_init, frames_next)
from fastdns.plugins.kubernetes.decode.objects cimport Span

from fastdns.plugins.kubernetes.decode.stream import StreamError


cdef class Splitter:
    """Cuts a JSON file into its top-level values, or into the items of a list with what stands around them."""

    cdef Frames frames
    cdef unsigned long long taken   # octets given so far

    def __cinit__(self, bint items):
        frames_init(&self.frames)
        frames_begin(&self.frames, FRAMING_JSON_LIST if items else FRAMING_JSON_WATCH)

    def __dealloc__(self):
        frames_free(&self.frames)

    def feed(self, bytes data not None):
        """The values that are whole now, each with its offset in the file. StreamError, MemoryError."""
        cdef Span frame
        cdef int step = frames_add(&self.frames, <const uint8_t *><const char *>data, <uint64_t>len(data))
        cdef unsigned long long base
        if step == STEP_NO_MEMORY:
            raise MemoryError
        self.taken += <unsigned long long>len(data)
        base = self.taken - self.frames.length
        found = []
        while step == 0:
            step = frames_next(&self.frames, &frame)
            if step == STEP_FRAME:
                found.append((frame.data[:frame.length], base + <unsigned long long>(<const uint8_t *>frame.data - self.frames.data)))
                step = 0
            elif step == STEP_MORE:
                break
        if step == STEP_TOO_LARGE:
            raise StreamError("a value beyond 32 MiB")
        if step < 0:
            raise StreamError("malformed JSON")
        return found

    @property
    def around(self):
        """What stood around the items so far."""
        return PyBytes_FromStringAndSize(<const char *>self.frames.around, self.frames.around_length)

    @property
    def complete(self):
        """Whether the file may end here."""
        return frames_complete(&self.frames)
