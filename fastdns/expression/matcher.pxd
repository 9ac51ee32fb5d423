"""Regular expressions, matched by RE2 (libre2) without the GIL, in linear time and bounded memory."""
from libc.string cimport memcmp
from libc.stdint cimport int32_t, uint8_t, uint16_t, uint32_t

cdef enum:
    GROUPS_MAX = 128            # of an expression, the whole match included

cdef struct Span:               # octets of the text that a group matched; -1 for a group that did not take part
    int32_t start
    int32_t end

cdef enum LiteralPlace:         # of Pattern.literal
    LITERAL_NONE
    LITERAL_ANYWHERE
    LITERAL_FIRST
    LITERAL_LAST

cdef struct Pattern:
    uint8_t place               # where a text must contain `literal` to match: a cheap test before RE2 is called
    uint8_t literal_length
    const char *literal         # octets that every matching text contains; owned by the Regex
    const void *compiled        # a re2::RE2, owned by the Regex
    uint32_t groups             # the whole match included

cdef extern from "<string.h>" nogil:
    void *memmem(const void *text, size_t length, const void *part, size_t part_length)

cdef inline bint literal_there(const Pattern *pattern, const char *text, uint32_t length) noexcept nogil:
    cdef uint32_t n = pattern.literal_length
    if length < n:
        return False
    if pattern.place == LITERAL_ANYWHERE:
        return memmem(text, length, pattern.literal, n) != NULL
    if pattern.place == LITERAL_LAST:
        text += length - n
    return text[0] == pattern.literal[0] and memcmp(text, pattern.literal, n) == 0

# Searches with RE2, without the test for the literal; see regex_match.
cdef bint regex_search(const void *compiled, const char *text, uint32_t length, Span *spans, uint32_t count) noexcept nogil

# Whether the expression matches anywhere in the text. Fills `count` spans, at most Pattern.groups; 0 is cheapest.
cdef inline bint regex_match(const Pattern *pattern, const char *text, uint32_t length, Span *spans, uint32_t count) noexcept nogil:
    if pattern.place != LITERAL_NONE and not literal_there(pattern, text, length):
        return False
    return regex_search(pattern.compiled, text, length, spans, count)

# As regex_match, with an expression that is computed for the query. 1, 0, or -1 when the expression is malformed or too large. Each thread caches
# the last few compiled expressions. A thread spends at most a quarter of its time on compiling; beyond that the result is -1.
cdef int regex_match_text(const char *expression, uint32_t size, const char *text, uint32_t length) noexcept nogil

cdef class Regex:
    cdef Pattern pattern        # valid as long as this object
    cdef readonly str source
    cdef readonly dict names    # of groups: {name: number}
    cdef readonly bytes literal  # Pattern.literal
    cdef void *compiled         # owned; pattern.compiled
