"""Zones that a cloud hosts (azure, clouddns, route53), kept as they are there: read whole at intervals, published if they have changed.

A zone is read page by page on a thread of `READERS`, into a version beside the one that serves. What fails leaves that one as it is.
"""

from __future__ import annotations

import asyncio
import hashlib
import struct
import threading
import time
from collections.abc import Callable, Iterable

from fastdns import control
from fastdns._wire import name_wire
from fastdns.corefile import CorefileError
from fastdns.corefile.zone import fqdn
from fastdns.index.zone import Zone, ZoneSet
from fastdns.plugins.file import conflicts
from fastdns.plugins.file._hosted import HostedHandler
from fastdns.plugins.file.source import Notify, notifier
from fastdns.plugins.file.storage import Storage
from fastdns.plugins.transfer.journal import publish
from fastdns.protocol.parameters import type_number
from fastdns.setup import Controller
from fastdns.telemetry.keeping import Keeping
from fastdns.telemetry.log import Log
from fastdns.telemetry.metrics import Metric
from fastdns.zonefile.rdata import parse

__all__ = ["HostedZone", "HostedZones", "Row", "one_line", "refusal", "row"]

#: Owner and rdata in uncompressed wire form: owner, type, TTL, rdata.
Row = tuple[bytes, int, int, bytes]

#: Of the process: zones that are read at a time.
READERS = control.Pool("hosted-zones", 8)
#: Characters of a cloud's error text.
ERROR_MOST = 600

LABELS = ("plugin", "zone", "id")
AGE = Metric("fastdns_hosted_zone_age_seconds", "Seconds since the records of a hosted zone were last read whole.", "gauge", LABELS)
FAILURES = Metric("fastdns_hosted_zone_failures_total", "Counter of hosted zones that could not be read.", "counter", LABELS)


def row(owner: str, kind: str, ttl: int, value: str) -> Row:
    """A record in presentation form. Raises ValueError with CoreDNS's text."""
    try:
        number = type_number(kind)
        return name_wire(fqdn(owner).lower()), number, ttl & 0xFFFFFFFF, parse(number, value)
    except ValueError as error:
        raise ValueError(f"failed to parse resource record: dns: {error}") from None


class HostedZone:
    """A zone and the function that reads its records. From one thread at a time."""

    def __init__(self, plugin: str, origin: str, identity: str, read: Callable[[], Iterable[Row]], folder: str = "", title: str = "") -> None:
        """``identity`` is the zone's in the cloud; ``folder`` is where it is kept for a restart ("": nowhere); ``title`` is its name in log lines."""
        self.zone = Zone(origin)
        self.labels = (plugin, self.zone.origin, identity)
        self.title = title or f"{self.zone.origin}:{identity}"
        self.log = Log(f"plugin/{plugin}")
        self.notify: Notify | None = None
        self._read = read
        self._storage = Storage(folder, self.zone.origin, f"{plugin}-{identity}") if folder else None
        path = self._storage.path if self._storage is not None else ""
        failing, again = f"Failed to keep {self.zone.origin} in {path}", f"{self.zone.origin} is kept in {path} again"
        self._keeping = Keeping(plugin, path, self.log.warning, failing, again)
        #: Of the records that serve, in the order in which they were read.
        self._digest = b""
        #: Unix time.
        self._confirmed = 0.0
        self._lock = threading.Lock()
        self._stopped = False

    def start(self) -> None:
        FAILURES.cell(self.labels, zero=True)
        _show_age(self)

    def stop(self) -> None:
        """What is being read is not published."""
        with self._lock:
            self._stopped = True
            conflicts.withdraw(self.zone)
        _withdraw_age(self)
        self._keeping.withdraw()

    def age(self) -> float:
        """Seconds since the records were read. Raises LookupError before the first time."""
        if not self._confirmed:
            raise LookupError(self.labels)
        return max(0.0, time.time() - self._confirmed)

    def restore(self) -> bool:
        """Serve what was kept; False: there is nothing."""
        if self._storage is None:
            return False
        self._keeping.check(self._storage.folder)
        try:
            confirmed = self._storage.restore(self.zone)
        except (OSError, ValueError, MemoryError) as error:
            self.log.warning(f"What was kept of {self.zone.origin} is not used: {error}")
            return False
        if confirmed is None:
            return False
        self._confirmed = confirmed
        self._tell_conflicts()
        self.log.info(f"Serving {self.zone.origin} with {self.zone.serial} SOA serial from {self._storage.path} until it is read")
        return True

    def refresh(self) -> None:
        """Read the records, and publish them if they have changed. Raises whatever reading raises, and ValueError for what is no zone."""
        draft = self.zone.draft()
        digest = hashlib.blake2b(digest_size=16)
        for owner, kind, ttl, rdata in self._read():
            draft.add(owner, kind, ttl, rdata)
            digest.update(b"%b%b%b" % (owner, struct.pack("!HIH", kind, ttl, len(rdata)), rdata))
        draft.finish()
        count, stray = draft.ignored
        changed = digest.digest() != self._digest
        with self._lock:
            if self._stopped:
                return
            if changed:
                publish(self.zone, draft)
                self._digest = digest.digest()
            self._confirmed = time.time()
        if changed and count:
            self.log.warning(f"Left out {count} records that are not in {self.zone.origin}, the first at {stray}")
        self._keep(changed)
        if changed:
            self._tell_conflicts()
            self._tell()

    def _keep(self, changed: bool) -> None:
        if self._storage is None:
            return
        try:
            if changed or self._storage.behind:
                self._storage.save(self.zone)
            else:
                self._storage.confirm()
        except (OSError, MemoryError) as error:
            self._keeping.failed(error)
        else:
            self._keeping.succeeded()

    def _tell_conflicts(self) -> None:
        count = self.zone.conflicts
        if count:
            self.log.warning(conflicts.summary(self.zone, count))
        with self._lock:
            if not self._stopped:
                conflicts.show(self.zone, count)

    def _tell(self) -> None:
        """Notify the zone's secondaries, if there is a *transfer*."""
        if self.notify is None:
            return
        try:
            self.notify(self.zone.origin)
        except (OSError, ValueError) as error:
            self.log.warning(f"Failed sending notifies: {error}")


class HostedZones:
    """The hosted zones of one directive."""

    def __init__(self, zones: list[HostedZone], seconds: float, cloud: str) -> None:
        """``seconds``: between two times that they are read. ``cloud``: its name in log lines."""
        self.zones = zones
        self.seconds = seconds
        self.cloud = cloud
        #: Raises whatever the cloud's library raises when a zone is not there; called in turn before zones are read for the first time.
        self.verify: list[Callable[[], object]] = []
        #: What refuses the configuration: the text of an error of `verify`, and of the first reading.
        self.refused: Callable[[str], CorefileError] = CorefileError
        self.unread: Callable[[str], CorefileError] = CorefileError
        self._task: control.eventloop.Task | None = None
        self._at_once = False

    def serve(self, controller: Controller, fall: list[str]) -> None:
        """Add the handler to the block. The zones are there before it serves."""
        first, *others = self._sets()
        controller.config.add_handler(HostedHandler(controller.directive, first, fall, others=others))
        controller.on_startup(lambda: self._start(notifier(controller.config)))
        controller.on_started(self._follow)
        controller.on_shutdown(self._stop)

    def _sets(self) -> list[ZoneSet]:
        """Sets of the first zones of all names, of the second ones, and so on."""
        by_origin: dict[bytes, list[Zone]] = {}
        for hosted in self.zones:
            by_origin.setdefault(hosted.zone.wire, []).append(hosted.zone)
        most = max(map(len, by_origin.values()), default=1)
        return [ZoneSet(zones[number] for zones in by_origin.values() if number < len(zones)) for number in range(most)]

    def _start(self, notify: Notify | None) -> None:
        """Read all zones, unless all of them were kept. Raises CorefileError."""
        try:
            for hosted in self.zones:
                hosted.start()
            self._at_once = bool(self.zones) and all(hosted.restore() for hosted in self.zones)
            if not self._at_once:
                self._read_first()
        except BaseException:
            self._stop()
            raise
        for hosted in self.zones:
            hosted.notify = notify

    def _read_first(self) -> None:
        try:
            for verify in self.verify:
                verify()
        except Exception as error:  # the libraries' have no common base
            raise self.refused(one_line(error)) from error
        futures = [READERS.submit(self._refresh, hosted) for hosted in self.zones]
        if failures := [text for future in futures if (text := future.result())]:
            raise self.unread(_together(failures))

    def _follow(self) -> None:
        for hosted in self.zones:
            if hosted.notify is not None:
                READERS.submit(hosted._tell)
        if self.zones:
            self._task = control.keep(self._read_on, f"the zones of {self.cloud}")

    def _stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
        for hosted in self.zones:
            hosted.stop()

    async def _read_on(self) -> None:
        if not self._at_once:
            await control.sleep(self.seconds)
        names = " ".join(dict.fromkeys(hosted.zone.origin for hosted in self.zones))
        while True:
            texts = await asyncio.gather(*(READERS.run(self._refresh, hosted) for hosted in self.zones))
            if failures := [text for text in texts if text]:
                self.zones[0].log.error(f"Failed to update zones [{names}]: {_together(failures)}")
            await control.sleep(self.seconds)

    def _refresh(self, hosted: HostedZone) -> str:
        """Returns the error's text; "": the zone was read."""
        try:
            hosted.refresh()
        except Exception as error:  # the libraries' have no common base
            FAILURES.add(hosted.labels)
            return f"failed to list resource records for {hosted.title} from {self.cloud}: {one_line(error)}"
        return ""


def refusal(controller: Controller, task: str) -> Callable[[str], CorefileError]:
    """An error of ``task`` at the directive's place, from its text, as CoreDNS words it."""
    at = controller.err("")
    return lambda text: CorefileError(f"plugin/{controller.directive}: {at}failed to {task}: {text}", at.file, at.line)


def _together(failures: list[str]) -> str:
    return f"errors updating zones: [{' '.join(failures)}]"


def one_line(error: BaseException) -> str:
    """An error's text for the log: without line ends, and not longer than `ERROR_MOST`."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= ERROR_MOST else text[:ERROR_MOST] + "..."


# ---- the gauge of age ----

#: Zones of several server blocks, and of two configurations during a reload, may have the same labels: the last one is shown.
_shown: dict[tuple[str, str, str], list[HostedZone]] = {}
_lock = threading.Lock()


def _show_age(hosted: HostedZone) -> None:
    with _lock:
        _shown.setdefault(hosted.labels, []).append(hosted)
        AGE.watch(hosted.labels, lambda: _age(hosted.labels))


def _withdraw_age(hosted: HostedZone) -> None:
    with _lock:
        others = _shown.get(hosted.labels, [])
        if hosted in others:
            others.remove(hosted)
        if not others and _shown.pop(hosted.labels, None) is not None:
            AGE.forget(hosted.labels)


def _age(labels: tuple[str, str, str]) -> float:
    with _lock:
        hosted = _shown[labels][-1]
    return hosted.age()
