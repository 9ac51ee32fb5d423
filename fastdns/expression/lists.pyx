"""Functions of expressions on lists and mappings."""
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy
from fastdns.expression.value cimport VALUE_ARRAY, VALUE_INT, VALUE_MAP, VALUE_STRING, ValueArena, Value, map_sort, set_int, set_nil, value_compare, value_equal
from fastdns.expression.functions cimport add_function, set_array, sort_order, take_values

cdef enum:
    DEPTH_MAX = 100             # nested lists


cdef int f_len(ValueArena *arena, const Value *a, uint32_t count, Value *out) noexcept nogil:
    cdef uint32_t i
    cdef int64_t n = 0
    if a[0].kind == VALUE_STRING:               # characters
        for i in range(a[0].length):
            n += (<uint8_t>a[0].text[i] & 0xC0) != 0x80
        set_int(out, n)
        return 0
    if a[0].kind != VALUE_ARRAY and a[0].kind != VALUE_MAP:
        return -1
    set_int(out, a[0].length)
    return 0


cdef int f_first(ValueArena *arena, const Value *a, uint32_t count, Value *out) noexcept nogil:
    set_nil(out)
    if a[0].kind == VALUE_ARRAY and a[0].length:
        out[0] = a[0].items[0]
    return 0


cdef int f_last(ValueArena *arena, const Value *a, uint32_t count, Value *out) noexcept nogil:
    set_nil(out)
    if a[0].kind == VALUE_ARRAY and a[0].length:
        out[0] = a[0].items[a[0].length - 1]
    return 0


cdef int f_get(ValueArena *arena, const Value *a, uint32_t count, Value *out) noexcept nogil:
    cdef int64_t at
    cdef uint32_t i
    set_nil(out)
    if a[0].kind == VALUE_MAP:
        for i in range(a[0].length):
            if value_equal(&a[0].items[2 * i], &a[1]):
                out[0] = a[0].items[2 * i + 1]
    elif a[0].kind == VALUE_ARRAY and a[1].kind == VALUE_INT:
        at = a[1].number + a[0].length if a[1].number < 0 else a[1].number
        if 0 <= at < a[0].length:
            out[0] = a[0].items[at]
    return 0


cdef int f_take(ValueArena *arena, const Value *a, uint32_t count, Value *out) noexcept nogil:
    if a[0].kind != VALUE_ARRAY or a[1].kind != VALUE_INT or a[1].number < 0:
        return -1
    set_array(out, a[0].items, <uint32_t>min(<int64_t>a[0].length, a[1].number))
    return 0


cdef int halves(ValueArena *arena, const Value *map, int offset, Value *out) noexcept nogil:
    cdef Value *items = take_values(arena, map.length)
    cdef uint32_t i
    if map.kind != VALUE_MAP or items == NULL:
        return -1
    for i in range(map.length):
        items[i] = map.items[2 * i + offset]
    set_array(out, items, map.length)
    return 0


cdef int f_keys(ValueArena *arena, const Value *a, uint32_t count, Value *out) noexcept nogil:
    return halves(arena, a, 0, out)


cdef int f_values(ValueArena *arena, const Value *a, uint32_t count, Value *out) noexcept nogil:
    return halves(arena, a, 1, out)


cdef int f_to_pairs(ValueArena *arena, const Value *a, uint32_t count, Value *out) noexcept nogil:
    cdef Value *items = take_values(arena, a[0].length)
    cdef uint32_t i
    if a[0].kind != VALUE_MAP or items == NULL:
        return -1
    for i in range(a[0].length):
        set_array(&items[i], &a[0].items[2 * i], 2)
    set_array(out, items, a[0].length)
    return 0


cdef int f_from_pairs(ValueArena *arena, const Value *a, uint32_t count, Value *out) noexcept nogil:
    cdef Value *items
    cdef uint32_t i
    if a[0].kind != VALUE_ARRAY:
        return -1
    items = take_values(arena, 2 * <uint64_t>a[0].length)
    if items == NULL:
        return -1
    for i in range(a[0].length):
        if a[0].items[i].kind != VALUE_ARRAY or a[0].items[i].length != 2:
            return -1
        items[2 * i] = a[0].items[i].items[0]
        items[2 * i + 1] = a[0].items[i].items[1]
    out.kind = VALUE_MAP
    out.number = 0
    out.items = items
    out.length = a[0].length
    map_sort(out)
    return 0


cdef int f_reverse(ValueArena *arena, const Value *a, uint32_t count, Value *out) noexcept nogil:
    cdef Value *items = take_values(arena, a[0].length)
    cdef uint32_t i
    if a[0].kind != VALUE_ARRAY or items == NULL:
        return -1
    for i in range(a[0].length):
        items[i] = a[0].items[a[0].length - 1 - i]
    set_array(out, items, a[0].length)
    return 0


cdef int f_uniq(ValueArena *arena, const Value *a, uint32_t count, Value *out) noexcept nogil:
    cdef Value *items = take_values(arena, a[0].length)
    cdef uint32_t i, j, n = 0
    if a[0].kind != VALUE_ARRAY or items == NULL:
        return -1
    for i in range(a[0].length):
        for j in range(n):
            if value_equal(&items[j], &a[0].items[i]):
                break
        else:
            items[n] = a[0].items[i]
            n += 1
    set_array(out, items, n)
    return 0


cdef int f_concat(ValueArena *arena, const Value *a, uint32_t count, Value *out) noexcept nogil:
    cdef uint64_t size = 0
    cdef uint32_t i
    cdef Value *items
    for i in range(count):
        if a[i].kind != VALUE_ARRAY:
            return -1
        size += a[i].length
    items = take_values(arena, size)
    if items == NULL:
        return -1
    set_array(out, items, <uint32_t>size)
    for i in range(count):
        memcpy(items, a[i].items, a[i].length * sizeof(Value))
        items += a[i].length
    return 0


cdef int flatten(const Value *list_, uint32_t depth, Value *items, uint32_t *used, uint32_t arena) noexcept nogil:
    cdef uint32_t i
    if depth > DEPTH_MAX:
        return -1
    for i in range(list_.length):
        if list_.items[i].kind == VALUE_ARRAY:
            if flatten(&list_.items[i], depth + 1, items, used, arena) < 0:
                return -1
        elif used[0] == arena:
            return -1
        else:
            items[used[0]] = list_.items[i]
            used[0] += 1
    return 0


cdef int f_flatten(ValueArena *arena, const Value *a, uint32_t count, Value *out) noexcept nogil:
    cdef uint32_t size = (arena.size - arena.used) // (2 * sizeof(Value)), used = 0
    cdef Value *items = take_values(arena, size)
    if a[0].kind != VALUE_ARRAY or items == NULL or flatten(a, 0, items, &used, size) < 0:
        return -1
    set_array(out, items, used)
    return 0


cdef int sort_values(Value *items, uint32_t count, bint descending) noexcept nogil:
    cdef uint32_t i, j
    cdef int order
    cdef Value one
    for i in range(1, count):
        one = items[i]
        j = i
        while j > 0:
            order = value_compare(&items[j - 1], &one)
            if order == 2:
                return -1
            if (order >= 0 if descending else order <= 0):
                break
            items[j] = items[j - 1]
            j -= 1
        items[j] = one
    return 0


cdef int f_sort(ValueArena *arena, const Value *a, uint32_t count, Value *out) noexcept nogil:
    cdef Value *items = take_values(arena, a[0].length)
    cdef int descending = sort_order(&a[1]) if count > 1 else 0
    if a[0].kind != VALUE_ARRAY or items == NULL or descending < 0:
        return -1
    memcpy(items, a[0].items, a[0].length * sizeof(Value))
    set_array(out, items, a[0].length)
    return sort_values(items, a[0].length, descending)


add_function("len", f_len)
add_function("first", f_first)
add_function("last", f_last)
add_function("get", f_get)
add_function("take", f_take)
add_function("keys", f_keys)
add_function("values", f_values)
add_function("toPairs", f_to_pairs)
add_function("fromPairs", f_from_pairs)
add_function("reverse", f_reverse)
add_function("uniq", f_uniq)
add_function("concat", f_concat)
add_function("flatten", f_flatten)
add_function("sort", f_sort)
