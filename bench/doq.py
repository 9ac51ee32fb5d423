"""Load over QUIC (RFC 9250): one process of a run, in which aioquic carries what the generator makes.

Debian 12's OpenSSL has no QUIC, so that this transport is Python's: each of a run's threads is a process of its own, which the parent talks to by
its standard input and output (see `fastdns.bench.process`).
"""

from __future__ import annotations

import select
import socket
import ssl
import time
from typing import Any

from aioquic.quic import events
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection

from fastdns.bench.generator.generator import Generator
from fastdns.bench.result import Target

__all__ = ["Carrier"]

#: Seconds until a broken connection is made anew.
AGAIN = 0.02
#: Datagrams that are taken from one socket before others have their turn.
BATCH = 32
BUFFER = 4 << 20
#: RFC 9250 4.3.
REQUEST_CANCELLED = 3
#: Seconds between looks at what has expired or broken.
NAP = 0.01


class Silent:
    """In place of the library's logger: no line of it is read, and each costs."""

    def debug(self, *_: object) -> None:
        """Nothing."""

    info = warning = error = debug


SILENT: Any = Silent()


class Link:
    """One connection, and the queries on it by stream: slot, due, and what has come of the reply."""

    def __init__(self, number: int, target: Target, address: tuple[Any, ...], family: int) -> None:
        self.number = number
        self.address = address
        self.family = family
        self.configuration = QuicConfiguration(alpn_protocols=["doq"], verify_mode=ssl.CERT_NONE, server_name=target.server_name or None)
        self.begin()

    def begin(self) -> None:
        self.streams: dict[int, tuple[int, int, bytearray]] = {}
        self.connected = False
        self.again: float | None = None
        self.socket = socket.socket(self.family, socket.SOCK_DGRAM)
        self.socket.setblocking(False)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER)
        self.socket.connect(self.address)
        self.quic = QuicConnection(configuration=self.configuration)
        self.quic.connect(self.address, now=time.monotonic())
        self.quic._logger = self.quic._loss._logger = SILENT
        self.push()

    @property
    def capacity(self) -> int:
        """Streams that the server lets us open."""
        left: int = self.quic._remote_max_streams_bidi - self.quic._local_next_stream_id_bidi // 4
        return max(0, left) if self.connected else 0

    def push(self) -> None:
        """Sends what there is to send; QUIC sends again what the kernel has no room for."""
        for octets, _ in self.quic.datagrams_to_send(now=time.monotonic()):
            try:
                self.socket.send(octets)
            except OSError:
                return


class Carrier:
    """Carries a generator's queries over its connections."""

    def __init__(self, generator: Generator, target: Target, family: int, address: tuple[Any, ...], clients: int, timeout: float) -> None:
        self.generator = generator
        self.timeout = timeout
        self.links = [Link(number, target, address, family) for number in range(clients)]
        self.poll = select.epoll()
        self.by_descriptor: dict[int, Link] = {}
        for link in self.links:
            self.watch(link)

    def watch(self, link: Link) -> None:
        self.by_descriptor[link.socket.fileno()] = link
        self.poll.register(link.socket.fileno(), select.EPOLLIN)

    # ---- begin and end ----

    def open(self, timeout: float) -> None:
        """Waits until all are connected. Raises OSError."""
        limit = time.monotonic() + timeout
        while not all(link.connected for link in self.links):
            if any(link.again is not None for link in self.links):
                raise ConnectionRefusedError(0, "the connection was refused or broken off")
            if time.monotonic() > limit:
                raise TimeoutError(0, f"not connected after {timeout:g} s")
            self.wait(NAP)

    def close(self) -> None:
        for link in self.links:
            link.quic.close()
            link.push()
            link.socket.close()
        self.poll.close()

    def run(self, start: int, warm: float, control: int, report: Any) -> None:
        """Until everything is answered or given up, or until the control descriptor says something. ``report()`` is called now and then."""
        generator = self.generator
        self.poll.register(control, select.EPOLLIN)
        self.by_descriptor.pop(control, None)
        generator.prepare(start, warm)
        look = 0.0
        while True:
            for link in self.links:
                if link.connected:
                    generator.allow(link.number, link.capacity)
            wait = generator.go_on()
            if wait is None:
                break
            for link in self.links:
                self.send(link)
            if not self.wait(wait, control):
                break
            now = time.monotonic()
            if now >= look:
                look = now + NAP
                self.tend(now)
                report()
        generator.finish()

    # ---- what leaves ----

    def send(self, link: Link) -> None:
        asked = self.generator.taken_from(link.number)
        if not asked:
            return
        quic = link.quic
        for slot, due, message in asked:
            stream = quic.get_next_available_stream_id()
            quic.send_stream_data(stream, len(message).to_bytes(2, "big") + message, True)
            link.streams[stream] = (slot, due, bytearray())
        link.push()

    def tend(self, now: float) -> None:
        """Makes broken connections anew, and streams whose query was given up make room where the server takes no more."""
        for link in self.links:
            if link.again is not None:
                if now >= link.again:
                    link.begin()
                    self.watch(link)
            elif link.connected and not link.capacity and link.streams:
                expired = (now - self.timeout) * 1e9
                for stream in [stream for stream, (_, due, _) in link.streams.items() if due < expired]:
                    del link.streams[stream]
                    link.quic.stop_stream(stream, REQUEST_CANCELLED)
                link.push()

    # ---- what comes ----

    def wait(self, seconds: float, control: int = -1) -> bool:
        """Takes up what comes within so many seconds; False when the control descriptor says something."""
        now = time.monotonic()
        timers = [timer for link in self.links if link.again is None and (timer := link.quic.get_timer()) is not None]
        if timers:
            seconds = min(seconds, max(0.0, min(timers) - now))
        ready = self.poll.poll(seconds)
        for descriptor, _ in ready:
            if descriptor == control:
                return False
            self.receive(self.by_descriptor[descriptor])
        now = time.monotonic()
        for link in self.links:
            timer = link.quic.get_timer() if link.again is None else None
            if timer is not None and now >= timer:
                link.quic.handle_timer(now=now)
                self.take_events(link)
        return True

    def receive(self, link: Link) -> None:
        for _ in range(BATCH):
            try:
                octets = link.socket.recv(65535)
            except BlockingIOError:
                break
            except OSError:
                self.break_off(link)
                return
            link.quic.receive_datagram(octets, link.address, now=time.monotonic())
        self.take_events(link)

    def take_events(self, link: Link) -> None:
        while (event := link.quic.next_event()) is not None:
            if isinstance(event, events.StreamDataReceived):
                self.on_data(link, event)
            elif isinstance(event, events.StreamReset):
                asked = link.streams.pop(event.stream_id, None)
                if asked is not None:
                    self.generator.complete(link.number, asked[0], asked[1], None)
            elif isinstance(event, events.HandshakeCompleted):
                link.connected = True
        # The library tells of an end only when it has forgotten the connection.
        if link.quic._close_event is not None:
            self.break_off(link)
        else:
            link.push()

    def on_data(self, link: Link, event: events.StreamDataReceived) -> None:
        asked = link.streams.get(event.stream_id)
        if asked is None:
            return
        slot, due, come = asked
        octets: bytes | bytearray = event.data
        if come or not event.end_stream:
            come += octets
            octets = come
        if event.end_stream or len(octets) > 2 + 65535:
            del link.streams[event.stream_id]
            whole = len(octets) >= 2 and len(octets) == 2 + (octets[0] << 8 | octets[1])
            self.generator.complete(link.number, slot, due, bytes(octets[2:]) if whole else b"")

    def break_off(self, link: Link) -> None:
        if link.again is None:
            self.generator.give_up(link.number)
            link.again = time.monotonic() + AGAIN
            link.connected = False
            link.streams = {}
            del self.by_descriptor[link.socket.fileno()]
            self.poll.unregister(link.socket.fileno())
            link.socket.close()
