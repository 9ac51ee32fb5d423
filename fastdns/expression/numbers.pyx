"""Functions of expressions on numbers."""
from libc.math cimport ceil, fabs, floor, round as round_away
from libc.stdint cimport INT64_MIN, int64_t, uint32_t, uint64_t
from libc.stdlib cimport strtod
from libc.string cimport memcpy
from fastdns.expression.value cimport (VALUE_ARRAY, VALUE_FLOAT, VALUE_INT, VALUE_NIL, VALUE_STRING, Value, ValueArena, set_float, set_int, set_nil,
                                       value_compare)
from fastdns.expression.functions cimport add_function, is_number, is_space, number_of, take_values
from fastdns.expression.lists cimport sort_values

cdef enum:
    DEPTH_MAX = 100             # nested lists


cdef int f_int(ValueArena *arena, const Value *a, uint32_t count, Value *out) noexcept nogil:
    cdef uint64_t number = 0
    cdef uint32_t i = 0
    cdef bint negative = False
    if a[0].kind == VALUE_INT:
        out[0] = a[0]
        return 0
    if a[0].kind == VALUE_FLOAT:
        set_int(out, <int64_t>a[0].real if -9.2e18 < a[0].real < 9.2e18 else INT64_MIN)
        return 0
    if a[0].kind != VALUE_STRING:
        return -1
    if a[0].length and (a[0].text[0] == c'-' or a[0].text[0] == c'+'):
        negative = a[0].text[0] == c'-'
        i = 1
    if i == a[0].length or a[0].length - i > 18:
        return -1
    while i < a[0].length:
        if not c'0' <= a[0].text[i] <= c'9':
            return -1
        number = number * 10 + <uint64_t>(a[0].text[i] - c'0')
        i += 1
    set_int(out, -<int64_t>number if negative else <int64_t>number)
    return 0


cdef int f_float(ValueArena *arena, const Value *a, uint32_t count, Value *out) noexcept nogil:
    cdef char text[64]
    cdef char *end
    if is_number(&a[0]):
        set_float(out, number_of(&a[0]))
        return 0
    if a[0].kind != VALUE_STRING or a[0].length == 0 or a[0].length >= sizeof(text) or is_space(a[0].text[0]):
        return -1
    memcpy(text, a[0].text, a[0].length)
    text[a[0].length] = 0
    set_float(out, strtod(text, &end))
    return 0 if end == text + a[0].length else -1


cdef int f_abs(ValueArena *arena, const Value *a, uint32_t count, Value *out) noexcept nogil:
    if not is_number(&a[0]):
        return -1
    out[0] = a[0]
    out.number = <int64_t>(0 - <uint64_t>a[0].number) if a[0].number < 0 else a[0].number
    out.real = fabs(a[0].real) if a[0].kind == VALUE_FLOAT else 0
    return 0


cdef int f_ceil(ValueArena *arena, const Value *a, uint32_t count, Value *out) noexcept nogil:
    if not is_number(&a[0]):
        return -1
    set_float(out, ceil(number_of(&a[0])))
    return 0


cdef int f_floor(ValueArena *arena, const Value *a, uint32_t count, Value *out) noexcept nogil:
    if not is_number(&a[0]):
        return -1
    set_float(out, floor(number_of(&a[0])))
    return 0


cdef int f_round(ValueArena *arena, const Value *a, uint32_t count, Value *out) noexcept nogil:
    if not is_number(&a[0]):
        return -1
    set_float(out, round_away(number_of(&a[0])))
    return 0


cdef int extreme(const Value *a, uint32_t count, int sign, uint32_t depth, Value *out) noexcept nogil:
    """The greatest (sign 1) or least of numbers and lists of numbers. *out is nil before the first number."""
    cdef uint32_t i
    cdef int order
    if depth > DEPTH_MAX:
        return -1
    for i in range(count):
        if a[i].kind == VALUE_ARRAY:
            if extreme(a[i].items, a[i].length, sign, depth + 1, out) < 0:
                return -1
        elif not is_number(&a[i]):
            return -1
        elif out.kind == VALUE_NIL:
            out[0] = a[i]
        else:
            order = value_compare(&a[i], out)
            if order == sign:
                out[0] = a[i]
    return 0


cdef int f_max(ValueArena *arena, const Value *a, uint32_t count, Value *out) noexcept nogil:
    set_nil(out)
    return extreme(a, count, 1, 0, out)


cdef int f_min(ValueArena *arena, const Value *a, uint32_t count, Value *out) noexcept nogil:
    set_nil(out)
    return extreme(a, count, -1, 0, out)


cdef int gather(const Value *a, uint32_t count, uint32_t depth, Value *numbers_, uint32_t *used, uint32_t arena) noexcept nogil:
    cdef uint32_t i
    for i in range(count):
        if a[i].kind == VALUE_ARRAY and depth < DEPTH_MAX:
            if gather(a[i].items, a[i].length, depth + 1, numbers_, used, arena) < 0:
                return -1
        elif not is_number(&a[i]) or used[0] == arena:
            return -1
        else:
            set_float(&numbers_[used[0]], number_of(&a[i]))
            used[0] += 1
    return 0


cdef int f_mean(ValueArena *arena, const Value *a, uint32_t count, Value *out) noexcept nogil:
    cdef uint32_t before = arena.used                # restored below: the collected numbers are temporary and can fill most of the arena
    cdef Value *found = take_values(arena, 4000)
    cdef uint32_t used = 0, i
    cdef double sum = 0
    if found == NULL or gather(a, count, 0, found, &used, 4000) < 0:
        return -1
    for i in range(used):
        sum += found[i].real
    set_float(out, sum / used if used else 0)
    arena.used = before
    return 0


cdef int f_median(ValueArena *arena, const Value *a, uint32_t count, Value *out) noexcept nogil:
    cdef uint32_t before = arena.used
    cdef Value *found = take_values(arena, 4000)
    cdef uint32_t used = 0
    if found == NULL or gather(a, count, 0, found, &used, 4000) < 0 or sort_values(found, used, False) < 0:
        return -1
    if used == 0:
        set_float(out, 0)
    elif used & 1:
        set_float(out, found[used // 2].real)
    else:
        set_float(out, (found[used // 2 - 1].real + found[used // 2].real) / 2)
    arena.used = before
    return 0


cdef int bits(const Value *a, uint32_t count, int what, Value *out) noexcept nogil:
    cdef uint64_t x = <uint64_t>a[0].number, y = 0
    if a[0].kind != VALUE_INT or count > 1 and a[1].kind != VALUE_INT:
        return -1
    if count > 1:
        y = <uint64_t>a[1].number
    if what >= 5:
        if <int64_t>y < 0:
            return -1
        if what == 5:
            x = x << y if y < 64 else 0
        elif what == 6:
            x = <uint64_t>(<int64_t>x >> (y if y < 64 else 63))
        else:
            x = x >> y if y < 64 else 0
    elif what == 0:
        x &= y
    elif what == 1:
        x |= y
    elif what == 2:
        x ^= y
    elif what == 3:
        x &= ~y
    else:
        x = ~x
    set_int(out, <int64_t>x)
    return 0


cdef int f_bitand(ValueArena *arena, const Value *a, uint32_t count, Value *out) noexcept nogil:
    return bits(a, count, 0, out)


cdef int f_bitor(ValueArena *arena, const Value *a, uint32_t count, Value *out) noexcept nogil:
    return bits(a, count, 1, out)


cdef int f_bitxor(ValueArena *arena, const Value *a, uint32_t count, Value *out) noexcept nogil:
    return bits(a, count, 2, out)


cdef int f_bitnand(ValueArena *arena, const Value *a, uint32_t count, Value *out) noexcept nogil:
    return bits(a, count, 3, out)


cdef int f_bitnot(ValueArena *arena, const Value *a, uint32_t count, Value *out) noexcept nogil:
    return bits(a, count, 4, out)


cdef int f_bitshl(ValueArena *arena, const Value *a, uint32_t count, Value *out) noexcept nogil:
    return bits(a, count, 5, out)


cdef int f_bitshr(ValueArena *arena, const Value *a, uint32_t count, Value *out) noexcept nogil:
    return bits(a, count, 6, out)


cdef int f_bitushr(ValueArena *arena, const Value *a, uint32_t count, Value *out) noexcept nogil:
    return bits(a, count, 7, out)


add_function("int", f_int)
add_function("float", f_float)
add_function("abs", f_abs)
add_function("ceil", f_ceil)
add_function("floor", f_floor)
add_function("round", f_round)
add_function("max", f_max)
add_function("min", f_min)
add_function("mean", f_mean)
add_function("median", f_median)
add_function("bitand", f_bitand)
add_function("bitor", f_bitor)
add_function("bitxor", f_bitxor)
add_function("bitnand", f_bitnand)
add_function("bitnot", f_bitnot)
add_function("bitshl", f_bitshl)
add_function("bitshr", f_bitshr)
add_function("bitushr", f_bitushr)
