"""The lexer of master files. The contract is in zonefile/lexer.pxd."""
from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memchr, memset, strlen

cdef uint8_t special[256]       # 1 for octets that end a run of ordinary ones


cdef void fill() noexcept nogil:
    memset(special, 0, sizeof(special))
    special[c' '] = special[c'\t'] = special[c'\r'] = special[c'\n'] = special[c';'] = 1
    special[c'('] = special[c')'] = special[c'"'] = special[c'\\'] = 1


fill()


cdef void lexer_begin(Lexer *lexer, const char *text, size_t length, uint32_t line) noexcept nogil:
    memset(lexer, 0, sizeof(Lexer))
    lexer.at = text
    lexer.end = text + length
    lexer.line_begin = text
    lexer.line = line
    lexer.fresh = 1


cdef inline void place(Lexer *lexer) noexcept nogil:
    """Ends the token at lexer.at. Its column is that of the octet there, unless that octet ends the line."""
    lexer.token.line = lexer.line
    lexer.token.column = <uint32_t>(lexer.at - lexer.line_begin)
    if lexer.at < lexer.end and lexer.at[0] != c'\n':
        lexer.token.column += 1


cdef LexKind bad(Lexer *lexer, const char *what) noexcept nogil:
    lexer.failed = 1
    place(lexer)
    lexer.token.kind = LEX_BAD
    lexer.token.text = what
    lexer.token.length = <uint32_t>strlen(what)
    return LEX_BAD


cdef inline void next_line(Lexer *lexer) noexcept nogil:
    """Moves behind the newline at lexer.at."""
    lexer.at += 1
    lexer.line += 1
    lexer.line_begin = lexer.at


cdef LexKind lexer_next(Lexer *lexer) noexcept nogil:
    cdef Token *token = &lexer.token
    cdef const char *newline
    cdef uint8_t c
    if lexer.kept:
        lexer.kept = 0
        return token.kind
    if lexer.failed:
        return token.kind
    token.blank = 0
    token.first = 0
    token.escaped = 0
    token.length = 0
    while lexer.at < lexer.end:
        c = <uint8_t>lexer.at[0]
        if c == c' ' or c == c'\t' or c == c'\r':
            token.blank = 1
            lexer.fresh = 0
            lexer.at += 1
        elif c == c'\n':
            if lexer.braces:
                token.blank = 1
                next_line(lexer)
                continue
            place(lexer)
            token.text = lexer.at
            token.length = 1
            token.kind = LEX_LINE
            next_line(lexer)
            lexer.fresh = 1
            return LEX_LINE
        elif c == c';':
            newline = <const char *>memchr(lexer.at, c'\n', lexer.end - lexer.at)
            lexer.at = newline if newline != NULL else lexer.end
        elif c == c'(':
            lexer.braces += 1
            token.blank = 1
            lexer.fresh = 0
            lexer.at += 1
        elif c == c')':
            if lexer.braces == 0:
                return bad(lexer, b"extra closing brace")
            lexer.braces -= 1
            token.blank = 1
            lexer.at += 1
        elif c == c'"':
            return quoted(lexer)
        else:
            return word(lexer)
    place(lexer)
    if lexer.braces:
        return bad(lexer, b"unbalanced brace")
    token.text = b""
    token.kind = LEX_END
    return LEX_END


cdef LexKind word(Lexer *lexer) noexcept nogil:
    cdef Token *token = &lexer.token
    cdef const char *at = lexer.at
    cdef const char *end = lexer.end
    token.text = at
    while True:
        while at < end and not special[<uint8_t>at[0]]:
            at += 1
        if at == end or at[0] != c'\\':
            break
        token.escaped = 1
        at += 1
        if at < end and at[0] != c'\n':
            at += 1
    lexer.at = at
    token.length = <uint32_t>(at - token.text)
    token.first = lexer.fresh and at < end and (at[0] == c' ' or at[0] == c'\t')
    lexer.fresh = 0
    place(lexer)
    token.kind = LEX_WORD
    return LEX_WORD


cdef LexKind quoted(Lexer *lexer) noexcept nogil:
    """Reads a quoted string, which may contain newlines."""
    cdef Token *token = &lexer.token
    cdef const char *begin = lexer.at + 1
    lexer.fresh = 0
    lexer.at = begin
    while lexer.at < lexer.end and lexer.at[0] != c'"':
        if lexer.at[0] == c'\\' and lexer.at + 1 < lexer.end and lexer.at[1] != c'\n':
            token.escaped = 1
            lexer.at += 2
        elif lexer.at[0] == c'\n':
            next_line(lexer)
        else:
            lexer.at += 1
    if lexer.at >= lexer.end:
        return bad(lexer, b"unbalanced quotes")
    place(lexer)
    token.text = begin
    token.length = <uint32_t>(lexer.at - begin)
    token.kind = LEX_QUOTED
    lexer.at += 1
    return LEX_QUOTED
