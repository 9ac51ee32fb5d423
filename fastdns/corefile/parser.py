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


#: Behind the pattern of an import: its files are left out, each for itself, where they are broken.
SKIP_BROKEN = "skip_broken"

#: Directives that CoreDNS once had, and what became of them.
GONE = {"federation": ": gone since CoreDNS 1.7.0, as federation (v1) is from Kubernetes"}


class ServerBlock:
    """Keys as written, and for each directive all its tokens in order (every occurrence begins with the directive's name)."""

    __slots__ = ("keys", "origin", "place", "tokens")

    def __init__(self, origin: str = "") -> None:
        self.keys: list[str] = []
        #: As that of its first key; see `Token`.
        self.origin = origin
        #: The first key.
        self.place: Token | None = None
        self.tokens: dict[str, list[Token]] = {}

    def meaning(self) -> list[object]:
        """Keys and tokens of the block, without file names and layout, for comparison."""
        return [self.keys, {name: _lines(words) for name, words in sorted(self.tokens.items())}]


def parse(
    data: bytes | str,
    file: str,
    known: Callable[[str], bool],
    warn: Callable[[str, Token], None] | None = None,
    left_out: dict[str, CorefileError] | None = None,
) -> list[ServerBlock]:
    """The server blocks of a Corefile.

    ``file`` is the name in errors and the base of relative imports. ``known`` returns whether a directive exists.
    ``warn`` gets the text of a warning, such as that a glob pattern matches no file, and the word that it is about.
    ``left_out`` are files that an import with `SKIP_BROKEN` passes over, by absolute path; those that do not parse join them. Raises CorefileError.
    """
    text = data if isinstance(data, str) else decode(data)
    return _Parser(tokens(text, file), file, known, warn, {} if left_out is None else left_out).blocks()


class _Parser:
    """Reads the tokens once. ``pending`` are the tokens that are not yet read, the last one first."""

    def __init__(
        self,
        words: list[Token],
        file: str,
        known: Callable[[str], bool],
        warn: Callable[[str, Token], None] | None,
        left_out: dict[str, CorefileError],
        origin: str = "",
    ) -> None:
        self.file = file
        self.known = known
        self.warn = warn
        self.left_out = left_out
        self.origin = origin
        self.pending = words[::-1]
        self.current: Token | None = None
        self.previous: Token | None = None
        self.snippets: dict[str, list[Token]] = {}
        self.snippet_count = 0
        self.file_count = 0
        self.token_count = len(words)
        self.block = ServerBlock()
        #: The brace that ended the last list of directives.
        self.closing: Token | None = None
        #: Of files that were parsed on their own.
        self.others: list[ServerBlock] = []
        self.ended = False

    def blocks(self) -> list[ServerBlock]:
        found = []
        while self.next():
            self.block = ServerBlock(self.origin)
            self.server_block()
            found += self.others
            self.others = []
            if self.block.keys or self.block.tokens:
                found.append(self.block)
        return found

    def inner(self) -> dict[str, list[Token]]:
        """The directives of a file that has nothing else."""
        self.directives()
        if self.text() == "}" and self.here is self.closing:
            raise self.error("Unexpected '}' because no matching opening brace")
        return self.block.tokens

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
                self.do_import(_Parser.take_blocks if not self.block.keys else None)
                if self.at_end(more):
                    return
                continue
            if key == "{":
                if more:
                    raise self.error("Expected another address but had '{' - check for extra comma")
                return
            if key:
                more = key.endswith(",")
                self.block.place = self.block.place or self.token(self.text())
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
                self.closing = self.here
                return
            if self.text() == "import":
                self.do_import(_Parser.take_directives)
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
                self.do_import(None)
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

    def do_import(self, take: Callable[[_Parser, _Parser], None] | None) -> None:
        """Replaces ``import`` and its argument by the imported tokens; the token before them becomes the current one.

        ``take`` has a file of `SKIP_BROKEN` parsed and takes over what is in it; None: there is no such import here.
        """
        before = self.previous
        if not self.next_argument():
            raise self.argument_error()
        pattern = self.filled()
        if not pattern:
            raise self.error("Import requires a non-empty filepath")
        apart = False
        if self.next_argument():
            apart = self.text() == SKIP_BROKEN
            if not apart or self.next_argument():
                raise self.error("Import takes only one argument (glob pattern or file)")
        if apart and (take is None or pattern in self.snippets):
            raise self.error(f"{SKIP_BROKEN} is for files with whole server blocks or whole directives")
        if apart and take is not None:
            for path in self.located(pattern):
                self.import_apart(path, take)
            self.current, self.previous = before, None
            return
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
        words: list[Token] = []
        for path in self.located(pattern):
            words += self.read(path)
        return words

    def located(self, pattern: str) -> list[str]:
        try:
            paths = imports.locate(pattern, self.here.file)
        except imports.RefusedImportError as refusal:
            raise self.error(str(refusal)) from None
        if not paths and self.warn:
            self.warn(f"No files matching import glob pattern: {pattern}", self.here)
        return paths

    def read(self, path: str) -> list[Token]:
        self.file_count += 1
        if self.file_count > MAX_FILES:
            raise self.error(f"maximum file import depth ({MAX_SNIPPETS}) exceeded")
        try:
            return imports.read(path)
        except imports.RefusedImportError as refusal:
            raise self.error(str(refusal)) from None

    # ---- files that are left out where they are broken ----

    def import_apart(self, path: str, take: Callable[[_Parser, _Parser], None]) -> None:
        """Parses a file on its own, with the snippets so far, and takes over what is in it; or leaves it out."""
        if path in self.left_out:
            return
        other = _Parser([], path, self.known, self.warn, self.left_out, path)
        other.snippets = dict(self.snippets)
        other.snippet_count, other.file_count, other.token_count = self.snippet_count, self.file_count, self.token_count
        other.current = self.here
        try:
            words = other.read(path)
            other.current = None
            other.token_count += len(words)
            if other.token_count > MAX_TOKENS:
                raise self.error(f"more than {MAX_TOKENS} words with everything that is imported")
            other.pending = words[::-1]
            take(self, other)
        except CorefileError as error:
            self.left_out[path] = error.of(path)
        self.snippet_count, self.file_count, self.token_count = other.snippet_count, other.file_count, other.token_count

    def take_blocks(self, other: _Parser) -> None:
        self.others += other.blocks()
        self.snippets = other.snippets

    def take_directives(self, other: _Parser) -> None:
        for name, words in other.inner().items():
            self.block.tokens.setdefault(name, []).extend(words)

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
        return here if text == here.text and here.origin == self.origin else Token(here.file, here.line, text, here.breaks, self.origin)

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
