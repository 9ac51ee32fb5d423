"""log: a line for each query on standard output."""

from __future__ import annotations

import re

from fastdns._wire import name_wire
from fastdns.corefile import CorefileError
from fastdns.corefile.zone import origins
from fastdns.plugins.log._log import CLASSES, QueryLog
from fastdns.setup import Controller
from fastdns.setup.traits import Traits
from fastdns.telemetry.log import Log
from fastdns.walk.placeholders import Format, compile_format

__all__ = ["QueryLog", "setup"]

TRAITS = Traits(answers=False, side_effects=True)

log = Log("plugin/log")

COMMON = '{remote}:{port} - {>id} "{type} {class} {name} {proto} {size} {>do} {>bufsize}" {rcode} {>rflags} {rsize} {duration}'
COMBINED = COMMON + ' "{>opcode}"'

#: What looks like a placeholder.
UNKNOWN = re.compile(r"\{[>/]?[\w/-]+\}")

Rule = tuple[str, set[str], Format]


def setup(controller: Controller) -> QueryLog:
    """``log [NAMES...] [FORMAT] { class CLASSES... }``, any number of times."""
    rules: list[Rule] = []
    while controller.next():
        rules += parse(controller)
    handler = QueryLog("log", rules)
    controller.on_startup(lambda: handler.resolve(controller.config))
    return handler


def parse(controller: Controller) -> list[Rule]:
    """The rules of one directive, one for each name."""
    arguments = controller.remaining_args()
    form = COMMON
    if not arguments:
        arguments = ["."]
    elif len(arguments) > 1 and "{" in arguments[-1]:
        form = arguments.pop().replace("{common}", COMMON).replace("{combined}", COMBINED)
    elif len(arguments) == 1 and "{" in arguments[0]:
        log.warning(f"'{arguments[0]}' is taken for a name, as any single argument is: to give a format, name what it is for, such as '.'")
    for operation in compile_format(form):
        for word in UNKNOWN.findall(operation.decode("utf-8", "replace")) if isinstance(operation, bytes) else ():
            controller.suspect(f"there is no placeholder {word}: it stays in each line as it is")
    classes: set[str] = set()
    while controller.next_block():
        if controller.val() != "class":
            raise controller.arg_err() if controller.val() == "{" else controller.err(f"unknown property '{controller.val()}'")
        for word in controller.args(1):
            if word not in CLASSES:
                raise CorefileError(f"invalid Class: {word}")
            classes.add(word)
    compiled = Format(form)
    return [(zone, classes or {"all"}, compiled) for name in arguments for zone in scopes(name)]


def scopes(name: str) -> list[str]:
    """The zones that an argument means; none where no query can have such a name, as with a format that stands alone."""
    found = []
    for zone in origins(name):
        try:
            name_wire(zone)
        except ValueError:
            continue
        found.append(zone)
    return found
