"""Functions of the tree as programs for ``rc11``: their Cython, statement by statement, with the memory orders of ``fastdns/system/atomic.pxd``.

What a kernel is written with is translated, no more: pointers to structs, their fields, atomic operations, calls of one another, Python's statements. A field
that the program's memory has is shared; any other one is a constant of its struct.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tests.model.rc11 import Location, Operation, Struct

ROOT = Path(__file__).resolve().parent.parent.parent
ATOMICS = "fastdns/system/atomic.pxd"

#: GCC's builtins: the kind of operation, and the number of values that it takes behind the pointer.
BUILTINS = {
    "load_n": ("load", 0),
    "store_n": ("store", 1),
    "exchange_n": ("exchange", 1),
    "add_fetch": ("add", 1),
    "compare_exchange_n": ("swap", 2),
    "thread_fence": ("fence", 0),
}


class Atomic(NamedTuple):
    kind: str
    order: str
    otherwise: str
    #: The value where the macro gives it and not its caller.
    fixed: tuple[Any, ...]


class Site(NamedTuple):
    """A call of an atomic operation."""

    function: str
    #: Counted in the function, from 1 on.
    number: int
    operation: str

    def __str__(self) -> str:
        return f"{self.function} {self.number}: {self.operation}"


def read_atomics(text: str) -> dict[str, Atomic]:
    """The operations that atomic.pxd declares, by the names that Cython code calls. Those of two operations are left out."""
    block = text[text.index("cdef extern from *") :]
    defined: dict[str, str] = dict(re.findall(r"#define (\w+)\([^)]*\) (.*)", block))
    defined |= dict(re.findall(r"static inline \w+ (\w+)\([^)]*\) \{((?:.|\n)*?;) *\n? *\}", block))
    found = {}
    for name, macro in re.findall(r'^ {4}[\w ]+[ *](atomic_\w+)(?: "(\w+)")?\(', block, re.MULTILINE):
        body = defined[macro or name]
        calls = re.findall(r"__atomic_(\w+)\(", body)
        if len(calls) == 1:
            orders = [order.lower() for order in re.findall(r"__ATOMIC_(\w+)", body)]
            kind = BUILTINS[calls[0]][0]
            found[name] = Atomic(kind, orders[0], orders[-1], (None,) if "(void *)0" in body else ())
    return found


def cut(text: str, name: str) -> str:
    """The text of a ``cdef`` function."""
    match = re.search(rf"^cdef [^\n]*?\b{name}\([^)]*\)[^\n]*:\n(?:(?: +[^\n]*)?\n)+", text, re.MULTILINE)
    assert match, f"no function {name}"
    return match[0]


def plain(text: str) -> str:
    """A function of Cython as one of Python. An address is ``ADDRESS(...)``; structs of its own are ``STRUCT()``."""
    head, body = text.split(":\n", 1)
    head = re.sub(r"^cdef .*?(\w+)\(", r"def \1(", head)
    name, arguments = re.fullmatch(r"def (\w+)\((.*)\).*", head, re.DOTALL).groups()  # type: ignore[union-attr]
    names = [re.split(r"[ *]", argument)[-1] for argument in arguments.split(",") if argument.strip()]
    body = re.sub(r"#[^\n\"]*$", "", body, flags=re.MULTILINE)
    body = re.sub(r"<[A-Za-z]\w*(?: \**)?>(?=[\w&(*])", "", body)  # casts
    body = re.sub(r"^( +)cdef [\w ]+?[ *]+(\w+) = ", r"\1\2 = ", body, flags=re.MULTILINE)
    body = re.sub(r"^( +)cdef (?:\w+_t|int|bint|[\w ]+ \*)\s*(\w+)\n", r"\1\2 = None\n", body, flags=re.MULTILINE)
    body = re.sub(r"^( +)cdef (\w+) (\w+)\n", r"\1\3 = STRUCT('\2')\n", body, flags=re.MULTILINE)
    body = re.sub(r"(?<=[(, ])&([a-z]\w*(?:\.\w+|\[\w+\])*)", r"ADDRESS(\1)", body)
    return f"def {name}({', '.join(names)}):\n{body.replace('NULL', 'None')}"


class Translate(ast.NodeTransformer):
    """Has a function yield its operations: on fields, and those of atomic.pxd."""

    def __init__(self, function: str, atomics: Mapping[str, Atomic], functions: set[str]) -> None:
        self.function, self.atomics, self.functions = function, atomics, functions
        self.sites: list[Site] = []

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        return ask("read", self.visit(node.value), node.attr)

    def visit_Assign(self, node: ast.Assign) -> ast.stmt:
        value, target = self.visit(node.value), node.targets[0]
        if isinstance(target, ast.Attribute):
            return ast.Expr(ask("write", self.visit(target.value), target.attr, value))
        return ast.Assign([self.visit(target)], value)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name == "ADDRESS":
            target = node.args[0]
            if isinstance(target, ast.Attribute):
                return ast.Call(ast.Name("Location", ast.Load()), [self.visit(target.value), ast.Constant(target.attr)], [])
            return target
        arguments = [self.visit(argument) for argument in node.args]
        if name in self.atomics:
            number = 1 + len(self.sites)
            self.sites.append(Site(self.function, number, name))
            return ast.YieldFrom(ast.Call(ast.Name("ATOMIC", ast.Load()), [ast.Constant(self.function), ast.Constant(number), *arguments], []))
        call = ast.Call(node.func, arguments, [])
        return ast.YieldFrom(call) if name in self.functions else call


def ask(kind: str, *parts: Any) -> ast.expr:
    struct, field, *value = parts
    return ast.YieldFrom(ast.Call(ast.Name("FIELD", ast.Load()), [ast.Constant(kind), struct, ast.Constant(field), *value], []))


class Kernel:
    """Functions of some files, which call one another and what ``world`` has (generator functions by their names).

    ``sites`` are their atomic operations; ``weakened`` says which of them have another order. ``edits`` maps files to texts that stand in for theirs.
    """

    def __init__(
        self,
        functions: Mapping[str, list[str]],
        world: Mapping[str, Callable[..., Any]],
        constants: Mapping[str, Any],
        shared: set[str],
        weakened: Mapping[Site, str] | None = None,
        edits: Mapping[str, str] | None = None,
    ) -> None:
        texts = {path: (edits or {}).get(path) or (ROOT / path).read_text() for path in [ATOMICS, *functions]}
        self.atomics = read_atomics(texts[ATOMICS])
        self.shared, self.weakened = shared, weakened or {}
        self.sites: list[Site] = []
        names = {name for listed in functions.values() for name in listed} | set(world)
        self.names: dict[str, Any] = {"Location": Location, "STRUCT": lambda name: {}, "ATOMIC": self._atomic, "FIELD": self._field, **constants, **world}
        for path, listed in functions.items():
            for name in listed:
                translate = Translate(name, self.atomics, names)
                tree = ast.fix_missing_locations(translate.visit(ast.parse(plain(cut(texts[path], name)))))
                self.sites += translate.sites
                tree.body[0].body.append(ast.parse("if False:\n    yield").body[0])  # a generator, whatever it does
                exec(compile(ast.fix_missing_locations(tree), path, "exec"), self.names)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        found: Callable[..., Any] = self.names[name]
        return found

    def _atomic(self, function: str, number: int, *arguments: Any) -> Any:
        site = next(site for site in self.sites if site[:2] == (function, number))
        atomic = self.atomics[site.operation]
        order = self.weakened.get(site, atomic.order)
        if atomic.kind == "fence":
            return (yield Operation("fence", order=order))
        location, *values = (*arguments, *atomic.fixed)
        if atomic.kind == "swap":
            return (yield Operation("swap", location, values[1], order, values[0], atomic.otherwise))
        return (yield Operation(atomic.kind, location, values[0] if values else None, order))

    def _field(self, kind: str, struct: Any, field: str, *value: Any) -> Any:
        """A field of shared memory, of a struct on the thread's stack, or a constant."""
        if isinstance(struct, dict):
            if kind == "write":
                struct[field] = value[0]
            return struct.setdefault(field, {})
        if field in self.shared:
            return (yield Operation(kind, Location(struct, field), *value))
        assert kind == "read", f"{struct}.{field} is not shared memory"
        return struct.constants[field]


def weaker(atomic: Atomic) -> list[str]:
    """The orders next below."""
    if atomic.order == "seq_cst":
        return ["acq_rel"]
    if atomic.order == "acq_rel":
        return ["release", "acquire"]
    return ["relaxed"] if atomic.order in ("acquire", "release") else []


def structs(prefix: str, count: int) -> list[Struct]:
    return [Struct(f"{prefix}{i}") for i in range(count)]
