"""Lines for standard output from any thread, written by a thread of their own: a stuck pipe drops lines and counts them, never blocks a worker."""
from libc.stdint cimport uint32_t, uint64_t

cdef enum:
    LOG_LINE_MAX = 2048             # longer lines are cut

cdef int log_debug                  # 1: DEBUG lines are wanted (process-wide, set on the control side)

# Puts a line (without its newline) into the calling worker's ring; 0, or -1 when it was full and the line was dropped and counted.
# worker METRIC_CONTROL (64) is for threads that hold the GIL.
cdef int log_put(uint32_t worker, const char *line, uint32_t length) noexcept nogil
