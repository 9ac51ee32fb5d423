"""template: answers that are written by templates over the question."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fastdns import expression
from fastdns.corefile.duration import parse_uint
from fastdns.corefile.errors import quoted
from fastdns.expression import regex
from fastdns.expression.lexer import WORDS
from fastdns.expression.regex import LENGTH_MAX
from fastdns.plugins.template.language import TemplateError, unknown_fields
from fastdns.protocol.parameters import CLASSES, RCODES, TYPES
from fastdns.setup import Controller
from fastdns.setup.traits import Traits

if TYPE_CHECKING:
    from fastdns.expression.evaluate import Code
    from fastdns.expression.matcher import Regex
    from fastdns.plugins.template._render import Source

__all__ = ["Template", "parse", "setup"]

TRAITS = Traits(runs_in_check=True)

#: What a template may ask of its match, beside the functions of every expression.
GROUP: dict[str, tuple[tuple[expression.Type, ...], expression.Type]] = {"group": (("unknown",), "string")}

VARIABLES_MAX = 15


@dataclass
class Template:
    """One directive."""

    klass: int
    type: int
    zones: list[str]
    rcode: int = 0
    matches: list[Regex] = field(default_factory=list)
    #: Section and template, in the order in which records are written.
    texts: list[tuple[str, Source]] = field(default_factory=list)
    variables: list[tuple[str, Code]] = field(default_factory=list)
    expressions: list[Code] = field(default_factory=list)
    #: Code and text of an extended DNS error (RFC 8914).
    error: tuple[int, str] | None = None
    #: Zones whose names go on to the following template; None: never.
    fall: list[str] | None = None


def setup(controller: Controller) -> None:
    """All templates of a block are one handler."""
    templates = parse(controller)
    from fastdns.plugins.template._template import TemplateHandler

    handler = TemplateHandler(templates)
    controller.config.add_handler(handler)
    controller.on_startup(lambda: handler.resolve(controller.config))


def parse(controller: Controller) -> list[Template]:
    """The templates of a block, in order. Raises CorefileError."""
    found = []
    while controller.next():
        klass = _number(controller, CLASSES, "invalid query class")
        kind = _number(controller, TYPES, "invalid RR class")
        template = Template(klass, kind, controller.zones(controller.remaining_args()))
        types: dict[str, expression.Type] = {}
        while controller.next_block():
            _property(controller, template, types)
        if not template.matches:
            template.matches.append(regex.compile(".*"))
        order = ("answer", "additional", "authority")
        template.texts.sort(key=lambda text: order.index(text[0]))
        found.append(template)
    return found


def _number(controller: Controller, names: dict[int, str], complaint: str) -> int:
    text = controller.arg()
    for number, name in names.items():
        if name == text:
            return number
    raise controller.err(f"{complaint} {text}")


def _property(controller: Controller, template: Template, types: dict[str, expression.Type]) -> None:
    from fastdns.plugins.template._render import Source

    word = controller.val()
    if word == "match":
        template.matches += [_pattern(controller, text) for text in controller.args(1)]
    elif word in ("answer", "additional", "authority"):
        for text in controller.args(1):
            for name in unknown_fields(text):
                controller.suspect(f"a template has no field .{name}: queries that come to it get SERVFAIL")
            try:
                template.texts.append((word, Source(word, text)))
            except TemplateError as error:
                raise controller.err(f"could not compile template: {controller.val()}, {error}" + "\n" * (word != "answer")) from None
    elif word == "var":
        _variable(controller, template, types)
    elif word == "expr":
        source = " ".join(controller.args(1))
        try:
            template.expressions.append(expression.compile(source, types, GROUP)[0])
        except expression.ExpressionError as error:
            raise controller.err(f"could not compile expression: {error}") from None
    elif word == "rcode":
        text = controller.arg()
        numbers = {name: number for number, name in RCODES.items()} | {"NOTIMPL": 4}
        if text not in numbers:
            raise controller.err(f"unknown rcode {text}")
        template.rcode = numbers[text]
    elif word == "ederror":
        arguments = controller.args(1, 2)
        try:
            template.error = (parse_uint(arguments[0], 16), arguments[1] if len(arguments) > 1 else "")
        except ValueError as error:
            raise controller.err(f"error parsing extended DNS error code {controller.val()}, {error}") from None
    elif word == "fallthrough":
        template.fall = controller.fallthrough()
    elif word == "upstream":
        controller.remaining_args()
    else:
        raise controller.arg_err()


def _pattern(controller: Controller, text: str) -> Regex:
    size = len(text.encode("utf-8", "surrogateescape"))
    if size > LENGTH_MAX:
        raise controller.err(f"regex pattern too long: {size} > {LENGTH_MAX}")
    try:
        return regex.compile(text)
    except regex.RegexError as error:
        raise controller.err(f"could not parse regex: {text}, {error}") from None


def _variable(controller: Controller, template: Template, types: dict[str, expression.Type]) -> None:
    name, *words = controller.args(2)
    if not re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_]*", name):
        raise controller.err(f"invalid variable name {quoted(name)}")
    reserved = {"true", "false", "nil", *WORDS, *expression.BUILTINS, *expression.FUNCTIONS, *GROUP}
    if name in reserved or name in types:
        raise controller.err(f"variable name {quoted(name)} is reserved")
    if len(types) >= VARIABLES_MAX:
        raise controller.err(f"more than {VARIABLES_MAX} variables")
    try:
        code, kind = expression.compile(" ".join(words), types, GROUP)
    except expression.ExpressionError as error:
        raise controller.err(f"could not compile expression: {name}, {error}") from None
    types[name] = kind
    template.variables.append((name, code))
