"""The operators of expressions. The contract is in expression/operators.pxd."""
from libc.math cimport pow as power_of
from libc.stdint cimport int64_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy
from fastdns.expression.matcher cimport regex_match_text
from fastdns.expression.value cimport (VALUE_ARRAY, VALUE_DURATION, VALUE_FLOAT, VALUE_INT, VALUE_MAP, VALUE_NIL, VALUE_STRING, VALUE_TIME, ValueArena,
                                       Value, map_sort, arena_alloc, set_bool, set_float, set_int, set_nil, set_text, value_compare, value_equal)
from fastdns.expression.functions cimport is_number, number_of, sort_order

cdef extern from "<string.h>" nogil:
    void *memmem(const void *text, size_t length, const void *part, size_t part_length)

cdef enum:
    RANGE_MAX = 6000            # elements


cdef int arithmetic(ValueArena *arena, uint16_t operation, const Value *a, const Value *b, Value *out) noexcept nogil:
    cdef char *text
    if operation == OP_NEGATIVE or operation == OP_POSITIVE:
        if not is_number(a):
            return EVALUATION_ERROR
        out[0] = a[0]
        if operation == OP_NEGATIVE:
            out.number = <int64_t>(0 - <uint64_t>a.number)
            out.real = -a.real
        return EVALUATION_OK
    if operation == OP_ADD and a.kind == VALUE_STRING and b.kind == VALUE_STRING:
        text = <char *>arena_alloc(arena, a.length + b.length)
        if text == NULL:
            return EVALUATION_ERROR
        memcpy(text, a.text, a.length)
        memcpy(text + a.length, b.text, b.length)
        set_text(out, text, a.length + b.length)
        return EVALUATION_OK
    if not is_number(a) or not is_number(b):
        return time_arithmetic(operation, a, b, out)
    if operation == OP_REMAINDER:
        if a.kind != VALUE_INT or b.kind != VALUE_INT or b.number == 0:
            return EVALUATION_ERROR
        set_int(out, 0 if b.number == -1 else a.number % b.number)
    elif operation == OP_DIVIDE:
        set_float(out, number_of(a) / number_of(b))
    elif operation == OP_POWER:
        set_float(out, power_of(number_of(a), number_of(b)))
    elif a.kind == VALUE_INT and b.kind == VALUE_INT:       # wraps around, as in Go
        if operation == OP_ADD:
            set_int(out, <int64_t>(<uint64_t>a.number + <uint64_t>b.number))
        elif operation == OP_SUBTRACT:
            set_int(out, <int64_t>(<uint64_t>a.number - <uint64_t>b.number))
        else:
            set_int(out, <int64_t>(<uint64_t>a.number * <uint64_t>b.number))
    elif operation == OP_ADD:
        set_float(out, number_of(a) + number_of(b))
    elif operation == OP_SUBTRACT:
        set_float(out, number_of(a) - number_of(b))
    else:
        set_float(out, number_of(a) * number_of(b))
    return EVALUATION_OK


cdef int time_arithmetic(uint16_t operation, const Value *a, const Value *b, Value *out) noexcept nogil:
    """Times and durations."""
    cdef bint time = a.kind == VALUE_TIME or b.kind == VALUE_TIME
    if operation == OP_MULTIPLY and (a.kind == VALUE_DURATION or b.kind == VALUE_DURATION) and not time:
        out.kind = VALUE_DURATION
        if a.kind == VALUE_FLOAT or b.kind == VALUE_FLOAT:
            out.number = <int64_t>(number_of(a) * number_of(b))
        else:
            out.number = <int64_t>(<uint64_t>a.number * <uint64_t>b.number)
        return EVALUATION_OK
    if a.kind != VALUE_TIME and a.kind != VALUE_DURATION or b.kind != VALUE_TIME and b.kind != VALUE_DURATION:
        return EVALUATION_ERROR
    if operation == OP_ADD and not (a.kind == VALUE_TIME and b.kind == VALUE_TIME):
        out.kind = VALUE_TIME if time else VALUE_DURATION
        out.text = a.text if a.kind == VALUE_TIME else b.text      # the Location
        out.number = <int64_t>(<uint64_t>a.number + <uint64_t>b.number)
        return EVALUATION_OK
    if operation == OP_SUBTRACT and not (a.kind == VALUE_DURATION and b.kind == VALUE_TIME):
        out.kind = VALUE_TIME if a.kind == VALUE_TIME and b.kind == VALUE_DURATION else VALUE_DURATION
        out.text = a.text
        out.number = <int64_t>(<uint64_t>a.number - <uint64_t>b.number)
        return EVALUATION_OK
    return EVALUATION_ERROR


cdef int text_test(uint16_t operation, const Value *a, const Value *b, Value *out) noexcept nogil:
    cdef int found
    if a.kind == VALUE_NIL or b.kind == VALUE_NIL:
        set_bool(out, False)
        return EVALUATION_OK
    if a.kind != VALUE_STRING or b.kind != VALUE_STRING:
        return EVALUATION_ERROR
    if operation == OP_MATCH:
        found = regex_match_text(b.text, b.length, a.text, a.length)
        if found < 0:
            return EVALUATION_ERROR
        set_bool(out, found)
    elif operation == OP_CONTAINS:
        set_bool(out, b.length == 0 or memmem(a.text, a.length, b.text, b.length) != NULL)
    elif operation == OP_STARTS:
        set_bool(out, a.length >= b.length and memcmp(a.text, b.text, b.length) == 0)
    else:
        set_bool(out, a.length >= b.length and memcmp(a.text + a.length - b.length, b.text, b.length) == 0)
    return EVALUATION_OK


cdef int member_test(const Value *a, const Value *b, Value *out) noexcept nogil:
    cdef uint32_t i
    set_bool(out, False)
    if b.kind == VALUE_ARRAY:
        for i in range(b.length):
            if value_equal(a, &b.items[i]):
                set_bool(out, True)
                return EVALUATION_OK
        return EVALUATION_OK
    if b.kind == VALUE_MAP:
        for i in range(b.length):
            if value_equal(a, &b.items[2 * i]):
                set_bool(out, True)
        return EVALUATION_OK
    return EVALUATION_OK if b.kind == VALUE_NIL else EVALUATION_ERROR


cdef int make_range(ValueArena *arena, const Value *a, const Value *b, Value *out) noexcept nogil:
    cdef uint64_t i, size = 0
    if a.kind != VALUE_INT or b.kind != VALUE_INT:
        return EVALUATION_ERROR
    if b.number >= a.number:
        size = <uint64_t>b.number - <uint64_t>a.number
        if size >= RANGE_MAX:
            return EVALUATION_ERROR
        size += 1
    out.items = <Value *>arena_alloc(arena, <uint32_t>(size * sizeof(Value)))
    if out.items == NULL:
        return EVALUATION_ERROR
    out.kind = VALUE_ARRAY
    out.length = <uint32_t>size
    for i in range(size):
        set_int(&out.items[i], a.number + <int64_t>i)
    return EVALUATION_OK


cdef int take_member(const Value *base, const Value *name, bint optional, Value *out) noexcept nogil:
    cdef int64_t at
    cdef uint32_t i
    if base.kind == VALUE_NIL and optional:
        set_nil(out)
        return EVALUATION_OK
    if base.kind == VALUE_MAP:
        set_nil(out)
        for i in range(base.length):
            if value_equal(&base.items[2 * i], name):
                out[0] = base.items[2 * i + 1]
                break
        return EVALUATION_OK
    if base.kind == VALUE_ARRAY and name.kind == VALUE_INT:
        at = name.number + base.length if name.number < 0 else name.number
        if at < 0 or at >= base.length:
            return EVALUATION_ERROR
        out[0] = base.items[at]
        return EVALUATION_OK
    return EVALUATION_ERROR


cdef int take_slice(const Value *arguments, Value *out) noexcept nogil:
    cdef const Value *base = &arguments[0]
    cdef int64_t size = base.length, first = 0, last = size
    if base.kind != VALUE_ARRAY and base.kind != VALUE_STRING:
        return EVALUATION_ERROR
    if arguments[1].kind == VALUE_INT:
        first = arguments[1].number + size if arguments[1].number < 0 else arguments[1].number
    if arguments[2].kind == VALUE_INT:
        last = arguments[2].number + size if arguments[2].number < 0 else arguments[2].number
    first = min(max(first, <int64_t>0), size)
    last = min(max(last, first), size)
    out[0] = base[0]
    out.length = <uint32_t>(last - first)
    if base.kind == VALUE_STRING:
        out.text = base.text + first
    else:
        out.items = base.items + first
    return EVALUATION_OK


# ---- pairs of key and element ----

cdef int sort_pairs(Value *pairs, uint32_t count, const Value *order, Value *out) noexcept nogil:
    """Sorts pairs of key and element by key; *out is the list of the elements."""
    cdef uint32_t i, j
    cdef Value key, element
    cdef int compared
    cdef int descending = sort_order(order)
    if descending < 0:
        return EVALUATION_ERROR
    for i in range(1, count):
        key = pairs[2 * i]
        element = pairs[2 * i + 1]
        j = i
        while j > 0:
            compared = value_compare(&pairs[2 * j - 2], &key)
            if compared == 2:
                return EVALUATION_ERROR
            if (compared >= 0 if descending else compared <= 0):
                break
            pairs[2 * j] = pairs[2 * j - 2]
            pairs[2 * j + 1] = pairs[2 * j - 1]
            j -= 1
        pairs[2 * j] = key
        pairs[2 * j + 1] = element
    for i in range(count):
        pairs[i] = pairs[2 * i + 1]
    out.kind = VALUE_ARRAY
    out.items = pairs
    out.length = count
    return EVALUATION_OK


cdef int group_pairs(ValueArena *arena, const Value *pairs, uint32_t count, Value *out) noexcept nogil:
    """Groups pairs of key and element; *out is a map from each key to the list of its elements."""
    cdef Value *made = <Value *>arena_alloc(arena, (count + 1) * 2 * sizeof(Value))
    cdef uint32_t i, j, groups = 0, n
    if made == NULL:
        return EVALUATION_ERROR
    for i in range(count):
        for j in range(groups):
            if value_equal(&made[2 * j], &pairs[2 * i]):
                break
        else:
            j = groups
            groups += 1
            made[2 * j] = pairs[2 * i]
            made[2 * j + 1].kind = VALUE_ARRAY
            made[2 * j + 1].items = <Value *>arena_alloc(arena, (count - i) * sizeof(Value))
            made[2 * j + 1].length = 0
            if made[2 * j + 1].items == NULL:
                return EVALUATION_ERROR
        n = made[2 * j + 1].length
        made[2 * j + 1].items[n] = pairs[2 * i + 1]
        made[2 * j + 1].length = n + 1
    out.kind = VALUE_MAP
    out.number = 0
    out.items = made
    out.length = groups
    map_sort(out)
    return EVALUATION_OK
