"""Zones kept as their files are: loaded, looked at from time to time, loaded again when the SOA's serial has changed."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from fastdns import control
from fastdns.corefile.errors import quoted, system_error
from fastdns.corefile.lexer import Token
from fastdns.index.zone import Zone
from fastdns.plugins.file import conflicts
from fastdns.plugins.file.conflicts import Conflict
from fastdns.plugins.transfer.journal import publish
from fastdns.setup import Config, Controller
from fastdns.telemetry.log import Log

__all__ = ["Notify", "ZoneFile", "notifier"]

log = Log("plugin/file")

SECOND = 10**9

#: A file changed less than this before (seconds) may still be in the writing: it is looked at once more after `SETTLING`.
RECENT = 1.0
SETTLING = 0.1

#: Tells the secondaries of a zone that it has changed.
Notify = Callable[[str], object]

#: What a file's status must not change in while it is read.
Status = tuple[int, int, int, int]


class ZoneFile:
    """A zone and the file that it comes from."""

    def __init__(self, zone: Zone, path: str, refuses_conflicts: bool = False) -> None:
        self.zone = zone
        self.path = path
        #: A version whose records contradict each other is not loaded.
        self.refuses_conflicts = refuses_conflicts
        #: Number of names with such records in the version that is served, and the first ones.
        self.conflicting = 0
        self.conflicts: list[Conflict] = []
        #: Nanoseconds between two looks; 0: none.
        self.interval = 0
        #: Load again when the file's status has changed, whatever its serial.
        self.by_mtime = False
        self.notify: Notify | None = None
        self._seen: Status | None = None
        self._timer: control.Timer | None = None

    def load(self, unless: int | None = 0) -> bool:
        """Read the file and publish the zone; False, and nothing is changed, when its serial is ``unless``.

        Raises OSError when it cannot be opened, and ValueError with CoreDNS's texts when it holds no zone, or one that is refused: the old version goes
        on then.
        """
        before = _status(self.path)
        draft = self.zone.draft(unless)
        try:
            if not draft.read(self.path):
                return False
        except ValueError as error:
            raise ValueError(f"failed to parse file {quoted(self.path)} for origin {self.zone.origin} with error {error}") from error
        except IsADirectoryError as error:
            raise ValueError(f"failed to parse file {quoted(self.path)} for origin {self.zone.origin} with error {system_error(error, 'read')}") from error
        try:
            draft.finish()
        except ValueError as error:
            raise ValueError(f"file {quoted(self.path)} has {error}") from error
        if draft.serial == unless:  # of several SOA records
            return False
        try:
            found = conflicts.find(draft, self.path)
        except (OSError, ValueError) as error:
            raise ValueError(f"file {quoted(self.path)} changed while it was read") from error
        if time.time() - before[0] / SECOND < RECENT:
            time.sleep(SETTLING)
        if _status(self.path) != before:
            raise ValueError(f"file {quoted(self.path)} changed while it was read")
        count, owner = draft.ignored
        if count:
            log.warning(f"Left out {count} records of {quoted(self.path)} that are not in {self.zone.origin}, the first at {owner}")
        conflicting = draft.conflicts
        if conflicting and self.refuses_conflicts:
            raise ValueError(conflicts.refusal(self.path, found, conflicting))
        publish(self.zone, draft)
        self._seen = before
        self.conflicts, self.conflicting = found, conflicting
        return True

    def first_load(self) -> None:
        """`load` at set-up, where a serial of 0 is refused."""
        if not self.load():
            raise ValueError(f"no change in SOA serial for origin {self.zone.origin} in file {self.path}, with 0 SOA serial")

    def watch(self) -> None:
        """Look at the file every `interval`, from now on."""
        if self.interval > 0 and self._timer is None:
            self._timer = control.every(self.interval / SECOND, self.reload)

    def stop(self) -> None:
        """Look at it no more."""
        conflicts.withdraw(self.zone)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def reload(self) -> None:
        """Load the file again if it has another serial, or (`by_mtime`) another status. What goes wrong is logged."""
        unless: int | None = self.zone.serial
        try:
            if self.by_mtime:
                if _status(self.path) == self._seen:
                    return
                unless = 0
            if not self.load(unless):
                return
        except OSError as error:
            log.error(f"Failed to open zone {quoted(self.zone.origin)} in {quoted(self.path)}: {system_error(error)}")
            return
        except ValueError as error:
            log.error(f"Parsing zone {quoted(self.zone.origin)}: {error}")
            return
        log.info(f"Successfully reloaded zone {quoted(self.zone.origin)} in {quoted(self.path)} with {self.zone.serial} SOA serial")
        self.tell_conflicts()
        self.tell()

    def tell_conflicts(self) -> None:
        """Log records of the version that is served that contradict each other, and set their gauge."""
        for conflict in self.conflicts:
            log.warning(str(conflict))
        if self.conflicting > len(self.conflicts):
            log.warning(conflicts.more(self.path, self.conflicting - len(self.conflicts)))
        conflicts.show(self.zone, self.conflicting)

    def suspect(self, controller: Controller) -> None:
        """Report such records to `fastdns check`."""
        for conflict in self.conflicts:
            controller.suspect(conflict.text, place=Token(conflict.file, conflict.line, conflict.name))
        if self.conflicting > len(self.conflicts):
            controller.suspect(conflicts.more(self.path, self.conflicting - len(self.conflicts)), place=Token(self.path, 0, ""))

    def tell(self) -> None:
        """Notify the zone's secondaries, if there is a *transfer*."""
        if self.notify is None:
            return
        try:
            self.notify(self.zone.origin)
        except (OSError, ValueError) as error:
            log.warning(f"Failed sending notifies: {error}")


def notifier(config: Config) -> Notify | None:
    """What sends the notifies of a block; None: nothing does. For start-up hooks and later."""
    handler = config.handler("transfer")
    for candidate in (handler, getattr(handler, "plugin", None)):
        notify = getattr(candidate, "notify", None)
        if callable(notify):
            return notify  # type: ignore[no-any-return]
    return None


def _status(path: str) -> Status:
    status = os.stat(path)
    return status.st_mtime_ns, status.st_size, status.st_ino, status.st_dev
