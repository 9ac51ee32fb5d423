"""Functions of expressions on lists."""
from libc.stdint cimport uint32_t
from fastdns.expression.value cimport Value

# Sorts in place. 0, or -1 when two elements cannot be compared.
cdef int sort_values(Value *items, uint32_t count, bint descending) noexcept nogil
