"""The directive $GENERATE of master files (BIND's, as CoreDNS's parser reads it): a template line in which $ is replaced by each number of a range."""
from libc.stdint cimport int64_t, uint32_t

cdef struct Generator:          # the caller zeroes it
    char *model                 # owned: the template line
    uint32_t model_length       # octets, as the next
    uint32_t model_capacity
    char *out                   # owned: the line for `at`
    uint32_t used               # octets, as the next
    uint32_t capacity
    int64_t start
    int64_t stop
    int64_t step
    int64_t at                  # current number
    const char *failure         # static; NULL after -1: out of memory
    uint32_t bad_begin          # the part of model that is malformed
    uint32_t bad_end

# Each returns 0, or -1 with failure.
cdef int generator_range(Generator *generator, const char *text, uint32_t length) noexcept nogil     # START-STOP[/STEP]
cdef int generator_add(Generator *generator, const char *text, uint32_t length) noexcept nogil       # to the model
cdef int generator_line(Generator *generator) noexcept nogil                                         # writes the line for `at`
cdef void generator_end(Generator *generator) noexcept nogil
