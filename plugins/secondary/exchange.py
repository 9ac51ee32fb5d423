"""Talking with primaries, over TCP: connections, questions and transfers. Blocks; for the threads of `keeper`."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import time
from typing import Any, Final

from fastdns._wire import records
from fastdns.corefile.address import join_host_port, split_address
from fastdns.index.zone import Zone
from fastdns.plugins.secondary._receive import Receiver, TransferError
from fastdns.plugins.secondary.builders import Intake
from fastdns.plugins.secondary.signing import Key, Signing
from fastdns.plugins.transfer.version import OPTION_ZONE_DIGEST
from fastdns.protocol.parameters import TYPE_AXFR, TYPE_IXFR, TYPE_OPT, TYPE_SOA

__all__ = ["CONNECT_SECONDS", "IDLE_SECONDS", "Connection", "ExchangeError", "Limits", "Row", "SetupError", "Transfer", "option", "place", "query", "transfer"]

#: A record as `fastdns._wire.records` gives it: section, owner, type, class, TTL, rdata.
Row = tuple[int, bytes, int, int, int, bytes]

#: Seconds that a primary has for taking a connection, and for each message.
CONNECT_SECONDS: Final = 5.0
IDLE_SECONDS: Final = 10.0


class ExchangeError(Exception):
    """What went wrong with a primary, in CoreDNS's words where it has some."""


class SetupError(ExchangeError):
    """There is no connection to the primary."""


class Limits:
    """What a transfer may take before it is given up."""

    def __init__(self) -> None:
        self.records = 50_000_000
        #: Of all messages.
        self.octets = 4 << 30
        #: For the whole transfer.
        self.seconds = 3600.0


def _port(text: str) -> int:
    """A number or the name of a service. Raises SetupError."""
    try:
        port = int(text) if text.isascii() and text.isdigit() else socket.getservbyname(text, "tcp")
    except OSError as error:
        raise SetupError(f"dial tcp: lookup tcp/{text}: unknown port") from error
    if port > 65535:
        raise SetupError(f"dial tcp: address {text}: invalid port")
    return port


def place(address: str) -> tuple[int, Any]:
    """Family and address for a socket of ``address:port``. Raises SetupError, OSError and ValueError."""
    host, port = split_address(address)
    family, _, _, _, where = socket.getaddrinfo(host, _port(port), type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)[0]
    return family, where


class Transfer:
    """A complete transfer."""

    def __init__(self, receiver: Receiver, octets: int) -> None:
        self.receiver = receiver
        #: Of all messages.
        self.octets = octets


class Connection:
    """A TCP connection to a primary, and the time that there is for it."""

    def __init__(self, address: str, seconds: float) -> None:
        self.address = address
        self.deadline = time.monotonic() + seconds
        try:
            family, where = place(address)
            self.socket = socket.socket(family, socket.SOCK_STREAM)
        except (OSError, ValueError) as error:
            raise SetupError(f"dial tcp {address}: {_reason(error)}") from error
        try:
            self.socket.settimeout(min(CONNECT_SECONDS, seconds))
            self.socket.connect(where)
        except OSError as error:
            self.socket.close()
            raise SetupError(f"dial tcp {address}: {_reason(error, 'connect: ')}") from error

    def close(self) -> None:
        self.socket.close()

    def interrupt(self) -> None:
        """End a `receive` that waits, from another thread; it raises ExchangeError."""
        with contextlib.suppress(OSError):  # the primary has closed it
            self.socket.shutdown(socket.SHUT_RD)

    def send(self, message: bytes) -> None:
        """Raises ExchangeError."""
        try:
            self.socket.settimeout(IDLE_SECONDS)
            self.socket.sendall(struct.pack(">H", len(message)) + message)
        except OSError as error:
            raise ExchangeError(f"write tcp {self._route()}: {_reason(error, 'write: ')}") from error

    def receive(self) -> bytes:
        """One message, all of it within `IDLE_SECONDS`. Raises ExchangeError."""
        until = min(self.deadline, time.monotonic() + IDLE_SECONDS)
        (length,) = struct.unpack(">H", self._read(2, until))
        return self._read(length, until)

    def _read(self, length: int, until: float) -> bytes:
        out = bytearray()
        while len(out) < length:
            left = until - time.monotonic()
            if left <= 0:
                raise ExchangeError(f"read tcp {self._route()}: i/o timeout")
            try:
                self.socket.settimeout(left)
                got = self.socket.recv(length - len(out))
            except OSError as error:
                raise ExchangeError(f"read tcp {self._route()}: {_reason(error, 'read: ')}") from error
            if not got:
                raise ExchangeError("unexpected EOF" if out else "EOF")
            out += got
        return bytes(out)

    def _route(self) -> str:
        try:
            return f"{join_host_port(*self.socket.getsockname()[:2])}->{self.address}"
        except OSError:
            return self.address


def _reason(error: Exception, call: str = "") -> str:
    """As Go says it."""
    if isinstance(error, TimeoutError) and error.errno is None:
        return "i/o timeout"
    if isinstance(error, OSError) and error.errno:
        reason = os.strerror(error.errno)
        return call + reason[:1].lower() + reason[1:]
    return str(error)


def option(code: int, data: bytes = b"") -> bytes:
    """An EDNS option (RFC 6891 6.1.2)."""
    return struct.pack(">HH", code, len(data)) + data


def query(ident: int, zone: bytes, qtype: int, authority: bytes = b"", options: bytes = b"") -> bytes:
    """A question about a zone (lower-case wire form), with an OPT where it has options."""
    opt = b"\0" + struct.pack(">HHIH", TYPE_OPT, 1232, 0, len(options)) + options if options else b""
    return struct.pack(">HHHHHH", ident, 0, 1, 0, int(bool(authority)), int(bool(opt))) + zone + struct.pack(">HH", qtype, 1) + authority + opt


def transfer(zone: Zone, address: str, key: Key | None, limits: Limits, serial: int | None, digest: bytes = b"", rows: list[Row] | None = None) -> Transfer:
    """A complete transfer: IXFR from ``serial`` on, or AXFR. Its records are put into ``rows``, too, if there is such a list.

    ``digest`` is of the records that serve with this serial, b"" where it is not known; IXFR shows it to the primary.

    The calling thread receives, and the builders' threads take what it receives. Raises ExchangeError, TransferError, ZoneError and MemoryError.
    """
    receiver = Receiver(zone, serial, records=limits.records, octets=limits.octets, digest=digest)
    connection = Connection(address, limits.seconds)
    try:
        ident = int.from_bytes(os.urandom(2))
        authority = b""
        if serial is not None:
            soa = b"\0\0" + struct.pack(">IIIII", serial, 0, 0, 0, 0)
            authority = zone.wire + struct.pack(">HHIH", TYPE_SOA, 1, 0, len(soa)) + soa
        signing = Signing(key)
        shown = option(OPTION_ZONE_DIGEST, digest) if digest else b""
        connection.send(signing.sign(query(ident, zone.wire, TYPE_AXFR if serial is None else TYPE_IXFR, authority, shown)))

        def take(message: bytes) -> bool:
            done = receiver.feed(message, ident)
            signing.check(message, last=done)
            if rows is not None:
                rows.extend(records(message))
            return done

        intake = Intake(take, connection.interrupt)
        _receive(connection, intake)
        return Transfer(receiver, intake.octets)
    finally:
        connection.close()


def _receive(connection: Connection, intake: Intake) -> None:
    """Read messages until the last one is taken."""
    try:
        while not intake.ended and time.monotonic() < connection.deadline:
            intake.put(connection.receive())
    except ExchangeError:
        intake.drain()
        if not intake.done:  # else it was interrupted, or the primary has closed the connection behind the last message
            raise
    intake.drain()
    if not intake.done:
        raise TransferError("the transfer took too long")
