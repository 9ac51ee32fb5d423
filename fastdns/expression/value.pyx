"""Values of expressions and templates. The contract is in expression/value.pxd."""
from libc.math cimport isinf, isnan
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdio cimport snprintf
from libc.stdlib cimport strtod
from libc.string cimport memcmp, memcpy, strlen

cdef extern from *:
    """
    #include <stdlib.h>
    static __thread void *value_arena;      /* freed never: workers live as long as the process */
    static inline void *value_memory(size_t size) {
        if (value_arena == NULL) value_arena = malloc(size);
        return value_arena;
    }
    """
    void *value_memory(size_t size) noexcept nogil


cdef bint arena_open(ValueArena *arena) noexcept nogil:
    arena.base = <uint8_t *>value_memory(ARENA_SIZE)
    arena.used = 0
    arena.size = ARENA_SIZE
    arena.steps = STEPS_MAX
    return arena.base != NULL


cdef void *arena_alloc(ValueArena *arena, uint32_t size) noexcept nogil:
    cdef void *found
    if size > arena.size - arena.used:
        return NULL
    found = arena.base + arena.used
    arena.used += (size + 7) & ~<uint32_t>7
    if arena.used > arena.size:
        arena.used = arena.size
    return found


cdef bint copy_text(ValueArena *arena, const char *text, uint32_t length, Value *out) noexcept nogil:
    cdef char *copy = <char *>arena_alloc(arena, length + 1)
    if copy == NULL:
        return False
    memcpy(copy, text, length)
    set_text(out, copy, length)
    return True


# ---- order ----

cdef inline double as_real(const Value *value) noexcept nogil:
    return value.real if value.kind == VALUE_FLOAT else <double><uint64_t>value.number if value.kind == VALUE_UINT else <double>value.number


cdef int text_compare(const Value *a, const Value *b) noexcept nogil:
    cdef int order = memcmp(a.text, b.text, min(a.length, b.length))
    if order == 0:
        order = <int>(a.length > b.length) - <int>(a.length < b.length)
    return (order > 0) - (order < 0)


cdef inline bint is_number(const Value *value) noexcept nogil:
    return value.kind == VALUE_INT or value.kind == VALUE_FLOAT or value.kind == VALUE_UINT


cdef bint value_equal(const Value *a, const Value *b) noexcept nogil:
    cdef uint32_t i
    if is_number(a) and is_number(b):
        if a.kind == b.kind and a.kind != VALUE_FLOAT:
            return a.number == b.number
        return as_real(a) == as_real(b)
    if a.kind != b.kind:
        return False
    if a.kind == VALUE_STRING:
        return a.length == b.length and memcmp(a.text, b.text, a.length) == 0
    if a.kind == VALUE_ARRAY or a.kind == VALUE_MAP:
        if a.length != b.length:
            return False
        for i in range(a.length * (2 if a.kind == VALUE_MAP else 1)):
            if not value_equal(&a.items[i], &b.items[i]):
                return False
        return True
    return a.kind == VALUE_NIL or a.number == b.number


cdef int value_compare(const Value *a, const Value *b) noexcept nogil:
    cdef double x, y
    if is_number(a) and is_number(b):
        if a.kind == VALUE_INT and b.kind == VALUE_INT:
            return (a.number > b.number) - (a.number < b.number)
        if a.kind == VALUE_UINT and b.kind == VALUE_UINT:
            return (<uint64_t>a.number > <uint64_t>b.number) - (<uint64_t>a.number < <uint64_t>b.number)
        x = as_real(a)
        y = as_real(b)
        return (x > y) - (x < y) if x == x and y == y else 2
    if a.kind != b.kind:
        return 2
    if a.kind == VALUE_STRING:
        return text_compare(a, b)
    if a.kind == VALUE_TIME or a.kind == VALUE_DURATION or a.kind == VALUE_BOOL or a.kind == VALUE_MONTH or a.kind == VALUE_WEEKDAY:
        return (a.number > b.number) - (a.number < b.number)
    return 2


cdef const Value *map_find(const Value *map, const char *key, uint32_t length) noexcept nogil:
    cdef uint32_t i
    for i in range(map.length):
        if map.items[2 * i].length == length and map.items[2 * i].kind == VALUE_STRING and memcmp(map.items[2 * i].text, key, length) == 0:
            return &map.items[2 * i + 1]
    return NULL


cdef void map_sort(Value *map) noexcept nogil:
    cdef uint32_t i, j, kept = 0
    cdef int order
    cdef Value key, value
    for i in range(map.length):
        key = map.items[2 * i]
        value = map.items[2 * i + 1]
        j = kept
        order = 1
        while j > 0:
            order = value_compare(&map.items[2 * j - 2], &key)
            if order == 2:
                order = -1
            if order <= 0:
                break
            map.items[2 * j] = map.items[2 * j - 2]
            map.items[2 * j + 1] = map.items[2 * j - 1]
            j -= 1
        if j > 0 and order == 0:            # the pair with the same key is replaced
            map.items[2 * j - 1] = value
            while j < kept:
                map.items[2 * j] = map.items[2 * j + 2]
                map.items[2 * j + 1] = map.items[2 * j + 3]
                j += 1
            continue
        map.items[2 * j] = key
        map.items[2 * j + 1] = value
        kept += 1
    map.length = kept


# ---- text ----

cdef void output_begin(Output *output, ValueArena *arena) noexcept nogil:
    output.arena = arena
    output.text = <char *>arena.base + arena.used
    output.limit = arena.size - arena.used
    output.length = 0
    output.full = 0


cdef bint output_end(Output *output, Value *out) noexcept nogil:
    if output.full:
        return False
    arena_alloc(output.arena, output.length)
    set_text(out, output.text, output.length)
    return True


cdef void output_put(Output *output, const char *text, uint32_t length) noexcept nogil:
    if length > output.limit - output.length:
        output.full = 1
        return
    memcpy(output.text + output.length, text, length)
    output.length += length


cdef void output_word(Output *output, const char *text) noexcept nogil:
    output_put(output, text, <uint32_t>strlen(text))


cdef void output_number(Output *output, int64_t number) noexcept nogil:
    cdef char text[24]
    output_put(output, text, <uint32_t>snprintf(text, sizeof(text), b"%lld", <long long>number))


cdef void output_float(Output *output, double real, char form, int precision) noexcept nogil:
    """Go's formats 'e', 'f' and 'g'. The shortest 'g' (precision -1) uses an exponent below 1e-4 and from 1e6 on."""
    cdef char text[400]
    cdef char digits[40]
    cdef int i, exponent, used, n
    cdef int wanted = precision
    if isnan(real):
        output_word(output, b"NaN")
        return
    if isinf(real):
        output_word(output, b"+Inf" if real > 0 else b"-Inf")
        return
    if wanted < 0:
        # The fewest digits that give the same number when they are read.
        for i in range(17):
            snprintf(digits, sizeof(digits), b"%.*e", i, real)
            if strtod(digits, NULL) == real:
                break
        wanted = i if form == c'e' else i + 1
    elif form == c'e':
        snprintf(digits, sizeof(digits), b"%.*e", <int>min(wanted, 30), real)
    else:
        snprintf(digits, sizeof(digits), b"%.*e", <int>min(max(wanted - 1, 0), 30), real)
    i = 0
    while digits[i] != c'e':
        i += 1
    exponent = <int>strtod(digits + i + 1, NULL)
    if form == c'f':
        n = precision if precision >= 0 else max(wanted - 1 - exponent, 0)
        n = snprintf(text, sizeof(text), b"%.*f", <int>min(n, 340), real)
        output_put(output, text, <uint32_t>min(n, <int>sizeof(text) - 1))
        return
    if form != c'e' and -4 <= exponent < (6 if precision < 0 else wanted):
        n = snprintf(text, sizeof(text), b"%.*f", <int>max(wanted - 1 - exponent, 0), real)
        output_put(output, text, <uint32_t>min(n, <int>sizeof(text) - 1))
        return
    used = i
    if form != c'e' and precision >= 0:     # no zeros at the end
        while used > 0 and digits[used - 1] == c'0':
            used -= 1
        if used > 0 and digits[used - 1] == c'.':
            used -= 1
    output_put(output, digits, <uint32_t>used)
    n = snprintf(text, sizeof(text), b"e%c%02d", c'-' if exponent < 0 else c'+', exponent if exponent >= 0 else -exponent)
    output_put(output, text, <uint32_t>n)


cdef void output_duration(Output *output, int64_t ns) noexcept nogil:
    """As Go's Duration.String: 1h2m3.5s, 1.5ms, 0s."""
    cdef uint64_t left = 0 - <uint64_t>ns if ns < 0 else <uint64_t>ns
    cdef double part
    if ns == 0:
        output_word(output, b"0s")
        return
    if ns < 0:
        output_word(output, b"-")
    if left < 1000000000:
        part = <double>left
        if left < 1000:
            output_number(output, <int64_t>left)
            output_word(output, b"ns")
        elif left < 1000000:
            output_float(output, part / 1e3, c'f', -1)
            output_word(output, b"\xc2\xb5s")
        else:
            output_float(output, part / 1e6, c'f', -1)
            output_word(output, b"ms")
        return
    if left >= 3600 * <uint64_t>1000000000:
        output_number(output, <int64_t>(left // (3600 * <uint64_t>1000000000)))
        output_word(output, b"h")
    if left >= 60 * <uint64_t>1000000000:
        output_number(output, <int64_t>(left // (60 * <uint64_t>1000000000) % 60))
        output_word(output, b"m")
    output_float(output, <double>(left % (60 * <uint64_t>1000000000)) / 1e9, c'f', -1)
    output_word(output, b"s")


cdef void output_quoted(Output *output, const char *text, uint32_t length) noexcept nogil:
    """Quotes octets as Go's strconv.Quote."""
    cdef uint32_t i
    cdef uint8_t c
    cdef char escape[8]
    output_word(output, b'"')
    for i in range(length):
        c = <uint8_t>text[i]
        if c == c'"' or c == c'\\':
            output_word(output, b"\\")
            output_put(output, text + i, 1)
        elif c == c'\n':
            output_word(output, b"\\n")
        elif c == c'\t':
            output_word(output, b"\\t")
        elif c == c'\r':
            output_word(output, b"\\r")
        elif c < 32 or c == 127:
            snprintf(escape, sizeof(escape), b"\\x%02x", c)
            output_word(output, escape)
        else:
            output_put(output, text + i, 1)
    output_word(output, b'"')


cdef time_printer print_time = NULL
cdef const char *MONTHS[13]
MONTHS[:] = [b"", b"January", b"February", b"March", b"April", b"May", b"June", b"July", b"August", b"September", b"October", b"November", b"December"]
cdef const char *DAYS[7]
DAYS[:] = [b"Sunday", b"Monday", b"Tuesday", b"Wednesday", b"Thursday", b"Friday", b"Saturday"]


cdef void set_time_printer(time_printer printer) noexcept:
    global print_time
    print_time = printer


cdef void output_value(Output *output, const Value *value) noexcept nogil:
    cdef uint32_t i
    cdef char digits[24]
    if value.kind == VALUE_NIL:
        output_word(output, b"<nil>")
    elif value.kind == VALUE_BOOL:
        output_word(output, b"true" if value.number else b"false")
    elif value.kind == VALUE_INT:
        output_number(output, value.number)
    elif value.kind == VALUE_UINT:
        output_put(output, digits, <uint32_t>snprintf(digits, sizeof(digits), b"%llu", <unsigned long long>value.number))
    elif value.kind == VALUE_FLOAT:
        output_float(output, value.real, c'g', -1)
    elif value.kind == VALUE_STRING:
        output_put(output, value.text, value.length)
    elif value.kind == VALUE_DURATION:
        output_duration(output, value.number)
    elif value.kind == VALUE_TIME and print_time != NULL:
        print_time(output, value)
    elif value.kind == VALUE_LOCATION and value.text == NULL:
        output_word(output, b"UTC")
    elif value.kind == VALUE_MONTH:
        output_word(output, MONTHS[value.number])
    elif value.kind == VALUE_WEEKDAY:
        output_word(output, DAYS[value.number])
    elif value.kind == VALUE_ARRAY:
        output_word(output, b"[")
        for i in range(value.length):
            if i:
                output_word(output, b" ")
            output_value(output, &value.items[i])
        output_word(output, b"]")
    elif value.kind == VALUE_MAP:
        output_word(output, b"map[")
        for i in range(value.length):
            if i:
                output_word(output, b" ")
            output_value(output, &value.items[2 * i])
            output_word(output, b":")
            output_value(output, &value.items[2 * i + 1])
        output_word(output, b"]")
    else:
        output_number(output, value.number)


cdef bint value_text(ValueArena *arena, const Value *value, Value *out) noexcept nogil:
    cdef Output output
    if value.kind == VALUE_STRING:
        out[0] = value[0]
        return True
    output_begin(&output, arena)
    output_value(&output, value)
    return output_end(&output, out)
