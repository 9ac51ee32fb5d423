"""The thread that kills a process which does not end; see system/watchdog.pyi."""
from libc.stdint cimport uint32_t

# Writes the log line of a process that is killed, newline included, into LINE_MAX (256) octets. Returns the octets written.
ctypedef uint32_t (*watchdog_line_func)(char *line) noexcept nogil

cdef watchdog_line_func watchdog_line   # set once, by telemetry/log_line
