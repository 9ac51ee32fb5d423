"""auto: answers from the zones of all master files in a directory."""

from __future__ import annotations

import os

from fastdns.corefile import CorefileError
from fastdns.corefile.errors import system_error
from fastdns.expression import regex
from fastdns.expression.matcher import Regex
from fastdns.index.zone import ZoneSet
from fastdns.plugins.auto._auto import AutoHandler
from fastdns.plugins.auto.directory import Directory
from fastdns.setup import Controller
from fastdns.setup.traits import Traits
from fastdns.telemetry.log import Log

__all__ = ["Settings", "parse", "setup"]

TRAITS = Traits(runs_in_check=True)

log = Log("plugin/auto")

SECOND = 10**9


class Settings:
    """What the ``auto`` directives of a block say: the last one counts."""

    def __init__(self) -> None:
        self.origins: list[str] = []
        self.path = ""
        self.pattern = regex.compile(r"db\.(.*)")
        #: In the notation of Go's ``Expand``.
        self.template = "${1}"
        #: Nanoseconds; 0: files are looked at once.
        self.reload = 60 * SECOND
        self.refuses_conflicts = False


def setup(controller: Controller) -> None:
    """Add the block's handler; the directory is read before the block serves."""
    settings = parse(controller)
    zones = ZoneSet()
    directory = Directory(settings.path, settings.pattern, settings.template, zones, settings.refuses_conflicts)
    controller.config.add_handler(AutoHandler("auto", zones, origins=settings.origins))
    controller.on_inspection(lambda: directory.inspect(controller))
    controller.on_startup(lambda: directory.start(controller.config))
    controller.on_started(lambda: directory.watch(settings.reload / SECOND))
    controller.on_shutdown(directory.stop)


def parse(controller: Controller) -> Settings:
    """Read the directives. Raises CorefileError with the texts of CoreDNS."""
    settings = Settings()
    while controller.next():
        settings.origins = controller.zones(controller.remaining_args())
        while controller.next_block():
            match controller.val():
                case "directory":
                    _directory(controller, settings)
                case "reload":
                    settings.reload = _reload(controller)
                case "refuse_conflicts":
                    settings.refuses_conflicts = True
                case "upstream":  # of former versions
                    controller.remaining_args()
                case word:
                    raise controller.err(f"unknown property '{word}'")
    return settings


def _directory(controller: Controller, settings: Settings) -> None:
    arguments = controller.remaining_args()
    if len(arguments) not in (1, 3):
        # With an expression alone, what is wrong with that comes first.
        if len(arguments) == 2:
            _pattern(controller, arguments[1])
        raise controller.arg_err()
    settings.path = controller.path(arguments[0])
    try:
        os.stat(settings.path)
    except FileNotFoundError:
        log.warning(f"Directory does not exist: {settings.path}")
    except OSError as error:
        raise controller.err(f"Unable to access root path '{settings.path}': {system_error(error, 'stat')}") from error
    if len(arguments) == 3:
        settings.pattern = _pattern(controller, arguments[1])
        settings.template = arguments[2].replace("{", "${")


def _pattern(controller: Controller, text: str) -> Regex:
    if len(text) > regex.LENGTH_MAX:
        raise controller.err("regexp too large")
    pattern = regex.compile(text)
    if pattern.groups == 0:
        raise controller.err("Need at least one sub expression")
    return pattern


def _reload(controller: Controller) -> int:
    arguments = controller.remaining_args()
    if not arguments:
        raise CorefileError("reload duration value is expected")
    try:
        duration = controller.duration(arguments[0])
        if duration < 0:
            raise ValueError("invalid duration")
    except ValueError as error:
        raise CorefileError(f"plugin/file: {error}") from error
    return duration
