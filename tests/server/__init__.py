"""A running server under test, asked through its sockets."""

from __future__ import annotations

import os
import random
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

import dns.flags
import dns.message
import dns.query
import dns.rcode
import dns.rdatatype

from tests.waiting import LIMIT, REPLY, until

#: The last line of the banner: everything listens by then.
STARTED = re.compile(r"(?:^|\\n)linux/\S+, ", re.M)
PLACE = re.compile(r"\{(port\d*|dir)\}")


def command() -> list[str]:
    """The server under test: $FASTDNS_BIN, else the one installed beside this interpreter."""
    return shlex.split(os.environ.get("FASTDNS_BIN", "")) or [str(Path(sys.executable).parent / "fastdns")]


#: Ports below the range that the kernel gives to clients, shared out to test runs in blocks.
PORTS = range(15000, 32000)
BLOCK = 100
_left: Iterator[int] = iter(())


def free_port() -> int:
    """A port free for UDP and TCP, which no other test gets, of this run or of another on the machine.

    One that is merely free could be given out twice before its server listens; and two servers may well share a UDP port.
    """
    global _left
    while True:
        port = next(_left, None)
        if port is None:
            _left = iter(claim_block())
            continue
        try:
            for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
                with socket.socket(socket.AF_INET, kind) as probe:
                    probe.bind(("", port))
        except OSError:
            continue
        return port


def claim_block() -> range:
    """Ports that are this process's as long as it lives: a name in the abstract namespace says so to others."""
    for first in random.sample(PORTS[::BLOCK], len(PORTS) // BLOCK):
        claim = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            claim.bind(f"\0fastdns-tests/ports/{first}")
        except OSError:
            claim.close()
            continue
        claim.detach()
        return range(first, first + BLOCK)
    raise AssertionError("other test runs hold all ports")


class Server:
    """Runs a Corefile in a folder of its own until closed.

    ``{port}``, ``{port2}``… in the Corefile become free ports (see :attr:`ports`), ``{dir}`` the folder.
    The constructor does not wait for the start: :meth:`wait_started` does, and so does entering the context.
    """

    def __init__(self, folder: Path, corefile: str, *args: str, env: dict[str, str] | None = None) -> None:
        self.folder = folder
        self.ports: dict[str, int] = {}
        self.corefile = folder / "Corefile"
        self.write(corefile)
        self.log_path = folder / "server.log"
        self.args, self.env = args, env or {}
        self.start()

    def start(self) -> None:
        """Starts the process: the first one, or another after it has ended."""
        #: Characters of the log that are of processes before.
        self.before = len(self.log()) if self.log_path.is_file() else 0
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(
                [*command(), "-conf", str(self.corefile), *map(self.fill, self.args)],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **self.env},
            )
        #: Of the process that serves: after SIGUSR2 it is another one.
        self.pid = self.process.pid

    # ---- Corefile ----

    def fill(self, text: str) -> str:
        return PLACE.sub(lambda place: self.place(place[1]), text)

    def place(self, name: str) -> str:
        if name == "dir":
            return str(self.folder)
        if name not in self.ports:
            self.ports[name] = free_port()
        return str(self.ports[name])

    def write(self, corefile: str) -> None:
        """Replaces the Corefile, at once as an editor's rename does."""
        new = self.corefile.with_name("Corefile.new")
        new.write_text(self.fill(corefile))
        new.replace(self.corefile)

    @property
    def port(self) -> int:
        return self.ports["port"]

    # ---- asking ----

    def query(
        self,
        name: str,
        rdtype: str = "A",
        *,
        tcp: bool = False,
        port: int | None = None,
        host: str = "127.0.0.1",
        source: str | None = None,
        timeout: float = REPLY,
        **options: object,
    ) -> dns.message.Message:
        """The reply; options are those of :func:`dns.message.make_query` (``use_edns``, ``payload``, ``want_dnssec``…)."""
        request = dns.message.make_query(name, rdtype, **options)  # type: ignore[arg-type]
        return self.send(request, tcp=tcp, port=port, host=host, source=source, timeout=timeout)

    def send(
        self,
        request: dns.message.Message,
        *,
        tcp: bool = False,
        port: int | None = None,
        host: str = "127.0.0.1",
        source: str | None = None,
        timeout: float = REPLY,
    ) -> dns.message.Message:
        ask = dns.query.tcp if tcp else dns.query.udp
        return ask(request, host, port=port or self.port, source=source, timeout=timeout)

    def answers(self, name: str, rdtype: str = "A", **options: object) -> list[str]:
        """The rdata of the answer section as text, sorted; ``['NXDOMAIN']`` where the rcode is not NOERROR."""
        reply = self.query(name, rdtype, **options)  # type: ignore[arg-type]
        if reply.rcode() != dns.rcode.NOERROR:
            return [dns.rcode.to_text(reply.rcode())]
        return sorted(rdata.to_text() for rrset in reply.answer for rdata in rrset)

    def until(self, name: str, rdtype: str, wanted: list[str], limit: float = LIMIT, **options: object) -> None:
        """Asks until the answers are the wanted ones."""
        end = time.monotonic() + limit
        while (got := self.answers(name, rdtype, **options)) != sorted(wanted):
            assert time.monotonic() < end, f"{name} {rdtype}: still {got}, not {wanted}"
            time.sleep(0.02)

    def get(self, port: int, path: str) -> str:
        """A page of the server's HTTP listeners: /metrics, /health, /ready."""
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=REPLY) as reply:
            text: bytes = reply.read()
        return text.decode()

    def metric(self, port: int, sample: str) -> float:
        """The value of one sample, given as its name with labels as /metrics shows it; 0 where it is absent."""
        for line in self.get(port, "/metrics").splitlines():
            if line.startswith(sample + " "):
                return float(line.rpartition(" ")[2])
        return 0.0

    # ---- the process ----

    def log(self) -> str:
        return self.log_path.read_text(errors="replace")

    def wait_log(self, pattern: str | re.Pattern[str], limit: float = LIMIT, start: int = 0) -> re.Match[str]:
        """Waits until the output after ``start`` characters has a match."""
        wanted = re.compile(pattern, re.M) if isinstance(pattern, str) else pattern
        end = time.monotonic() + limit
        while True:
            over = self.process.poll() is not None
            found = wanted.search(self.log()[start:])
            if found:
                return found
            if over or time.monotonic() > end:
                state = f"ended with {self.process.returncode}" if over else "runs"
                raise AssertionError(f"no /{wanted.pattern}/ in the output; the server {state}:\n{self.log()}")
            time.sleep(0.01)

    def wait_started(self, limit: float = LIMIT) -> None:
        """Waits for the banner, which ``-quiet`` leaves out."""
        self.wait_log(STARTED, limit, self.before)

    def signal(self, number: signal.Signals) -> None:
        if self.pid == self.process.pid:
            self.process.send_signal(number)
        else:
            os.kill(self.pid, number)

    def cpu(self) -> float:
        """Seconds of CPU that the process has used: unlike the clock's they are the same beside other load."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self) -> int:
        """Octets of the process in memory."""
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def descriptors(self) -> int:
        """How many descriptors the process has open."""
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def threads(self) -> int:
        return len(os.listdir(f"/proc/{self.pid}/task"))

    def waits(self) -> int:
        """How often its threads have begun to wait."""
        states = [(folder / "status").read_text() for folder in Path(f"/proc/{self.pid}/task").iterdir()]
        return sum(int(state.partition("\nvoluntary_ctxt_switches:")[2].split()[0]) for state in states)

    def reload(self, corefile: str) -> None:
        """Writes the Corefile and sends USR1; returns when the new one serves."""
        start = len(self.log())
        self.write(corefile)
        self.signal(signal.SIGUSR1)
        self.wait_log(r"Reloading complete", start=start)

    def exit_status(self, limit: float = LIMIT) -> int:
        """Waits for the server to end by itself."""
        return self.process.wait(limit)

    def stop(self) -> int:
        """Ends the server with TERM, with KILL where that does not help, and returns its status."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(LIMIT)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        for successor in self.successors():
            os.kill(successor, signal.SIGTERM)
        until(lambda: not self.successors(), "the end of the process that took over")
        return self.process.returncode

    def successors(self) -> list[int]:
        """Processes that serve this Corefile beside the one that was started: those that took over from it."""
        wanted = os.fsencode(self.corefile)
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                words = (folder / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if wanted in words and int(folder.name) != self.process.pid:
                found.append(int(folder.name))
        return found

    def __enter__(self) -> Self:
        self.wait_started()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()
