"""unbound: resolves queries itself, from the root on, and validates the answers (DNSSEC), by libunbound."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from fastdns.corefile.errors import CorefileError
from fastdns.corefile.lexer import Token
from fastdns.setup import Controller
from fastdns.setup.traits import Traits

if TYPE_CHECKING:
    from fastdns.plugins.unbound.shared import SharedContext

__all__ = ["Options", "parse", "setup"]

TRAITS = Traits(runs_in_check=True, asks_others="all", explain={"query parked": "resolves", "resume answered": "resolved"})


class Options(NamedTuple):
    """What the directive says. Of ``settings`` each is the name of an option, or "" for `config`; its value; and its line."""

    zones: list[str]
    excepted: list[str]
    settings: list[tuple[str, str, int]]


def setup(controller: Controller) -> None:
    """``unbound [FROM…] { … }``"""
    options = parse(controller)
    place = controller.place()
    try:
        from fastdns.plugins.unbound._unbound import UnboundHandler
    except ModuleNotFoundError:
        raise at(place.file, place.line, "unbound is not in this build: install libunbound-dev, then make") from None
    except ImportError as error:  # the library itself
        raise at(place.file, place.line, f"unbound needs libunbound: {error}") from None
    context = open_context(controller, options, place)
    handler = UnboundHandler(context, options.zones, options.excepted)
    controller.on_startup(context.native.start)
    controller.config.add_handler(handler)


def parse(controller: Controller) -> Options:
    """Raises CorefileError."""
    controller.once()
    options = Options(controller.zones(controller.remaining_args()), [], [])
    while controller.next_block():
        name, line = controller.val(), controller.line()
        match name:
            case "except":
                options.excepted.extend(controller.zones(controller.args(1)))
            case "option":
                option, value = controller.args(2, 2)
                options.settings.append((option, value, line))
            case "config":
                options.settings.append(("", controller.path(controller.one_arg()), line))
            case _:
                raise controller.arg_err()
    if controller.once():
        raise controller.arg_err()
    return options


def open_context(controller: Controller, options: Options, place: Token) -> SharedContext:
    """Raises CorefileError with the line of the setting that libunbound refuses."""
    from fastdns.plugins.unbound.shared import Setting, SettingError, acquire, files_of

    settings = [Setting(*setting) for setting in options.settings]
    for path in files_of(settings):
        controller.reads(path)
    try:
        return acquire(settings)
    except SettingError as error:
        raise at(place.file, error.line or place.line, str(error)) from None


def at(file: str, line: int, text: str) -> CorefileError:
    return CorefileError(f"{file}:{line} - Error during parsing: {text}", file, line)
