"""Go's text/template: from text to a tree of nodes for the workers (`_render`)."""

from __future__ import annotations

import math
import re
from typing import Any, NamedTuple

__all__ = ["FUNCTIONS", "Node", "TemplateError", "parse", "unknown_fields"]

#: Functions and their numbers, see `_functions.pyx`.
FUNCTIONS = (
    "and", "or", "not", "eq", "ne", "lt", "le", "gt", "ge", "len", "index", "slice", "print", "printf", "println", "html", "js", "urlquery", "call",
    "parseInt",
)  # fmt: skip

#: Functions with a number of arguments of their own: the least and the most; -1: any number.
ARGUMENTS = {
    "and": (1, -1), "or": (1, -1), "not": (1, 1), "eq": (1, -1), "ne": (2, 2), "lt": (2, 2), "le": (2, 2), "gt": (2, 2), "ge": (2, 2), "len": (1, 1),
    "index": (1, -1), "slice": (1, -1), "printf": (1, -1), "call": (1, -1), "parseInt": (3, 3),
}  # fmt: skip

#: Fields and methods of the data that a template begins with.
FIELDS = frozenset(("Zone", "Name", "Class", "Type", "Match", "Group", "Message", "Question", "Remote", "Meta", "Var", "Regex"))
METHODS = frozenset(("Meta", "IsEdns0", "IsTsig", "Len", "String", "Do", "UDPSize", "Version"))

VARIABLES_MAX = 24
DEPTH_MAX = 60
KEYWORDS = frozenset(("if", "else", "end", "range", "with", "define", "template", "block", "break", "continue"))

TOKENS = re.compile(
    r"""(?P<space>[ \t\r\n]+)
      |(?P<string>"(?:[^"\\\n]|\\.)*")
      |(?P<raw>`[^`]*`)
      |(?P<char>'(?:[^'\\\n]|\\.[^']*)')
      |(?P<number>[+-]?(?:0[xX][0-9a-fA-F_]+|0[oO][0-7_]+|0[bB][01_]+|[0-9][0-9_]*(?:\.[0-9_]*)?(?:[eE][+-]?[0-9]+)?|\.[0-9]+(?:[eE][+-]?[0-9]+)?))
      |(?P<variable>\$\w*)
      |(?P<field>\.[^\W\d]\w*)
      |(?P<dot>\.)
      |(?P<word>[^\W\d]\w*)
      |(?P<operator>:=|=|\||\(|\)|,)""",
    re.VERBOSE,
)
ESCAPE = re.compile(r"\\(?:([abfnrtv\\'\"])|x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-7]{3})|(.))", re.DOTALL)
ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "\\": "\\", "'": "'", '"': '"'}


class TemplateError(ValueError):
    """A template that cannot be used, in Go's words."""


class Node(NamedTuple):
    """What to do (a name of `_render`), with what, with which other nodes; where it stands, for errors."""

    operation: str
    value: Any = None
    parts: tuple[Node, ...] = ()
    #: ``1:26``, the line and the octets before it.
    place: str = ""
    #: The node as Go prints it.
    text: str = ""


class Token(NamedTuple):
    kind: str
    text: str
    at: int


def parse(name: str, source: str) -> tuple[Node, list[Node]]:
    """The tree of a template, and those that it defines, by the numbers that `template` nodes have. Raises TemplateError."""
    parser = _Parser(name, source)
    tree, _ = parser.nodes(("",))
    for called, number in parser.names.items():
        if number >= len(parser.defined) or parser.defined[number] is None:
            parser.defined.extend([None] * (number + 1 - len(parser.defined)))
            parser.defined[number] = Node("fail", f"template {_quoted(called)} not defined")
    return tree, [node or Node("list") for node in parser.defined]


def unknown_fields(source: str) -> list[str]:
    """Names of fields that its data does not have, at which a template fails; but for what stands where `.` is something else."""

    def look(node: Node) -> None:
        if node.operation == "field" and node.parts[0].operation == "dot" and node.value not in FIELDS:
            found.append(node.value)
        for part in () if node.operation in ("range", "with", "template") else node.parts:
            look(part)

    found: list[str] = []
    try:
        look(parse("", source)[0])
    except TemplateError:
        return []  # an error anyway
    return found


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _pieces(name: str, source: str) -> list[Token]:
    """Text and the insides of actions, in turn; trimmed where they say so."""
    found: list[Token] = []
    at, trim = 0, False
    while True:
        start = source.find("{{", at)
        text = source[at : start if start >= 0 else len(source)]
        if trim:
            text = text.lstrip(" \t\r\n")
        if start >= 0 and re.match(r"-[ \t\r\n]", source[start + 2 :]):
            text = text.rstrip(" \t\r\n")
        if text:
            found.append(Token("text", text, at))
        if start < 0:
            return found
        begin = start + 2
        if re.match(r"-[ \t\r\n]", source[begin:]):
            begin += 2
        end = _end_of_action(name, source, begin)
        inside = source[begin:end]
        trim = bool(re.search(r"[ \t\r\n]-$", inside))
        if trim:
            inside = inside[:-1]
        if inside.startswith("/*"):
            if not inside.rstrip().endswith("*/"):
                raise TemplateError(f"template: {name}:{_line(source, start)}: comment ends before closing delimiter")
        else:
            found.append(Token("action", inside, begin))
        at = end + 2


def _end_of_action(name: str, source: str, begin: int) -> int:
    if source.startswith("/*", begin):
        end = source.find("*/", begin)
        if end < 0:
            raise TemplateError(f"template: {name}:{_line(source, begin)}: unclosed comment")
        end = source.find("}}", end)
    else:
        at = begin
        while at < len(source) and not source.startswith("}}", at):
            if source[at] in "\"'`":
                quoted = re.match(r"\"(?:[^\"\\\n]|\\.)*\"|`[^`]*`|'(?:[^'\\\n]|\\.)*'", source[at:])
                if quoted is None:
                    kind = {'"': "unterminated quoted string", "`": "unterminated raw quoted string", "'": "unterminated character constant"}[source[at]]
                    raise TemplateError(f"template: {name}:{_line(source, at)}: {kind}")
                at += len(quoted[0])
            else:
                at += 1
        end = at if at < len(source) else -1
    if end < 0:
        raise TemplateError(f"template: {name}:{_line(source, begin)}: unclosed action")
    return end


def _line(source: str, at: int) -> int:
    return source.count("\n", 0, at) + 1


class _Parser:
    def __init__(self, name: str, source: str) -> None:
        self.name = name
        self.source = source
        self.pieces = _pieces(name, source)
        self.piece = 0
        self.tokens: list[Token] = []
        self.position = 0
        self.variables: list[str] = ["$"]
        self.loops = 0
        self.depth = 0
        #: Numbers of templates by name, and their trees once they are defined.
        self.names: dict[str, int] = {}
        self.defined: list[Node | None] = []

    def error(self, text: str) -> TemplateError:
        at = self.pieces[min(self.piece, len(self.pieces)) - 1].at if self.pieces and self.piece else 0
        return TemplateError(f"template: {self.name}:{_line(self.source, at)}: {text}")

    def place(self, at: int) -> str:
        line = self.source.rfind("\n", 0, at) + 1
        return f"{_line(self.source, at)}:{len(self.source[line:at].encode())}"

    # ---- statements ----

    def nodes(self, ends: tuple[str, ...]) -> tuple[Node, str]:
        """Nodes up to one of the words that end them ("" is the end of the text), and that word."""
        self.depth += 1
        if self.depth > DEPTH_MAX:
            raise self.error("nested too deeply")
        found: list[Node] = []
        while self.piece < len(self.pieces):
            piece = self.pieces[self.piece]
            self.piece += 1
            if piece.kind == "text":
                found.append(Node("text", piece.text))
                continue
            self.tokens, self.position = self.scan(piece), 0
            word = self.peek().text if self.peek().kind == "word" else ""
            if word in ("end", "else"):
                if word not in ends:
                    raise self.error(f"expected end; found {{{{{word}}}}}" if "end" in ends else f"unexpected {{{{{word}}}}}")
                self.next()
                self.depth -= 1
                return Node("list", None, tuple(found)), word
            found += self.statement(word)
        if "" not in ends:
            raise self.error("unexpected EOF")
        self.depth -= 1
        return Node("list", None, tuple(found)), ""

    def statement(self, word: str) -> list[Node]:
        if word in ("if", "with", "range"):
            self.next()
            return [self.control(word)]
        if word in ("break", "continue"):
            self.next()
            if self.loops == 0:
                raise self.error(f"{{{{{word}}}}} outside {{{{range}}}}")
            self.finish(word)
            return [Node(word)]
        if word == "define":
            self.next()
            if self.depth > 1:
                raise self.error("unexpected {{define}}")
            self.define(self.template_name("define clause"), "define clause")
            return []
        if word in ("template", "block"):
            self.next()
            return [self.template(word)]
        if not self.tokens:
            raise self.error("missing value for command")
        return [self.action()]

    def action(self) -> Node:
        first = self.peek()
        pipe, slot = self.pipeline("command")
        self.finish("command")
        if slot >= 0:
            return Node("set", slot, (pipe,), self.place(first.at))
        return Node("print", None, (pipe,), self.place(first.at), pipe.text)

    def control(self, word: str) -> Node:
        before = len(self.variables)
        names: list[str] = []
        if word == "range":
            pipe, slots = self.range_head(names)
        else:
            pipe, slot = self.pipeline(word)
            slots = (slot, -1)
        self.finish(word)
        self.loops += word == "range"
        body, end = self.nodes(("end", "else"))
        self.loops -= word == "range"
        other = Node("list")
        if end == "else":
            following = self.peek()
            if following.kind == "word" and following.text == word and word != "range":
                self.next()
                other = Node("list", None, (self.control(word),))
            else:
                self.finish("else")
                other, _ = self.nodes(("end",))
                self.finish("end")
        else:
            self.finish("end")
        del self.variables[before:]
        return Node(word, slots, (pipe, body, other), pipe.place, pipe.text)

    def range_head(self, names: list[str]) -> tuple[Node, tuple[int, int]]:
        """``range PIPE``, ``range $v := PIPE``, ``range $i, $v := PIPE``, or with ``=``: slots of value and index."""
        if self.peek().kind != "variable":
            return self.pipeline("range")[0], (-1, -1)
        ahead = self.tokens[self.position + 1 : self.position + 2]
        if not ahead or ahead[0].text not in (",", ":=", "="):
            return self.pipeline("range")[0], (-1, -1)
        names.append(self.next().text)
        if self.peek().text == ",":
            self.next()
            if self.peek().kind != "variable":
                raise self.error("range can only initialize variables")
            names.append(self.next().text)
        assign = self.next().text
        if assign not in (":=", "="):
            raise self.error("too many declarations in range" if assign == "," else "missing value for range")
        slots = [self.slot(name, declare=assign == ":=") for name in names]
        pipe = self.commands("range")
        return pipe, (slots[-1], slots[0] if len(slots) == 2 else -1)

    def template_name(self, context: str) -> str:
        token = self.next()
        if token.kind not in ("string", "raw"):
            raise self.error(f"unexpected {_quoted(token.text or '}}')} in {context}")
        return self.text_of(token)

    def number_of(self, name: str) -> int:
        number = self.names.setdefault(name, len(self.names))
        while len(self.defined) <= number:
            self.defined.append(None)
        return number

    def define(self, name: str, context: str) -> None:
        self.finish(context)
        variables, self.variables = self.variables, ["$"]
        loops, self.loops = self.loops, 0
        tree, _ = self.nodes(("end",))
        self.finish("end")
        self.variables, self.loops = variables, loops
        self.defined[self.number_of(name)] = tree

    def template(self, word: str) -> Node:
        place = self.place(self.tokens[self.position].at) if self.position < len(self.tokens) else ""
        name = self.template_name(f"{word} clause")
        argument: Node = Node("constant", None)
        if self.position < len(self.tokens):
            argument, _ = self.pipeline(f"{word} clause")
        elif word == "block":
            raise self.error("missing value for block clause")
        number = self.number_of(name)
        if word == "block":
            self.define(name, "block clause")
        else:
            self.finish("template clause")
        shown = f" {argument.text}" if argument.text else ""
        return Node("template", number, (argument,), place, f"{{{{template {_quoted(name)}{shown}}}}}")

    # ---- pipelines ----

    def pipeline(self, context: str) -> tuple[Node, int]:
        """A pipeline and the slot of the variable that takes its value (-1: none)."""
        ahead = self.tokens[self.position + 1 : self.position + 2]
        if self.peek().kind == "variable" and ahead and ahead[0].text in (":=", "="):
            name, assign = self.next().text, self.next().text
            pipe = self.commands(context)
            return pipe, self.slot(name, declare=assign == ":=")
        if self.peek().kind == "variable" and ahead and ahead[0].text == ",":
            raise self.error(f"too many declarations in {context}")
        return self.commands(context), -1

    def slot(self, name: str, *, declare: bool) -> int:
        if declare:
            if len(self.variables) >= VARIABLES_MAX:
                raise self.error("too many variables")
            self.variables.append(name)
        for place in range(len(self.variables) - 1, -1, -1):
            if self.variables[place] == name:
                return place
        raise self.error(f"undefined variable {_quoted(name)}")

    def commands(self, context: str) -> Node:
        value: Node | None = None
        texts = []
        while True:
            operands = self.operands()
            if not operands:
                raise self.unexpected(context)
            value = self.command(operands, value)
            texts.append(value.text)
            if self.peek().text != "|":
                break
            self.next()
            if self.position >= len(self.tokens):
                break  # Go takes a pipe before nothing
        return value._replace(text=" | ".join(texts))

    def command(self, operands: list[Node], piped: Node | None) -> Node:
        """One command: a function or a method with arguments, or one value. What is piped is the last argument."""
        first, rest = operands[0], operands[1:]
        text = " ".join(operand.text for operand in operands)
        arguments = tuple(rest) + ((piped,) if piped is not None else ())
        if first.operation == "function":
            least, most = ARGUMENTS.get(first.value, (0, -1))
            if len(arguments) < least or 0 <= most < len(arguments):
                wanted = f"at least {least}" if most < 0 else str(least)
                return Node("fail", f"wrong number of args for {first.value}: want {wanted} got {len(arguments)}", (), first.place, first.text)
            if first.value in ("printf", "parseInt") and arguments[0].operation == "constant" and not isinstance(arguments[0].value, str):
                return self.mistaken(arguments[0], "string")
            if first.value in ("and", "or"):
                return Node(first.value, None, arguments, first.place, text)
            return Node("call", FUNCTIONS.index(first.value), arguments, first.place, text)
        if first.operation == "field" and first.value in METHODS:
            count = 1 if first.value == "Meta" else 0
            if len(arguments) != count:
                return Node("fail", f"wrong number of args for {first.value}: want {count} got {len(arguments)}", (), first.place, first.text)
            if count and arguments[0].operation == "constant" and not isinstance(arguments[0].value, str):
                return self.mistaken(arguments[0], "string")
            return first._replace(operation="method", parts=(*first.parts, *arguments), text=text)
        if arguments:
            if first.operation == "field":
                return Node("fail", f"{first.value} has arguments but cannot be invoked as function", (), first.place, first.text)
            if piped is not None:
                raise self.error("non executable command in pipeline stage 2")
            raise self.error(f"can't give argument to non-function {first.text}")
        if first.operation == "constant" and first.value is None:
            return Node("fail", "nil is not a command", (), first.place, first.text)
        return first

    def mistaken(self, argument: Node, wanted: str) -> Node:
        return Node("fail", f"expected {wanted}; found {argument.text}", (), argument.place, argument.text)

    def unexpected(self, context: str) -> TemplateError:
        """The error for a token that cannot begin a command."""
        token = self.peek()
        inside = context == "parenthesized pipeline"
        if not token.text:
            return self.error("unclosed left paren" if inside else f"missing value for {context}")
        if token.text == ")":
            return self.error(f"missing value for {context}" if inside else "unexpected right paren")
        return self.error(f"unexpected {_quoted(token.text)} in command")

    def operands(self) -> list[Node]:
        found: list[Node] = []
        while (self.position < len(self.tokens) and self.peek().text not in ("|", ")", ",")) or self.peek().kind in ("string", "raw", "char"):
            if self.peek().text in (":=", "="):
                raise self.error(f"unexpected {_quoted(self.peek().text)} in {'operand' if found else 'command'}")
            found.append(self.operand())
        return found

    def operand(self) -> Node:
        token = self.next()
        start, place = token.at, self.place(token.at)
        if token.kind == "word":
            node = self.word(token, place)
        elif token.kind in ("string", "raw"):
            node = Node("constant", self.text_of(token), (), place, token.text)
        elif token.kind == "char":
            node = Node("constant", ord(self.text_of(token)[0]), (), place, token.text)
        elif token.kind == "number":
            node = Node("constant", self.number(token), (), place, token.text)
        elif token.kind == "variable":
            node = Node("variable", self.slot(token.text, declare=False), (), place, token.text)
        elif token.kind == "dot":
            node = Node("dot", None, (), place, ".")
        elif token.kind == "field":
            node = Node("field", token.text[1:], (Node("dot", None, (), place, ""),), place, token.text)
        elif token.text == "(":
            inner = self.commands("parenthesized pipeline")
            if self.next().text != ")":
                raise self.error("unclosed left paren")
            node = inner._replace(text=f"({inner.text})")
            if node.operation == "function":
                node = self.command([node], None)
        else:
            raise self.error(f"unexpected {_quoted(token.text)} in operand")
        first = len(node.text)
        while self.peek().kind in ("field", "dot") and self.peek().at == self.end_of_last:
            if self.peek().kind == "dot":
                raise self.error("unexpected <.> in operand")
            if node.operation in ("constant", "function", "dot"):
                raise self.error(f"unexpected . after term {_quoted(node.text)}")
            token = self.next()
            node = Node("field", token.text[1:], (node,), self.place(start + first), node.text + token.text)
        return node

    def word(self, token: Token, place: str) -> Node:
        if token.text in ("true", "false"):
            return Node("constant", token.text == "true", (), place, token.text)
        if token.text == "nil":
            return Node("constant", None, (), place, "nil")
        if token.text in KEYWORDS:
            raise self.error(f"unexpected <{token.text}> in operand")
        if token.text not in FUNCTIONS:
            raise self.error(f"function {_quoted(token.text)} not defined")
        return Node("function", token.text, (), place, token.text)

    # ---- tokens ----

    def scan(self, piece: Token) -> list[Token]:
        found = []
        at = 0
        while at < len(piece.text):
            match = TOKENS.match(piece.text, at)
            if match is None:
                char = piece.text[at]
                if char == "'":
                    end = piece.text.find("'", at + 1)
                    raise self.error(f"malformed character constant: {piece.text[at : end + 1]}")
                if char.isascii():
                    raise self.error(f"unexpected {_quoted(char)} in command")
                raise self.error(f"unrecognized character in action: U+{ord(char):04X} '{char}'")
            following = piece.text[match.end() : match.end() + 1]
            if match.lastgroup == "number" and (following.isalnum() or following == "_"):
                raise self.error(f"bad number syntax: {_quoted(match[0] + following)}")
            if match.lastgroup != "space":
                found.append(Token(str(match.lastgroup), match[0], piece.at + at))
            at = match.end()
        self.end_of_last = 0
        return found

    def peek(self) -> Token:
        return self.tokens[self.position] if self.position < len(self.tokens) else Token("end", "", -1)

    def next(self) -> Token:
        token = self.peek()
        self.position += 1
        self.end_of_last = token.at + len(token.text)
        return token

    def finish(self, context: str) -> None:
        if self.position < len(self.tokens):
            raise self.error("unexpected right paren" if self.peek().text == ")" else f"unexpected {_quoted(self.peek().text)} in {context}")

    def text_of(self, token: Token) -> str:
        if token.kind == "raw":
            return token.text[1:-1]

        def one(match: re.Match[str]) -> str:
            if match[1]:
                return ESCAPES[match[1]]
            for group, base in ((2, 16), (3, 16), (4, 16), (5, 8)):
                if match[group]:
                    return chr(int(match[group], base))
            raise self.error("invalid syntax")

        return ESCAPE.sub(one, token.text[1:-1])

    def number(self, token: Token) -> int | float:
        text = token.text.replace("_", "").lower()
        digits = text.lstrip("+-")
        try:
            if digits[:2] not in ("0x", "0o", "0b") and ("." in text or "e" in text):
                value: int | float = float(text)
            else:
                value = int(text, 8 if digits[0] == "0" and len(digits) > 1 and digits[1].isdigit() else 0)
        except ValueError:
            raise self.error(f"bad number syntax: {_quoted(token.text)}") from None
        if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
            raise self.error(f"integer overflow: {_quoted(token.text)}")
        if math.isinf(value):
            raise self.error(f"illegal number syntax: {_quoted(token.text)}")
        return value
