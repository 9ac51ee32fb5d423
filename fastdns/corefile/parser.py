"""Tokens to server blocks: the grammar, snippets and ``import``."""

from __future__ import annotations

from collections.abc import Callable

from fastdns.corefile import imports
from fastdns.corefile.environment import fill
from fastdns.corefile.errors import CorefileError
from fastdns.corefile.lexer import Token, decode, same_line, starts_line, tokens

__all__ = ["ServerBlock", "parse"]

#: Snippets that may be spliced in while one Corefile is parsed.
MAX_SNIPPETS = 10000
#: Files that may be imported. CoreDNS counts them so too, and prints the other number.
MAX_FILES = 100000
#: Tokens of a whole Corefile: a limit for snippets that import each other twice.
MAX_TOKENS = 4_000_000


#: Directives that CoreDNS once had, and what became of them.
GONE = {"federation": ": gone since CoreDNS 1.7.0, as federation (v1) is from Kubernetes"}


class ServerBlock:
    """Keys as written, and for each directive all its tokens in order (every occurrence begins with the directive's name)."""

    __slots__ = ("keys", "place", "tokens")

    def __init__(self) -> None:
        self.keys: list[str] = []
        #: The first key.
        self.place: Token | None = None
        self.tokens: dict[str, list[Token]] = {}

    def meaning(self) -> list[object]:
        """Keys and tokens of the block, without file names and layout, for comparison."""
        return [self.keys, {name: _lines(words) for name, words in sorted(self.tokens.items())}]


def parse(data: bytes | str, file: str, known: Callable[[str], bool], warn: Callable[[str, Token], None] | None = None) -> list[ServerBlock]:
    """The server blocks of a Corefile.

    ``file`` is the name in errors and the base of relative imports. ``known`` returns whether a directive exists.
    ``warn`` gets the text of a warning, such as that a glob pattern matches no file, and the word that it is about. Raises CorefileError.
    """
    text = data if isinstance(data, str) else decode(data)
    return _Parser(tokens(text, file), file, known, warn).blocks()


class _Parser:
    """Reads the tokens once. ``pending`` are the tokens that are not yet read, the last one first."""

    def __init__(self, words: list[Token], file: str, known: Callable[[str], bool], warn: Callable[[str, Token], None] | None) -> None:
        self.file = file
        self.known = known
        self.warn = warn
        self.pending = words[::-1]
        self.current: Token | None = None
        self.previous: Token | None = None
        self.snippets: dict[str, list[Token]] = {}
        self.snippet_count = 0
        self.file_count = 0
        self.token_count = len(words)
        self.block = ServerBlock()
        self.ended = False

    def blocks(self) -> list[ServerBlock]:
        found = []
        while self.next():
            self.block = ServerBlock()
            self.server_block()
            if self.block.keys or self.block.tokens:
                found.append(self.block)
        return found

    # ---- grammar ----

    def server_block(self) -> None:
        self.keys()
        if self.ended:  # nothing but keys
            return
        keys = self.block.keys
        if len(keys) == 1 and keys[0].startswith("(") and keys[0].endswith(")") and len(keys[0]) > 1:
            self.define_snippet(keys[0][1:-1])
            self.block.keys = []
            return
        braces = self.text() == "{"
        if not braces:
            self.back()
        self.directives()
        if braces and self.text() != "}":
            raise self.syntax_error("}")

    def keys(self) -> None:
        """Reads keys up to an opening brace, the line's end or the file's."""
        more = False  # a comma requires another key
        while True:
            key = self.filled()
            if key == "import" and self.at_line_start():
                self.do_import()
                if self.at_end(more):
                    return
                continue
            if key == "{":
                if more:
                    raise self.error("Expected another address but had '{' - check for extra comma")
                return
            if key:
                more = key.endswith(",")
                self.block.place = self.block.place or self.here
                self.block.keys.append(key[:-1] if more else key)
            if self.at_end(more):
                return
            if not more and self.at_line_start():
                return

    def at_end(self, more: bool) -> bool:
        """Goes on to the next token of a key list; True when the file ends here."""
        if self.next():
            return False
        if more:
            raise self.error("Unexpected EOF")
        self.ended = True
        return True

    def directives(self) -> None:
        while self.next():
            if self.text() == "}":
                return
            if self.text() == "import":
                self.do_import()
            else:
                self.directive()

    def directive(self) -> None:
        name = self.filled()
        if not self.known(name):
            raise self.error(f"Unknown directive '{name}'{GONE.get(name, '')}")
        words = self.block.tokens.setdefault(name, [])
        words.append(self.token(name))
        depth = 0
        while self.next():
            text = self.text()
            if text == "{":
                depth += 1
            elif depth == 0 and self.at_line_start():
                self.back()
                return
            elif text == "}":
                if depth == 0:
                    raise self.error("Unexpected '}' because no matching opening brace")
                depth -= 1
            elif text == "import" and self.at_line_start():
                self.do_import()
                continue
            words.append(self.token(self.filled()))
        if depth > 0:
            raise self.error("Unexpected EOF")

    # ---- snippets and imports ----

    def define_snippet(self, name: str) -> None:
        if name in self.snippets:
            raise self.error(f"redeclaration of previously declared snippet {name}")
        if self.text() != "{":
            raise self.syntax_error("{")
        depth = 1
        words: list[Token] = []
        while self.next():
            if self.text() == "}":
                depth -= 1
                if depth == 0:
                    break
            elif self.text() == "{":
                depth += 1
            words.append(self.here)
            if self.text() == "import" and self.at_line_start() and self.pending and self.pending[-1].text == name:
                raise self.error(f"maximum snippet import depth ({MAX_SNIPPETS}) exceeded")
        if depth:
            raise self.syntax_error("}")
        self.snippets[name] = words

    def do_import(self) -> None:
        """Replaces ``import`` and its argument by the imported tokens; the token before them becomes the current one."""
        before = self.previous
        if not self.next_argument():
            raise self.argument_error()
        pattern = self.filled()
        if not pattern:
            raise self.error("Import requires a non-empty filepath")
        if self.next_argument():
            raise self.error("Import takes only one argument (glob pattern or file)")
        words = self.imported(pattern)
        self.token_count += len(words)
        if self.token_count > MAX_TOKENS:
            raise self.error(f"more than {MAX_TOKENS} words with everything that is imported")
        self.pending.extend(reversed(words))
        self.current, self.previous = before, None

    def imported(self, pattern: str) -> list[Token]:
        if pattern in self.snippets:
            self.snippet_count += 1
            if self.snippet_count > MAX_SNIPPETS:
                raise self.error(f"maximum snippet import depth ({MAX_SNIPPETS}) exceeded")
            return self.snippets[pattern]
        try:
            paths = imports.locate(pattern, self.here.file)
            if not paths and self.warn:
                self.warn(f"No files matching import glob pattern: {pattern}", self.here)
            words: list[Token] = []
            for path in paths:
                self.file_count += 1
                if self.file_count > MAX_FILES:
                    raise self.error(f"maximum file import depth ({MAX_SNIPPETS}) exceeded")
                words += imports.read(path)
        except imports.RefusedImportError as refusal:
            raise self.error(str(refusal)) from None
        return words

    # ---- tokens ----

    def next(self) -> bool:
        """Goes to the next token; at the end the last one stays current."""
        if not self.pending:
            return False
        self.previous = self.current
        self.current = self.pending.pop()
        return True

    def back(self) -> None:
        if self.current is not None:
            self.pending.append(self.current)
            self.current, self.previous = self.previous, None

    def next_argument(self) -> bool:
        return bool(self.pending) and self.current is not None and same_line(self.current, self.pending[-1]) and self.next()

    def at_line_start(self) -> bool:
        return self.previous is None or self.current is None or starts_line(self.previous, self.current)

    @property
    def here(self) -> Token:
        """The current token, or an empty one before the first."""
        return self.current or Token(self.file, 0, "")

    def text(self) -> str:
        return self.here.text

    def filled(self) -> str:
        try:
            return fill(self.text())
        except ValueError as error:
            raise self.error(str(error)) from None

    def token(self, text: str) -> Token:
        here = self.here
        return here if text == here.text else Token(here.file, here.line, text, here.breaks)

    # ---- errors ----

    def error(self, text: str) -> CorefileError:
        here = self.here
        return CorefileError(f"{here.file}:{here.line} - Error during parsing: {text}", here.file, here.line)

    def argument_error(self) -> CorefileError:
        if self.text() == "{":
            return self.error("Unexpected token '{', expecting argument")
        return self.error(f"Wrong argument count or unexpected line ending after '{self.text()}'")

    def syntax_error(self, expected: str) -> CorefileError:
        here = self.here
        text = f"{here.file}:{here.line} - Syntax error: Unexpected token '{here.text}', expecting '{expected}'"
        return CorefileError(text, here.file, here.line)


def _lines(words: list[Token]) -> list[list[str]]:
    """Texts of the tokens by line: a directive's set-up depends on no other property of the layout."""
    lines: list[list[str]] = []
    for index, word in enumerate(words):
        if index and same_line(words[index - 1], word):
            lines[-1].append(word.text)
        else:
            lines.append([word.text])
    return lines
