"""file: answers from zones in master files."""

from __future__ import annotations

from fastdns.corefile import CorefileError
from fastdns.corefile.duration import format_duration
from fastdns.corefile.errors import quoted, system_error
from fastdns.index.zone import Zone, ZoneSet
from fastdns.plugins.file._file import FileHandler
from fastdns.plugins.file.conflicts import refusal
from fastdns.plugins.file.source import SECOND, ZoneFile, notifier
from fastdns.setup import Controller
from fastdns.setup.traits import Traits
from fastdns.telemetry.log import Log

__all__ = ["Settings", "parse", "setup"]

TRAITS = Traits(runs_in_check=True)

log = Log("plugin/file")


class Settings:
    """What the ``file`` directives of a block say, and the zones that they load."""

    def __init__(self) -> None:
        #: By lower-case origin: of two with the same name the later one.
        self.files: dict[str, ZoneFile] = {}
        self.fall: list[str] = []
        #: Nanoseconds; this and the next hold for later directives too.
        self.reload = 60 * SECOND
        self.by_mtime = False
        self.refuses_conflicts = False
        #: Error of the first file that could not be opened.
        self.unopened = ""


def setup(controller: Controller) -> None:
    """Add the block's handler; its zones are loaded here, so that a broken file refuses the Corefile."""
    settings = parse(controller)
    files = list(settings.files.values())
    controller.config.add_handler(FileHandler("file", ZoneSet(file.zone for file in files), settings.fall))

    def start() -> None:
        for file in files:
            file.notify = notifier(controller.config)
            file.tell_conflicts()

    def tell() -> None:
        for file in files:
            file.tell()

    def watch() -> None:
        tell()
        for file in files:
            file.watch()

    def stop() -> None:
        for file in files:
            file.stop()

    controller.on_startup(start)
    controller.on_started(watch)
    controller.on_restart_failed(tell)
    controller.on_shutdown(stop)


def parse(controller: Controller) -> Settings:
    """Read the directives and load their files. Raises CorefileError and ValueError with the texts of CoreDNS."""
    settings = Settings()
    while controller.next():
        arguments = controller.remaining_args()
        if not arguments:
            raise controller.arg_err()
        place = controller.place()
        path = controller.path(arguments.pop(0))
        files = [_load(settings, origin, path) for origin in controller.zones(arguments)]
        while controller.next_block():
            _property(controller, settings)
        for file in files:
            file.interval = settings.reload
            file.by_mtime = settings.by_mtime
            file.refuses_conflicts = settings.refuses_conflicts
            if file.conflicts and file.refuses_conflicts:
                raise CorefileError(refusal(file.path, file.conflicts, file.conflicting), place.file, place.line)
            file.suspect(controller)
    if settings.unopened:
        if settings.reload == 0:
            raise CorefileError(f"plugin/file: plugin/file: {settings.unopened}")
        log.warning(f"Failed to open {quoted(settings.unopened)}: trying again in {format_duration(settings.reload)}")
    return settings


def _load(settings: Settings, origin: str, path: str) -> ZoneFile:
    file = ZoneFile(Zone(origin), path)
    settings.files[origin.lower()] = file
    try:
        file.first_load()
    except OSError as error:
        settings.unopened = settings.unopened or system_error(error)
    return file


def _property(controller: Controller, settings: Settings) -> None:
    match controller.val():
        case "fallthrough":
            settings.fall = controller.fallthrough()
        case "reload":
            arguments = controller.remaining_args()
            if not arguments:
                raise CorefileError("reload duration value is expected")
            try:
                settings.reload = controller.duration(arguments[0])
            except ValueError as error:
                raise CorefileError(f"plugin/file: plugin/file: {error}") from error
        case "reload_by_mtime":
            settings.by_mtime = True
        case "refuse_conflicts":
            settings.refuses_conflicts = True
        case "upstream":  # of former versions
            controller.remaining_args()
        case word:
            raise controller.err(f"unknown property '{word}'")
