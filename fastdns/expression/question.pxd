"""Operands of expressions that come from the query, from metadata, or from the regular expression that a template matched."""
from libc.stdint cimport uint16_t, uint32_t
from fastdns.walk.metadata cimport Label
from fastdns.walk.query cimport Query
from fastdns.expression.matcher cimport Span
from fastdns.expression.value cimport ValueArena, Value

cdef struct Groups:             # groups of the regular expression that a template matched
    const char *text            # the matched text, borrowed
    const Span *spans
    uint32_t count
    const Value *names          # pairs of name and number
    uint32_t name_count

# These return EVALUATION_OK with the value in *out, or EVALUATION_ERROR.

# operation: one of OP_TYPE to OP_SERVER_PORT.
cdef int ask_query(Query *q, uint16_t operation, ValueArena *arena, Value *out) noexcept nogil
cdef int ask_group(const Groups *groups, const Value *which, Value *out) noexcept nogil
# The value of a metadata label; the empty string when it is unset.
cdef int ask_label(const Label *label, Query *q, ValueArena *arena, Value *out) noexcept nogil
