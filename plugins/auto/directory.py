"""A directory of master files, and the zones that it has at the time."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from fastdns import control
from fastdns.corefile.errors import quoted, system_error
from fastdns.expression.matcher import Regex
from fastdns.index.zone import Zone, ZoneSet
from fastdns.plugins.file import conflicts
from fastdns.plugins.file.source import Notify, ZoneFile, notifier
from fastdns.plugins.prometheus import Recorder
from fastdns.plugins.transfer.name_observer import replace
from fastdns.setup import Config, Controller
from fastdns.telemetry.log import Log

__all__ = ["Directory", "expand"]

log = Log("plugin/auto")

#: What Go's Expand replaces: a dollar sign, a group's number or name, with or without braces.
REFERENCE = re.compile(r"\$(?:(\$)|(\w+)|\{(\w+)\})", re.ASCII)


class Directory:
    """Keeps a set of zones as the files of a directory are.

    ``pattern`` is looked for in the names of files; ``template`` makes the zone's name of what its groups matched.
    """

    def __init__(self, path: str, pattern: Regex, template: str, zones: ZoneSet, refuses_conflicts: bool = False) -> None:
        self.path = path
        self.pattern = pattern
        self.template = template
        self.zones = zones
        #: Files whose records contradict each other are not loaded.
        self.refuses_conflicts = refuses_conflicts
        #: By lower-case origin.
        self.files: dict[str, ZoneFile] = {}
        self._notify: Notify | None = None
        self._recorder: Recorder | None = None
        self._timer: control.Timer | None = None

    def start(self, config: Config) -> None:
        """Load what there is, before the block serves."""
        self._notify = notifier(config)
        recorder = config.handler("prometheus")
        if isinstance(recorder, Recorder):
            self._recorder = recorder
            recorder.follow(self.zones)
        self.scan()
        for file in self.files.values():
            file.tell_conflicts()

    def inspect(self, controller: Controller) -> None:
        """Load what there is, for `fastdns check`."""
        self.scan()
        for file in self.files.values():
            file.suspect(controller)

    def watch(self, seconds: float) -> None:
        """Tell secondaries, and look at the directory every so many seconds from now on (0: never)."""
        self._tell()
        if seconds:
            self._timer = control.every(seconds, self.again)

    def stop(self) -> None:
        for file in self.files.values():
            conflicts.withdraw(file.zone)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def again(self) -> None:
        """Zones whose files came or went, and new versions of those that stay."""
        standing = list(self.files.values())
        self.scan()
        for file in list(self.files.values()):
            if file not in standing:
                file.tell_conflicts()
            file.reload()
        self._tell()

    def scan(self) -> None:
        """Load zones of new files, and let go of those without one."""
        seen: dict[str, str] = {}
        before = len(self.files)
        for path in walk(self.path):
            origin = self.origin(os.path.basename(path))
            if origin is None:
                continue
            if origin in seen:
                log.warning(f"Multiple zone files match origin {quoted(origin)}: using {quoted(seen[origin])} instead of {quoted(path)}")
                continue
            seen[origin] = path
            if origin in self.files:
                self.files[origin].path = path
            else:
                self._insert(origin, path)
        gone = [origin for origin in self.files if origin not in seen]
        for origin in gone:
            conflicts.withdraw(self.files.pop(origin).zone)
        if gone or len(self.files) != before:
            replace(self.zones, (file.zone for file in self.files.values()))
        for origin in gone:
            log.info(f"Deleting zone `{origin}'")
        self.zones.collect()

    def origin(self, name: str) -> str | None:
        """The zone that a file of this name has; None: it is no zone's."""
        groups = self.pattern.search(name)
        if groups is None:
            return None
        origin = expand(self.template, groups, self.pattern.names)
        if not origin:
            return None
        return (origin if origin.endswith(".") else origin + ".").lower()

    def _insert(self, origin: str, path: str) -> None:
        try:
            zone = Zone(origin)
        except ValueError:
            place = f"failed to parse file {quoted(path)} for origin {origin} with error {path}"
            log.warning(f'Parse zone `{origin}\': {place}: dns: bad initial origin name: "" at line: 0:0')
            return
        try:
            file = ZoneFile(zone, path, self.refuses_conflicts)
            file.first_load()
        except OSError as error:
            log.warning(f"Opening {path} failed: {system_error(error)}")
            return
        except ValueError as error:
            log.warning(f"Parse zone `{origin}': {error}")
            return
        if self._recorder is not None:
            self._recorder.add_zone(file.zone)
        self.files[origin] = file
        log.info(f"Inserting zone `{origin}' from: {path}")

    def _tell(self) -> None:
        """Notify the secondaries of every zone; failures are logged once, with the last error."""
        failure: Exception | None = None
        if self._notify is None:
            return
        for origin in list(self.files):
            try:
                self._notify(origin)
            except (OSError, ValueError) as error:
                failure = error
        if failure is not None:
            log.warning(str(failure))


def walk(path: str) -> Iterator[str]:
    """Files below a directory, which may be a link itself, in the order of their names; links to directories count as files.

    A path that is a file stands for itself, and none for the working directory.
    """
    top = os.path.realpath(path) if path else "."
    if os.path.isdir(top):
        yield from (os.path.normpath(found) for found in _walk(top))
    elif os.path.exists(top):
        yield top
    else:
        log.warning(f"error reading {path}: lstat {path}: no such file or directory")


def _walk(folder: str) -> Iterator[str]:
    try:
        with os.scandir(folder) as found:
            entries = sorted(found, key=lambda entry: os.fsencode(entry.name))
    except OSError as error:
        log.warning(f"error reading {folder}: {system_error(error, path=folder)}")
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(entry.path)
        else:
            yield entry.path


def expand(template: str, groups: list[str | None], names: dict[str, int]) -> str:
    """A template of Go's ``Expand``: ``$1``, ``${1}``, ``${name}``; what names no group stands for nothing, ``$$`` for a dollar sign."""

    def value(found: re.Match[str]) -> str:
        if found[1]:
            return "$"
        name = found[2] or found[3]
        number = int(name) if name.isdigit() else names.get(name, -1)
        return groups[number] or "" if 0 <= number < len(groups) else ""

    return REFERENCE.sub(value, template)
