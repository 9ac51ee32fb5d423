"""NOTIFY out (RFC 1996): the peers of a zone learn that it has changed. All are asked at once, and those who are silent again."""

from __future__ import annotations

import collections
import os
import secrets
import socket
import struct
import threading
import time

from fastdns import control
from fastdns._wire import name_wire
from fastdns.control import readable
from fastdns.control.eventloop import TaskGroup
from fastdns.corefile.address import join_host_port, split_address
from fastdns.corefile.errors import quoted
from fastdns.index.zone_list import ZoneList
from fastdns.protocol.header import FLAG_AA, FLAG_QR, OPCODE_NOTIFY, flags_opcode, flags_rcode
from fastdns.protocol.parameters import TYPE_SOA, rcode_text
from fastdns.telemetry.log import Log

__all__ = ["Notifier"]

TRIES = 3
#: Seconds that a peer has for an answer: the first time, and each further time so much more.
PATIENCE = 2.0
#: Notifies under way at once; others wait for their turn.
UNDER_WAY = 128

#: NOTIFY, AA (RFC 1996 3.6 ff.).
NOTIFY = OPCODE_NOTIFY << 11 | FLAG_AA


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
        self.question = name_wire(batch.zone) + struct.pack(">HH", TYPE_SOA, 1)
        self.id = 0
        self.error = ""

    async def ask(self) -> bool:
        """Ask (once more), and wait for the answer. Whether the peer accepts; else `error` says why not."""
        self.tries += 1
        deadline = time.monotonic() + PATIENCE * self.tries
        try:
            if not self.send() or self.socket is None:
                return False
            while await readable(self.socket.fileno(), deadline - time.monotonic()):
                accepted = self.receive()
                if accepted is not None:
                    return accepted
            return self.fail(TimeoutError("i/o timeout"))
        finally:
            self.close()

    def send(self) -> bool:
        """From a port and with an id of its own. False, with `error`, when that cannot be."""
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
        if ident != self.id or not flags & FLAG_QR or flags_opcode(flags) != OPCODE_NOTIFY:
            return None
        if questions and packet[12 : 12 + len(self.question)].lower() != self.question.lower():
            return None
        if flags_rcode(flags):
            self.error = f'notify for zone {quoted(self.batch.zone)} was not accepted by {quoted(self.address)}: rcode was "{rcode_text(flags_rcode(flags))}"'
            return False
        return True

    def close(self) -> None:
        if self.socket is not None:
            self.socket.close()
            self.socket = None


class Notifier:
    """Sends the notifies of one ``transfer`` handler; `stop` ends it."""

    def __init__(self, peers: dict[str, tuple[list[str], str]]) -> None:
        """``peers`` gives each zone's addresses and the local address that NOTIFY is sent from ("": any)."""
        self.zones = ZoneList(peers)
        self.peers = {name_wire(zone.lower()): found for zone, found in peers.items()}
        self._lock = threading.Lock()
        self._waiting: dict[str, str] = {}
        self._tasks: TaskGroup | None = None
        self._stopped = False
        #: Of the loop's thread, as all below. Not asked yet, or not for the last time.
        self._queue: collections.deque[Try] = collections.deque()
        self._under_way = 0

    def notify(self, zone: str, plugin: str = "file") -> None:
        """Tell the zone's peers that it has changed; returns at once. What fails is logged as a warning of ``plugin``."""
        found = self.zones.match(zone.lower())
        if found is None or not self._addresses(found):
            return
        with self._lock:
            if self._stopped:
                return
            if self._tasks is None:
                self._tasks = TaskGroup(control.loop())
            if not self._waiting:
                self._tasks.loop.call_soon(self._begin)
            self._waiting[zone.lower()] = plugin

    def stop(self) -> None:
        """No further notifies; those under way are given up."""
        with self._lock:
            self._stopped = True
            self._waiting.clear()
            tasks, self._tasks = self._tasks, None
        if tasks is not None:
            tasks.stop()

    def _addresses(self, zone: bytes) -> list[str]:
        return [address for address in self.peers[zone][0] if address != "*"]

    def _begin(self) -> None:
        with self._lock:
            waiting, self._waiting, tasks = self._waiting, {}, self._tasks
        for zone, plugin in waiting.items():
            match = self.zones.match(zone) or b""
            addresses, source = self._addresses(match), self.peers[match][1]
            batch = Batch(zone, len(addresses), Log(f"plugin/{plugin}"))
            self._queue += [Try(batch, address, source) for address in addresses]
        for _ in range(min(len(self._queue), UNDER_WAY - self._under_way)):
            if tasks is not None and tasks.spawn(self._run(), "notify") is not None:
                self._under_way += 1

    async def _run(self) -> None:
        """Ask one peer after the other, until all have answered or were asked often enough."""
        try:
            while self._queue:
                one = self._queue.popleft()
                accepted = await one.ask()
                if accepted or one.tries == TRIES:
                    self._finish_try(one, accepted)
                else:
                    self._queue.append(one)
        finally:
            self._under_way -= 1

    def _finish_try(self, one: Try, accepted: bool) -> None:
        """Be done with this peer, and with the batch when it was the last."""
        batch = one.batch
        batch.left -= 1
        if not accepted:
            batch.errors.append(one.error)
        if batch.left == 0:
            if batch.errors:
                batch.log.warning("Failed sending notifies: " + "\n".join(batch.errors))
            Log("plugin/transfer").debug(f"Sent notifies for zone {quoted(batch.zone)}")
