"""Secondary zones kept up with their primaries: refresh, retry and expire (RFC 1034 4.3.5), and NOTIFY (RFC 1996).

Timers of the control side's loop know what is due. Threads of `receivers` wait for primaries; a zone is asked about by one of them at a time. What
costs CPU is done by those of `builders`.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial

from fastdns import control
from fastdns.corefile.duration import format_duration
from fastdns.corefile.errors import defect, quoted
from fastdns.index.change import ZoneChange
from fastdns.index.zone import Zone, ZoneDraft
from fastdns.plugins.file import conflicts
from fastdns.plugins.secondary import age
from fastdns.plugins.secondary._receive import TransferError
from fastdns.plugins.secondary.age import Stale
from fastdns.plugins.secondary.builders import BUILDERS
from fastdns.plugins.secondary.connection import ExchangeError, SetupError
from fastdns.plugins.secondary.exchange import Limits, Row, Transfer, transfer
from fastdns.plugins.secondary.kept import Kept
from fastdns.plugins.secondary.primary import Primary
from fastdns.plugins.secondary.receivers import Receivers
from fastdns.plugins.secondary.signing import Key
from fastdns.plugins.secondary.soa import Soa, soa_of
from fastdns.plugins.transfer import journal
from fastdns.plugins.transfer.journal import publish
from fastdns.plugins.transfer.serial import serial_after
from fastdns.plugins.transfer.version import digest_of
from fastdns.protocol.parameters import TYPE_SOA, TYPE_ZONEMD
from fastdns.system import memory
from fastdns.telemetry.log import Log

__all__ = ["Difference", "Follower", "Keeper", "receivers"]

log = Log("plugin/secondary")
#: Lines that CoreDNS has in its file plugin.
file_log = Log("plugin/file")

#: What a version has not any more, and what it has that the one before had not.
Difference = tuple[Sequence[journal.Row], Sequence[journal.Row]]

CLASS_IN = 1
#: Octets of a transfer of a whole zone that leaves much to be given back.
LARGE = 1 << 20
#: Seconds before a first transfer that failed is tried again: doubled up to the second.
FIRST_DELAY = 0.25
LAST_DELAY = 10.0
#: Seconds, at most, that are added at random to refresh and retry.
REFRESH_JITTER = 5.0
RETRY_JITTER = 2.0
#: Answers to IXFR after which AXFR is asked for on the same primary: FORMERR, SERVFAIL, NOTIMP, REFUSED.
NO_DIFFERENCES = (1, 2, 4, 5)

#: Gets a keeper, and how the version that serves differs from the one before; None: not known.
Follower = Callable[["Keeper", Difference | None], object]

#: Of the process.
receivers = Receivers()


class Keeper:
    """One secondary zone. From any thread."""

    def __init__(self, zone: Zone, primaries: list[Primary], key: Key | None, limits: Limits, kept: Kept | None, stale: Stale | None = None) -> None:
        self.zone = zone
        self.primaries = primaries
        self.key = key
        self.limits = limits
        self.kept = kept
        self.stale = stale
        zone.stale_after = stale.after if stale is not None else None
        zone.stale_fails = stale is not None and stale.fails
        #: Called with the zone's name when a new version serves; by whoever put them here.
        self.listeners: dict[int, Callable[[str], object]] = {}
        #: Called when a new version serves; see `group.follow`.
        self.followers: list[Follower] = []
        #: Called with the records of a new version before it serves (always whole then); a ValueError refuses it.
        self.validate: Callable[[list[Row]], object] | None = None
        #: The SOA of the version that serves.
        self.accepted: object = None
        #: The primary of the version that serves; None: not known.
        self.source: Primary | None = None
        #: Groups that hold it; see `group`.
        self.users = 0
        self._lock = threading.Lock()
        self._started = False
        self._restored = False
        self._stopped = False
        self._busy = False
        self._delay = FIRST_DELAY
        self._due = 0.0
        self._retrying = False
        self._expires = 0.0
        self._notifiers: list[str] = []
        #: When the primaries were asked last, less the age that the one chosen told, and which one that was.
        self._known = 0.0
        self._chosen: Primary | None = None
        #: Whether the log has said that the zone is stale.
        self._stale_said = False

    # ---- life ----

    def restore(self) -> None:
        """Serve what is kept on disk; only the first call does. Called before the zone's server serves, so that no query comes too early."""
        with self._lock:
            first, self._restored = not self._restored, True
        if first and self.kept is not None and self.zone.serial is None:
            self._restore(self.kept)

    def start(self) -> None:
        """Ask the primaries; only the first call does."""
        with self._lock:
            if self._started:
                return
            self._started = True
            for primary in self.primaries:
                primary.join()
            if self.zone.serial is not None:  # another keeper's before
                conflicts.show(self.zone, self.zone.conflicts)
        if self.stale is not None:
            age.show(self.zone)
        self.restore()
        self._schedule(0.0)

    def stop(self) -> None:
        """Ask no more; what is under way is not published."""
        with self._lock:
            joined, self._stopped = self._started and not self._stopped, True
            conflicts.withdraw(self.zone)
            age.withdraw(self.zone)
        for primary in self.primaries if joined else ():
            primary.leave()

    @property
    def stopped(self) -> bool:
        return self._stopped

    def notify(self, sender: str) -> None:
        """A primary sent NOTIFY."""
        file_log.info(f"Notify from {sender} for {self.zone.origin}: checking transfer")
        with self._lock:
            if sender not in self._notifiers:
                self._notifiers.append(sender)
        control.after(0, self._run)

    # ---- what is due ----

    def _schedule(self, seconds: float) -> None:
        with self._lock:
            self._due = time.monotonic() + seconds
        control.after(seconds, self._run)

    def _run(self) -> None:
        """Called when something may be due: by a timer."""
        with self._lock:
            if self._stopped or self._busy or not (self._notifiers or self._due <= time.monotonic()):
                return
            self._busy = True
            notifiers, self._notifiers = self._notifiers, []
        receivers.submit(self.primaries[0].text, self.zone.index.statistics["records"], partial(self._work, notifiers))

    def _work(self, notifiers: list[str]) -> None:
        due = self._due
        try:
            if self.zone.serial is None:
                self._first(notifiers)
            elif notifiers:
                self._notified(notifiers, due)
            else:
                self._check("retry" if self._retrying else "refresh")
        except Exception as error:
            log.error(f"{self.zone.origin}: {defect(error)}")
            self._schedule(LAST_DELAY)
        with self._lock:
            self._busy = False
            again = bool(self._notifiers)
        if again or self._due <= time.monotonic():
            control.after(0, self._run)

    def _first(self, senders: list[str]) -> None:
        self._known = time.monotonic()
        try:
            if self.stale is not None:
                self._newer()  # tells the zone's age
            self._transfer()
        except Exception as error:
            delay, self._delay = self._delay, min(2 * self._delay, LAST_DELAY)
            log.warning(f"All '{self.zone.origin}' masters failed to transfer, retrying in {format_duration(int(delay * 1e9))}: {_message(error)}")
            for sender in senders:
                file_log.warning(f"Notify from {sender} for {self.zone.origin}: transfer failed: {_message(error)}")
            self._schedule(delay)
        else:
            self._delay = FIRST_DELAY
            self._succeeded()

    def _check(self, kind: str) -> None:
        try:
            newer = self._newer()
        except ExchangeError as error:
            log.warning(f"Failed {kind} check {error}")
            self._failed()
            return
        self._follow(newer)

    def _notified(self, senders: list[str], due: float) -> None:
        lines = [f"Notify from {sender} for {self.zone.origin}" for sender in senders]
        try:
            newer = self._newer()
        except ExchangeError as error:
            for text in lines:
                file_log.info(f"{text}: no SOA serial increase seen")
                file_log.warning(f"{text}: failed primary check: {error}")
            self._schedule(max(0.0, due - time.monotonic()))
            return
        try:
            if newer:
                self._transfer()
            else:
                for text in lines:
                    file_log.info(f"{text}: no SOA serial increase seen")
            self._succeeded()
        except (ExchangeError, ValueError) as error:
            for text in lines:
                file_log.warning(f"{text}: transfer failed: {error}")
            self._failed()

    def _follow(self, newer: bool) -> None:
        try:
            if newer:
                self._transfer()
        except (ExchangeError, ValueError):
            self._failed()
            return
        self._succeeded()
        if not newer and self.kept is not None:
            self.kept.confirm(self._confirmed(), often=self.stale is not None)

    def _succeeded(self) -> None:
        _, refresh, _, expire = self._timers()
        self._retrying = False
        self._expires = time.monotonic() + expire
        if self.zone.expired:
            self.zone.expired = False
        self.zone.confirm(time.monotonic() - self._known)
        self._tell_stale()
        self._schedule(self._heartbeat(refresh + random.uniform(0, REFRESH_JITTER)))

    def _failed(self) -> None:
        _, _, retry, _ = self._timers()
        if not self._retrying:
            self._retrying = True
            control.after(self._expires - time.monotonic(), self._expire)
        self._tell_stale()
        self._schedule(self._heartbeat(retry + random.uniform(0, RETRY_JITTER)))

    def _heartbeat(self, seconds: float) -> float:
        """When the primaries are asked again, if they would be after so many seconds."""
        return seconds if self.stale is None else min(seconds, self.stale.heartbeat * random.uniform(0.8, 1.0))

    def _tell_stale(self) -> None:
        """Log that the zone is stale, or is so no longer."""
        if self.stale is None or self.zone.age is None:
            return
        stale = self.zone.age > self.stale.after
        if stale != self._stale_said:
            self._stale_said = stale
            if stale:
                done = "queries get SERVFAIL" if self.stale.fails else "it is served on"
                log.warning(f"Zone {self.zone.origin} is stale: no primary has confirmed it for {format_duration(int(self.zone.age) * 10**9)}; {done}")
            else:
                log.info(f"Zone {self.zone.origin} is stale no longer")

    def _expire(self) -> None:
        if self.stale is not None and not self.stale.fails:
            return
        with self._lock:
            if self._stopped or not self._retrying or time.monotonic() < self._expires or self.zone.expired:
                return
            self.zone.expired = True
        log.warning(f"Zone {self.zone.origin} has expired: no primary confirmed it in time")

    def _timers(self) -> tuple[int, float, float, float]:
        """Serial, refresh, retry and expire of the version that serves."""
        for kind, _, rdata in self.zone.index.get(self.zone.wire):
            if kind == TYPE_SOA:
                serial, refresh, retry, expire = (int.from_bytes(rdata[at : at + 4], "big") for at in range(len(rdata) - 20, len(rdata) - 4, 4))
                return serial, max(refresh, 1), max(retry, 1), max(expire, 1)
        return 0, LAST_DELAY, LAST_DELAY, LAST_DELAY

    # ---- primaries ----

    def _newer(self) -> bool:
        """Whether a primary has something newer: the first that answers, with `stale` the first whose zone is not stale. Raises ExchangeError: none answers."""
        soa = self._ask()
        own = self.zone.serial
        # Servers of one zone whose serials do not say what they have: another one than before is asked by the digest.
        return own is None or serial_after(soa.serial, own) or (self._chosen != self.source and bool(self._digest()))

    def _ask(self) -> Soa:
        """What a primary has, which becomes the chosen one. Raises ExchangeError."""
        found: Soa | None = None
        failure: ExchangeError | None = None
        for primary in self.primaries:
            asked = time.monotonic()
            try:
                soa = soa_of(self.zone.wire, primary, self.key, self.stale.patience if self.stale is not None else 0.0)
            except ExchangeError as error:
                failure = error
                continue
            if soa is not None and (found is None or soa.age < found.age):
                found, self._chosen, self._known = soa, primary, asked - soa.age
            if found is not None and (self.stale is None or found.age <= self.stale.after):
                break
        if found is None:
            raise failure or ExchangeError("no primary has the zone's SOA")
        return found

    def _transfer(self) -> None:
        """From the first primary that gives the zone, the chosen one before all. Raises ExchangeError, ValueError and MemoryError of the last one."""
        failure: Exception | None = None
        for primary in sorted(self.primaries, key=lambda one: one is not self._chosen):
            began = time.monotonic()
            try:
                version, octets, checked = self._receive(primary)
                if version is None:
                    self.source = primary
                    return
                own, other = self.zone.serial, checked and primary is not self.source
                if own is not None and not self.zone.expired and not other and version.serial is not None and not serial_after(version.serial, own):
                    raise TransferError(f"serial {version.serial} is not after {own}")
                if not BUILDERS.submit(octets, partial(self._serve, version)).result():
                    return
            except SetupError as error:
                file_log.error(f"Failed to setup transfer `{self.zone.origin}' with `{quoted(primary.text)}': {error}")
                failure = error
            except (ExchangeError, ValueError) as error:
                file_log.error(f"Failed to transfer `{self.zone.origin}' from {quoted(primary.text)}: {error}")
                failure = _without_frames(error)
                if isinstance(error, TransferError) and error.bound:
                    memory.give_back()
            else:
                self.source = primary
                file_log.info(f"Transferred: {self.zone.origin} from {primary.text}")
                log.debug(f"Received {octets} octets of {self.zone.origin}, and published them, in {(time.monotonic() - began) * 1000:.0f} ms")
                self._tell((version.deleted, version.added) if isinstance(version, ZoneChange) else None)
                self._published(octets, octets >= LARGE and isinstance(version, ZoneDraft))
                return
        raise failure or ExchangeError("no primaries")

    def _serve(self, version: ZoneDraft | ZoneChange) -> bool:
        """Serve a new version; False: the keeper was stopped. Raises ZoneError as `publish`."""
        with self._lock:
            if self._stopped:
                return False
            if self.kept is None:
                publish(self.zone, version)
            else:
                self.kept.publish(partial(publish, self.zone, version), version, self._confirmed())
            self.zone.expired = False
            self._tell_conflicts()
            return True

    def _confirmed(self) -> float:
        """When a primary last had the version that serves (Unix time)."""
        return time.time() - (time.monotonic() - self._known)

    def _tell_conflicts(self) -> None:
        """Log records of the version that serves that contradict each other, and set their gauge."""
        count = self.zone.conflicts
        if count:
            log.warning(conflicts.summary(self.zone, count))
        conflicts.show(self.zone, count)

    def _digest(self) -> bytes:
        """Of the records that serve; b"" where the zone does not say it."""
        found = (digest_of(rdata) for kind, _, rdata in self.zone.index.get(self.zone.wire) if kind == TYPE_ZONEMD)
        return next((digest for digest in found if digest), b"")

    def _receive(self, primary: Primary) -> tuple[ZoneDraft | ZoneChange | None, int, bool]:
        """A new version of the differences, or else of the whole zone, the octets that came, and whether its records were compared with their digest.

        No version: the primary has the records that serve.
        """
        own, digest = self.zone.serial, self._digest()
        if own is not None and self.validate is None:
            try:
                received = transfer(self.zone, primary, self.key, self.limits, own, digest)
                if not received.receiver.current:
                    return _finished(received), received.octets, received.receiver.checked
                if digest:
                    return None, received.octets, True
                log.debug(f"{self.zone.origin}: {primary.text} has no differences since {own}")
            except SetupError:
                raise
            except (ExchangeError, ValueError) as error:
                if isinstance(error, TransferError) and error.rcode and error.rcode not in NO_DIFFERENCES:
                    raise
                log.debug(f"{self.zone.origin}: no differences from {primary.text}: {error}")
        rows: list[Row] | None = [] if self.validate is not None else None
        received = transfer(self.zone, primary, self.key, self.limits, None, rows=rows)
        draft = _finished(received)
        if self.validate is not None and rows is not None:
            self.accepted = self.validate(rows)
        return draft, received.octets, received.receiver.checked

    def _tell(self, difference: Difference | None) -> None:
        for follower in list(self.followers):
            follower(self, difference)

    def _published(self, octets: int, large: bool) -> None:
        """A version serves. ``large``: to make it has left much that can be given back."""
        if self.kept is not None:
            self.kept.write_soon(octets, large)
        elif large:
            memory.give_back()
        for listener in list(self.listeners.values()):
            listener(self.zone.origin)

    # ---- from disk ----

    def _restore(self, kept: Kept) -> None:
        confirmed = kept.restore()
        if confirmed is None:
            return
        self._accept(kept)
        self._tell_conflicts()
        self._tell(None)
        serial, _, _, expire = self._timers()
        left = confirmed + expire - time.time()
        self._expires = time.monotonic() + left
        self.zone.confirm(max(0.0, time.time() - confirmed))
        self._retrying = True  # nobody has confirmed it yet
        expired = left <= 0 and (self.stale is None or self.stale.fails)
        if expired:
            self.zone.expired = True
        else:
            control.after(self._expires - time.monotonic(), self._expire)
        log.info(f"Serving {self.zone.origin} with {serial} SOA serial from {kept.path}" + (", which has expired" if expired else ""))

    def _accept(self, kept: Kept) -> None:
        """Validate what is restored as what is transferred: so a catalog's members are there again."""
        if self.validate is None:
            return
        try:
            self.accepted = self.validate([(0, owner, kind, CLASS_IN, ttl, rdata) for owner, kind, ttl, rdata in self.zone.index.snapshot()])
        except ValueError as error:
            log.warning(f"{self.zone.origin} from {kept.path} is not followed: {error}")


def _finished(received: Transfer) -> ZoneDraft | ZoneChange:
    return BUILDERS.submit(received.octets, received.receiver.finish).result()


def _without_frames(error: Exception) -> Exception:
    """The error without the frames that it has passed, which hold the records of the transfer: the next one would begin beside them."""
    error.__context__ = error.__cause__ = None
    return error.with_traceback(None)


def _message(error: Exception) -> str:
    return str(error) or type(error).__name__
