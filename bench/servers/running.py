"""A server under test as a running process: pinned, asked until it is ready, measured, stopped."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import dns.exception
import dns.message
import dns.rcode
from dns.rdatatype import RdataType

from fastdns.bench.servers.adapter import Adapter, Listen, Work
from fastdns.bench.servers.ports import free_port

#: Seconds until a server must answer, and until it must have ended.
TO_START = 120.0
TO_END = 10.0
#: Seconds for a connection on the loopback interface.
CONNECTED = 1.0
#: Seconds between two questions to a server that is starting.
PAUSE = 0.005
#: Characters of a server's output that an error repeats.
TAIL = 2000


class StartError(Exception):
    """The server ended, or never answered."""


class Running:
    """Starts the server on the given CPUs in a folder of its own; use as a context. Raises StartError when it does not get ready.

    `ready`: seconds from the start of the process to its first answer with NOERROR to the work's probe, or its first connection.
    """

    def __init__(self, adapter: Adapter, work: Work, cpus: Sequence[int], *, wildcard: bool = False, limit: float = TO_START) -> None:
        self.adapter = adapter
        self.label = adapter.label
        self.work = work
        self.port = free_port()
        self.secure_port = free_port()
        self.ready = 0.0
        self._folder = tempfile.TemporaryDirectory(prefix=f"fastdns-bench-{adapter.name}-")
        self.folder = Path(self._folder.name)
        self._log = self.folder / "output.log"
        try:
            self._command = adapter.command(work, Listen(self.port, wildcard, max(1, len(cpus)), self.secure_port), self.folder)
            self._cpus = cpus
            self._limit = limit
            began = time.monotonic()
            self.start()
        except BaseException:
            self._folder.cleanup()
            raise
        try:
            self._wait(began)
        except BaseException:
            self.stop()
            raise

    def start(self) -> None:
        """Starts the process, which must not run; does not wait until it answers."""
        with self._log.open("ab") as log, pinned(self._cpus):
            self.process = subprocess.Popen(
                self._command,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **self.adapter.environment()},
            )

    def restart(self) -> float:
        """Ends the server and starts it again, with the same ports; returns once it answers. Seconds that it did not. Raises StartError."""
        self._end()
        began = time.monotonic()
        self.start()
        self._wait(began)
        return self.ready

    @property
    def pid(self) -> int:
        return self.process.pid

    def port_of(self, transport: str) -> int:
        """Where it takes questions over that."""
        return self.port if transport in ("udp", "tcp") else self.secure_port

    def output(self) -> str:
        """The end of the output of the server."""
        return self._log.read_text(errors="replace")[-TAIL:]

    def check(self) -> None:
        """Raises StartError when the server has ended by itself."""
        if self.process.poll() is not None:
            raise StartError(f"{self.label} ended with {self.process.returncode}:\n{self.output()}")

    def answers(self, name: str, kind: int, timeout: float = 0.5) -> list[str] | None:
        """The answer section's data as text, sorted; None when there is no reply with NOERROR in time (seconds)."""
        request = dns.message.make_query(name, RdataType.make(kind))
        # A connected socket hears at once of a port that nobody listens on.
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.connect(("127.0.0.1", self.port))
            sock.settimeout(timeout)
            try:
                sock.send(request.to_wire())
                reply = dns.message.from_wire(sock.recv(65535))
            except (OSError, dns.exception.DNSException):
                return None
        if reply.rcode() != dns.rcode.NOERROR or not request.is_response(reply):
            return None
        return sorted(rdata.to_text() for rrset in reply.answer for rdata in rrset)

    def answering(self) -> bool:
        """Whether it answers the work's probe; takes connections, where it knows no DNS."""
        if self.adapter.speaks_dns:
            return self.answers(*self.work.probe) is not None
        try:
            socket.create_connection(("127.0.0.1", self.secure_port), CONNECTED).close()
        except OSError:
            return False
        return True

    def stop(self) -> None:
        self._end()
        self._folder.cleanup()

    def _end(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(TO_END)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _wait(self, began: float) -> None:
        while not self.answering():
            self.check()
            if time.monotonic() - began > self._limit:
                raise StartError(f"{self.label} did not answer {self.work.probe[0]} within {self._limit:g} s:\n{self.output()}")
            time.sleep(PAUSE)
        self.ready = time.monotonic() - began


@contextlib.contextmanager
def pinned(cpus: Sequence[int]) -> Iterator[None]:
    """Processes started inside inherit these CPUs; the caller goes back to its own. No CPUs: nothing is pinned."""
    before = os.sched_getaffinity(0)
    if cpus:
        os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
