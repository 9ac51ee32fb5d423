"""Zones that a cloud hosts (azure, clouddns, route53), kept as they are there: read whole at intervals, published if they have changed.

A zone is read page by page on a thread of its directive's `Round`, into a version beside the one that serves. What fails leaves that one as it is. A
reading has a `Budget`, whatever the cloud sends; no reload and no end waits for one, and a start waits START_SECONDS at most.
"""

from __future__ import annotations

import asyncio
import hashlib
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from fastdns import control
from fastdns._wire import name_wire
from fastdns.control.budget import Budget, limited
from fastdns.corefile import CorefileError
from fastdns.corefile.zone import fqdn
from fastdns.index.zone import Zone, ZoneSet
from fastdns.plugins.file import conflicts
from fastdns.plugins.file._hosted import HostedHandler
from fastdns.plugins.file.hosted_round import Round
from fastdns.plugins.file.source import Notify, notifier
from fastdns.plugins.file.storage import Storage
from fastdns.plugins.transfer.journal import publish
from fastdns.protocol.parameters import type_number
from fastdns.setup import Controller
from fastdns.telemetry.keeping import Keeping
from fastdns.telemetry.log import Log
from fastdns.telemetry.metrics import Metric
from fastdns.zonefile.rdata import parse

if TYPE_CHECKING:
    import concurrent.futures

__all__ = ["HostedZone", "HostedZones", "Row", "one_line", "refusal", "row"]

#: Owner and rdata in uncompressed wire form: owner, type, TTL, rdata.
Row = tuple[bytes, int, int, bytes]

#: Bounds of one reading of a zone, with tokens, all pages and attempts.
REFRESH_SECONDS = 60.0
REFRESH_OCTETS = 256 << 20
#: Readings of a zone that serves, by the configurations of many reloads, at a time.
READINGS_MOST = 4
#: Seconds that a start, or a reload with zones that are new, waits for its zones; those that are not read by then get SERVFAIL until they are.
START_SECONDS = 10.0
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
        #: Why the last reading failed.
        self._failure = ""
        #: The budget of the reading under way.
        self._budget: Budget | None = None
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
        """What is being read is given up."""
        with self._lock:
            self._stopped = True
            if self._budget is not None:
                self._budget.end()
            conflicts.withdraw(self.zone)
        _withdraw_age(self)
        self._keeping.withdraw()

    def age(self) -> float:
        """Seconds since the records were read. Raises LookupError before the first time."""
        if not self._confirmed:
            raise LookupError(self.labels)
        return max(0.0, time.time() - self._confirmed)

    def adopt(self) -> bool:
        """Serve what the zone of another configuration does; False: there is none, or it has no version."""
        with _lock:
            others = [other for other in _shown.get(self.labels, []) if other is not self and other.zone.serial is not None]
        if not others:
            return False
        former = others[-1]
        with former._lock:
            records, self._digest, self._confirmed = former.zone.index.snapshot(sorted=False), former._digest, former._confirmed
        draft = self.zone.draft()
        for owner, kind, ttl, rdata in records:
            draft.add(owner, kind, ttl, rdata)
        draft.finish()
        self.zone.publish(draft)
        self._tell_conflicts()
        return True

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

    def read(self, cloud: str) -> str:
        """`refresh` within the bounds of a reading. Returns the error's text; "": the zone was read."""
        with _lock:
            _readings[self.labels] += 1
            many = _readings[self.labels] > READINGS_MOST and self.zone.serial is not None
        try:
            if many:
                raise ValueError("readings of former configurations have not ended")
            with self._lock:
                self._budget = Budget(REFRESH_SECONDS, REFRESH_OCTETS)
                if self._stopped:
                    self._budget.end()
            with limited(self._budget):
                self._budget.left()
                self.refresh()
        except Exception as error:  # the libraries' have no common base
            if self._stopped:
                return ""
            FAILURES.add(self.labels)
            self._failure = f"failed to list resource records for {self.title} from {cloud}: {one_line(error)}"
            return self._failure
        finally:
            with self._lock:
                self._budget = None
            with _lock:
                _readings[self.labels] -= 1
                if not _readings[self.labels]:
                    del _readings[self.labels]
        failure, self._failure = self._failure, ""
        if failure:
            self.log.info(f"Zone {self.title} is read from {cloud} again")
        return ""

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
        #: The reading that a start has begun.
        self._round: Round | None = None

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
        """Read the zones, and wait for those that neither another configuration has nor were kept. Raises CorefileError."""
        try:
            for hosted in self.zones:
                hosted.start()
            missing = [hosted for hosted in self.zones if not (hosted.adopt() or hosted.restore())]
            if missing:
                self._read_first(missing)
        except BaseException:
            self._stop()
            raise
        for hosted in self.zones:
            hosted.notify = notify

    def _read_first(self, missing: list[HostedZone]) -> None:
        """Read all zones, and wait for the missing ones. Raises CorefileError for what the cloud refuses by then."""
        from concurrent.futures import wait

        self._round = Round([self._check, *(partial(self._refresh, hosted) for hosted in self.zones)])
        checked, *futures = self._round.futures
        wanted = [checked, *(future for hosted, future in zip(self.zones, futures, strict=True) if hosted in missing)]
        ended, _ = wait(wanted, START_SECONDS)
        if checked in ended and (text := checked.result()):
            raise self.refused(text)
        if failures := [text for future in wanted[1:] if future in ended and (text := future.result())]:
            raise self.unread(_together(failures))
        for hosted, future in zip(self.zones, futures, strict=True):
            if future in wanted and future not in ended:
                hosted.log.warning(f"Zone {hosted.title} was not read from {self.cloud} within {START_SECONDS:g} s: its queries get SERVFAIL until it is")

    def _check(self) -> str:
        """Returns the error's text; "": all zones are there."""
        try:
            with limited(Budget(REFRESH_SECONDS, REFRESH_OCTETS)):
                for verify in self.verify:
                    verify()
        except Exception as error:  # the libraries' have no common base
            return one_line(error)
        return ""

    def _follow(self) -> None:
        for hosted in self.zones:
            if hosted.notify is not None:
                control.after(0, hosted._tell)
        if self.zones:
            self._task = control.keep(self._read_on, f"the zones of {self.cloud}")

    def _stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
        for hosted in self.zones:
            hosted.stop()

    async def _read_on(self) -> None:
        if self._round is not None:
            begun, self._round = self._round, None
            await self._ended(begun.futures[1:])
            await control.sleep(self.seconds)
        while True:
            await self._ended(Round([partial(self._refresh, hosted) for hosted in self.zones]).futures)
            await control.sleep(self.seconds)

    async def _ended(self, futures: list[concurrent.futures.Future[str]]) -> None:
        """Wait for a reading of all zones, and log its failures."""
        texts = await asyncio.gather(*map(asyncio.wrap_future, futures))
        if failures := [text for text in texts if text]:
            names = " ".join(dict.fromkeys(hosted.zone.origin for hosted in self.zones))
            self.zones[0].log.error(f"Failed to update zones [{names}]: {_together(failures)}")

    def _refresh(self, hosted: HostedZone) -> str:
        return hosted.read(self.cloud)


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
#: Readings under way, by labels.
_readings: Counter[tuple[str, str, str]] = Counter()
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
