"""The table of the functions of expressions. A function takes values and returns one. Each module of functions adds them when it is imported."""
from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memcmp
from fastdns.expression.value cimport VALUE_ARRAY, VALUE_FLOAT, VALUE_INT, VALUE_STRING, ValueArena, Value, arena_alloc

# Called on a worker; may allocate in arena. 0 with the value in *out, or -1 when the evaluation fails.
ctypedef int (*function)(ValueArena *arena, const Value *arguments, uint32_t count, Value *out) noexcept nogil

# Calls the function with this number (see function_number). 0, or -1 when the evaluation fails.
cdef int call_function(ValueArena *arena, uint32_t number, const Value *arguments, uint32_t count, Value *out) noexcept nogil
# The number of a function by its name. Raises KeyError.
cdef uint32_t function_number(str name) except? 0xFFFFFFFF
cdef int add_function(str name, function what) except -1

# ---- helpers of the functions ----

cdef inline bint texts(const Value *a, uint32_t count) noexcept nogil:
    cdef uint32_t i
    for i in range(count):
        if a[i].kind != VALUE_STRING:
            return False
    return True

cdef inline bint is_space(char c) noexcept nogil:
    return c == c' ' or c'\t' <= c <= c'\r'

cdef inline bint is_number(const Value *value) noexcept nogil:
    return value.kind == VALUE_INT or value.kind == VALUE_FLOAT

cdef inline double number_of(const Value *value) noexcept nogil:
    return value.real if value.kind == VALUE_FLOAT else <double>value.number

cdef inline int sort_order(const Value *order) noexcept nogil:
    """0 for the string asc, 1 for desc, else -1."""
    if order.kind == VALUE_STRING and order.length == 4 and memcmp(order.text, b"desc", 4) == 0:
        return 1
    return 0 if order.kind == VALUE_STRING and order.length == 3 and memcmp(order.text, b"asc", 3) == 0 else -1

cdef inline Value *take_values(ValueArena *arena, uint64_t count) noexcept nogil:
    """Allocates an array of `count` values in the arena. NULL when the arena is full or count exceeds 100,000."""
    if count > 100000:
        return NULL
    return <Value *>arena_alloc(arena, <uint32_t>(count * sizeof(Value)) + 1)

cdef inline void set_array(Value *out, Value *items, uint32_t length) noexcept nogil:
    out.kind = VALUE_ARRAY
    out.items = items
    out.length = length
