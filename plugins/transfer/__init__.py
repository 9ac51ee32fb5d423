"""transfer: zone transfers out (AXFR, and IXFR as far as the providers go), and NOTIFY."""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import threading
from functools import partial
from typing import Any, Protocol, TypeAlias

from fastdns import control
from fastdns._wire import name_text
from fastdns.control.sized import SizedPool
from fastdns.corefile import CorefileError
from fastdns.corefile.address import host_port, packed, split_address
from fastdns.plugins.transfer._handler import Job, TransferHandler, open_queue, serve_jobs
from fastdns.plugins.transfer._transfer import Transfer
from fastdns.plugins.transfer.notify import Notifier
from fastdns.plugins.transfer.version import Version
from fastdns.setup import Controller
from fastdns.setup.traits import Traits

__all__ = ["Provider", "Stanza", "Told", "Transfer", "parse", "setup"]

TRAITS = Traits(answers=False, side_effects=True)

#: A scope that no client has: its interface does not exist.
NO_SCOPE = 0xFFFFFFFF


class Provider(Protocol):
    """A handler (or its ``plugin`` object) that has zones to give away."""

    def transfer(self, zone: bytes, serial: int | None) -> Transfer | None:
        """The records of ``zone`` (lower-case wire form), or None when it is not exactly a zone of this provider.

        ``serial`` is what an IXFR client has, None for AXFR; whoever has the current one gets a transfer of the SOA alone. Called on
        a thread of its own that may take some seconds, and by one thread at a time. An exception is SERVFAIL for the client.

        A provider may have ``transfer_size(zone, serial)`` with the number of records, 0 if the zone is not its own. Small transfers are prepared
        first, and `transfer` may be called by several threads at once then.

        A provider that has the methods of `Told` encodes a transfer once for all clients that ask the same.
        """


class Told(Provider, Protocol):
    """A provider that calls `TransferHandler.notify` for each new version of some of its zones, once it serves."""

    def transfer_told(self, zone: bytes) -> bool:
        """Whether it does so for this zone."""

    def transfer_changes(self, zone: bytes, version: Version) -> Transfer | None:
        """What has changed since the version that a client has, the SOA alone for the last one; None: that is not known, or more than the zone."""


class Stanza:
    """One ``transfer`` block."""

    def __init__(self, zones: list[str]) -> None:
        self.zones = zones
        #: ``address:port``, or ``*``.
        self.to: list[str] = []
        #: Local address of notifies; "" for any.
        self.source = ""


def setup(controller: Controller) -> None:
    """Add the block's handler. Its providers are the handlers that can give a zone away, in the order of the chain."""
    number = next(_numbers)
    stanzas = parse(controller)
    notifier = Notifier(addresses(stanzas))
    handler = TransferHandler("transfer", peers(stanzas), number, notifier)
    controller.config.add_handler(handler)

    def start() -> None:
        found = (provider(other) for other in controller.config.handlers)
        handler.providers = [(one, None if hasattr(one, "transfer_size") else threading.Lock()) for one in found if one is not None]
        _thread.start()

    controller.on_startup(start)
    controller.on_shutdown(notifier.stop)


def parse(controller: Controller) -> list[Stanza]:
    """Read all blocks. Raises CorefileError, and ValueError for what is no address."""
    stanzas = []
    while controller.next():
        stanza = Stanza(controller.zones(controller.remaining_args()))
        while controller.next_block():
            match controller.val():
                case "to":
                    stanza.to += [text if text == "*" else host_port(text, "53") for text in controller.args(1)]
                case "source":
                    _source(controller, stanza)
                case other:
                    raise _error(controller, f'unknown property "{other}"')
        if not stanza.to:
            raise _error(controller, "'to' is required")
        stanzas.append(stanza)
    return stanzas


def _source(controller: Controller, stanza: Stanza) -> None:
    text = controller.one_arg()
    if stanza.source:
        raise _error(controller, "source already specified")
    if packed(text) is None:
        raise _error(controller, f'invalid source address "{text}"')
    stanza.source = text


def _error(controller: Controller, text: str) -> CorefileError:
    """With the plugin's name twice, as CoreDNS has it here."""
    error = controller.err(text)
    return CorefileError(f"plugin/transfer: plugin/transfer: {error}", error.file, error.line)


def peers(stanzas: list[Stanza]) -> dict[str, list[tuple[bytes | None, int]]]:
    """Who may have each zone: what the first stanza that names it says. A longer zone never inherits from a shorter one."""
    found: dict[str, list[tuple[bytes | None, int]]] = {}
    for stanza in stanzas:
        for zone in stanza.zones:
            found.setdefault(zone.lower(), [_peer(text) for text in stanza.to])
    return found


def addresses(stanzas: list[Stanza]) -> dict[str, tuple[list[str], str]]:
    """Recipients of NOTIFY for each zone, and the local address to send from."""
    found: dict[str, tuple[list[str], str]] = {}
    for stanza in stanzas:
        for zone in stanza.zones:
            found.setdefault(zone.lower(), (stanza.to, stanza.source))
    return found


def _peer(text: str) -> tuple[bytes | None, int]:
    if text == "*":
        return None, 0
    address, percent, scope = split_address(text)[0].partition("%")
    if not percent:
        return packed(address), 0
    try:
        return packed(address), socket.if_nametoindex(scope)
    except OSError:
        return packed(address), int(scope) if scope.isdigit() else NO_SCOPE


# ---- providers ----

#: Records from which a transfer is a large one. Others do not wait until all large ones are prepared.
LARGE = 20_000

Key = tuple[int, int, bytes, bytes]

#: With a lock those that are called by one thread at a time.
Providers: TypeAlias = "list[tuple[Provider, threading.Lock | None]]"

_numbers = itertools.count(1)
_thread = control.OffloadThread("transfer", open_queue, lambda: serve_jobs(_submit))
#: Jobs that wait for one with the same key.
_followers: dict[Key, list[Job]] = {}
_lock = threading.Lock()
_preparers = SizedPool("transfer", max(2, min(4, os.cpu_count() or 1)), large=LARGE)


def provider(handler: Any) -> Provider | None:
    """The handler, or the object behind it, if it can give zones away."""
    for candidate in (handler, getattr(handler, "plugin", None)):
        if candidate is not None and not isinstance(candidate, TransferHandler) and callable(getattr(candidate, "transfer", None)):
            return candidate  # type: ignore[no-any-return]
    return None


def _submit(job: Job) -> None:
    """On the transfer thread."""
    told = find_told(job.providers, job.zone)
    if told is None:
        _preparers.submit(size(job.providers, job.zone, job.serial), partial(job.prepare, find))
        return
    if job.find_shared():
        return
    key = job.key
    with _lock:
        followers = _followers.get(key)
        if followers is not None:
            followers.append(job)
            return
    records = size(job.providers, job.zone, job.serial)
    with _lock:
        _followers[key] = []  # nobody else has put it there: only this thread does
    try:
        _preparers.submit(records, partial(_encode_first, job, key, told))
    except BaseException:
        with _lock:
            _followers.pop(key)
        raise


def _encode_first(job: Job, key: Key, told: Told) -> None:
    """Those who ask the same meanwhile get the same."""
    try:
        _encode(job, told)
    finally:
        with _lock:
            followers = _followers.pop(key)
        for other in followers:
            if not other.follow(job):
                _encode(other, told)


def _encode(job: Job, told: Told) -> None:
    zone, version = job.zone, job.serial

    def changes() -> Transfer | None:
        return told.transfer_changes(zone, version) if isinstance(version, Version) else None

    def whole() -> Transfer:
        found = told.transfer(zone, None)
        if found is None:
            raise ValueError(f"{name_text(zone)}: no such zone any more")
        return found

    job.encode(changes, whole)


def find_told(providers: Providers, zone: bytes) -> Told | None:
    """The provider of a block that has this zone and tells of its versions."""
    for candidate, _ in providers:
        if hasattr(candidate, "transfer_told") and candidate.transfer_told(zone):
            return candidate  # type: ignore[return-value]
    return None


def size(providers: Providers, zone: bytes, serial: int | None) -> int:
    """The records that `find` would give; `LARGE`, if it is not known."""
    for candidate, lock in providers:
        records: int = candidate.transfer_size(zone, serial) if lock is None else LARGE  # type: ignore[attr-defined]
        if records:
            return records
    return 0


def find(providers: Providers, zone: bytes, serial: int | None) -> Transfer | None:
    """What the first provider of a block says that is authoritative for exactly this zone. Runs on a preparer's thread."""
    for candidate, lock in providers:
        with lock or contextlib.nullcontext():
            transfer = candidate.transfer(zone, serial)
        if transfer is not None:
            if not isinstance(transfer, Transfer):
                raise TypeError(f"{name_text(zone)}: a provider gave a {type(transfer).__name__}")
            return transfer
    return None
