"""A cursor over the tokens of a directive, with which a plugin's set-up reads its arguments (CoreDNS's caddyfile.Dispenser)."""

from __future__ import annotations

from fastdns.corefile.errors import CorefileError
from fastdns.corefile.lexer import Token, same_line, starts_line

__all__ = ["Dispenser"]


class Dispenser:
    """A cursor over tokens. It is before the first one until `next` is called.

    The usual loop of a set-up reads every occurrence of the directive, its arguments, and its block::

        while controller.next():                    # the directive's name
            arguments = controller.remaining_args()
            while controller.next_block():          # each line's first word
                match controller.val():
                    case "ttl": ...
                    case other: raise controller.err(f"unknown property '{other}'")
    """

    def __init__(self, tokens: list[Token], file: str) -> None:
        self._tokens = tokens
        self._file = file
        self._cursor = -1
        self._nesting = 0

    # ---- moving on ----

    def next(self) -> bool:
        """Go to the next token, on whatever line; False at the end (the last token stays current)."""
        if self._cursor < len(self._tokens) - 1:
            self._cursor += 1
            return True
        return False

    def next_arg(self) -> bool:
        """Go to the next token if it is on the same line; an opening brace counts as one."""
        return self._step(True)

    def next_line(self) -> bool:
        """Go to the next token if it is on a later line."""
        return self._step(False)

    def next_block(self) -> bool:
        """Go to the next token of the block that opens on this line, or False (and past its brace) at its end.

        Blocks of depth one need nothing else. For a block inside, see `next_inner`.
        Raises CorefileError when the block has no end.
        """
        if self._nesting > 0:
            if not self.next():
                raise self.eof_err()
            if self.val() == "}":
                self._nesting -= 1
                return False
            return True
        if not self.next_arg():
            return False
        if self.val() != "{":
            self._cursor -= 1
            return False
        if not self.next():
            raise self.eof_err()
        if self.val() == "}":
            return False
        self._nesting += 1
        return True

    def next_inner(self, nesting: int) -> bool:
        """`next_block` for a block inside a block: ``nesting`` is what `nesting` gave before the inner block began.

        ::

            depth = controller.nesting
            while controller.next_inner(depth): ...
        """
        if self._nesting > nesting:
            return self.next_block()
        outer, self._nesting = self._nesting, 0
        found = self.next_block()
        self._nesting += outer
        return found

    @property
    def nesting(self) -> int:
        """The number of open blocks."""
        return self._nesting

    # ---- reading ----

    def val(self) -> str:
        """The current token's text; "" before the first."""
        return self._tokens[self._cursor].text if 0 <= self._cursor < len(self._tokens) else ""

    def remaining_args(self) -> list[str]:
        """The rest of the line, up to an opening brace."""
        found = []
        while self.next_arg():
            if self.val() == "{":
                self._cursor -= 1
                break
            found.append(self.val())
        return found

    def line(self) -> int:
        """Line of the current token; 0 before the first."""
        return self._tokens[self._cursor].line if 0 <= self._cursor < len(self._tokens) else 0

    def file(self) -> str:
        """File of the current token."""
        return self._tokens[self._cursor].file if 0 <= self._cursor < len(self._tokens) else self._file

    def place(self) -> Token:
        """The token for the position of an error without one: the current token, or behind a block the directive's name."""
        at = max(0, self._cursor)
        if self.val() == "}":
            while at > 0 and not (self._tokens[at].text == self._tokens[0].text and starts_line(self._tokens[at - 1], self._tokens[at])):
                at -= 1
        return self._tokens[at]

    # ---- errors: these return the exception ----

    def err(self, text: str) -> CorefileError:
        """An error at the current token."""
        return CorefileError(f"{self.file()}:{self.line()} - Error during parsing: {text}", self.file(), self.line())

    def arg_err(self) -> CorefileError:
        """An error for too few or too many arguments."""
        if self.val() == "{":
            return self.err("Unexpected token '{', expecting argument")
        return self.err(f"Wrong argument count or unexpected line ending after '{self.val()}'")

    def syntax_err(self, expected: str) -> CorefileError:
        """An error for a token that is not the expected one."""
        text = f"{self.file()}:{self.line()} - Syntax error: Unexpected token '{self.val()}', expecting '{expected}'"
        return CorefileError(text, self.file(), self.line())

    def eof_err(self) -> CorefileError:
        """An error for an unexpected end of the file."""
        return self.err("Unexpected EOF")

    def _step(self, same: bool) -> bool:
        if self._cursor < 0:
            self._cursor = 0
            return bool(self._tokens)
        if self._cursor >= len(self._tokens) - 1:
            return False
        here, there = self._tokens[self._cursor], self._tokens[self._cursor + 1]
        if same_line(here, there) if same else starts_line(here, there):
            self._cursor += 1
            return True
        return False
