"""Regular expressions of the workers: RE2's syntax, linear time, no GIL.

RE2 does the matching where fastdns was built with it (`_re2`), else a machine of our own over the same syntax (Pike's: all threads of an NFA
at once), which has no Unicode classes and is slower by a factor of ten or so, but as linear.
"""
from libc.string cimport memcmp
from libc.stdint cimport int32_t, uint8_t, uint16_t, uint32_t

cdef enum:
    GROUPS_MAX = 128            # of an expression, the whole match included

cdef struct Span:               # of a group in the text; -1 for one that took no part
    int32_t start
    int32_t end

ctypedef bint (*match_func)(const void *compiled, const char *text, uint32_t length, Span *spans, uint32_t count) noexcept nogil

cdef struct Engine:             # what `_re2` offers
    # NULL with the reason in `error`; memory: octets that program and states may take; *groups: capturing groups, the whole match not counted
    void *(*compile)(const char *pattern, uint32_t length, uint32_t memory, int32_t *groups, char *error, uint32_t room) noexcept nogil
    void (*free)(void *compiled) noexcept nogil
    match_func match

cdef enum LiteralPlace:         # of Pattern.literal
    LITERAL_NONE
    LITERAL_ANYWHERE
    LITERAL_FIRST
    LITERAL_LAST

cdef struct Pattern:
    uint8_t place               # where a text must have `literal` to match at all: most texts are told apart by it
    uint8_t literal_length
    const char *literal         # owned by the Regex
    match_func match
    void *compiled              # owned by the Regex
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

# Does the expression match anywhere in the text? Fills `count` spans (at most the pattern's groups; 0 is cheapest).
cdef inline bint regex_match(const Pattern *pattern, const char *text, uint32_t length, Span *spans, uint32_t count) noexcept nogil:
    if pattern.place != LITERAL_NONE and not literal_there(pattern, text, length):
        return False
    return pattern.match(pattern.compiled, text, length, spans, count)

# The same with an expression that only the query tells; -1 when it is none, too large, or there is no RE2. Each thread remembers the last few. To compile
# others takes a share of its time and no more: beyond it, -1 until there is some again.
cdef int regex_match_text(const char *expression, uint32_t size, const char *text, uint32_t length) noexcept nogil

cdef class Regex:
    cdef Pattern pattern        # good as long as this object
    cdef readonly str source
    cdef readonly dict names    # of groups: {name: number}
    cdef readonly bytes literal  # see Pattern.place
    cdef bint own
