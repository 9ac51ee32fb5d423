"""Formats with placeholders such as ``{name}`` and ``{/forward/upstream}``, compiled into operations and written for a query without the GIL: *log*,
*dnstap*."""
from libc.stdint cimport uint32_t
from fastdns.walk.metadata cimport Label
from fastdns.walk.query cimport Query
from fastdns.message.text cimport Text

cdef struct Operation:
    uint32_t kind               # see the .pyx
    uint32_t length             # of a literal
    const char *literal         # borrowed from the Format
    const Label *label          # of metadata; borrowed from its handle, NULL before `resolve`

cdef class Format:              # Format(text)
    cdef uint32_t count
    cdef Operation *operations  # owned
    cdef list _kept             # literals and handles that operations borrow from
    cdef list _labels           # (operation, label of metadata)
    cdef readonly str text
    cpdef resolve(self, config)

# Writes the format for a query. recorded: there is a reply; without one its placeholders give "-".
cdef void format_write(const Operation *operation, uint32_t count, Text *text, Query *q, bint recorded) noexcept nogil

# Nothing was written, and nothing will be.
cdef bint query_was_dropped(const Query *q) noexcept nogil
