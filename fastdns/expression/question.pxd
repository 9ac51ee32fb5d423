"""What expressions ask of a query, its metadata and a template's match."""
from libc.stdint cimport uint16_t, uint32_t
from fastdns.walk.metadata cimport Label
from fastdns.walk.query cimport Query
from fastdns.expression.matcher cimport Span
from fastdns.expression.value cimport Room, Value

cdef struct Groups:             # of the regular expression that a template matched
    const char *text
    const Span *spans
    uint32_t count
    const Value *names          # pairs: name, number
    uint32_t name_count

# One of OP_TYPE to OP_SERVER_PORT.
cdef int ask_query(Query *q, uint16_t operation, Room *room, Value *out) noexcept nogil
cdef int ask_group(const Groups *groups, const Value *which, Value *out) noexcept nogil
# The text of a label of metadata, empty where it is unset.
cdef int ask_label(const Label *label, Query *q, Room *room, Value *out) noexcept nogil
