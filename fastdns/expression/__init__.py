"""Expressions of `view` and `template`: expr-lang's syntax and types, compiled once at load, evaluated by the workers without the GIL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastdns.expression.checker import BUILTINS, Type, check, type_text
from fastdns.expression.lexer import ExpressionError
from fastdns.expression.parser import parse

if TYPE_CHECKING:
    from fastdns.expression.evaluate import Code

__all__ = ["BUILTINS", "FUNCTIONS", "ExpressionError", "Type", "compile", "type_text"]

#: Functions of an expression that read the query: types of arguments and result. CoreDNS's `type` replaces the language's own.
FUNCTIONS: dict[str, tuple[tuple[Type, ...], Type]] = {
    "type": ((), "string"), "class": ((), "string"), "name": ((), "string"), "proto": ((), "string"), "size": ((), "int"), "bufsize": ((), "int"),
    "id": ((), "int"), "opcode": ((), "int"), "do": ((), "bool"), "client_ip": ((), "string"), "server_ip": ((), "string"), "port": ((), "string"),
    "server_port": ((), "string"), "incidr": (("string", "string"), "bool"), "metadata": (("string",), "string"),
}  # fmt: skip

DISABLED = frozenset(("type",))


def compile(  # noqa: A001
    source: str, variables: dict[str, Type] | None = None, functions: dict[str, tuple[tuple[Type, ...], Type]] | None = None
) -> tuple[Code, Type]:
    """Compile an expression; returns its code and the type of its value.

    ``variables``: names and types, in the order in which the evaluation gets their values. ``functions`` are added to FUNCTIONS.
    Raises ExpressionError.
    """
    from fastdns.expression.evaluate import Code

    tree = parse(source, BUILTINS, DISABLED)
    code, kind = check(tree, source, FUNCTIONS | (functions or {}), variables or {})
    return Code(source, code), kind
