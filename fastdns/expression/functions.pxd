"""The functions of expressions that take values and give one; each module of them adds its own as it is imported."""
from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memcmp
from fastdns.expression.value cimport VALUE_ARRAY, VALUE_FLOAT, VALUE_INT, VALUE_STRING, Room, Value, room_take

# 0, or -1 when it fails.
ctypedef int (*function)(Room *room, const Value *arguments, uint32_t count, Value *out) noexcept nogil

# Calls function `number` (see function_number): 0, or -1 when it fails.
cdef int call_function(Room *room, uint32_t number, const Value *arguments, uint32_t count, Value *out) noexcept nogil
# The number of a function's name. KeyError.
cdef uint32_t function_number(str name) except? 0xFFFFFFFF
cdef int add_function(str name, function what) except -1

# ---- what they share ----

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
    """0 for 'asc', 1 for 'desc', else -1."""
    if order.kind == VALUE_STRING and order.length == 4 and memcmp(order.text, b"desc", 4) == 0:
        return 1
    return 0 if order.kind == VALUE_STRING and order.length == 3 and memcmp(order.text, b"asc", 3) == 0 else -1

cdef inline Value *take_values(Room *room, uint64_t count) noexcept nogil:
    """Room for a list; NULL when there is none."""
    if count > 100000:
        return NULL
    return <Value *>room_take(room, <uint32_t>(count * sizeof(Value)) + 1)

cdef inline void set_array(Value *out, Value *items, uint32_t length) noexcept nogil:
    out.kind = VALUE_ARRAY
    out.items = items
    out.length = length
