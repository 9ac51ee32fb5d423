"""errors: a line for each error of the plugins below."""

from __future__ import annotations

from fastdns.plugins.errors._errors import ErrorLog
from fastdns.setup import Controller
from fastdns.setup.traits import Traits

__all__ = ["ErrorLog", "setup"]

TRAITS = Traits(answers=False, side_effects=True)

LEVELS = ("warning", "error", "info", "debug")
REGEXP_MAX = 10000


def setup(controller: Controller) -> ErrorLog:
    """``errors [stdout] { stacktrace; consolidate DURATION REGEXP [LEVEL] [show_first] }``"""
    patterns: list[tuple[int, str, str, bool]] = []
    while controller.once():
        arguments = controller.args(0, 1)
        if arguments and arguments[0] != "stdout":
            raise controller.err(f"invalid log file: {arguments[0]}")
        while controller.next_block():
            option = controller.val()
            if option == "stacktrace":
                controller.no_args()
                controller.config.stacktrace = True
            elif option == "consolidate":
                patterns.append(parse_consolidate(controller))
            else:
                raise controller.syntax_err(f"Unknown field {option}")
    if not patterns:
        return ErrorLog("errors", 0)
    from fastdns.plugins.errors.consolidation import Consolidation

    consolidation = Consolidation(patterns)
    controller.on_startup(consolidation.start)
    controller.on_shutdown(consolidation.stop)
    return ErrorLog("errors", consolidation.number)


def parse_consolidate(controller: Controller) -> tuple[int, str, str, bool]:
    """Nanoseconds, expression, level, whether the first error of a period is shown."""
    duration, expression, *options = controller.args(2, 4)
    try:
        period = controller.duration(duration)
    except ValueError as error:
        raise controller.err(str(error)) from None
    if len(expression) > REGEXP_MAX:
        raise controller.err(f"regex pattern too long: {len(expression)} > {REGEXP_MAX}")
    level, show_first = "", False
    for option in options:
        if option == "show_first":
            show_first = True
        elif option not in LEVELS:
            raise controller.err(f"unknown option in consolidate: {option}")
        elif show_first:
            raise controller.err("log level must come before show_first in consolidate")
        elif level:
            raise controller.err("multiple log levels specified in consolidate")
        else:
            level = option
    from fastdns.expression import regex

    try:
        regex.compile(expression)
    except regex.RegexError as error:
        raise controller.err(str(error)) from None
    return period, expression, level or "error", show_first
