"""The functions of Go's templates."""
from libc.stdint cimport uint32_t
from fastdns.api.expression cimport ValueArena, Value

cdef enum:
    REASON_SIZE = 160

cdef bint is_true(const Value *value) noexcept nogil
# Calls function `number` of language.FUNCTIONS; -1 with the reason (REASON_SIZE octets). How many arguments it takes is checked before (language.ARGUMENTS).
cdef int call_function(ValueArena *arena, uint32_t number, Value *a, uint32_t count, Value *out, char *reason) noexcept nogil
# As Go names the type of what a template sees.
cdef const char *type_name(const Value *value) noexcept nogil
