"""$GENERATE of master files: a line in which $ stands for each number of a range. BIND's directive, as CoreDNS's parser reads it."""
from libc.stdint cimport int64_t, uint32_t

cdef struct Generator:          # zero to begin with
    char *model                 # the line with its $
    uint32_t model_length
    uint32_t model_room
    char *out                   # the line at hand
    uint32_t used
    uint32_t room
    int64_t start
    int64_t stop
    int64_t step
    int64_t at
    const char *failure         # static; NULL with -1: no memory
    uint32_t bad_begin          # which part of the model is wrong
    uint32_t bad_end

# All give 0 or -1.
cdef int generator_range(Generator *generator, const char *text, uint32_t length) noexcept nogil     # START-STOP[/STEP]
cdef int generator_add(Generator *generator, const char *text, uint32_t length) noexcept nogil       # to the model
cdef int generator_line(Generator *generator) noexcept nogil                                         # writes the line for `at`
cdef void generator_end(Generator *generator) noexcept nogil
