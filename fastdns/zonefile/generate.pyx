"""$GENERATE. The contract is in zonefile/generate.pxd."""
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdio cimport snprintf
from libc.stdlib cimport free, realloc
from libc.string cimport memchr, memcpy
from fastdns.zonefile.spans cimport span_number

cdef enum:
    STEPS_MAX = 65535
    LINE_MAX = 0x3FFFFFFF


cdef int generator_range(Generator *generator, const char *text, uint32_t length) noexcept nogil:
    cdef const char *dash
    cdef const char *slash = <const char *>memchr(text, c'/', length)
    cdef uint64_t number
    generator.step = 1
    if slash != NULL:
        if span_number(slash + 1, <uint32_t>(text + length - slash - 1), 0x7FFFFFFF, &number) < 0 or number == 0:
            generator.failure = b"bad step in $GENERATE range"
            return -1
        generator.step = <int64_t>number
        length = <uint32_t>(slash - text)
    dash = <const char *>memchr(text, c'-', length)
    if dash == NULL:
        generator.failure = b"bad start-stop in $GENERATE range"
        return -1
    if span_number(text, <uint32_t>(dash - text), 0x7FFFFFFFFFFF, &number) < 0:
        generator.failure = b"bad start in $GENERATE range"
        return -1
    generator.start = <int64_t>number
    generator.at = generator.start
    if span_number(dash + 1, <uint32_t>(text + length - dash - 1), 0x7FFFFFFFFFFF, &number) < 0:
        generator.failure = b"bad stop in $GENERATE range"
        return -1
    generator.stop = <int64_t>number
    if generator.stop < generator.start or (generator.stop - generator.start) // generator.step > STEPS_MAX:
        generator.failure = b"bad range in $GENERATE range"
        return -1
    return 0


cdef void generator_end(Generator *generator) noexcept nogil:
    free(generator.model)
    free(generator.out)


cdef int append(char **text, uint32_t *used, uint32_t *capacity, const char *what, uint32_t length) noexcept nogil:
    cdef char *larger
    cdef uint32_t wanted
    if length > LINE_MAX - used[0]:
        return -1
    if capacity[0] - used[0] < length:
        wanted = 2 * (used[0] + length) + 256
        larger = <char *>realloc(text[0], wanted)
        if larger == NULL:
            return -1
        text[0] = larger
        capacity[0] = wanted
    memcpy(text[0] + used[0], what, length)
    used[0] += length
    return 0


cdef int generator_add(Generator *generator, const char *text, uint32_t length) noexcept nogil:
    return append(&generator.model, &generator.model_length, &generator.model_capacity, text, length)


cdef inline int write(Generator *generator, const char *text, uint32_t length) noexcept nogil:
    return append(&generator.out, &generator.used, &generator.capacity, text, length)


cdef int generator_line(Generator *generator) noexcept nogil:
    cdef const char *model = generator.model
    cdef uint32_t at = 0, taken, length = generator.model_length
    generator.used = 0
    generator.failure = NULL
    while at < length:
        taken = 1
        if model[at] == c'$':
            if at + 1 < length and model[at + 1] == c'$':
                at += 1                         # "$$" is a $
            else:
                if write_number(generator, &at) < 0:
                    return -1
                continue
        elif model[at] == c'\\' and at + 1 < length:
            if model[at + 1] == c'$':
                at += 1                         # "\$" is a $ too; other escapes are kept
            else:
                taken = 2
        if write(generator, model + at, taken) < 0:
            return -1
        at += taken
    return write(generator, b"\n", 1)


cdef struct Modifier:           # ${OFFSET[,WIDTH[,BASE]]}
    int64_t offset
    uint64_t width
    char base


cdef const char *read_modifier(const Generator *generator, uint32_t at, uint32_t end, Modifier *out) noexcept nogil:
    """Parses the text between the braces. Returns an error text, or NULL."""
    cdef const char *model = generator.model
    cdef uint32_t comma = at
    cdef uint64_t number
    cdef bint signed
    while comma < end and model[comma] != c',':
        comma += 1
    signed = at < comma and (model[at] == c'-' or model[at] == c'+')
    if span_number(model + at + signed, comma - at - signed, 0x7FFFFFFF, &number) < 0:
        return b"bad offset in $GENERATE"
    out.offset = -<int64_t>number if signed and model[at] == c'-' else <int64_t>number
    if comma < end:
        at = comma + 1
        comma = at
        while comma < end and model[comma] != c',':
            comma += 1
        if comma < end:
            if end - comma != 2:
                return b"bad base in $GENERATE"
            out.base = model[comma + 1]
        if span_number(model + at, comma - at, 255, &out.width) < 0:
            return b"bad width in $GENERATE"
    if out.base != c'd' and out.base != c'o' and out.base != c'x' and out.base != c'X':
        return b"bad base in $GENERATE"
    if generator.start + out.offset < 0 or generator.stop + out.offset > 0x7FFFFFFF:
        return b"bad offset in $GENERATE"
    return NULL


cdef int write_number(Generator *generator, uint32_t *at) noexcept nogil:
    """Writes the value of the $ at *at, and moves *at behind it and its braces."""
    cdef const char *model = generator.model
    cdef uint32_t begin = at[0], length = generator.model_length, end
    cdef unsigned long long number
    cdef Modifier modifier
    cdef char digits[320]
    cdef int written, width
    modifier.offset = 0
    modifier.width = 0
    modifier.base = c'd'
    at[0] += 1
    if at[0] < length and model[at[0]] == c'{':
        end = at[0]
        while end < length and model[end] != c'}':
            end += 1
        generator.bad_begin = begin
        generator.bad_end = end + 1 if end < length else length
        generator.failure = b"bad modifier in $GENERATE"
        if end < length:
            generator.failure = read_modifier(generator, begin + 2, end, &modifier)
        if generator.failure != NULL:
            return -1
        at[0] = end + 1
    number = <unsigned long long>(generator.at + modifier.offset)
    width = <int>modifier.width
    if modifier.base == c'o':
        written = snprintf(digits, sizeof(digits), b"%0*llo", width, number)
    elif modifier.base == c'x':
        written = snprintf(digits, sizeof(digits), b"%0*llx", width, number)
    elif modifier.base == c'X':
        written = snprintf(digits, sizeof(digits), b"%0*llX", width, number)
    else:
        written = snprintf(digits, sizeof(digits), b"%0*llu", width, number)
    return write(generator, digits, <uint32_t>written)
