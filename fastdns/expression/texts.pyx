"""Functions of expressions on strings, which are UTF-8."""
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t
from libc.string cimport memcmp, memcpy
from fastdns.expression.value cimport (VALUE_ARRAY, VALUE_INT, VALUE_STRING, Output, ValueArena, Value, output_begin, output_end, output_put, arena_alloc,
                                       set_bool, set_int, set_text, value_text)
from fastdns.expression.functions cimport add_function, is_space, set_array, take_values, texts

cdef extern from "<string.h>" nogil:
    void *memmem(const void *text, size_t length, const void *part, size_t part_length)


cdef uint32_t character(const char *text, const char *end) noexcept nogil:
    """Octets of the UTF-8 character that begins here; 1 when it is malformed."""
    cdef uint8_t c = <uint8_t>text[0]
    cdef uint32_t size = 1 if c < 0xC2 else 2 if c < 0xE0 else 3 if c < 0xF0 else 4 if c < 0xF5 else 1, i
    if size > end - text:
        return 1
    for i in range(1, size):
        if (<uint8_t>text[i] & 0xC0) != 0x80:
            return 1
    return size


cdef inline bint has(const Value *set_, const char *one, uint32_t size) noexcept nogil:
    return memmem(set_.text, set_.length, one, size) != NULL


cdef int f_trim(ValueArena *arena, const Value *a, uint32_t count, Value *out) noexcept nogil:
    cdef const char *text = a[0].text
    cdef const char *end
    cdef const char *last
    cdef uint32_t size
    if not texts(a, count):
        return -1
    end = text + a[0].length
    while text < end:
        size = character(text, end)
        if not (is_space(text[0]) if count == 1 else has(&a[1], text, size)):
            break
        text += size
    while end > text:
        last = end - 1
        while last > text and last > end - 4 and (<uint8_t>last[0] & 0xC0) == 0x80:
            last -= 1
        if not (is_space(last[0]) if count == 1 else has(&a[1], last, <uint32_t>(end - last))):
            break
        end = last
    set_text(out, text, <uint32_t>(end - text))
    return 0


cdef inline int trim_end(const Value *a, uint32_t count, bint behind, Value *out) noexcept nogil:
    """trimPrefix and trimSuffix: removes a[1], or one space, from one end."""
    cdef Value part
    cdef const char *at
    set_text(&part, b" ", 1)
    if not texts(a, count):
        return -1
    if count > 1:
        part = a[1]
    out[0] = a[0]
    if a[0].length < part.length:
        return 0
    at = a[0].text + a[0].length - part.length if behind else a[0].text
    if memcmp(at, part.text, part.length) == 0:
        set_text(out, a[0].text if behind else a[0].text + part.length, a[0].length - part.length)
    return 0


cdef int f_trim_prefix(ValueArena *arena, const Value *a, uint32_t count, Value *out) noexcept nogil:
    return trim_end(a, count, False, out)


cdef int f_trim_suffix(ValueArena *arena, const Value *a, uint32_t count, Value *out) noexcept nogil:
    return trim_end(a, count, True, out)


cdef enum:
    CASES_MAX = 0x2000          # characters below have their upper and lower case in tables

cdef uint16_t uppers[CASES_MAX]
cdef uint16_t lowers[CASES_MAX]

for _code in range(CASES_MAX):
    for _other, _upper in ((chr(_code).upper(), True), (chr(_code).lower(), False)):
        # Go maps single characters, and those below CASES_MAX to characters of as many octets or fewer.
        _place = ord(_other) if len(_other) == 1 and len(_other.encode()) <= len(chr(_code).encode()) else _code
        if _upper:
            uppers[<uint32_t>_code] = _place
        else:
            lowers[<uint32_t>_code] = _place


cdef int change_case(ValueArena *arena, const Value *a, const uint16_t *cases, Value *out) noexcept nogil:
    cdef const char *text = a[0].text
    cdef const char *end
    cdef char *made
    cdef uint32_t used = 0, size, code
    if a[0].kind != VALUE_STRING:
        return -1
    end = text + a[0].length
    made = <char *>arena_alloc(arena, a[0].length + 1)
    if made == NULL:
        return -1
    while text < end:
        size = character(text, end)
        code = <uint8_t>text[0]
        if size == 2:
            code = (code & 31) << 6 | <uint8_t>text[1] & 63
        elif size == 3:
            code = (code & 15) << 12 | (<uint32_t>(<uint8_t>text[1]) & 63) << 6 | <uint8_t>text[2] & 63
        if size > 3 or code >= CASES_MAX or size == 1 and code > 127:
            memcpy(made + used, text, size)
            used += size
        else:
            code = cases[code]
            if code < 0x80:
                made[used] = <char>code
                used += 1
            elif code < 0x800:
                made[used] = <char>(0xC0 | code >> 6)
                made[used + 1] = <char>(0x80 | code & 63)
                used += 2
            else:
                made[used] = <char>(0xE0 | code >> 12)
                made[used + 1] = <char>(0x80 | code >> 6 & 63)
                made[used + 2] = <char>(0x80 | code & 63)
                used += 3
        text += size
    set_text(out, made, used)
    return 0


cdef int f_upper(ValueArena *arena, const Value *a, uint32_t count, Value *out) noexcept nogil:
    return change_case(arena, a, uppers, out)


cdef int f_lower(ValueArena *arena, const Value *a, uint32_t count, Value *out) noexcept nogil:
    return change_case(arena, a, lowers, out)


cdef int split_text(ValueArena *arena, const Value *a, uint32_t count, bint keep, Value *out) noexcept nogil:
    """Splits at each separator into at most a[2] pieces (negative: all). keep: the pieces include their separator."""
    cdef const char *text = a[0].text
    cdef const char *end = text + a[0].length
    cdef const char *found
    cdef uint32_t n = 0, size = a[1].length
    cdef int64_t most = -1
    cdef Value *items
    if not texts(a, 2) or count > 2 and a[2].kind != VALUE_INT:
        return -1
    if count > 2:
        most = a[2].number
    items = take_values(arena, a[0].length + 2)
    if items == NULL:
        return -1
    while most < 0 or n + 1 < most:
        if size == 0:
            found = text + character(text, end) if text < end else end      # into characters
            if found == end:
                found = NULL
        else:
            found = <const char *>memmem(text, end - text, a[1].text, size)
        if found == NULL:
            break
        set_text(&items[n], text, <uint32_t>(found - text) + (size if keep else 0))
        n += 1
        text = found + size
    if most != 0 and (size or text < end):
        set_text(&items[n], text, <uint32_t>(end - text))
        n += 1
    set_array(out, items, n)
    return 0


cdef int f_split(ValueArena *arena, const Value *a, uint32_t count, Value *out) noexcept nogil:
    return split_text(arena, a, count, False, out)


cdef int f_split_after(ValueArena *arena, const Value *a, uint32_t count, Value *out) noexcept nogil:
    return split_text(arena, a, count, True, out)


cdef int f_replace(ValueArena *arena, const Value *a, uint32_t count, Value *out) noexcept nogil:
    cdef Output output
    cdef const char *text = a[0].text
    cdef const char *end = text + a[0].length
    cdef const char *found
    cdef int64_t left = -1
    cdef uint32_t size
    if not texts(a, 3) or count > 3 and a[3].kind != VALUE_INT:
        return -1
    if count > 3:
        left = a[3].number
    output_begin(&output, arena)
    while left != 0:
        if a[1].length == 0:                # before each character, and at the end
            output_put(&output, a[2].text, a[2].length)
            left -= 1
            if text == end:
                break
            size = character(text, end)
            output_put(&output, text, size)
            text += size
            continue
        found = <const char *>memmem(text, end - text, a[1].text, a[1].length)
        if found == NULL:
            break
        output_put(&output, text, <uint32_t>(found - text))
        output_put(&output, a[2].text, a[2].length)
        text = found + a[1].length
        left -= 1
    output_put(&output, text, <uint32_t>(end - text))
    return 0 if output_end(&output, out) else -1


cdef int f_repeat(ValueArena *arena, const Value *a, uint32_t count, Value *out) noexcept nogil:
    cdef Output output
    cdef int64_t i
    if a[0].kind != VALUE_STRING or a[1].kind != VALUE_INT or a[1].number < 0 or a[1].number > 1000000:
        return -1
    output_begin(&output, arena)
    for i in range(a[1].number):
        output_put(&output, a[0].text, a[0].length)
        if output.full or a[0].length == 0:
            break
    return 0 if output_end(&output, out) else -1


cdef int f_join(ValueArena *arena, const Value *a, uint32_t count, Value *out) noexcept nogil:
    cdef Output output
    cdef uint32_t i
    if a[0].kind != VALUE_ARRAY or not texts(a[0].items, a[0].length) or not texts(a + 1, count - 1):
        return -1
    output_begin(&output, arena)
    for i in range(a[0].length):
        if i and count > 1:
            output_put(&output, a[1].text, a[1].length)
        output_put(&output, a[0].items[i].text, a[0].items[i].length)
    return 0 if output_end(&output, out) else -1


cdef int f_index_of(ValueArena *arena, const Value *a, uint32_t count, Value *out) noexcept nogil:
    cdef const char *found
    if not texts(a, 2):
        return -1
    found = <const char *>memmem(a[0].text, a[0].length, a[1].text, a[1].length) if a[1].length else a[0].text
    set_int(out, found - a[0].text if found != NULL else -1)
    return 0


cdef int f_last_index_of(ValueArena *arena, const Value *a, uint32_t count, Value *out) noexcept nogil:
    cdef int64_t at = <int64_t>a[0].length - a[1].length
    if not texts(a, 2):
        return -1
    while at >= 0 and memcmp(a[0].text + at, a[1].text, a[1].length) != 0:
        at -= 1
    set_int(out, max(at, <int64_t>-1))
    return 0


cdef int f_has_prefix(ValueArena *arena, const Value *a, uint32_t count, Value *out) noexcept nogil:
    if not texts(a, 2):
        return -1
    set_bool(out, a[0].length >= a[1].length and memcmp(a[0].text, a[1].text, a[1].length) == 0)
    return 0


cdef int f_has_suffix(ValueArena *arena, const Value *a, uint32_t count, Value *out) noexcept nogil:
    if not texts(a, 2):
        return -1
    set_bool(out, a[0].length >= a[1].length and memcmp(a[0].text + a[0].length - a[1].length, a[1].text, a[1].length) == 0)
    return 0


cdef int f_string(ValueArena *arena, const Value *a, uint32_t count, Value *out) noexcept nogil:
    return 0 if value_text(arena, &a[0], out) else -1


add_function("trim", f_trim)
add_function("trimPrefix", f_trim_prefix)
add_function("trimSuffix", f_trim_suffix)
add_function("upper", f_upper)
add_function("lower", f_lower)
add_function("split", f_split)
add_function("splitAfter", f_split_after)
add_function("replace", f_replace)
add_function("repeat", f_repeat)
add_function("join", f_join)
add_function("indexOf", f_index_of)
add_function("lastIndexOf", f_last_index_of)
add_function("hasPrefix", f_has_prefix)
add_function("hasSuffix", f_has_suffix)
add_function("string", f_string)
