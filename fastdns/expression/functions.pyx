"""The table of functions; see expression/functions.pxd."""
from libc.stdint cimport uint32_t
from fastdns.expression.value cimport ValueArena, Value

cdef enum:
    FUNCTIONS_MAX = 120

cdef function functions[FUNCTIONS_MAX]
cdef dict numbers = {}


cdef int call_function(ValueArena *arena, uint32_t number, const Value *arguments, uint32_t count, Value *out) noexcept nogil:
    return functions[number](arena, arguments, count, out)


cdef uint32_t function_number(str name) except? 0xFFFFFFFF:
    return numbers[name]


cdef int add_function(str name, function what) except -1:
    if len(numbers) == FUNCTIONS_MAX:
        raise OverflowError("too many functions of expressions")
    functions[len(numbers)] = what
    numbers[name] = len(numbers)
    return 0
