"""Log lines: any thread puts a line into a ring, and one native thread writes the rings to standard output. When the output is blocked and a ring is
full, lines are dropped and counted; a worker never waits."""
from libc.stdint cimport uint32_t
from fastdns.system.atomic cimport atomic_peek32

cdef uint32_t log_debug             # atomic; 1: DEBUG lines are written (process-wide; set by a thread that holds the GIL)

cdef inline bint log_wants_debug() noexcept nogil:
    return atomic_peek32(&log_debug)

# Copies a line (without its newline, 32 KiB at most) into the calling worker's ring. 0, or -1 when the ring is full: the line is dropped and counted.
# Threads that hold the GIL pass METRIC_CONTROL (64) as worker. Lines are made by telemetry/log_line.
cdef int log_write(uint32_t worker, const char *line, uint32_t length) noexcept nogil
