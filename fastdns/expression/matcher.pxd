"""Regular expressions of the workers: RE2 (libre2), in linear time and bounded memory, without the GIL."""
from libc.string cimport memcmp
from libc.stdint cimport int32_t, uint8_t, uint16_t, uint32_t

cdef enum:
    GROUPS_MAX = 128            # of an expression, the whole match included

cdef struct Span:               # of a group in the text; -1 for one that took no part
    int32_t start
    int32_t end

cdef enum LiteralPlace:         # of Pattern.literal
    LITERAL_NONE
    LITERAL_ANYWHERE
    LITERAL_FIRST
    LITERAL_LAST

cdef struct Pattern:
    uint8_t place               # where a text must have `literal` to match at all: most texts are told apart by it
    uint8_t literal_length
    const char *literal         # owned by the Regex
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

# The search by RE2 alone; see regex_match.
cdef bint regex_search(const void *compiled, const char *text, uint32_t length, Span *spans, uint32_t count) noexcept nogil

# Does the expression match anywhere in the text? Fills `count` spans (at most the pattern's groups; 0 is cheapest).
cdef inline bint regex_match(const Pattern *pattern, const char *text, uint32_t length, Span *spans, uint32_t count) noexcept nogil:
    if pattern.place != LITERAL_NONE and not literal_there(pattern, text, length):
        return False
    return regex_search(pattern.compiled, text, length, spans, count)

# The same with an expression that only the query tells; -1 when it is none or too large. Each thread remembers the last few. To compile
# others takes a share of its time and no more: beyond it, -1 until there is some again.
cdef int regex_match_text(const char *expression, uint32_t size, const char *text, uint32_t length) noexcept nogil

cdef class Regex:
    cdef Pattern pattern        # good as long as this object
    cdef readonly str source
    cdef readonly dict names    # of groups: {name: number}
    cdef readonly bytes literal  # see Pattern.place
    cdef void *compiled         # owned; pattern.compiled
