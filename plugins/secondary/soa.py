"""What a primary says of a zone: its serial, and for how long the zone has not been confirmed there (RFC 7314). Blocks; for the threads of `keeper`."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import time
from typing import Final, NamedTuple

from fastdns._wire import records
from fastdns.plugins.secondary.connection import CONNECT_SECONDS, IDLE_SECONDS, ExchangeError, place
from fastdns.plugins.secondary.exchange import option, query
from fastdns.plugins.secondary.primary import Primary, keepalive_seconds
from fastdns.plugins.secondary.signing import Key, Signing
from fastdns.protocol.header import FLAG_QR, FLAG_TC, flags_rcode, message_flags
from fastdns.protocol.parameters import TYPE_OPT, TYPE_SOA, rcode_text

__all__ = ["Soa", "soa_of"]

#: EDNS EXPIRE.
OPTION_EXPIRE: Final = 9
#: edns-tcp-keepalive (RFC 7828).
OPTION_KEEPALIVE: Final = 11
#: Answers of servers that do not know EDNS: FORMERR, NOTIMP.
NO_EDNS: Final = (1, 4)


class Soa(NamedTuple):
    """The answer of a primary."""

    serial: int
    #: Seconds since when the zone may have changed where the primary has it from; 0 where it does not say so.
    age: float


def soa_of(zone: bytes, primary: Primary, key: Key | None, patience: float = 0.0) -> Soa | None:
    """What a primary has of a zone (lower-case wire form); None when its answer has no SOA. Raises ExchangeError.

    With ``patience`` it is also asked for the zone's age: over UDP for so many seconds, then over TCP for twice as many.
    A primary with TLS is asked over TLS alone.
    """
    seconds = 2 * patience or CONNECT_SECONDS + IDLE_SECONDS
    try:
        if patience and primary.secure is None:
            with contextlib.suppress(OSError, ValueError, ExchangeError):
                return _ask_udp(zone, primary.address, key, patience)
        if patience or primary.knows_edns:
            with contextlib.suppress(NoEdnsError):
                return _ask_stream(zone, primary, key, seconds, option(OPTION_KEEPALIVE) + (option(OPTION_EXPIRE) if patience else b""))
            primary.without_edns()
        return _ask_stream(zone, primary, key, seconds, b"")
    except ValueError as error:
        raise ExchangeError(str(error)) from error


class NoEdnsError(ExchangeError):
    """The primary may not know EDNS."""


def _ask_stream(zone: bytes, primary: Primary, key: Key | None, seconds: float, options: bytes) -> Soa | None:
    """Over TCP or TLS. Raises ValueError and ExchangeError, NoEdnsError only where it has options."""
    signing = Signing(key)
    exchange, reply = primary.ask(lambda ident: signing.sign(query(ident, zone, TYPE_SOA, options=options)), seconds)
    complete = False
    try:
        while not _is_reply(reply, exchange.ident):
            reply = exchange.receive()
        complete = True
        if options and flags_rcode(message_flags(reply)) in NO_EDNS:
            raise NoEdnsError("no EDNS")
        signing.check(reply, last=True)
        soa, announced = _read(reply, zone)
        if announced is not None:
            exchange.keepalive(keepalive_seconds(announced))
        return soa
    finally:
        exchange.end(complete=complete)


def _ask_udp(zone: bytes, address: str, key: Key | None, seconds: float) -> Soa | None:
    """Raises OSError, ValueError and ExchangeError, also for an answer that is cut."""
    until = time.monotonic() + seconds
    family, where = place(address)
    with socket.socket(family, socket.SOCK_DGRAM) as one:
        one.connect(where)
        ident = int.from_bytes(os.urandom(2))
        message = query(ident, zone, TYPE_SOA, options=option(OPTION_EXPIRE))
        signing = Signing(key)
        one.send(signing.sign(message))
        while True:
            one.settimeout(max(0.001, until - time.monotonic()))
            reply = one.recv(65535)
            if _is_reply(reply, ident):
                break
    signing.check(reply, last=True)
    if message_flags(reply) & FLAG_TC:
        raise ExchangeError("the answer is cut")
    return _read(reply, zone)[0]


def _is_reply(message: bytes, ident: int) -> bool:
    return len(message) >= 12 and message[:2] == struct.pack(">H", ident) and bool(message_flags(message) & FLAG_QR)


def _read(reply: bytes, zone: bytes) -> tuple[Soa | None, int | None]:
    """And the value of the option for idle connections (RFC 7828). Raises ExchangeError and ValueError."""
    rcode = flags_rcode(message_flags(reply))
    if rcode:
        raise ExchangeError(f"rcode was {rcode_text(rcode)}")
    serial = expire = left = announced = None
    for section, owner, kind, klass, _, rdata in records(reply):
        if section == 0 and kind == TYPE_SOA and klass == 1 and owner.lower() == zone and len(rdata) >= 22:
            serial, expire = int.from_bytes(rdata[-20:-16], "big"), int.from_bytes(rdata[-8:-4], "big")
        elif section == 2 and kind == TYPE_OPT:
            left, announced = _number(rdata, OPTION_EXPIRE, 4), _number(rdata, OPTION_KEEPALIVE, 2)
    if serial is None or expire is None:
        return None, announced
    return Soa(serial, max(0.0, float(expire - left)) if left is not None else 0.0), announced


def _number(options: bytes, wanted: int, size: int) -> int | None:
    """The value of an option of so many octets."""
    at = 0
    while at + 4 <= len(options):
        code, length = struct.unpack_from(">HH", options, at)
        if code == wanted and length == size:
            return int.from_bytes(options[at + 4 : at + 4 + length], "big")
        at += 4 + length
    return None
