"""Type checks of expressions, and generation of their code."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from fastdns.expression import regex
from fastdns.expression.lexer import ExpressionError
from fastdns.expression.parser import Node

if TYPE_CHECKING:
    from fastdns.expression.dates import Zone

__all__ = ["BUILTINS", "Array", "Instruction", "Type", "check", "type_text"]


class Array(NamedTuple):
    """The type of a list."""

    element: Any
    text: str = "[]interface {}"


class Map(NamedTuple):
    """The type of a map."""

    value: Any
    text: str = "map[string]interface {}"


#: "unknown", "nil", "bool", "int", "float64", "string", "time.Duration", "time.Time" and their like, an Array or a Map.
Type = Any

UNKNOWN, NIL, BOOL, INT, FLOAT, STRING, DURATION, TIME = "unknown", "nil", "bool", "int", "float64", "string", "time.Duration", "time.Time"
MONTH, WEEKDAY, LOCATION = "time.Month", "time.Weekday", "*time.Location"
NUMBERS = (INT, FLOAT)
ANY_ARRAY = Array(UNKNOWN)
STRINGS = Array(STRING, "[]string")


def type_text(kind: Type) -> str:
    """The name of a type in error texts."""
    return "unknown" if kind == NIL else kind if isinstance(kind, str) else str(kind.text)


def is_array(kind: Type) -> bool:
    return isinstance(kind, Array)


class Instruction(NamedTuple):
    """One instruction: an operation by its name in ``evaluate.pyx``, its constant, and the instructions whose results are its operands."""

    operation: str
    value: Any = None
    parts: tuple[int, ...] = ()


#: Overloads of functions: types of arguments, type of the result. "any" takes everything, a "?" behind a type may be left out.
SIGNATURES: dict[str, list[tuple[tuple[Type, ...], Type]]] = {
    "string": [((UNKNOWN,), STRING)],
    "trim": [((STRING,), STRING), ((STRING, STRING), STRING)],
    "trimPrefix": [((STRING, STRING), STRING), ((STRING,), STRING)],
    "trimSuffix": [((STRING, STRING), STRING), ((STRING,), STRING)],
    "upper": [((STRING,), STRING)],
    "lower": [((STRING,), STRING)],
    "split": [((STRING, STRING), STRINGS), ((STRING, STRING, INT), STRINGS)],
    "splitAfter": [((STRING, STRING), STRINGS), ((STRING, STRING, INT), STRINGS)],
    "replace": [((STRING, STRING, STRING, INT), STRING), ((STRING, STRING, STRING), STRING)],
    "repeat": [((STRING, INT), STRING)],
    "join": [((ANY_ARRAY, STRING), STRING), ((ANY_ARRAY,), STRING)],
    "indexOf": [((STRING, STRING), INT)],
    "lastIndexOf": [((STRING, STRING), INT)],
    "hasPrefix": [((STRING, STRING), BOOL)],
    "hasSuffix": [((STRING, STRING), BOOL)],
    "toJSON": [((UNKNOWN,), STRING)],
    "fromJSON": [((STRING,), UNKNOWN)],
    "toBase64": [((STRING,), STRING)],
    "fromBase64": [((STRING,), STRING)],
    "duration": [((STRING,), DURATION)],
    "now": [((), TIME)],
    "date": [((STRING,), TIME), ((STRING, STRING), TIME), ((STRING, STRING, LOCATION), TIME), ((LOCATION, STRING), TIME), ((LOCATION, STRING, STRING), TIME)],
    "bitand": [((INT, INT), INT)],
    "bitor": [((INT, INT), INT)],
    "bitxor": [((INT, INT), INT)],
    "bitnand": [((INT, INT), INT)],
    "bitnot": [((INT,), INT)],
    "bitshl": [((INT, INT), INT)],
    "bitshr": [((INT, INT), INT)],
    "bitushr": [((INT, INT), INT)],
}

ONE = "invalid number of arguments (expected 1, got {})"

#: Functions of lists and maps with one argument: kinds of the argument, type of the result, error text for others.
COLLECTIONS: dict[str, tuple[str, Callable[[Type], Type], str]] = {
    "first": ("array", lambda t: t.element if is_array(t) else UNKNOWN, "cannot get first element from {}"),
    "last": ("array", lambda t: t.element if is_array(t) else UNKNOWN, "cannot get last element from {}"),
    "keys": ("map", lambda t: ANY_ARRAY, "cannot get keys from {}"),
    "values": ("map", lambda t: ANY_ARRAY, "cannot get values from {}"),
    "toPairs": ("map", lambda t: ANY_ARRAY, "cannot transform {} to pairs"),
    "fromPairs": ("array", lambda t: Map(UNKNOWN, "map[interface {}]interface {}"), "cannot transform {} from pairs"),
    "reverse": ("array", lambda t: ANY_ARRAY, "cannot reverse {}"),
    "uniq": ("array", lambda t: ANY_ARRAY, "cannot uniq {}"),
    "flatten": ("array", lambda t: ANY_ARRAY, "cannot flatten {}"),
    "len": ("array map string", lambda t: INT, "invalid argument for len (type {})"),
}

AGGREGATES = ("max", "min", "mean", "median")
ROUNDED = ("ceil", "floor", "round")

BUILTINS = frozenset(
    (*SIGNATURES, *COLLECTIONS, *AGGREGATES, *ROUNDED, "abs", "int", "float", "type", "get", "take", "concat", "sort", "timezone",
     "all", "none", "any", "one", "filter", "map", "find", "findIndex", "findLast", "findLastIndex", "count", "sum", "groupBy", "sortBy", "reduce")
)  # fmt: skip

#: Methods of times and their like: types of arguments, type of the result.
METHODS: dict[Type, dict[str, tuple[tuple[Type, ...], Type]]] = {
    TIME: {
        **dict.fromkeys(("Year", "Day", "Hour", "Minute", "Second", "Nanosecond", "YearDay", "Unix", "UnixMilli", "UnixMicro", "UnixNano"), ((), INT)),
        "Month": ((), MONTH), "Weekday": ((), WEEKDAY), "IsZero": ((), BOOL), "Format": ((STRING,), STRING), "String": ((), STRING),
        "Add": ((DURATION,), TIME), "AddDate": ((INT, INT, INT), TIME), "Sub": ((TIME,), DURATION), "Before": ((TIME,), BOOL), "After": ((TIME,), BOOL),
        "Equal": ((TIME,), BOOL), "Compare": ((TIME,), INT), "UTC": ((), TIME), "Local": ((), TIME), "In": ((LOCATION,), TIME), "Zone": ((), STRING),
        "Truncate": ((DURATION,), TIME), "Round": ((DURATION,), TIME),
    },
    DURATION: {
        **dict.fromkeys(("Hours", "Minutes", "Seconds"), ((), FLOAT)),
        **dict.fromkeys(("Milliseconds", "Microseconds", "Nanoseconds"), ((), INT)),
        "String": ((), STRING), "Abs": ((), DURATION), "Truncate": ((DURATION,), DURATION), "Round": ((DURATION,), DURATION),
    },
    MONTH: {"String": ((), STRING)},
    WEEKDAY: {"String": ((), STRING)},
    LOCATION: {"String": ((), STRING)},
}  # fmt: skip


def time_zone(name: str) -> Zone | None:
    """The native time zone of a name; None for UTC. Raises ValueError."""
    if name in ("", "UTC"):
        return None
    from fastdns.expression.dates import Zone

    return Zone(name)


def check(tree: Node, source: str, functions: dict[str, tuple[tuple[Type, ...], Type]], variables: dict[str, Type]) -> tuple[list[Instruction], Type]:
    """The code of a tree, and the type of its value. ``variables`` are numbered in their order. Raises ExpressionError."""
    checker = _Checker(source, functions, variables)
    kind = checker.visit(tree)
    checker.code.append(Instruction("result", None, (checker.numbers[id(tree)],)))
    return checker.code, kind


class _Scope(NamedTuple):
    collection: Type
    names: dict[str, Type]


class _Checker:
    def __init__(self, source: str, functions: dict[str, tuple[tuple[Type, ...], Type]], variables: dict[str, Type]) -> None:
        self.source = source
        self.functions = functions
        self.variables = variables
        self.places = {name: place for place, name in enumerate(variables)}
        self.locals: list[tuple[str, Type, int]] = []
        self.most = 0
        self.scopes: list[_Scope] = []
        self.code: list[Instruction] = []
        self.numbers: dict[int, int] = {}

    def error(self, node: Node, message: str) -> ExpressionError:
        return ExpressionError(message, self.source, node.at)

    def emit(self, node: Node, operation: str, value: Any = None, parts: list[Node] | None = None) -> None:
        self.code.append(Instruction(operation, value, tuple(self.numbers[id(part)] for part in parts or [])))
        self.numbers[id(node)] = len(self.code) - 1

    def visit(self, node: Node) -> Type:
        if id(node) in self.numbers:  # an operand of two comparisons
            return node.type
        node.type = getattr(self, "_" + node.kind)(node)
        return node.type

    # ---- operands ----

    def _nil(self, node: Node) -> Type:
        self.emit(node, "constant", None)
        return NIL

    def _bool(self, node: Node) -> Type:
        self.emit(node, "constant", node.value)
        return BOOL

    def _int(self, node: Node) -> Type:
        self.emit(node, "constant", node.value)
        return INT

    def _float(self, node: Node) -> Type:
        self.emit(node, "constant", node.value)
        return FLOAT

    def _string(self, node: Node) -> Type:
        self.emit(node, "constant", node.value)
        return STRING

    def _name(self, node: Node) -> Type:
        for name, kind, place in reversed(self.locals):
            if name == node.value:
                self.emit(node, "local", place)
                return kind
        if node.value in self.variables:
            self.emit(node, "variable", self.places[node.value])
            return self.variables[node.value]
        if node.value in self.functions or node.value in BUILTINS:
            self.emit(node, "constant", None)
            wanted, result = self.functions.get(node.value, ((), UNKNOWN))
            return f"func({', '.join(type_text(kind) for kind in wanted)}) {type_text(result)}"
        raise self.error(node, f"unknown name {node.value}")

    def _pointer(self, node: Node) -> Type:
        if not self.scopes:
            raise self.error(node, "cannot use pointer accessor outside predicate")
        scope = self.scopes[-1]
        self.emit(node, "pointer", ("", "index", "acc").index(node.value) if node.value in ("", "index", "acc") else 0)
        if not node.value:
            return scope.collection.element if is_array(scope.collection) else UNKNOWN
        if node.value not in scope.names:
            raise self.error(node, f"unknown pointer #{node.value}")
        return scope.names[node.value]

    def _array(self, node: Node) -> Type:
        kinds = [self.visit(part) for part in node.parts]
        self.emit(node, "array", None, node.parts)
        return Array(kinds[0]) if kinds and all(family(kind) == family(kinds[0]) for kind in kinds) else ANY_ARRAY

    def _map(self, node: Node) -> Type:
        for number, part in enumerate(node.parts):
            kind = self.visit(part)
            if number % 2 == 0 and kind not in (STRING, UNKNOWN):
                raise self.error(part, f"cannot use {type_text(kind)} as type string in map key")
        self.emit(node, "map", None, node.parts)
        return Map(UNKNOWN)

    # ---- operators ----

    def _unary(self, node: Node) -> Type:
        kind = self.visit(node.parts[0])
        self.emit(node, "not" if node.value in ("!", "not") else "negative" if node.value == "-" else "positive", None, node.parts)
        if node.value in ("!", "not"):
            if kind in (BOOL, UNKNOWN):
                return BOOL
        elif kind in (*NUMBERS, UNKNOWN):
            return kind
        raise self.error(node, f"invalid operation: {node.value} (mismatched type {type_text(kind)})")

    def _binary(self, node: Node) -> Type:
        operator = node.value
        left, right = (self.visit(part) for part in node.parts)
        result = _RESULTS[operator](left, right)
        if operator == "in" and result is None:
            if isinstance(right, Map):
                raise self.error(node, f"cannot use {type_text(left)} as type string in map key")
            if is_array(right):
                raise self.error(node, f"cannot use {type_text(left)} as type {type_text(right.element)} in array")
        if operator == "%" and node.parts[0].kind == node.parts[1].kind == "int" and node.parts[1].value == 0:
            raise self.error(node, "integer divide by zero")
        if result is None:
            raise self.error(node, f"invalid operation: {operator} (mismatched types {type_text(left)} and {type_text(right)})")
        if operator == "matches" and node.parts[1].kind == "string":
            try:
                pattern = regex.compile(node.parts[1].value)
            except regex.RegexError as error:
                raise self.error(node, str(error)) from None
            self.emit(node, "matches", pattern, node.parts[:1])
            return result
        self.emit(node, _OPERATIONS[operator], None, node.parts)
        return result

    def _choice(self, node: Node) -> Type:
        test, first, second = (self.visit(part) for part in node.parts)
        if test not in (BOOL, UNKNOWN):
            raise self.error(node.parts[0], f"non-bool expression (type {type_text(test)}) used as condition")
        self.emit(node, "choice", None, node.parts)
        if first == NIL:
            return second
        if second == NIL or first == second:
            return first
        return ANY_ARRAY if is_array(first) and is_array(second) else UNKNOWN

    def _let(self, node: Node) -> Type:
        if node.value in self.functions or node.value in self.variables:
            raise self.error(node, f"cannot redeclare {node.value}")
        if node.value in BUILTINS:
            raise self.error(node, f"cannot redeclare builtin {node.value}")
        if any(name == node.value for name, _, _ in self.locals):
            raise self.error(node, f"cannot redeclare variable {node.value}")
        kind = self.visit(node.parts[0])
        self.locals.append((node.value, kind, len(self.locals)))
        if len(self.locals) > 32:
            raise self.error(node, "too many variables")
        result = self.visit(node.parts[1])
        self.emit(node, "let", len(self.locals) - 1, node.parts)
        self.locals.pop()
        return result

    def _sequence(self, node: Node) -> Type:
        kinds = [self.visit(part) for part in node.parts]
        self.emit(node, "sequence", None, node.parts)
        return kinds[-1]

    # ---- parts of values ----

    def _member(self, node: Node) -> Type:
        base, name = (self.visit(part) for part in node.parts)
        self.emit(node, "optional member" if node.value else "member", None, node.parts)
        if base == UNKNOWN:
            return UNKNOWN
        if isinstance(base, Map):
            if name not in (STRING, UNKNOWN):
                raise self.error(node.parts[1], f"cannot use {type_text(name)} to get an element from {type_text(base)}")
            return base.value
        if is_array(base):
            if name not in (INT, UNKNOWN):
                raise self.error(node.parts[1], f"array elements can only be selected using an integer (got {type_text(name)})")
            return base.element
        if base == NIL:
            raise self.error(node, f"type nil has no field {node.parts[1].value}")
        if node.parts[1].kind == "string":
            raise self.error(node, f"type {type_text(base)} has no field {node.parts[1].value}")
        raise self.error(node, f"type {type_text(base)}[{type_text(name)}] is undefined")

    def _slice(self, node: Node) -> Type:
        base, first, last = (self.visit(part) for part in node.parts)
        if base not in (UNKNOWN, STRING) and not is_array(base):
            raise self.error(node, f"cannot slice {type_text(base)}")
        for part, kind in zip(node.parts[1:], (first, last), strict=True):
            if kind not in (INT, UNKNOWN, NIL):
                raise self.error(part, f"non-integer slice index {type_text(kind)}")
        self.emit(node, "slice", None, node.parts)
        return base

    # ---- calls ----

    def _call(self, node: Node) -> Type:
        if node.value not in self.functions:
            if node.value in self.variables or any(name == node.value for name, _, _ in self.locals):
                raise self.error(node, f"{node.value} is not callable")
            raise self.error(node, f"unknown name {node.value}")
        wanted, result = self.functions[node.value]
        kinds = [self.visit(part) for part in node.parts]
        problem = self.mismatch(node, node.value, wanted, kinds)
        if problem is not None:
            raise problem
        self.emit(node, "call " + node.value, None, node.parts)
        return result

    def mismatch(self, node: Node, name: str, wanted: tuple[Type, ...], kinds: list[Type], parts: list[Node] | None = None) -> ExpressionError | None:
        if len(kinds) != len(wanted):
            return self.error(node, f"{'too many' if len(kinds) > len(wanted) else 'not enough'} arguments to call {name}")
        for part, want, kind in zip(node.parts if parts is None else parts, wanted, kinds, strict=True):
            if UNKNOWN in (want, kind) or want == kind or (is_array(want) and is_array(kind)) or (want == FLOAT and kind == INT):
                continue
            if kind == NIL:
                return self.error(part, f"cannot use nil as argument (type {type_text(want)}) to call {name}")
            return self.error(part, f"cannot use {type_text(kind)} as argument (type {type_text(want)}) to call {name} ")
        return None

    def _method(self, node: Node) -> Type:
        base = self.visit(node.parts[0])
        known = METHODS.get(base, {}) if isinstance(base, str) else {}
        if node.value not in known:
            raise self.error(node, f"type {type_text(base)} has no method {node.value}")
        wanted, result = known[node.value]
        arguments = node.parts[1:]
        problem = self.mismatch(node, node.value, wanted, [self.visit(part) for part in arguments], arguments)
        if problem is not None:
            raise problem
        self.emit(node, "time " + node.value, None, node.parts)
        return result

    def _predicate(self, node: Node) -> Type:
        kind = self.visit(node.parts[0])
        self.numbers[id(node)] = self.numbers[id(node.parts[0])]
        return kind

    def _builtin(self, node: Node) -> Type:
        name = node.value
        if name == "timezone" or (name == "date" and len(node.parts) == 3):
            self.place(node)
            if name == "timezone":
                return LOCATION
        if any(part.kind == "predicate" for part in node.parts) or name in ("sum", "count"):
            return self.with_predicate(node)
        kinds = [self.visit(part) for part in node.parts]
        result = self.builtin_type(node, name, kinds)
        self.emit(node, name, None, node.parts)
        return result

    def place(self, node: Node) -> None:
        """The time zone, the last argument of `timezone` and `date`; a constant one is looked up at compile time."""
        if node.value == "timezone" and len(node.parts) != 1:
            raise self.error(node, f"{'too many' if node.parts else 'not enough'} arguments to call timezone")
        name = node.parts[-1]
        if name.kind != "string":
            kind = self.visit(name)
            if kind not in (STRING, UNKNOWN):
                raise self.error(name, f"cannot use {type_text(kind)} as argument (type string) to call {node.value} ")
            raise self.error(name, "a time zone must be constant")
        try:
            zone = time_zone(name.value)
        except ValueError as error:
            raise self.error(name, str(error)) from None
        target = node if node.value == "timezone" else name
        self.emit(target, "place", zone)
        target.type = LOCATION

    def builtin_type(self, node: Node, name: str, kinds: list[Type]) -> Type:
        if name in SIGNATURES:
            problem: ExpressionError | None = None
            for wanted, result in SIGNATURES[name]:
                problem = self.mismatch(node, name, wanted, kinds)
                if problem is None:
                    return result
            raise problem or self.error(node, f"not enough arguments to call {name}")
        if name in COLLECTIONS:
            if len(kinds) != 1:
                raise self.error(node, ONE.format(len(kinds)))
            wanted_kinds, of, message = COLLECTIONS[name]
            if family(kinds[0]) not in (*wanted_kinds.split(), UNKNOWN):
                raise self.error(node, message.format(type_text(kinds[0])))
            return of(kinds[0])
        if name in ("int", "float", "abs", *ROUNDED):
            return self.number_type(node, name, kinds)
        if name in AGGREGATES:
            return self.aggregate_type(node, name, kinds)
        return self.list_type(node, name, kinds)

    def number_type(self, node: Node, name: str, kinds: list[Type]) -> Type:
        if len(kinds) != 1:
            raise self.error(node, ONE.format(len(kinds)))
        if kinds[0] not in (*NUMBERS, UNKNOWN) and not (kinds[0] == STRING and name in ("int", "float")):
            raise self.error(node, f"invalid argument for {name} (type {'%!s(<nil>)' if kinds[0] == NIL else type_text(kinds[0])})")
        return INT if name == "int" else kinds[0] if name == "abs" else FLOAT

    def aggregate_type(self, node: Node, name: str, kinds: list[Type]) -> Type:
        if not kinds:
            raise self.error(node, f"not enough arguments to call {name}")
        for kind in kinds:
            if is_array(kind) or kind == UNKNOWN:  # the types of the elements, and of further arguments, are not checked
                return UNKNOWN
            if kind not in NUMBERS:
                raise self.error(node, f"invalid argument for {name} (type {type_text(kind)})")
        return kinds[0]  # also for mean and median

    def list_type(self, node: Node, name: str, kinds: list[Type]) -> Type:
        if name == "concat":
            for kind in kinds or [NIL]:
                if family(kind) not in ("array", UNKNOWN):
                    raise self.error(node, f"cannot concat {type_text(kind)}" if kinds else "invalid number of arguments (expected at least 1, got 0)")
            return ANY_ARRAY
        if name == "sort":
            if not kinds:
                raise self.error(node, "not enough arguments to call sort")
            if len(kinds) > 2:
                raise self.error(node, f"invalid number of arguments (expected 1 or 2, got {len(kinds)})")
            if family(kinds[0]) not in ("array", UNKNOWN):
                raise self.error(node.parts[0], f"cannot use {type_text(kinds[0])} as argument (type []int) to call sort ")
            return ANY_ARRAY
        if len(kinds) != 2:
            raise self.error(node, f"invalid number of arguments (expected 2, got {len(kinds)})")
        if name == "take":
            if family(kinds[0]) not in ("array", UNKNOWN):
                raise self.error(node, f"cannot take from {type_text(kinds[0])}")
            if kinds[1] not in (INT, UNKNOWN):
                raise self.error(node, f"cannot take {type_text(kinds[1])} elements")
            return kinds[0]
        if kinds[0] == UNKNOWN:  # get
            return UNKNOWN
        if is_array(kinds[0]):
            if kinds[1] not in (INT, UNKNOWN):
                raise self.error(node.parts[1], f"non-integer slice index {type_text(kinds[1])}")
            return kinds[0].element
        if isinstance(kinds[0], Map):
            return kinds[0].value
        raise self.error(node.parts[0], f"type {type_text(kinds[0])} does not support indexing")

    def with_predicate(self, node: Node) -> Type:
        name = node.value
        collection = self.visit(node.parts[0])
        if not is_array(collection) and collection != UNKNOWN:
            raise self.error(node.parts[0], f"builtin {name} takes only array (got {type_text(collection)})")
        element = collection.element if is_array(collection) else UNKNOWN
        result: Type = element
        if len(node.parts) > 1:
            names = {"map": {"index": INT}, "reduce": {"index": INT, "acc": UNKNOWN}}.get(name, {})
            self.scopes.append(_Scope(collection, names))
            result = self.visit(node.parts[1])
            self.scopes.pop()
            if name not in ("map", "sum", "groupBy", "sortBy", "reduce") and result not in (BOOL, UNKNOWN):
                raise self.error(node.parts[1], f"predicate should return boolean (got {type_text(result)})")
        if len(node.parts) > 2:
            order = self.visit(node.parts[2])
            if name == "sortBy" and order not in (STRING, UNKNOWN):
                raise self.error(node.parts[2], f"sortBy order argument must be a string (got {type_text(order)})")
        self.emit(node, "each" if name == "map" else name, None, node.parts)
        return {
            "filter": Array(element), "map": Array(result), "count": INT, "sum": result, "find": element, "findLast": element, "findIndex": INT,
            "findLastIndex": INT, "groupBy": Map(Array(element), "map[interface {}][]interface {}"), "sortBy": collection, "reduce": result,
        }.get(name, BOOL)  # fmt: skip


# ---- types of operations ----


def family(kind: Type) -> str:
    return "array" if is_array(kind) else "map" if isinstance(kind, Map) else str(kind)


def _same(kind: Type, other: Type) -> bool:
    return (
        UNKNOWN in (kind, other)
        or NIL in (kind, other)
        or kind == other
        or (kind in NUMBERS and other in NUMBERS)
        or (is_array(kind) and is_array(other))
        or (isinstance(kind, Map) and isinstance(other, Map))
    )


def _logic(left: Type, right: Type) -> Type:
    return BOOL if left in (BOOL, UNKNOWN) and right in (BOOL, UNKNOWN) else None


def _order(left: Type, right: Type) -> Type:
    kinds = ((*NUMBERS,), (STRING,), (TIME,), (DURATION,))
    return BOOL if any(left in (*kind, UNKNOWN) and right in (*kind, UNKNOWN) for kind in kinds) else None


def _sum(left: Type, right: Type) -> Type:
    if left in NUMBERS and right in NUMBERS:
        return FLOAT if FLOAT in (left, right) else INT
    if left == right and left in (STRING, DURATION):
        return left
    if (left, right) in ((TIME, DURATION), (DURATION, TIME)):
        return TIME
    return UNKNOWN if UNKNOWN in (left, right) and all(kind in (*NUMBERS, STRING, TIME, DURATION, UNKNOWN) for kind in (left, right)) else None


def _difference(left: Type, right: Type) -> Type:
    if left == right == TIME:
        return DURATION
    if (left, right) == (TIME, DURATION):
        return TIME
    return _sum(left, right) if STRING not in (left, right) and right != TIME else None


def _product(left: Type, right: Type) -> Type:
    if DURATION in (left, right) and left in (*NUMBERS, DURATION) and right in (*NUMBERS, DURATION):
        return DURATION
    return _sum(left, right) if not {STRING, TIME} & {left, right} else None


def _quotient(left: Type, right: Type) -> Type:
    return FLOAT if left in (*NUMBERS, UNKNOWN) and right in (*NUMBERS, UNKNOWN) else None


def _remainder(left: Type, right: Type) -> Type:
    return INT if left in (INT, UNKNOWN) and right in (INT, UNKNOWN) else None


def _texts(left: Type, right: Type) -> Type:
    return BOOL if left in (STRING, UNKNOWN) and right in (STRING, UNKNOWN) else None


def _membership(left: Type, right: Type) -> Type:
    if isinstance(right, Map):
        return BOOL if left in (STRING, UNKNOWN) else None
    if is_array(right):
        return BOOL if _same(left, right.element) else None
    return BOOL if UNKNOWN in (left, right) else None


def _span(left: Type, right: Type) -> Type:
    return Array(INT) if left in (INT, UNKNOWN) and right in (INT, UNKNOWN) else None


def _equality(left: Type, right: Type) -> Type:
    return BOOL if _same(left, right) else None


def _fallback(left: Type, right: Type) -> Type:
    return right if left == NIL else left if right == NIL or left == right else UNKNOWN


_RESULTS: dict[str, Callable[[Type, Type], Type]] = {
    "==": _equality, "!=": _equality, "or": _logic, "||": _logic, "and": _logic, "&&": _logic, "<": _order, ">": _order, "<=": _order, ">=": _order,
    "+": _sum, "-": _difference, "*": _product, "/": _quotient, "**": _quotient, "^": _quotient, "%": _remainder, "in": _membership,
    "matches": _texts, "contains": _texts, "startsWith": _texts, "endsWith": _texts, "..": _span, "??": _fallback,
}  # fmt: skip

_OPERATIONS = {
    "==": "equal", "!=": "unequal", "or": "or", "||": "or", "and": "and", "&&": "and", "<": "less", ">": "greater", "<=": "at most", ">=": "at least",
    "+": "add", "-": "subtract", "*": "multiply", "/": "divide", "**": "power", "^": "power", "%": "remainder", "in": "in", "matches": "match",
    "contains": "contains", "startsWith": "starts with", "endsWith": "ends with", "..": "range", "??": "coalesce",
}  # fmt: skip
