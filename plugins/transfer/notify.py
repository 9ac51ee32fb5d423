"""NOTIFY out (RFC 1996): the peers of a zone learn that it has changed. One thread asks them all at once, and asks again who is silent."""

from __future__ import annotations

import collections
import contextlib
import os
import secrets
import selectors
import socket
import struct
import threading
import time

from fastdns._wire import name_wire
from fastdns.control import schedule
from fastdns.corefile.address import join_host_port, split_address
from fastdns.corefile.errors import quoted
from fastdns.index.zone_list import ZoneList
from fastdns.protocol.parameters import rcode_text
from fastdns.telemetry.log import Log

__all__ = ["Notifier"]

TRIES = 3
#: Seconds that a peer has for an answer: the first time, and each further time so much more.
PATIENCE = 2.0
#: Notifies under way at once; others wait for their turn.
UNDER_WAY = 128

#: NOTIFY, AA (RFC 1996 3.6 ff.).
NOTIFY = 0x2400
TYPE_SOA = 6


class Batch:
    """One change of one zone: the peers that have not answered, and what went wrong with others."""

    def __init__(self, zone: str, peers: int, log: Log) -> None:
        self.zone = zone
        self.left = peers
        self.errors: list[str] = []
        self.log = log


class Try:
    """A NOTIFY to one peer."""

    def __init__(self, batch: Batch, address: str, source: str) -> None:
        self.batch = batch
        self.address = address
        self.source = source
        self.tries = 0
        self.socket: socket.socket | None = None
        self.deadline = 0.0
        self.question = name_wire(batch.zone) + struct.pack(">HH", TYPE_SOA, 1)
        self.id = 0
        self.error = ""

    def send(self) -> bool:
        """Ask (once more), from a port and with an id of its own. False, with `error`, when that cannot be."""
        self.close()
        self.tries += 1
        self.deadline = time.monotonic() + PATIENCE * self.tries
        self.id = secrets.randbits(16)
        host, port = split_address(self.address)
        try:
            family, kind, _, _, place = socket.getaddrinfo(host, int(port), type=socket.SOCK_DGRAM, flags=socket.AI_NUMERICHOST)[0]
            self.socket = socket.socket(family, kind)
            self.socket.setblocking(False)
            if self.source:
                self.socket.bind((self.source, 0))
            self.socket.connect(place)
            self.socket.send(struct.pack(">HHHHHH", self.id, NOTIFY, 1, 0, 0, 0) + self.question)
        except (OSError, ValueError) as error:
            return self.fail(error)
        return True

    def fail(self, error: Exception) -> bool:
        reason = os.strerror(error.errno).lower() if isinstance(error, OSError) and error.errno else str(error)
        self.error = f"notify for zone {quoted(self.batch.zone)} was not accepted by {quoted(self.address)}: {quoted(self.route(reason))}"
        return False

    def route(self, reason: str) -> str:
        try:
            local = join_host_port(*self.socket.getsockname()[:2]) if self.socket is not None else ""
        except OSError:
            local = ""
        return f"read udp {local}->{self.address}: {reason}"

    def receive(self) -> bool | None:
        """Whether the peer accepts; None: what came is no answer."""
        try:
            packet = self.socket.recv(65535) if self.socket is not None else b""
        except BlockingIOError:
            return None
        except OSError as error:
            return self.fail(error)
        if len(packet) < 12:
            return None
        ident, flags, questions = struct.unpack_from(">HHH", packet)
        if ident != self.id or not flags & 0x8000 or (flags >> 11) & 15 != 4:
            return None
        if questions and packet[12 : 12 + len(self.question)].lower() != self.question.lower():
            return None
        if flags & 15:
            self.error = f'notify for zone {quoted(self.batch.zone)} was not accepted by {quoted(self.address)}: rcode was "{rcode_text(flags & 15)}"'
            return False
        return True

    def close(self) -> None:
        if self.socket is not None:
            self.socket.close()
            self.socket = None


class Notifier:
    """Sends the notifies of one ``transfer`` handler; `stop` ends it."""

    def __init__(self, peers: dict[str, tuple[list[str], str]]) -> None:
        """``peers`` gives each zone's addresses and the local address that they are told from ("": any)."""
        self.zones = ZoneList(peers)
        self.peers = {name_wire(zone.lower()): found for zone, found in peers.items()}
        self._changed = threading.Condition()
        self._waiting: collections.OrderedDict[str, str] = collections.OrderedDict()
        self._thread: threading.Thread | None = None
        self._bell = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._stopped = False

    def notify(self, zone: str, plugin: str = "file") -> None:
        """Tell the zone's peers that it has changed; returns at once. What fails is logged as a warning of ``plugin``."""
        found = self.zones.match(zone.lower())
        if found is None or not self._addresses(found):
            return
        with self._changed:
            if self._stopped:
                return
            self._waiting[zone.lower()] = plugin
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="notify", daemon=True)
                self._thread.start()
            self._ring()

    def stop(self) -> None:
        """No further notifies; those under way are given up."""
        with self._changed:
            if self._stopped:
                return
            self._stopped = True
            self._waiting.clear()
            if self._thread is None:
                self._close()
            else:
                self._ring()

    def _ring(self) -> None:
        with contextlib.suppress(BlockingIOError):  # it rings already
            os.write(self._bell[1], b"!")

    def _close(self) -> None:
        for descriptor in self._bell:
            os.close(descriptor)

    def _addresses(self, zone: bytes) -> list[str]:
        return [address for address in self.peers[zone][0] if address != "*"]

    def _run(self) -> None:
        schedule.renice()
        under_way: dict[int, Try] = {}
        queue: collections.deque[Try] = collections.deque()
        with selectors.DefaultSelector() as selector:
            selector.register(self._bell[0], selectors.EVENT_READ)
            while not self._stopped:
                now = time.monotonic()
                wait = min((one.deadline - now for one in under_way.values()), default=None)
                for key, _ in selector.select(None if wait is None else max(0.0, wait)):
                    if key.fd == self._bell[0]:
                        os.read(key.fd, 4096)
                        queue += self._take()
                        continue
                    one = under_way[key.fd]
                    accepted = one.receive()
                    if accepted is not None:
                        self._settle(one, accepted, under_way, queue, selector)
                now = time.monotonic()
                for one in [one for one in under_way.values() if one.deadline <= now]:
                    one.fail(TimeoutError("i/o timeout"))
                    self._settle(one, False, under_way, queue, selector)
                while queue and len(under_way) < UNDER_WAY:
                    self._begin(queue.popleft(), under_way, queue, selector)
        for one in [*under_way.values(), *queue]:
            one.close()
        with self._changed:
            self._close()

    def _take(self) -> list[Try]:
        with self._changed:
            waiting = list(self._waiting.items())
            self._waiting.clear()
        found = []
        for zone, plugin in waiting:
            match = self.zones.match(zone) or b""
            addresses, source = self._addresses(match), self.peers[match][1]
            batch = Batch(zone, len(addresses), Log(f"plugin/{plugin}"))
            found += [Try(batch, address, source) for address in addresses]
        return found

    def _begin(self, one: Try, under_way: dict[int, Try], queue: collections.deque[Try], selector: selectors.BaseSelector) -> None:
        if one.send() and one.socket is not None:
            under_way[one.socket.fileno()] = one
            selector.register(one.socket, selectors.EVENT_READ)
        else:
            self._settle(one, False, under_way, queue, selector)

    def _settle(self, one: Try, accepted: bool, under_way: dict[int, Try], queue: collections.deque[Try], selector: selectors.BaseSelector) -> None:
        """It has been answered, or not: ask once more, or be done with this peer, and with the batch when it was the last."""
        if one.socket is not None and under_way.pop(one.socket.fileno(), None) is not None:
            selector.unregister(one.socket)
        one.close()
        if not accepted and one.tries < TRIES:
            queue.append(one)
            return
        batch = one.batch
        batch.left -= 1
        if not accepted:
            batch.errors.append(one.error)
        if batch.left == 0:
            if batch.errors:
                batch.log.warning("Failed sending notifies: " + "\n".join(batch.errors))
            Log("plugin/transfer").debug(f"Sent notifies for zone {quoted(batch.zone)}")
