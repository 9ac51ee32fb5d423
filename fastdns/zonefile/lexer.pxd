"""The lexer of master files (RFC 1035 5.1): parentheses, quotes, comments and escapes. It allocates nothing and uses no Python object.

A word is a span of the text with its escapes; the functions of zonefile/spans.pxd decode them. Parentheses, newlines within them and
carriage returns count as blanks.
"""
from libc.stdint cimport uint8_t, uint32_t

cdef enum LexKind:
    LEX_END
    LEX_LINE                    # end of a line, outside of parentheses
    LEX_WORD
    LEX_QUOTED                  # the span is the text between the quotes
    LEX_BAD                     # token.text is an error text

cdef struct Token:
    LexKind kind
    const char *text            # borrowed from the lexer's text, or static
    uint32_t length
    uint8_t blank               # a blank precedes it
    uint8_t first               # it begins in column 1 and a blank follows it
    uint8_t escaped             # it has a backslash
    uint32_t line               # from 1
    uint32_t column             # of the octet that ended the token, from 1

cdef struct Lexer:
    const char *at
    const char *end
    const char *line_begin
    uint32_t line
    uint32_t braces             # open parentheses
    uint8_t fresh               # no token of this line was read
    uint8_t failed
    uint8_t kept                # the next lexer_next returns `token` again

    Token token                 # the last one

cdef void lexer_begin(Lexer *lexer, const char *text, size_t length, uint32_t line) noexcept nogil
# Reads the next token into lexer.token.
cdef LexKind lexer_next(Lexer *lexer) noexcept nogil
# Makes the next lexer_next return the last token again.
cdef inline void lexer_keep(Lexer *lexer) noexcept nogil:
    lexer.kept = 1

cdef inline bint token_is(const Token *token, const char *word, uint32_t length) noexcept nogil:
    """Whether the token is this word, which is in upper case; compared without regard to case."""
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
