"""The parser of expressions; operators and precedence are those of expr-lang 1.17."""

from __future__ import annotations

import math
from typing import Any

from fastdns.expression.lexer import EOF, ExpressionError, Token, go_quoted, tokens

__all__ = ["BINARY", "PREDICATES", "Node", "parse"]

#: Precedence; `**` and `^` are right-associative.
BINARY = {
    "|": 0, "or": 10, "||": 10, "and": 15, "&&": 15, "==": 20, "!=": 20, "<": 20, ">": 20, ">=": 20, "<=": 20, "in": 20, "matches": 20,
    "contains": 20, "startsWith": 20, "endsWith": 20, "..": 25, "+": 30, "-": 30, "*": 60, "/": 60, "%": 60, "**": 100, "^": 100, "??": 500,
}  # fmt: skip
UNARY = {"not": 50, "!": 50, "-": 90, "+": 90}
RIGHT = frozenset(("**", "^"))
COMPARISONS = frozenset(("<", ">", "<=", ">="))
NEGATED = frozenset(("in", "matches", "contains", "startsWith", "endsWith"))

#: Functions with predicates: kinds of their arguments (e: expression, p: predicate; a capital letter: optional).
PREDICATES = {
    "all": "ep", "none": "ep", "any": "ep", "one": "ep", "filter": "ep", "map": "ep", "count": "eP", "sum": "eP", "find": "ep", "findIndex": "ep",
    "findLast": "ep", "findLastIndex": "ep", "groupBy": "ep", "sortBy": "epE", "reduce": "epE",
}  # fmt: skip

NODES_MAX = 10000
DEPTH_MAX = 100


class Node:
    """A node; `kind` determines the meaning of its value and parts."""

    __slots__ = ("at", "kind", "parts", "type", "value")

    def __init__(self, kind: str, at: int, value: Any = None, parts: list[Node] | None = None) -> None:
        self.kind = kind
        self.at = at
        self.value = value
        self.parts = parts or []
        #: Set by the checker.
        self.type: Any = None


def parse(source: str, builtins: frozenset[str], disabled: frozenset[str]) -> Node:
    """Parse an expression into a tree. Raises ExpressionError."""
    parser = _Parser(source, builtins - disabled)
    return parser.whole()


class _Parser:
    def __init__(self, source: str, builtins: frozenset[str]) -> None:
        self.source = source
        self.builtins = builtins
        self.tokens = tokens(source)
        self.position = 0
        self.predicates = 0
        self.nodes = 0
        self.depth = 0

    # ---- tokens ----

    @property
    def current(self) -> Token:
        return self.tokens[self.position]

    def next(self) -> Token:
        token = self.current
        if token.kind == EOF:
            raise self.error("unexpected end of expression")
        self.position += 1
        return token

    def error(self, message: str, token: Token | None = None) -> ExpressionError:
        return ExpressionError(message, self.source, (token or self.current).at)

    def unexpected(self) -> ExpressionError:
        return self.error(f"unexpected token {self.current}")

    def at(self, kind: str, *values: str) -> bool:
        token = self.current
        return token.kind == kind and (not values or token.value in values)

    def expect(self, kind: str, value: str = "") -> Token:
        if not self.at(kind, *([value] if value else [])):
            raise self.unexpected()
        return self.next()

    def node(self, kind: str, at: int, value: Any = None, parts: list[Node] | None = None) -> Node:
        self.nodes += 1
        if self.nodes > NODES_MAX:
            raise self.error("compilation failed: expression exceeds maximum allowed nodes")
        return Node(kind, at, value, parts)

    # ---- expressions ----

    def whole(self) -> Node:
        found = self.sequence()
        if not self.at(EOF):
            raise self.unexpected()
        return found

    def sequence(self) -> Node:
        parts = [self.expression(0)]
        while self.at("Operator", ";"):
            self.next()
            if self.at(EOF):
                break
            parts.append(self.expression(0))
        return parts[0] if len(parts) == 1 else self.node("sequence", parts[0].at, None, parts)

    def expression(self, precedence: int) -> Node:
        self.depth += 1
        if self.depth > DEPTH_MAX:
            raise self.error("compilation failed: expression is nested too deeply")
        try:
            if precedence == 0 and self.at("Operator", "let"):
                return self.declaration()
            if precedence == 0 and self.at("Operator", "if"):
                return self.condition()
            left = self.operations(self.primary(), precedence)
            return self.ternary(left) if precedence == 0 else left
        finally:
            self.depth -= 1

    def operations(self, left: Node, precedence: int) -> Node:
        previous = ""
        while self.at("Operator"):
            token, negation = self.current, None
            if token.value == "not":
                following = self.tokens[self.position + 1]
                if following.value not in NEGATED:
                    self.next()
                    raise self.unexpected()
                if BINARY[following.value] < precedence:
                    break
                negation = token
                self.next()
                token = following
            if token.value not in BINARY or BINARY[token.value] < precedence:
                break
            self.next()
            if token.value == "|":
                left = self.call(self.expect("Identifier"), [left])
                left = self.postfix(left)
            elif previous == "??" and token.value != "??":
                raise self.error(f"Operator ({token.value}) and coalesce expressions (??) cannot be mixed. Wrap either by parentheses.", token)
            elif token.value in COMPARISONS:
                left = self.comparison(left, token)
            else:
                right = self.expression(BINARY[token.value] + (token.value not in RIGHT))
                left = self.node("binary", token.at, token.value, [left, right])
                if negation is not None:
                    left = self.node("unary", token.at, "not", [left])
            previous = token.value
        return left

    def comparison(self, left: Node, token: Token) -> Node:
        """``a < b < c`` is ``a < b && b < c``."""
        whole: Node | None = None
        while True:
            right = self.expression(BINARY[token.value] + 1)
            one = self.node("binary", token.at, token.value, [left, right])
            whole = one if whole is None else self.node("binary", token.at, "&&", [whole, one])
            left = right
            if not self.at("Operator", *COMPARISONS):
                return whole
            token = self.next()

    def declaration(self) -> Node:
        self.next()
        name = self.expect("Identifier")
        self.expect("Operator", "=")
        value = self.expression(0)
        self.expect("Operator", ";")
        return self.node("let", name.at, name.value, [value, self.sequence()])

    def condition(self) -> Node:
        at = self.next().at
        test = self.expression(0)
        self.expect("Bracket", "{")
        first = self.sequence()
        self.expect("Bracket", "}")
        self.expect("Operator", "else")
        if self.at("Operator", "if"):
            second = self.condition()
        else:
            self.expect("Bracket", "{")
            second = self.sequence()
            self.expect("Bracket", "}")
        return self.node("choice", at, None, [test, first, second])

    def ternary(self, test: Node) -> Node:
        while self.at("Operator", "?"):
            self.next()
            if self.at("Operator", ":"):
                self.next()
                first, second = test, self.expression(0)
            else:
                first = self.expression(0)
                self.expect("Operator", ":")
                second = self.expression(0)
            test = self.node("choice", self.current.at, None, [test, first, second])
        return test

    # ---- operands ----

    def primary(self) -> Node:
        token = self.current
        if token.kind == "Operator" and token.value in UNARY:
            self.next()
            return self.postfix(self.node("unary", token.at, token.value, [self.expression(UNARY[token.value])]))
        if self.at("Bracket", "("):
            self.next()
            inner = self.sequence()
            self.expect("Bracket", ")")
            return self.postfix(inner)
        if self.predicates and self.at("Operator", "#", "."):
            name = ""
            if self.at("Operator", "#"):
                self.next()
                if self.at("Identifier") and self.current.at == token.at + 1:
                    name = self.next().value
            return self.postfix(self.node("pointer", token.at, name))
        if self.at("Operator", "::"):
            self.next()
            return self.postfix(self.call(self.expect("Identifier"), []))
        return self.secondary()

    def secondary(self) -> Node:
        token = self.current
        if token.kind == "Identifier":
            self.next()
            if token.value in ("true", "false"):
                return self.node("bool", token.at, token.value == "true")
            if token.value == "nil":
                return self.node("nil", token.at)
            if self.at("Bracket", "("):
                return self.postfix(self.call(token, []))
            return self.postfix(self.node("name", token.at, token.value))
        if token.kind == "Number":
            self.next()
            return self.number(token)
        if token.kind == "Bytes":
            self.next()
            return self.postfix(self.node("array", token.at, None, [self.node("int", token.at, octet) for octet in token.value.encode()]))
        if token.kind == "String":
            self.next()
            return self.postfix(self.node("string", token.at, token.value))
        if self.at("Bracket", "["):
            return self.postfix(self.array())
        if self.at("Bracket", "{"):
            return self.postfix(self.mapping())
        raise self.unexpected()

    def number(self, token: Token) -> Node:
        text = token.value.replace("_", "").lower()
        base = {"0x": 16, "0b": 2, "0o": 8}.get(text[:2], 10)
        try:
            if base == 10 and ("." in text or "e" in text):
                real, value = float(text), 0
            else:
                real, value = None, int(text if base == 10 else text[2:], base)
        except ValueError:
            kind = {16: "hex", 2: "binary", 8: "octal"}.get(base, "float" if "e" in text or "." in text else "integer")
            raise self.error(f"invalid {kind} literal: strconv.ParseInt: parsing {go_quoted(text)}: invalid syntax") from None
        if real is not None:
            if math.isinf(real):
                raise self.error(f"invalid float literal: strconv.ParseFloat: parsing {go_quoted(text)}: value out of range")
            return self.node("float", token.at, real)
        if value >= 1 << 63:
            raise self.error(f'invalid integer literal: strconv.ParseInt: parsing "{text}": value out of range')
        return self.node("int", token.at, value)

    def call(self, token: Token, arguments: list[Node]) -> Node:
        if token.value in PREDICATES and token.value in self.builtins:
            return self.call_with_predicate(token, arguments)
        if token.value in self.builtins:
            return self.node("builtin", token.at, token.value, self.arguments(arguments))
        return self.node("call", token.at, token.value, self.arguments(arguments))

    def call_with_predicate(self, token: Token, arguments: list[Node]) -> Node:
        self.expect("Bracket", "(")
        wanted = PREDICATES[token.value][len(arguments) :]
        for number, kind in enumerate(wanted):
            if self.at("Bracket", ")"):
                if kind.isupper():
                    break
                raise self.error(f"expected at least {len(wanted)} arguments")
            if number:
                self.expect("Operator", ",")
                if kind.isupper() and self.at("Bracket", ")"):
                    break
            arguments.append(self.expression(0) if kind in "eE" else self.predicate())
        if self.at("Operator", ","):
            self.next()
        self.expect("Bracket", ")")
        return self.node("builtin", token.at, token.value, arguments)

    def predicate(self) -> Node:
        at, braces = self.current.at, self.at("Bracket", "{")
        if braces:
            self.next()
        self.predicates += 1
        inner = self.sequence() if braces else self.expression(0)
        self.predicates -= 1
        if braces:
            self.expect("Bracket", "}")
        elif self.at("Operator", ";"):
            raise self.error("wrap predicate with brackets { and }")
        return self.node("predicate", at, None, [inner])

    def arguments(self, found: list[Node]) -> list[Node]:
        first = len(found)
        self.expect("Bracket", "(")
        while not self.at("Bracket", ")"):
            if len(found) > first:
                self.expect("Operator", ",")
                if self.at("Bracket", ")"):
                    break
            found.append(self.expression(0))
        self.expect("Bracket", ")")
        return found

    def array(self) -> Node:
        at = self.next().at
        parts: list[Node] = []
        while not self.at("Bracket", "]"):
            if parts:
                self.expect("Operator", ",")
                if self.at("Bracket", "]"):
                    break
            parts.append(self.expression(0))
        self.next()
        return self.node("array", at, None, parts)

    def mapping(self) -> Node:
        at = self.next().at
        parts: list[Node] = []
        while not self.at("Bracket", "}"):
            if parts:
                self.expect("Operator", ",")
                if self.at("Bracket", "}"):
                    break
            if self.current.kind in ("Number", "String", "Identifier"):
                key = self.node("string", self.current.at, self.current.value)
                self.next()
            elif self.at("Bracket", "("):
                key = self.expression(0)
            else:
                raise self.error(
                    f"a map key must be a quoted string, a number, a identifier, or an expression enclosed in parentheses (unexpected token {self.current})"
                )
            self.expect("Operator", ":")
            parts += [key, self.expression(0)]
        self.next()
        return self.node("map", at, None, parts)

    # ---- postfix operators ----

    def postfix(self, node: Node) -> Node:
        while True:
            token = self.current
            optional = self.at("Operator", "?.")
            if optional and self.tokens[self.position + 1][:2] == ("Bracket", "["):
                self.next()
            elif optional or self.at("Operator", "."):
                self.next()
                name = self.next()
                if name.kind != "Identifier" and not (name.kind == "Operator" and name.value.isidentifier()):
                    raise self.error("expected name")
                if self.at("Bracket", "("):
                    node = self.node("method", name.at, name.value, [node, *self.arguments([])])
                else:
                    node = self.node("member", name.at, optional, [node, self.node("string", name.at, name.value)])
                continue
            if not self.at("Bracket", "["):
                return node
            self.next()
            node = self.subscript(node, token, optional)

    def subscript(self, node: Node, token: Token, optional: bool) -> Node:
        nothing = self.node("nil", token.at)
        first, last, slicing = nothing, nothing, False
        if not self.at("Operator", ":"):
            first = self.expression(0)
        if self.at("Operator", ":"):
            slicing = True
            self.next()
            if not self.at("Bracket", "]"):
                last = self.expression(0)
        self.expect("Bracket", "]")
        if slicing:
            return self.node("slice", token.at, None, [node, first, last])
        return self.node("member", token.at, optional, [node, first])
