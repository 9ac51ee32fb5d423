"""Log lines. Level, plugin and text become a line of text, ``[LEVEL] plugin/NAME: text``, or with ``-log-format=json`` an object on a line of its own
(RFC 8259), with the keys of Go's log/slog: ``time`` (RFC 3339, UTC, nanoseconds), ``level``, ``msg``, ``plugin``."""
from libc.stdint cimport uint32_t
from fastdns.system.atomic cimport atomic_peek32

cdef enum:
    LOG_LINE_MAX = 2048             # octets of a text; longer ones are truncated
    LOG_FIELDS_MAX = 2048           # octets of the members that log_put_fields is given
    JSON_GROWTH = 6                 # octets that json_escape makes of one, at most

cdef enum LogLevel:
    LOG_PLAIN                       # text has no level, JSON has INFO: zones and version at the start
    LOG_DEBUG
    LOG_INFO
    LOG_WARNING
    LOG_ERROR
    LOG_FATAL

cdef uint32_t log_json              # atomic; 1: lines are JSON (process-wide; set once, before the first line, by a thread that holds the GIL)

cdef inline bint log_is_json() noexcept nogil:
    return atomic_peek32(&log_json)

# Copies a line into the calling worker's ring. 0, or -1 when the ring is full: the line is dropped and counted. Threads that hold the GIL pass METRIC_CONTROL
# (64) as worker. plugin: the name of the plugin that logs, NUL-terminated, or NULL. In JSON, text that is not UTF-8 has U+FFFD in place of each wrong octet.
cdef int log_put(uint32_t worker, LogLevel level, const char *plugin, const char *text, uint32_t length) noexcept nogil

# The same with further members of the JSON object, such as `"id":1,"do":true`. They are given where log_is_json() alone.
cdef int log_put_fields(uint32_t worker, LogLevel level, const char *plugin, const char *text, uint32_t length, const char *fields,
                        uint32_t fields_length) noexcept nogil

# Writes text as the inside of a JSON string (RFC 8259 7). out: JSON_GROWTH * length octets. Returns the octets written.
cdef uint32_t json_escape(char *out, const char *text, uint32_t length) noexcept nogil
