"""Fields of traces. The contract is in engine/http/trace.pxd."""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memset
from fastdns.engine.http.head cimport http_digit, http_is
from fastdns.walk.trace cimport TRACE_NOT_SAMPLED, TRACE_SAMPLED

cdef enum TraceFormat:              # the higher one counts where a request has several
    FORMAT_NONE
    FORMAT_W3C
    FORMAT_B3_FIELDS
    FORMAT_B3

cdef enum:
    TRACE_DIGITS = 32
    SPAN_DIGITS = 16
    PARENT_LENGTH = 55              # octets of a `traceparent` of version 00


cdef void trace_field(TraceContext *context, const uint8_t *name, uint32_t name_length, const uint8_t *value, uint32_t length) noexcept nogil:
    if http_is(name, name_length, b"b3"):
        if begins(context, FORMAT_B3, True) and not parse_b3(context, value, length):
            context.malformed = 1
    elif http_is(name, name_length, b"traceparent"):
        if begins(context, FORMAT_W3C, True) and not parse_traceparent(context, value, length):
            context.malformed = 1
    elif name_length > 5 and http_is(name, 5, b"x-b3-"):
        take_b3_field(context, name + 5, name_length - 5, value, length)


cdef bint begins(TraceContext *context, TraceFormat format, bint single) noexcept nogil:
    """Whether fields of a format count. single: the format has one field, and another one makes it malformed."""
    if context.format > format:
        return False
    if context.format < format:
        memset(context, 0, sizeof(TraceContext))
        context.format = <uint8_t>format
    elif single:
        context.malformed = 1
        return False
    return True


# ---- B3 ----

cdef void take_b3_field(TraceContext *context, const uint8_t *name, uint32_t name_length, const uint8_t *value, uint32_t length) noexcept nogil:
    cdef bint good
    if http_is(name, name_length, b"traceid"):
        good = begins(context, FORMAT_B3_FIELDS, False) and parse_trace_id(context, value, length)
    elif http_is(name, name_length, b"spanid"):
        good = begins(context, FORMAT_B3_FIELDS, False) and parse_id(value, length, &context.span)
    elif http_is(name, name_length, b"parentspanid"):
        good = begins(context, FORMAT_B3_FIELDS, False) and parse_id(value, length, &context.parent)
    elif http_is(name, name_length, b"sampled"):
        good = begins(context, FORMAT_B3_FIELDS, False) and parse_sampled(context, value, length)
    elif http_is(name, name_length, b"flags"):
        good = begins(context, FORMAT_B3_FIELDS, False)
        if good and length == 1 and value[0] == c'1':       # to be recorded in any case
            context.sampling = TRACE_SAMPLED
    else:
        return
    if not good and context.format == FORMAT_B3_FIELDS:
        context.malformed = 1


cdef bint parse_sampled(TraceContext *context, const uint8_t *value, uint32_t length) noexcept nogil:
    if http_is(value, length, b"1") or http_is(value, length, b"true"):
        context.sampling = TRACE_SAMPLED
    elif http_is(value, length, b"0") or http_is(value, length, b"false"):
        if context.sampling != TRACE_SAMPLED:               # x-b3-flags goes before
            context.sampling = TRACE_NOT_SAMPLED
    else:
        return False
    return True


cdef bint parse_b3(TraceContext *context, const uint8_t *value, uint32_t length) noexcept nogil:
    """TRACE-SPAN, TRACE-SPAN-SAMPLING, TRACE-SPAN-SAMPLING-PARENT, or SAMPLING alone."""
    cdef uint32_t at = digits(value, length)
    if length == 1:
        return parse_state(context, value)
    if at == length or value[at] != c'-' or not parse_trace_id(context, value, at):
        return False
    value += at + 1
    length -= at + 1
    if length < SPAN_DIGITS or not parse_id(value, SPAN_DIGITS, &context.span):
        return False
    if length == SPAN_DIGITS:
        return True
    if length < SPAN_DIGITS + 2 or value[SPAN_DIGITS] != c'-' or not parse_state(context, value + SPAN_DIGITS + 1):
        return False
    value += SPAN_DIGITS + 2
    length -= SPAN_DIGITS + 2
    return length == 0 or length == SPAN_DIGITS + 1 and value[0] == c'-' and parse_id(value + 1, SPAN_DIGITS, &context.parent)


cdef bint parse_state(TraceContext *context, const uint8_t *value) noexcept nogil:
    if value[0] == c'1' or value[0] == c'd':
        context.sampling = TRACE_SAMPLED
    elif value[0] == c'0':
        context.sampling = TRACE_NOT_SAMPLED
    else:
        return False
    return True


# ---- W3C ----

cdef bint parse_traceparent(TraceContext *context, const uint8_t *value, uint32_t length) noexcept nogil:
    """VERSION-TRACE-SPAN-FLAGS; versions to come may have more behind it (3.2, 4.3)."""
    cdef uint64_t flags
    cdef uint32_t i
    if length < PARENT_LENGTH or value[2] != c'-' or value[35] != c'-' or value[52] != c'-':
        return False
    for i in range(PARENT_LENGTH):
        if c'A' <= value[i] <= c'F':
            return False
    if digits(value, 2) != 2 or value[0] == c'f' and value[1] == c'f':
        return False
    if length > PARENT_LENGTH and (value[0] == c'0' and value[1] == c'0' or value[PARENT_LENGTH] != c'-'):
        return False
    if not parse_trace_id(context, value + 3, TRACE_DIGITS) or not parse_id(value + 36, SPAN_DIGITS, &context.span):
        return False
    if digits(value + 53, 2) != 2:
        return False
    flags = <uint64_t>http_digit(value[54])
    context.sampling = TRACE_SAMPLED if flags & 1 else TRACE_NOT_SAMPLED
    return True


# ---- numbers ----

cdef uint32_t digits(const uint8_t *value, uint32_t length) noexcept nogil:
    """How many hexadecimal digits it begins with."""
    cdef uint32_t i = 0
    while i < length and http_digit(value[i]) >= 0:
        i += 1
    return i


cdef bint parse_id(const uint8_t *value, uint32_t length, uint64_t *id) noexcept nogil:
    """16 hexadecimal digits that are not all 0."""
    cdef uint32_t i
    id[0] = 0
    if length != SPAN_DIGITS or digits(value, length) != length:
        return False
    for i in range(length):
        id[0] = id[0] << 4 | <uint64_t>http_digit(value[i])
    return id[0] != 0


cdef bint parse_trace_id(TraceContext *context, const uint8_t *value, uint32_t length) noexcept nogil:
    """16 or 32 hexadecimal digits that are not all 0."""
    if length == SPAN_DIGITS:
        context.high = 0
        return parse_id(value, length, &context.low)
    if length != TRACE_DIGITS or digits(value, length) != length:
        return False
    parse_id(value, SPAN_DIGITS, &context.high)
    parse_id(value + SPAN_DIGITS, SPAN_DIGITS, &context.low)
    return context.high | context.low != 0
