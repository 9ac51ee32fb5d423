"""When a zone is signed, and where the signed one goes."""

from __future__ import annotations

import itertools
import os
import random
import struct
import time
from datetime import UTC, datetime

from fastdns._wire import name_wire
from fastdns.corefile.duration import format_duration
from fastdns.corefile.errors import quoted, system_error
from fastdns.plugins.dnssec.keys import Key
from fastdns.plugins.sign.zone import SignedZone
from fastdns.protocol.parameters import TYPE_RRSIG, TYPE_SOA
from fastdns.system.files import replacing
from fastdns.telemetry.log import Log
from fastdns.zonefile import parser

__all__ = ["REFRESH", "Signer", "reason"]

log = Log("plugin/sign")

SECOND = 10**9
DAY = 86400

#: Seconds: between two looks; signatures this old or this near to their end are renewed; how long they are good; jitters.
REFRESH = 5 * 3600
OLD = 6 * DAY
NEAR = 7 * DAY
BEFORE = 3 * 3600
AFTER = 32 * DAY
BEFORE_JITTER = 18 * 3600
AFTER_JITTER = 5 * DAY

#: Records in which the SOA's signature has to be.
FIRST = 100


class Signer:
    """A zone file, the keys for it, and the file that it becomes."""

    def __init__(self, path: str, origin: str, directory: str) -> None:
        self.path = path
        self.origin = origin
        self.directory = directory
        self.keys: list[Key] = []
        # Drawn once, so that the zones of a server do not all end in one moment.
        self.before = BEFORE + random.random() * BEFORE_JITTER
        self.after = AFTER + random.random() * AFTER_JITTER

    @property
    def target(self) -> str:
        """Path of the signed zone."""
        return os.path.join(self.directory, f"db.{self.origin}signed")

    @property
    def tags(self) -> str:
        """The keys' tags, for log lines."""
        return ",".join(str(key.tag) for key in self.keys)

    def due(self) -> str:
        """Why the zone has to be signed; "" when it has not."""
        try:
            with open(self.target, encoding="utf-8", errors="surrogateescape") as file:
                text = "".join(itertools.islice(file, FIRST + 1))
        except OSError as error:
            return system_error(error, "open", self.target)
        try:
            return reason(text, time.time(), bool(self.keys))
        except ValueError as error:
            return str(error)

    def look(self) -> str:
        """As `due`, and tells it when the signatures are good."""
        why = self.due()
        if not why:
            log.info(f"Skipping signing zone {quoted(self.origin)} in {quoted(self.target)}: signatures are valid")
        return why

    def refresh(self) -> None:
        """Sign again if it is time."""
        why = self.due()
        if why:
            self.sign_and_tell(why)

    def sign_and_tell(self, why: str) -> None:
        """Sign, write, and log how that went. What went wrong leaves the former file."""
        now = time.time()
        following = stamp(now + REFRESH)
        zone = quoted(self.origin)
        log.info(f"Signing {zone} because {why}")
        try:
            signed = self.sign(now)
        except (OSError, ValueError) as error:
            text = system_error(error, "open", self.path) if isinstance(error, OSError) else str(error)
            took = format_duration(int((time.time() - now) * SECOND))
            log.warning(f"Error signing {zone} with key tags {quoted(self.tags)} in {took}: {text}, next: {following}")
            return
        try:
            self.write(signed)
        except OSError as error:
            log.warning(f"Error signing {zone}: failed to move zone file into place: {system_error(error, 'open', self.directory)}")
            return
        log.info(
            f"Successfully signed zone {zone} in {quoted(self.target)} with key tags {quoted(self.tags)} and {signed.serial} SOA serial, "
            f"elapsed {time.time() - now:f}, next: {following}"
        )

    def sign(self, now: float) -> SignedZone:
        """The zone with all its signatures. Raises OSError and ValueError when the file is not there or no zone."""
        records = parser.read(self.path, self.origin)
        if not any(record[1] == TYPE_SOA for record in records):
            raise ValueError(f"file {quoted(self.path)} has no SOA record")
        return SignedZone(records, name_wire(self.origin).lower(), self.keys, int(now), int(now - self.before), int(now + self.after))

    def write(self, signed: SignedZone) -> None:
        """Beside the target first, and then in its place. Raises OSError."""
        with replacing(self.target, "signed-") as file:
            for line in signed.lines():
                file.write(line.encode() + b"\n")


def stamp(moment: float) -> str:
    """RFC 3339 with milliseconds, in UTC."""
    when = datetime.fromtimestamp(moment, UTC)
    return f"{when:%Y-%m-%dT%H:%M:%S}.{when.microsecond // 1000:03}Z"


def reason(text: str, now: float, with_keys: bool = True) -> str:
    """Why a signed zone, given as its beginning, has to be signed again; "" when it has not. Raises ValueError when it is none."""
    for _, kind, _, _, rdata in parser.parse(text, ".", "resign")[: FIRST + 1]:
        if kind != TYPE_RRSIG or struct.unpack_from("!H", rdata)[0] != TYPE_SOA:
            continue
        expiration, inception = struct.unpack_from("!II", rdata, 8)
        age, left = int((now - inception) * SECOND), int((expiration - now) * SECOND)
        if age > OLD * SECOND:
            return f"inception {quoted(stamp(inception))} was more than: {_hours(OLD)} ago from {stamp(now)}: {format_duration(age)}"
        if age < 0:
            return f"inception {quoted(stamp(inception))} date is in the future: {format_duration(age)}"
        if left < NEAR * SECOND:
            return f"expiration {quoted(stamp(expiration))} is less than: {_hours(NEAR)} away from {stamp(now)}: {format_duration(left)}"
        return ""
    return f"no SOA RRSIG found in first {FIRST} records" if with_keys else ""


def _hours(seconds: int) -> str:
    return format_duration(seconds * SECOND)
