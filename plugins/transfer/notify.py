"""NOTIFY out (RFC 1996): the peers of a zone learn that it has changed. All are asked at once, and those who are silent again."""

from __future__ import annotations

import collections
import contextlib
import errno
import os
import socket
import threading
from typing import NamedTuple

from fastdns import control
from fastdns._wire import name_wire
from fastdns.control.eventloop import TaskGroup
from fastdns.corefile.address import join_host_port, split_address
from fastdns.corefile.errors import quoted
from fastdns.index.zone_list import ZoneList
from fastdns.plugins.transfer._notifies import Notifies
from fastdns.protocol.parameters import rcode_text
from fastdns.telemetry.log import Log

__all__ = ["Notifier"]

#: Zones and families of addresses that are told of at once; others wait for their turn. Each has a socket.
UNDER_WAY = 128
#: Seconds after which a round looks whether the zone has changed, while peers are silent.
PAUSE = 0.05
#: Octets of a socket's buffer, if the system allows as many: the answers of thousands of peers come at once.
RECEIVE_BUFFER = 4 << 20


class Target(NamedTuple):
    """A peer with an IP address."""

    text: str
    family: int
    octets: bytes
    port: int
    scope: int


def target(address: str) -> Target:
    """Raises OSError and ValueError."""
    host, port = split_address(address)
    family, _, _, _, place = socket.getaddrinfo(host, int(port), type=socket.SOCK_DGRAM, flags=socket.AI_NUMERICHOST)[0]
    return Target(address, family, socket.inet_pton(family, str(place[0]).partition("%")[0]), int(place[1]), int(place[3]) if len(place) > 2 else 0)


class Round:
    """A zone, and its peers of one family of addresses that are being told."""

    def __init__(self, zone: str, targets: list[Target], source: str, log: Log) -> None:
        self.zone = zone
        self.targets = targets
        self.source = source
        self.log = log
        #: While it is under way.
        self.notifies: Notifies | None = None

    def begin(self) -> None:
        """The zone has changed again."""
        if self.notifies is not None:
            self.notifies.begin()
            self.notifies.step()

    async def run(self) -> None:
        """Until all have answered or were asked often enough. What fails is logged."""
        try:
            with socket.socket(self.targets[0].family, socket.SOCK_DGRAM) as sock:
                sock.setblocking(False)
                with contextlib.suppress(OSError):
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
                sock.bind((self.source, 0))
                await self._send(sock)
        except OSError as error:
            reason = os.strerror(error.errno).lower() if error.errno else str(error)
            self.log.warning("Failed sending notifies: " + "\n".join(self._error(one, f"read udp ->{one.text}: {reason}") for one in self.targets))
        finally:
            self.notifies = None

    async def _send(self, sock: socket.socket) -> None:
        self.notifies = Notifies(sock.fileno(), name_wire(self.zone), [(one.octets, one.port, one.scope) for one in self.targets])
        self.notifies.begin()
        while True:
            wait = self.notifies.step()
            failures = self.notifies.failures()
            if failures:
                self.log.warning("Failed sending notifies: " + "\n".join(self._failure(sock, *one) for one in failures))
            if wait is None:
                break
            await control.readable(sock.fileno(), min(wait, PAUSE))
        Log("plugin/transfer").debug(f"Sent notifies for zone {quoted(self.zone)}")

    def _failure(self, sock: socket.socket, number: int, reason: int, rcode: int) -> str:
        one = self.targets[number]
        if rcode:
            return f'notify for zone {quoted(self.zone)} was not accepted by {quoted(one.text)}: rcode was "{rcode_text(rcode)}"'
        why = "i/o timeout" if reason == errno.ETIMEDOUT else os.strerror(reason).lower()
        return self._error(one, f"read udp {join_host_port(*sock.getsockname()[:2])}->{one.text}: {why}")

    def _error(self, one: Target, why: str) -> str:
        return f"notify for zone {quoted(self.zone)} was not accepted by {quoted(one.text)}: {quoted(why)}"


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
        self._targets: dict[bytes, list[Target]] = {}
        #: Of the loop's thread, as all below. Not begun yet, or not over.
        self._queue: collections.deque[Round] = collections.deque()
        self._rounds: dict[tuple[str, int], Round] = {}
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

    def _find_targets(self, zone: bytes, log: Log) -> list[Target]:
        """Of one of `zones`. What is no address of this system is logged, once."""
        if zone not in self._targets:
            found: dict[tuple[bytes, int], Target] = {}
            for address in self._addresses(zone):
                try:
                    one = target(address)
                except (OSError, ValueError) as error:
                    log.warning(f"Failed sending notifies: {quoted(address)}: {error}")
                    continue
                found.setdefault((one.octets, one.port), one)
            self._targets[zone] = list(found.values())
        return self._targets[zone]

    def _begin(self) -> None:
        with self._lock:
            waiting, self._waiting, tasks = self._waiting, {}, self._tasks
        for zone, plugin in waiting.items():
            match = self.zones.match(zone) or b""
            log = Log(f"plugin/{plugin}")
            targets = self._find_targets(match, log)
            for family in {one.family for one in targets}:
                standing = self._rounds.get((zone, family))
                if standing is not None:
                    standing.begin()
                    continue
                new = Round(zone, [one for one in targets if one.family == family], self.peers[match][1], log)
                self._rounds[zone, family] = new
                self._queue.append(new)
        for _ in range(min(len(self._queue), UNDER_WAY - self._under_way)):
            if tasks is not None and tasks.spawn(self._run(), "notify") is not None:
                self._under_way += 1

    async def _run(self) -> None:
        """One round after the other, until none waits."""
        try:
            while self._queue:
                one = self._queue.popleft()
                try:
                    await one.run()
                finally:
                    del self._rounds[one.zone, one.targets[0].family]
        finally:
            self._under_way -= 1
