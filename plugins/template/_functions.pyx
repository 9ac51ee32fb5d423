"""The functions of Go's templates, by their numbers in language.FUNCTIONS."""
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdio cimport snprintf
from fastdns.api.expression cimport (MAP_OF_TEXTS, VALUE_ARRAY, VALUE_BOOL, VALUE_FLOAT, VALUE_INT, VALUE_MAP, VALUE_NIL, VALUE_OBJECT, VALUE_STRING,
                                     VALUE_UINT, Output, ValueArena, Value, map_find, output_begin, output_end, output_float, output_put, output_quoted,
                                     output_value, output_word, set_bool, set_int, set_nil, set_text, value_compare, value_equal)

cdef enum:
    WIDTH_MAX = 16384

cdef enum Function:
    F_AND
    F_OR
    F_NOT
    F_EQ
    F_NE
    F_LT
    F_LE
    F_GT
    F_GE
    F_LEN
    F_INDEX
    F_SLICE
    F_PRINT
    F_PRINTF
    F_PRINTLN
    F_HTML
    F_JS
    F_URLQUERY
    F_CALL
    F_PARSE_INT


cdef const char *type_name(const Value *value) noexcept nogil:
    """As Go names the type of what a template sees."""
    if value.kind == VALUE_STRING:
        return b"string"
    if value.kind == VALUE_INT:
        return b"int"
    if value.kind == VALUE_UINT:
        return b"uint64"
    if value.kind == VALUE_FLOAT:
        return b"float64"
    if value.kind == VALUE_BOOL:
        return b"bool"
    if value.kind == VALUE_ARRAY:
        return b"[]string"
    if value.kind == VALUE_MAP:
        return b"map[string]string" if value.number == MAP_OF_TEXTS else b"map[string]interface {}"
    return b"<nil>"


cdef bint is_true(const Value *value) noexcept nogil:
    if value.kind == VALUE_NIL:
        return False
    if value.kind == VALUE_STRING or value.kind == VALUE_ARRAY or value.kind == VALUE_MAP:
        return value.length > 0
    if value.kind == VALUE_FLOAT:
        return value.real != 0
    return value.kind == VALUE_OBJECT or value.number != 0


cdef int call_function(ValueArena *arena, uint32_t number, Value *a, uint32_t count, Value *out, char *reason) noexcept nogil:
    if number >= F_EQ and number <= F_GE:
        return compare(number, a, count, out, reason)
    if number == F_PRINT or number == F_PRINTLN:
        return print_values(arena, number == F_PRINTLN, a, count, out)
    if number == F_PRINTF:
        return print_formatted(arena, a, count, out, reason)
    if number == F_HTML or number == F_JS or number == F_URLQUERY:
        return escape(arena, number, a, count, out)
    if number == F_INDEX:
        return index(a, count, out, reason)
    if number == F_SLICE:
        return cut(a, count, out, reason)
    if number == F_PARSE_INT:
        return parse_number(a, out, reason)
    if number == F_CALL:
        snprintf(reason, REASON_SIZE, b"error calling call: call of nil")
        return -1
    if number == F_NOT:
        set_bool(out, not is_true(a))
        return 0
    if a.kind != VALUE_STRING and a.kind != VALUE_ARRAY and a.kind != VALUE_MAP:
        if a.kind == VALUE_NIL:
            snprintf(reason, REASON_SIZE, b"error calling len: reflect: call of reflect.Value.Type on zero Value")
        else:
            snprintf(reason, REASON_SIZE, b"error calling len: len of type %s", type_name(a))
        return -1
    set_int(out, a.length)
    return 0


cdef const char *COMPARISONS[9]                 # by Function
COMPARISONS[:] = [b"and", b"or", b"not", b"eq", b"ne", b"lt", b"le", b"gt", b"ge"]


cdef int compare(uint32_t number, const Value *a, uint32_t count, Value *out, char *reason) noexcept nogil:
    cdef const char *name = COMPARISONS[number]
    cdef uint32_t i
    cdef int order
    if count < 2:
        snprintf(reason, REASON_SIZE, b"error calling %s: missing argument for comparison", name)
        return -1
    if number > F_NE:
        if not is_ordered(a) or not is_ordered(&a[1]):
            snprintf(reason, REASON_SIZE, b"error calling %s: invalid type for comparison", name)
            return -1
        order = value_compare(a, &a[1]) if basic_kind(a) == basic_kind(&a[1]) else 2
        if order == 2:
            snprintf(reason, REASON_SIZE, b"error calling %s: incompatible types for comparison", name)
            return -1
        set_bool(out, order < 0 if number == F_LT else order <= 0 if number == F_LE else order > 0 if number == F_GT else order >= 0)
        return 0
    set_bool(out, False)
    for i in range(1, count):
        if a.kind == VALUE_ARRAY or a.kind == VALUE_MAP or a[i].kind == VALUE_ARRAY or a[i].kind == VALUE_MAP:
            snprintf(reason, REASON_SIZE, b"error calling %s: non-comparable type %s", name, type_name(a))
            return -1
        if basic_kind(a) != basic_kind(&a[i]) and a.kind != VALUE_NIL and a[i].kind != VALUE_NIL:
            snprintf(reason, REASON_SIZE, b"error calling %s: incompatible types for comparison: %s and %s", name, type_name(a), type_name(&a[i]))
            return -1
        if value_equal(a, &a[i]):
            set_bool(out, True)
            break
    if number == F_NE:
        out.number = out.number == 0
    return 0


cdef inline uint32_t basic_kind(const Value *value) noexcept nogil:
    """Numbers with and without sign compare."""
    return VALUE_INT if value.kind == VALUE_UINT else value.kind


cdef inline bint is_ordered(const Value *value) noexcept nogil:
    return value.kind == VALUE_STRING or value.kind == VALUE_INT or value.kind == VALUE_UINT or value.kind == VALUE_FLOAT


cdef int wrong_index(const char *function, const Value *index_, char *reason) noexcept nogil:
    if index_.kind == VALUE_NIL:
        snprintf(reason, REASON_SIZE, b"error calling %s: cannot index slice/array with nil", function)
    elif index_.kind != VALUE_INT:
        snprintf(reason, REASON_SIZE, b"error calling %s: cannot index slice/array with type %s", function, type_name(index_))
    else:
        snprintf(reason, REASON_SIZE, b"error calling %s: index out of range: %lld", function, <long long>index_.number)
    return -1


cdef int index(const Value *a, uint32_t count, Value *out, char *reason) noexcept nogil:
    cdef Value item
    cdef const Value *found
    cdef uint32_t i
    if a.kind == VALUE_NIL:
        snprintf(reason, REASON_SIZE, b"error calling index: index of untyped nil")
        return -1
    item = a[0]
    for i in range(1, count):
        if item.kind == VALUE_MAP:
            if a[i].kind != VALUE_STRING:
                snprintf(reason, REASON_SIZE, b"error calling index: value has type %s; should be string", type_name(&a[i]))
                return -1
            found = map_find(&item, a[i].text, a[i].length)
            if found != NULL:
                item = found[0]
            elif item.number == MAP_OF_TEXTS:
                set_text(&item, b"", 0)
            else:
                set_nil(&item)
        elif item.kind == VALUE_ARRAY or item.kind == VALUE_STRING:
            if a[i].kind != VALUE_INT or a[i].number < 0 or a[i].number >= item.length:
                return wrong_index(b"index", &a[i], reason)
            if item.kind == VALUE_ARRAY:
                item = item.items[a[i].number]
            else:
                set_int(&item, <uint8_t>item.text[a[i].number])
        else:
            snprintf(reason, REASON_SIZE, b"error calling index: can't index item of type %s", type_name(&item))
            return -1
    out[0] = item
    return 0


cdef int cut(const Value *a, uint32_t count, Value *out, char *reason) noexcept nogil:
    """slice ITEM [FIRST [LAST [MOST]]]"""
    cdef int64_t first = 0, last = a.length
    cdef uint32_t i
    if a.kind != VALUE_STRING and a.kind != VALUE_ARRAY:
        snprintf(reason, REASON_SIZE, b"error calling slice: can't slice item of type %s", type_name(a))
        return -1
    if count > 4:
        snprintf(reason, REASON_SIZE, b"error calling slice: too many slice indexes: %u", count - 1)
        return -1
    if count == 4 and a.kind == VALUE_STRING:
        snprintf(reason, REASON_SIZE, b"error calling slice: cannot 3-index slice a string")
        return -1
    for i in range(1, count):
        if a[i].kind != VALUE_INT or a[i].number < 0 or a[i].number > a.length:
            return wrong_index(b"slice", &a[i], reason)
    if count > 1:
        first = a[1].number
    if count > 2:
        last = a[2].number
    if first > last or count > 3 and last > a[3].number:
        snprintf(reason, REASON_SIZE, b"error calling slice: invalid slice index: %lld > %lld", <long long>(first if first > last else last),
                 <long long>(last if first > last else a[3].number))
        return -1
    out[0] = a[0]
    out.length = <uint32_t>(last - first)
    if a.kind == VALUE_STRING:
        out.text = a.text + first
    else:
        out.items = a.items + first
    return 0


cdef int no_number(const Value *text, const char *what, char *reason) noexcept nogil:
    snprintf(reason, REASON_SIZE, b"error calling parseInt: strconv.ParseUint: parsing \"%.*s\": %s", <int>min(text.length, <uint32_t>64), text.text, what)
    return -1


cdef int parse_number(const Value *a, Value *out, char *reason) noexcept nogil:
    """parseInt TEXT BASE BITS, without sign."""
    cdef uint64_t number = 0, base, digit
    cdef uint32_t i = 0
    cdef bint underscores = False
    cdef char c
    cdef char what[40]
    if a.kind != VALUE_STRING:
        snprintf(reason, REASON_SIZE, b"wrong type for value; expected string; got %s", type_name(a))
        return -1
    if a[1].kind != VALUE_INT or a[2].kind != VALUE_INT:
        snprintf(reason, REASON_SIZE, b"wrong type for value; expected int; got %s", type_name(&a[1] if a[1].kind != VALUE_INT else &a[2]))
        return -1
    if a.length == 0:
        return no_number(a, b"invalid syntax", reason)
    if a[1].number < 0 or a[1].number == 1 or a[1].number > 36:
        snprintf(what, sizeof(what), b"invalid base %d", <int>a[1].number)
        return no_number(a, what, reason)
    if a[2].number < 0 or a[2].number > 64:
        snprintf(what, sizeof(what), b"invalid bit size %d", <int>a[2].number)
        return no_number(a, what, reason)
    base = <uint64_t>a[1].number
    if base == 0:
        underscores = True
        base = 10
        if a.length > 1 and a.text[0] == c'0':
            base = 16 if a.text[1] == c'x' or a.text[1] == c'X' else 2 if a.text[1] == c'b' or a.text[1] == c'B' else 8
            i = 1 if base == 8 and a.text[1] != c'o' and a.text[1] != c'O' else 2
    if i >= a.length:
        return no_number(a, b"invalid syntax", reason)
    while i < a.length:
        c = a.text[i]
        i += 1
        if c == c'_' and underscores:
            continue
        digit = <uint64_t>(c - c'0' if c'0' <= c <= c'9' else c - c'a' + 10 if c'a' <= c <= c'z' else c - c'A' + 10 if c'A' <= c <= c'Z' else 99)
        if digit >= base:
            return no_number(a, b"invalid syntax", reason)
        if number > (0xFFFFFFFFFFFFFFFFULL - digit) // base:
            return no_number(a, b"value out of range", reason)
        number = number * base + digit
    if 0 < a[2].number < 64 and number >> a[2].number:
        return no_number(a, b"value out of range", reason)
    set_int(out, <int64_t>number)
    if number >> 63:
        out.kind = VALUE_UINT
    return 0


# ---- text ----

cdef int print_values(ValueArena *arena, bint line, const Value *a, uint32_t count, Value *out) noexcept nogil:
    """As fmt.Sprint, which puts blanks between operands that are no texts, and fmt.Sprintln."""
    cdef Output output
    cdef uint32_t i
    output_begin(&output, arena)
    for i in range(count):
        if i and (line or a[i].kind != VALUE_STRING and a[i - 1].kind != VALUE_STRING):
            output_word(&output, b" ")
        output_value(&output, &a[i])
    if line:
        output_word(&output, b"\n")
    return 0 if output_end(&output, out) else -1


cdef struct Verb:               # of a format
    uint8_t minus
    uint8_t plus
    uint8_t sharp
    uint8_t zero
    uint8_t space
    int width                   # -1: none
    int precision
    char letter


cdef int print_formatted(ValueArena *arena, const Value *a, uint32_t count, Value *out, char *reason) noexcept nogil:
    cdef Output output
    cdef Verb verb
    cdef const char *text = a.text
    cdef uint32_t i = 0, n, used = 1, start
    if a.kind != VALUE_STRING:
        snprintf(reason, REASON_SIZE, b"wrong type for value; expected string; got %s", type_name(a))
        return -1
    n = a.length
    output_begin(&output, arena)
    while i < n and not output.full:
        if text[i] != c'%':
            start = i
            while i < n and text[i] != c'%':
                i += 1
            output_put(&output, text + start, i - start)
            continue
        i = read_verb(text, i + 1, n, &verb)
        if verb.letter == 0:
            output_word(&output, b"%!(NOVERB)")
        elif verb.letter == c'%':
            output_word(&output, b"%")
        elif used >= count:
            output_word(&output, b"%!")
            output_put(&output, &verb.letter, 1)
            output_word(&output, b"(MISSING)")
        else:
            put_formatted(&output, &verb, &a[used])
            used += 1
    if used < count:
        output_word(&output, b"%!(EXTRA ")
        for i in range(used, count):
            if i > used:
                output_word(&output, b", ")
            output_word(&output, b"string=" if a[i].kind == VALUE_STRING else b"int=" if a[i].kind == VALUE_INT else b"value=")
            output_value(&output, &a[i])
        output_word(&output, b")")
    return 0 if output_end(&output, out) else -1


cdef uint32_t read_verb(const char *text, uint32_t i, uint32_t n, Verb *verb) noexcept nogil:
    verb.minus = verb.plus = verb.sharp = verb.zero = verb.space = 0
    verb.width = verb.precision = -1
    verb.letter = 0
    while i < n:
        if text[i] == c'-':
            verb.minus = 1
        elif text[i] == c'+':
            verb.plus = 1
        elif text[i] == c'#':
            verb.sharp = 1
        elif text[i] == c'0':
            verb.zero = 1
        elif text[i] == c' ':
            verb.space = 1
        else:
            break
        i += 1
    while i < n and c'0' <= text[i] <= c'9':
        verb.width = min(max(verb.width, 0) * 10 + text[i] - c'0', WIDTH_MAX)
        i += 1
    if i < n and text[i] == c'.':
        verb.precision = 0
        i += 1
        while i < n and c'0' <= text[i] <= c'9':
            verb.precision = min(verb.precision * 10 + text[i] - c'0', WIDTH_MAX)
            i += 1
    if i < n:
        verb.letter = text[i]
        i += 1
    return i


cdef void put_formatted(Output *output, const Verb *verb, const Value *value) noexcept nogil:
    """One operand, padded to its width by blanks, or by zeros behind its sign."""
    cdef uint32_t start = output.length, size, pad, i
    cdef char fill = c' '
    put_operand(output, verb, value)
    if output.full or verb.width < 0:
        return
    size = 0
    for i in range(start, output.length):
        size += (<uint8_t>output.text[i] & 0xC0) != 0x80
    if size >= <uint32_t>verb.width:
        return
    pad = <uint32_t>verb.width - size
    if pad > output.limit - output.length:
        output.full = 1
        return
    if verb.minus:
        for i in range(pad):
            output.text[output.length + i] = c' '
        output.length += pad
        return
    if verb.zero and (value.kind == VALUE_STRING or value.kind == VALUE_INT or value.kind == VALUE_FLOAT):
        fill = c'0'
        if value.kind != VALUE_STRING and (output.text[start] == c'-' or output.text[start] == c'+'):
            start += 1
    i = output.length
    while i > start:
        i -= 1
        output.text[i + pad] = output.text[i]
    for i in range(pad):
        output.text[start + i] = fill
    output.length += pad


cdef void put_operand(Output *output, const Verb *verb, const Value *value) noexcept nogil:
    cdef char letter = verb.letter
    cdef char digits[80]
    cdef uint32_t i, length
    cdef const char *hexadecimal = b"0123456789abcdef" if letter != c'X' else b"0123456789ABCDEF"
    cdef uint64_t number
    cdef char pair[2]
    if value.kind == VALUE_STRING and (letter == c's' or letter == c'v' and not verb.sharp):
        length = value.length
        if 0 <= verb.precision < <int>length:
            length = <uint32_t>verb.precision
        output_put(output, value.text, length)
    elif value.kind == VALUE_STRING and (letter == c'q' or letter == c'v'):
        output_quoted(output, value.text, value.length)
    elif value.kind == VALUE_STRING and (letter == c'x' or letter == c'X'):
        for i in range(value.length):
            if i and verb.space:
                output_word(output, b" ")
            pair[0] = hexadecimal[<uint8_t>value.text[i] >> 4]
            pair[1] = hexadecimal[<uint8_t>value.text[i] & 15]
            output_put(output, pair, 2)
    elif (value.kind == VALUE_ARRAY or value.kind == VALUE_MAP) and letter not in (c'v', c's', c'T'):
        put_list(output, verb, value)
    elif (value.kind == VALUE_INT or value.kind == VALUE_UINT) and letter in (c'd', c'v', c'b', c'o', c'x', c'X', c'O'):
        number = 0 - <uint64_t>value.number if value.kind == VALUE_INT and value.number < 0 else <uint64_t>value.number
        if value.kind == VALUE_INT and value.number < 0:
            output_word(output, b"-")
        elif verb.plus:
            output_word(output, b"+")
        elif verb.space:
            output_word(output, b" ")
        if letter == c'O':
            output_word(output, b"0o")
        elif verb.sharp and letter in (c'x', c'X', c'o', c'b'):
            output_word(output, b"0x" if letter == c'x' else b"0X" if letter == c'X' else b"0b" if letter == c'b' else b"0")
        put_digits(output, number, 16 if letter in (c'x', c'X') else 8 if letter in (c'o', c'O') else 2 if letter == c'b' else 10, hexadecimal,
                   verb.precision)
    elif value.kind == VALUE_INT and (letter == c'c' or letter == c'q'):
        if letter == c'q':
            output_word(output, b"'")
        put_character(output, <uint32_t>value.number if 0 <= value.number < 0x110000 else 0xFFFD)
        if letter == c'q':
            output_word(output, b"'")
    elif value.kind == VALUE_INT and letter == c'U':
        output_put(output, digits, <uint32_t>snprintf(digits, sizeof(digits), b"U+%04llX", <unsigned long long>value.number))
    elif value.kind == VALUE_FLOAT and letter in (c'f', c'F', c'e', c'E', c'g', c'G', c'v'):
        if verb.plus and value.real >= 0:
            output_word(output, b"+")
        length = output.length
        output_float(output, value.real, c'f' if letter == c'F' else c'g' if letter in (c'v', c'G') else c'e' if letter == c'E' else letter,
                     verb.precision if verb.precision >= 0 or letter in (c'g', c'G', c'v') else 6)
        if letter == c'E' or letter == c'G':
            for i in range(length, output.length):
                if output.text[i] == c'e':
                    output.text[i] = c'E'
    elif value.kind == VALUE_BOOL and letter in (c't', c'v') or letter == c'v' and value.kind != VALUE_STRING:
        output_value(output, value)
    elif letter == c's' and (value.kind == VALUE_ARRAY or value.kind == VALUE_MAP):
        output_value(output, value)
    elif letter == c'T':
        output_word(output, type_name(value))
    else:
        output_word(output, b"%!")
        output_put(output, &letter, 1)
        if value.kind == VALUE_NIL:
            output_word(output, b"(<nil>)")
            return
        output_word(output, b"(string=" if value.kind == VALUE_STRING else b"(int=" if value.kind == VALUE_INT else b"(float64="
                    if value.kind == VALUE_FLOAT else b"(bool=" if value.kind == VALUE_BOOL else b"(")
        output_value(output, value)
        output_word(output, b")")


cdef void put_list(Output *output, const Verb *verb, const Value *value) noexcept nogil:
    """Each element for itself."""
    cdef uint32_t i
    output_word(output, b"[" if value.kind == VALUE_ARRAY else b"map[")
    for i in range(value.length):
        if i:
            output_word(output, b" ")
        if value.kind == VALUE_MAP:
            put_operand(output, verb, &value.items[2 * i])
            output_word(output, b":")
            put_operand(output, verb, &value.items[2 * i + 1])
        else:
            put_operand(output, verb, &value.items[i])
    output_word(output, b"]")


cdef void put_character(Output *output, uint32_t code) noexcept nogil:
    """In UTF-8."""
    cdef char octets[4]
    if code < 0x80:
        octets[0] = <char>code
        output_put(output, octets, 1)
        return
    octets[3] = <char>(0x80 | code & 63)
    octets[2] = <char>(0x80 | code >> 6 & 63)
    octets[1] = <char>(0x80 | code >> 12 & 63)
    if code < 0x800:
        octets[2] = <char>(0xC0 | code >> 6)
        output_put(output, octets + 2, 2)
    elif code < 0x10000:
        octets[1] = <char>(0xE0 | code >> 12)
        output_put(output, octets + 1, 3)
    else:
        octets[0] = <char>(0xF0 | code >> 18)
        output_put(output, octets, 4)


cdef void put_digits(Output *output, uint64_t number, uint32_t base, const char *letters, int least) noexcept nogil:
    cdef char digits[72]
    cdef uint32_t at = sizeof(digits)
    while number or at == sizeof(digits):
        at -= 1
        digits[at] = letters[number % base]
        number //= base
    while <int>(sizeof(digits) - at) < min(least, 70):
        at -= 1
        digits[at] = c'0'
    output_put(output, digits + at, <uint32_t>(sizeof(digits) - at))


cdef int escape(ValueArena *arena, uint32_t number, const Value *a, uint32_t count, Value *out) noexcept nogil:
    """html, js and urlquery, of all arguments printed."""
    cdef Value text
    cdef Output output
    cdef uint32_t i
    cdef uint8_t c
    cdef char coded[8]
    if print_values(arena, False, a, count, &text) < 0:
        return -1
    output_begin(&output, arena)
    for i in range(text.length):
        c = <uint8_t>text.text[i]
        if number == F_URLQUERY:
            if c'a' <= c <= c'z' or c'A' <= c <= c'Z' or c'0' <= c <= c'9' or c in (c'-', c'_', c'.', c'~'):
                output_put(&output, text.text + i, 1)
            elif c == c' ':
                output_word(&output, b"+")
            else:
                output_put(&output, coded, <uint32_t>snprintf(coded, sizeof(coded), b"%%%02X", c))
        elif number == F_HTML and c in (c'<', c'>', c'&', c'"', c"'", 0):
            output_word(&output, b"&lt;" if c == c'<' else b"&gt;" if c == c'>' else b"&amp;" if c == c'&' else b"&#34;" if c == c'"'
                        else b"&#39;" if c == c"'" else b"\xef\xbf\xbd")
        elif number == F_JS and c in (c'\\', c"'", c'"', c'<', c'>', c'&', c'='):
            if c in (c'\\', c"'", c'"'):
                output_word(&output, b"\\")
                output_put(&output, text.text + i, 1)
            else:
                output_put(&output, coded, <uint32_t>snprintf(coded, sizeof(coded), b"\\u%04X", c))
        elif number == F_JS and c < 32:
            output_put(&output, coded, <uint32_t>snprintf(coded, sizeof(coded), b"\\u%04X", c))
        else:
            output_put(&output, text.text + i, 1)
    return 0 if output_end(&output, out) else -1
