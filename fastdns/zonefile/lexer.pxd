"""Words of master files (RFC 1035 5.1): what parentheses, quotes, comments and escapes make of lines. No allocation, no Python.

Words are spans of the text itself, escapes as they stand; whoever reads a word undoes them. Parentheses, the newlines within them and
carriage returns are blanks.
"""
from libc.stdint cimport uint8_t, uint32_t

cdef enum LexKind:
    LEX_END
    LEX_LINE                    # a line's end outside of parentheses
    LEX_WORD
    LEX_QUOTED                  # the span is what stands between the quotes
    LEX_BAD                     # token.text says what is wrong

cdef struct Token:
    LexKind kind
    const char *text            # borrowed from the lexer's text, or static
    uint32_t length
    uint8_t blank               # blanks stand before it
    uint8_t first               # a word at the very beginning of a line, with a blank behind it
    uint8_t escaped             # has a backslash
    uint32_t line               # from 1
    uint32_t column             # of the octet that ended it, from 1

cdef struct Lexer:
    const char *at
    const char *end
    const char *line_begin
    uint32_t line
    uint32_t braces             # open
    uint8_t fresh               # nothing was read of this line
    uint8_t failed
    uint8_t kept                # `token` is to be given again

    Token token                 # the last one

cdef void lexer_begin(Lexer *lexer, const char *text, size_t length, uint32_t line) noexcept nogil
# The next word, in lexer.token.
cdef LexKind lexer_next(Lexer *lexer) noexcept nogil
# The last word once more.
cdef inline void lexer_keep(Lexer *lexer) noexcept nogil:
    lexer.kept = 1

cdef inline bint token_is(const Token *token, const char *word, uint32_t length) noexcept nogil:
    """Is it this word (upper case), in any case?"""
    cdef uint32_t i
    cdef uint8_t c
    if token.length != length:
        return False
    for i in range(length):
        c = <uint8_t>token.text[i]
        if c >= c'a' and c <= c'z':
            c -= 32
        if c != <uint8_t>word[i]:
            return False
    return True
