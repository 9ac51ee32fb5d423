"""Transfers from primaries. Blocks; for the threads of `keeper`."""

from __future__ import annotations

import struct
import time

from fastdns._wire import records
from fastdns.index.zone import Zone
from fastdns.plugins.secondary import underway
from fastdns.plugins.secondary._receive import Receiver, TransferError
from fastdns.plugins.secondary.builders import Intake
from fastdns.plugins.secondary.connection import Exchange, ExchangeError
from fastdns.plugins.secondary.primary import Primary
from fastdns.plugins.secondary.signing import Key, Signing
from fastdns.plugins.secondary.underway import OCTETS_DEFAULT, UNDER_WAY, Entry
from fastdns.plugins.transfer.version import OPTION_ZONE_DIGEST
from fastdns.protocol.parameters import TYPE_AXFR, TYPE_IXFR, TYPE_OPT, TYPE_SOA

__all__ = ["Limits", "Row", "Transfer", "option", "query", "transfer"]

#: A record as `fastdns._wire.records` gives it: section, owner, type, class, TTL, rdata.
Row = tuple[int, bytes, int, int, int, bytes]


#: Records in Python take so many times the memory of a zone's.
ROWS_WEIGHT = 4


class Limits:
    """What a transfer may take before it is given up."""

    def __init__(self) -> None:
        self.records = 50_000_000
        #: Of all messages.
        self.octets = OCTETS_DEFAULT
        #: For the whole transfer.
        self.seconds = 3600.0


class Transfer:
    """A complete transfer."""

    def __init__(self, receiver: Receiver, octets: int) -> None:
        self.receiver = receiver
        #: Of all messages.
        self.octets = octets


def option(code: int, data: bytes = b"") -> bytes:
    """An EDNS option (RFC 6891 6.1.2)."""
    return struct.pack(">HH", code, len(data)) + data


def query(ident: int, zone: bytes, qtype: int, authority: bytes = b"", options: bytes = b"") -> bytes:
    """A question about a zone (lower-case wire form), with an OPT where it has options."""
    opt = b"\0" + struct.pack(">HHIH", TYPE_OPT, 1232, 0, len(options)) + options if options else b""
    return struct.pack(">HHHHHH", ident, 0, 1, 0, int(bool(authority)), int(bool(opt))) + zone + struct.pack(">HH", qtype, 1) + authority + opt


def transfer(zone: Zone, primary: Primary, key: Key | None, limits: Limits, serial: int | None, digest: bytes = b"", rows: list[Row] | None = None) -> Transfer:
    """A complete transfer: IXFR from ``serial`` on, or AXFR. Its records are put into ``rows``, too, if there is such a list.

    ``digest`` is of the records that serve with this serial, b"" where it is not known; IXFR shows it to the primary.

    The calling thread receives, and the builders' threads take what it receives. Raises ExchangeError, TransferError, ZoneError and MemoryError.
    """
    receiver = Receiver(zone, serial, records=limits.records, octets=limits.octets, digest=digest)
    signing = Signing(key)
    authority = b""
    if serial is not None:
        soa = b"\0\0" + struct.pack(">IIIII", serial, 0, 0, 0, 0)
        authority = zone.wire + struct.pack(">HHIH", TYPE_SOA, 1, 0, len(soa)) + soa
    shown = option(OPTION_ZONE_DIGEST, digest) if digest else b""

    def make(ident: int) -> bytes:
        return signing.sign(query(ident, zone.wire, TYPE_AXFR if serial is None else TYPE_IXFR, authority, shown))

    exchange, first = primary.ask(make, min(limits.seconds, underway.GRACE_SECONDS))
    entry = Entry(primary.text, limits.octets, limits.seconds, exchange.interrupt)
    UNDER_WAY.enter(entry)
    intake: Intake | None = None
    try:

        def take(message: bytes) -> bool:
            try:
                done = receiver.feed(message, exchange.ident)
            except TransferError as error:
                if error.bound:
                    entry.give_up(error.bound, "")
                raise
            signing.check(message, last=done)
            if rows is not None:
                rows.extend(records(message))
            return done

        intake = Intake(take, exchange.interrupt)
        _receive(exchange, first, intake, entry, 1 if rows is None else ROWS_WEIGHT)
        return Transfer(receiver, intake.octets)
    finally:
        UNDER_WAY.leave(entry)
        exchange.end(complete=intake is not None and (intake.done or bool(getattr(intake.error, "rcode", 0))))


def _receive(exchange: Exchange, first: bytes, intake: Intake, entry: Entry, weight: int) -> None:
    """Take the messages up to the last one. ``weight``: octets of memory for one of a message, compared with those of a zone."""
    message = first
    try:
        while True:
            UNDER_WAY.add(entry, len(message), weight)
            intake.put(message)
            exchange.deadline = entry.deadline
            if intake.ended or time.monotonic() >= exchange.deadline:
                break
            message = exchange.receive()
    except TransferError:
        intake.drain()
        raise
    except ExchangeError:
        intake.drain()
        if intake.done:  # it was interrupted, or the primary has closed the connection behind the last message
            return
        if entry.refused:
            raise entry.give_up("memory", entry.refused) from None
        if time.monotonic() < exchange.deadline:
            raise
    intake.drain()
    if not intake.done:
        raise entry.late()
