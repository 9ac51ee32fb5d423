"""The functions of Go's templates."""
from libc.stdint cimport uint32_t
from fastdns._value cimport Room, Value

cdef bint is_true(const Value *value) noexcept nogil
# Calls function `number` of language.FUNCTIONS; -1 with the reason.
cdef int call_function(Room *room, uint32_t number, Value *a, uint32_t count, Value *out, const char **reason) noexcept nogil
