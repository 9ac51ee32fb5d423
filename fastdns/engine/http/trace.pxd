"""The trace that a request belongs to, out of its fields: B3 (https://github.com/openzipkin/b3-propagation) and W3C Trace Context
(https://www.w3.org/TR/trace-context/).

Where a request has several, `b3` goes before the fields `x-b3-*`, and these before `traceparent`. The field `tracestate` is for those who make further
requests of the trace, which a worker does not.
"""
from libc.stdint cimport uint8_t, uint32_t
from fastdns.walk.trace cimport TraceContext

# Takes one of the fields, whatever it is. `context` is zeroed before the first one.
cdef void trace_field(TraceContext *context, const uint8_t *name, uint32_t name_length, const uint8_t *value, uint32_t length) noexcept nogil

cdef inline bint trace_may_be(const uint8_t *name) noexcept nogil:
    """Whether the name of a field in lower case may be one of these, by its first letter."""
    return name[0] == c'x' or name[0] == c't' or name[0] == c'b'

cdef inline const TraceContext *trace_whole(const TraceContext *context) noexcept nogil:
    """Once all fields have come: NULL where they say nothing, or are malformed."""
    if context.malformed:
        return NULL
    if context.span and context.high | context.low:
        return context
    return context if context.sampling and not (context.span or context.high | context.low) else NULL
