"""Functions of expressions for Base64 (RFC 4648) and JSON (RFC 8259)."""
from libc.math cimport fabs
from libc.stdint cimport uint8_t, uint32_t
from libc.stdlib cimport strtod
from libc.string cimport memcmp, memcpy
from fastdns.expression.value cimport (VALUE_ARRAY, VALUE_BOOL, VALUE_FLOAT, VALUE_MAP, VALUE_NIL, VALUE_STRING, Output, ValueArena, Value, map_sort,
                                       output_begin, output_end, output_float, output_number, output_put, output_word, arena_count_step, set_bool, set_float,
                                       set_nil)
from fastdns.expression.functions cimport add_function, is_space, take_values

cdef enum:
    DEPTH_MAX = 100             # nested lists


cdef const char *BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


cdef int f_to_base64(ValueArena *arena, const Value *a, uint32_t count, Value *out) noexcept nogil:
    cdef uint32_t i = 0, n, word
    cdef char four[4]
    cdef Output output
    if a[0].kind != VALUE_STRING:
        return -1
    output_begin(&output, arena)
    while i < a[0].length:
        n = min(a[0].length - i, <uint32_t>3)
        word = <uint32_t>(<uint8_t>a[0].text[i]) << 16
        if n > 1:
            word |= <uint32_t>(<uint8_t>a[0].text[i + 1]) << 8
        if n > 2:
            word |= <uint8_t>a[0].text[i + 2]
        four[0] = BASE64[word >> 18]
        four[1] = BASE64[word >> 12 & 63]
        four[2] = BASE64[word >> 6 & 63] if n > 1 else c'='
        four[3] = BASE64[word & 63] if n > 2 else c'='
        output_put(&output, four, 4)
        i += 3
    return 0 if output_end(&output, out) else -1


cdef inline int digit64(char c) noexcept nogil:
    if c'A' <= c <= c'Z':
        return c - c'A'
    if c'a' <= c <= c'z':
        return c - c'a' + 26
    if c'0' <= c <= c'9':
        return c - c'0' + 52
    return 62 if c == c'+' else 63 if c == c'/' else -1


cdef int f_from_base64(ValueArena *arena, const Value *a, uint32_t count, Value *out) noexcept nogil:
    cdef uint32_t i = 0, n, word, j
    cdef char three[3]
    cdef Output output
    cdef int digit
    if a[0].kind != VALUE_STRING or a[0].length & 3:
        return -1
    output_begin(&output, arena)
    while i < a[0].length:
        n = 4
        if i + 4 == a[0].length and a[0].text[i + 3] == c'=':
            n = 2 if a[0].text[i + 2] == c'=' else 3
        word = 0
        for j in range(4):
            digit = digit64(a[0].text[i + j]) if j < n else 0
            if digit < 0:
                return -1
            word = word << 6 | <uint32_t>digit
        three[0] = <char>(word >> 16)
        three[1] = <char>(word >> 8)
        three[2] = <char>word
        output_put(&output, three, n - 1)
        i += 4
    return 0 if output_end(&output, out) else -1


cdef void put_json_text(Output *output, const Value *value) noexcept nogil:
    cdef uint32_t i
    cdef uint8_t c
    cdef const char *hexadecimal = b"0123456789abcdef"
    cdef char escape[6]
    output_word(output, b'"')
    for i in range(value.length):
        c = <uint8_t>value.text[i]
        if c == c'"' or c == c'\\':
            output_word(output, b"\\")
            output_put(output, value.text + i, 1)
        elif c == c'\n':
            output_word(output, b"\\n")
        elif c == c'\r':
            output_word(output, b"\\r")
        elif c == c'\t':
            output_word(output, b"\\t")
        elif c < 32 or c == c'<' or c == c'>' or c == c'&':
            memcpy(escape, b"\\u00", 4)
            escape[4] = hexadecimal[c >> 4]
            escape[5] = hexadecimal[c & 15]
            output_put(output, escape, 6)
        else:
            output_put(output, value.text + i, 1)
    output_word(output, b'"')


cdef void put_indent(Output *output, uint32_t depth) noexcept nogil:
    cdef uint32_t i
    output_word(output, b"\n")
    for i in range(depth):
        output_word(output, b"  ")


cdef void put_json(Output *output, const Value *value, uint32_t depth) noexcept nogil:
    """Line breaks and indentation as Go's MarshalIndent: two blanks for each level."""
    cdef uint32_t i
    if value.kind == VALUE_NIL or depth > DEPTH_MAX:
        output_word(output, b"null")
    elif value.kind == VALUE_BOOL:
        output_word(output, b"true" if value.number else b"false")
    elif value.kind == VALUE_FLOAT:
        output_float(output, value.real, c'f' if value.real == 0 or 1e-6 <= fabs(value.real) < 1e21 else c'e', -1)
    elif value.kind == VALUE_STRING:
        put_json_text(output, value)
    elif value.kind == VALUE_ARRAY or value.kind == VALUE_MAP:
        output_word(output, b"[" if value.kind == VALUE_ARRAY else b"{")
        for i in range(value.length):
            if i:
                output_word(output, b",")
            put_indent(output, depth + 1)
            if value.kind == VALUE_MAP:
                put_json_text(output, &value.items[2 * i])
                output_word(output, b": ")
                put_json(output, &value.items[2 * i + 1], depth + 1)
            else:
                put_json(output, &value.items[i], depth + 1)
        if value.length:
            put_indent(output, depth)
        output_word(output, b"]" if value.kind == VALUE_ARRAY else b"}")
    else:
        output_number(output, value.number)


cdef int f_to_json(ValueArena *arena, const Value *a, uint32_t count, Value *out) noexcept nogil:
    cdef Output output
    output_begin(&output, arena)
    put_json(&output, a, 0)
    return 0 if output_end(&output, out) else -1


cdef struct Reader:
    ValueArena *arena
    const char *text
    uint32_t at
    uint32_t length


cdef char peek(Reader *reader) noexcept nogil:
    """The next character that is not a blank; 0 at the end."""
    while reader.at < reader.length and is_space(reader.text[reader.at]):
        reader.at += 1
    return reader.text[reader.at] if reader.at < reader.length else 0


cdef bint read_word(Reader *reader, const char *word, uint32_t length) noexcept nogil:
    if reader.length - reader.at < length or memcmp(reader.text + reader.at, word, length) != 0:
        return False
    reader.at += length
    return True


cdef int read_json_text(Reader *reader, Value *out) noexcept nogil:
    """Reads a quoted string. `\\u` escapes, of the Basic Multilingual Plane only, become UTF-8."""
    cdef Output output
    cdef char c
    cdef char escaped[3]
    cdef uint32_t code, i
    cdef int n
    output_begin(&output, reader.arena)
    reader.at += 1
    while reader.at < reader.length and reader.text[reader.at] != c'"':
        c = reader.text[reader.at]
        if <uint8_t>c < 32:
            return -1
        if c != c'\\':
            output_put(&output, &reader.text[reader.at], 1)
            reader.at += 1
            continue
        if reader.at + 1 >= reader.length:
            return -1
        c = reader.text[reader.at + 1]
        reader.at += 2
        if c == c'u':
            if reader.at + 4 > reader.length:
                return -1
            code = 0
            for i in range(4):
                n = digit16(reader.text[reader.at + i])
                if n < 0:
                    return -1
                code = code << 4 | <uint32_t>n
            reader.at += 4
            if code < 128:
                escaped[0] = <char>code
                output_put(&output, escaped, 1)
            elif code < 2048:
                escaped[0] = <char>(0xC0 | code >> 6)
                escaped[1] = <char>(0x80 | code & 63)
                output_put(&output, escaped, 2)
            else:
                escaped[0] = <char>(0xE0 | code >> 12)
                escaped[1] = <char>(0x80 | code >> 6 & 63)
                escaped[2] = <char>(0x80 | code & 63)
                output_put(&output, escaped, 3)
            continue
        escaped[0] = (c'\n' if c == c'n' else c'\t' if c == c't' else c'\r' if c == c'r' else c'\b' if c == c'b' else c'\f' if c == c'f'
                      else c if c == c'"' or c == c'\\' or c == c'/' else 0)
        if escaped[0] == 0:
            return -1
        output_put(&output, escaped, 1)
    if reader.at == reader.length:
        return -1
    reader.at += 1
    return 0 if output_end(&output, out) else -1


cdef inline int digit16(char c) noexcept nogil:
    if c'0' <= c <= c'9':
        return c - c'0'
    if c'a' <= c <= c'f':
        return c - c'a' + 10
    return c - c'A' + 10 if c'A' <= c <= c'F' else -1


cdef int read_json(Reader *reader, uint32_t depth, Value *out) noexcept nogil:
    cdef char c = peek(reader)
    cdef uint32_t begin = reader.at
    cdef char digits[64]
    cdef char *end
    if depth > DEPTH_MAX or not arena_count_step(reader.arena):
        return -1
    if c == c'"':
        return read_json_text(reader, out)
    if c == c'[' or c == c'{':
        return read_json_list(reader, depth, c == c'{', out)
    set_nil(out)
    if read_word(reader, b"null", 4):
        return 0
    if read_word(reader, b"true", 4):
        set_bool(out, True)
        return 0
    if read_word(reader, b"false", 5):
        set_bool(out, False)
        return 0
    while reader.at < reader.length and reader.at - begin < 63 and (
            c'0' <= reader.text[reader.at] <= c'9' or reader.text[reader.at] in (c'-', c'+', c'.', c'e', c'E')):
        reader.at += 1
    if begin == reader.at:
        return -1
    memcpy(digits, reader.text + begin, reader.at - begin)
    digits[reader.at - begin] = 0
    set_float(out, strtod(digits, &end))
    return 0 if end == digits + (reader.at - begin) else -1


cdef int read_json_list(Reader *reader, uint32_t depth, bint pairs, Value *out) noexcept nogil:
    """Reads a list or a mapping. Its elements are collected in an array that grows in the arena."""
    cdef char close = c'}' if pairs else c']'
    cdef Value *items = NULL
    cdef Value *more
    cdef uint32_t used = 0, size = 0
    reader.at += 1
    while peek(reader) != close:
        if used:
            if peek(reader) != c',':
                return -1
            reader.at += 1
        if used + 2 > size:
            size = 2 * size + 8
            more = take_values(reader.arena, size)
            if more == NULL:
                return -1
            if used:
                memcpy(more, items, used * sizeof(Value))
            items = more
        if pairs:
            if peek(reader) != c'"' or read_json_text(reader, &items[used]) < 0 or peek(reader) != c':':
                return -1
            reader.at += 1
            used += 1
        if read_json(reader, depth + 1, &items[used]) < 0:
            return -1
        used += 1
    reader.at += 1
    out.kind = VALUE_MAP if pairs else VALUE_ARRAY
    out.number = 0
    out.items = items
    out.length = used // 2 if pairs else used
    if pairs:
        map_sort(out)
    return 0


cdef int f_from_json(ValueArena *arena, const Value *a, uint32_t count, Value *out) noexcept nogil:
    cdef Reader reader
    if a[0].kind != VALUE_STRING:
        return -1
    reader.arena, reader.text, reader.at, reader.length = arena, a[0].text, 0, a[0].length
    if read_json(&reader, 0, out) < 0 or peek(&reader) != 0:
        return -1
    return 0


add_function("toBase64", f_to_base64)
add_function("fromBase64", f_from_base64)
add_function("toJSON", f_to_json)
add_function("fromJSON", f_from_json)
