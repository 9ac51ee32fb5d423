"""shed: replies that wait for their socket, and what is given up."""

from __future__ import annotations

import os
import re
import shlex
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import dns.message
import pytest

from fastdns.corefile import CorefileError
from fastdns.plugins.shed import parse
from fastdns.setup import Controller
from tests.server import Server
from tests.waiting import REPLY, until

#: Replies that a socket keeps.
ROOM = 1024


@pytest.mark.parametrize(
    ("text", "key", "message"),
    [
        ("shed 1s a", ".", "Testfile:1 - Error during parsing: Wrong argument count or unexpected line ending after 'a'"),
        ("shed a", ".", 'Testfile:1 - Error during parsing: invalid age: time: invalid duration "a"'),
        ("shed 999us", ".", "Testfile:1 - Error during parsing: the age must be in range [1ms, 10s], or 0s: 999us"),
        ("shed 11s", ".", "Testfile:1 - Error during parsing: the age must be in range [1ms, 10s], or 0s: 11s"),
        ("shed {\n depth 3\n}", ".", "Testfile:2 - Error during parsing: shed takes no options"),
        ("shed\nshed", ".", "this plugin can only be used once per Server Block"),
        (
            "shed",
            "tls://example.org",
            'Testfile:1 - Error during parsing: only plain DNS server blocks are supported; "tls://example.org.:853" uses transport "tls"',
        ),
    ],
)
def test_errors(text: str, key: str, message: str) -> None:
    with pytest.raises(CorefileError) as caught:
        parse(Controller.of(text, [key]))
    assert str(caught.value) == message


def test_ages() -> None:
    assert [parse(Controller.of(text, ["."])) for text in ("shed", "shed 70ms", "shed 0s")] == [50_000_000, 70_000_000, 0]


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    library = tmp_path_factory.mktemp("full") / "full.so"
    subprocess.run([*shlex.split(os.environ.get("CC", "cc")), "-shared", "-fPIC", "-O1", "-o", library, Path(__file__).with_name("full.c")], check=True)
    return library


@pytest.fixture
def flood(serve: Callable[..., Server], full: Path) -> Iterator[Callable[[str], Flood]]:
    floods: list[Flood] = []

    def start(block: str) -> Flood:
        floods.append(Flood(serve, full, block))
        return floods[-1]

    yield start
    for flood in floods:
        flood.client.close()


class Flood:
    """A server whose UDP sockets can be full, a client, and its metrics."""

    def __init__(self, serve: Callable[..., Server], library: Path, block: str) -> None:
        self.server = serve(
            f".:{{port}} {{\n {block}\n prometheus 127.0.0.1:{{port2}}\n whoami\n}}",
            "-workers",
            "1",
            env={"LD_PRELOAD": f"{os.environ.get('LD_PRELOAD', '')} {library}", "FASTDNS_TEST_FULL": "full"},  # a sanitizer's library comes first
        )
        self.sign = self.server.folder / "full"
        self.client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        self.client.settimeout(REPLY)
        self.client.connect(("127.0.0.1", self.server.port))
        self.packet = dns.message.make_query("a.test.", "A").to_wire()
        self.sent = 0

    def ask(self, count: int) -> None:
        """Queries with ids that go on from those before, in portions that the server has taken before the next."""
        for _ in range(count):
            self.client.send(self.sent.to_bytes(2, "big") + self.packet[2:])
            self.sent += 1
            if self.sent % 32 == 0:
                until(lambda: self.asked() + self.dropped("query") == self.sent, "the server's having taken the queries")

    def receive(self, count: int) -> list[int]:
        return [int.from_bytes(self.client.recv(4096)[:2], "big") for _ in range(count)]

    def asked(self) -> float:
        where = f'family="1",proto="udp",server="dns://:{self.server.port}",type="A",view="",zone="."'
        return self.server.metric(self.server.ports["port2"], f"coredns_dns_requests_total{{{where}}}")

    def dropped(self, reason: str) -> float:
        where = f'reason="{reason}",server="dns://:{self.server.port}"'
        return self.server.metric(self.server.ports["port2"], f"coredns_shed_dropped_total{{{where}}}")

    def lost(self) -> float:
        return self.server.metric(self.server.ports["port2"], "fastdns_send_errors_total")


def test_replies_wait_and_the_newest_leaves_first(flood: Callable[[str], Flood]) -> None:
    under = flood("shed")
    text = under.server.get(under.server.ports["port2"], "/metrics")
    assert text.count("\ncoredns_shed_dropped_total{") == 3, "all at 0 from the start"
    under.ask(1)
    assert under.receive(1) == [0]
    under.sign.touch()
    under.ask(200)
    until(lambda: under.asked() == 201, "all queries")
    assert under.server.query("a.test.", tcp=True).additional, "TCP is not touched"
    under.sign.unlink()
    assert under.receive(200) == list(range(200, 0, -1))
    under.ask(1)
    assert under.receive(1) == [201], "and all is as before"
    assert (under.dropped("query"), under.dropped("response"), under.lost()) == (0, 0, 0)


def test_queries_are_dropped_while_there_is_no_room(flood: Callable[[str], Flood]) -> None:
    under = flood("shed")
    under.ask(1)
    assert under.receive(1) == [0]
    under.sign.touch()
    under.ask(ROOM + 340)
    until(lambda: under.asked() + under.dropped("query") == under.sent, "all queries")
    taken = int(under.asked()) - 1
    # The batch that fills the last place may be longer than the room that there was.
    assert ROOM <= taken < ROOM + 64
    assert under.dropped("response") == under.lost() == taken - ROOM
    assert under.dropped("query") == ROOM + 340 - taken
    assert under.server.query("a.test.", tcp=True).additional
    under.sign.unlink()
    assert under.receive(ROOM) == list(range(taken, taken - ROOM, -1))


def test_without_it_replies_are_lost(flood: Callable[[str], Flood]) -> None:
    under = flood("errors")
    under.sign.touch()
    under.ask(10)
    until(lambda: under.lost() == 10, "the loss")
    under.sign.unlink()
    under.ask(1)
    assert under.receive(1) == [10]


def test_what_waits_at_the_end_is_counted(flood: Callable[[str], Flood]) -> None:
    """An address that a reload leaves takes its replies with it."""
    under = flood("shed")
    under.sign.touch()
    under.ask(64)
    before = len(under.server.log())
    port = under.server.port
    under.server.write(".:{port3} {\n prometheus 127.0.0.1:{port2}\n whoami\n}")
    under.server.process.send_signal(10)
    under.server.wait_log("Reloading complete", start=before)
    under.server.ports["port"] = port
    until(lambda: under.dropped("response") == 64, "the end of the socket")
    assert under.lost() == 64


def queued(server: Server, client: socket.socket, count: int, more: Callable[[], None] | None = None) -> None:
    """So many queries that come while the server stands still, and what else sends some."""
    packet = dns.message.make_query("a.test.", "A").to_wire()
    server.process.send_signal(signal.SIGSTOP)
    until(lambda: Path(f"/proc/{server.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T", "the standstill")
    for number in range(count):
        client.send(number.to_bytes(2, "big") + packet[2:])
    if more is not None:
        more()
    time.sleep(0.3)
    server.process.send_signal(signal.SIGCONT)


@pytest.fixture
def crowd() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.setsockopt(socket.SOL_SOCKET, 33, 1 << 23)  # SO_RCVBUFFORCE
        client.settimeout(REPLY)
        yield client


def timed(server: Server, client: socket.socket) -> dict[str, float]:
    """The results once the kernel notes times of arrival: the first socket that wants them has it begin to a little later."""

    def late() -> float:
        queued(server, client, 1)
        client.recv(4096)
        return results(server)["late"]

    until(late, "times of arrival")
    return results(server)


AGED = """
.:{port} {
    BIND
    shed AGE
    slo 99% 100ms
    prometheus 127.0.0.1:{port2}
    whoami
}
"""


def dropped(server: Server) -> float:
    """Queries that were too old, of all servers."""
    text = server.get(server.ports["port2"], "/metrics")
    return sum(float(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith("coredns_shed_dropped_total") and 'reason="age"' in line)


def results(server: Server) -> dict[str, float]:
    text = server.get(server.ports["port2"], "/metrics")
    return {result: float(number) for result, number in re.findall(r'fastdns_slo_queries_total\{result="(\w+)".*\} (\S+)', text)}


@pytest.mark.skipif(os.geteuid() != 0, reason="the socket's buffer is too small")
@pytest.mark.parametrize("bind", ["bind 127.0.0.1", "bind 0.0.0.0", ""])
def test_a_standstill_is_no_overload(serve: Callable[..., Server], crowd: socket.socket, bind: str) -> None:
    """What has come meanwhile is answered, and counts as late from its arrival on."""
    server = serve(AGED.replace("BIND", bind).replace("AGE", "200ms"), "-workers", "1")
    crowd.connect(("127.0.0.1", server.port))
    before = timed(server, crowd)
    queued(server, crowd, 2000)
    assert len({crowd.recv(4096)[:2] for _ in range(2000)}) == 2000
    assert dropped(server) == 0
    assert results(server) == {**before, "late": before["late"] + 2000}
    server.query("last.test.")
    assert results(server)["within"] == before["within"] + 1


@pytest.mark.skipif(os.geteuid() != 0, reason="the socket's buffer is too small")
@pytest.mark.parametrize("bind", ["bind 127.0.0.1", ""])
def test_what_is_too_old_for_too_long_is_not_answered(serve: Callable[..., Server], crowd: socket.socket, bind: str) -> None:
    """The queue is longer than what is answered within the age; what is dropped is counted, and afterwards all is as before."""
    server = serve(AGED.replace("BIND", bind).replace("AGE", "1ms"), "-workers", "1")
    crowd.connect(("127.0.0.1", server.port))
    before = sum(timed(server, crowd).values())
    queued(server, crowd, 6000)
    until(lambda: dropped(server) + sum(results(server).values()) == before + 6000, "all queries")
    assert 0 < dropped(server) < 6000
    answered = 6000 - int(dropped(server))
    for _ in range(answered):
        crowd.recv(4096)
    old = dropped(server)
    server.query("last.test.")
    assert dropped(server) == old
    server.reload(server.fill(AGED.replace("BIND", bind).replace("shed AGE", "")))
    queued(server, crowd, 3000)
    assert len({crowd.recv(4096)[:2] for _ in range(3000)}) == 3000
    assert dropped(server) == old, "a reload without it ends it"


@pytest.mark.skipif(os.geteuid() != 0, reason="the socket's buffer is too small")
def test_another_address_of_the_worker_loses_nothing(serve: Callable[..., Server], crowd: socket.socket) -> None:
    """It has no `shed`, and its batches are read between those of an address that is overloaded."""
    server = serve(AGED.replace("BIND", "bind 127.0.0.1").replace("AGE", "1ms") + ".:{port3} {\n    bind 127.0.0.1\n    whoami\n}\n", "-workers", "1")
    crowd.connect(("127.0.0.1", server.port))
    timed(server, crowd)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.settimeout(REPLY)
        other.connect(("127.0.0.1", server.ports["port3"]))
        packet = dns.message.make_query("a.test.", "A").to_wire()

        def ask() -> None:
            for number in range(200):
                other.send(number.to_bytes(2, "big") + packet[2:])

        queued(server, crowd, 6000, ask)
        assert len({other.recv(4096)[:2] for _ in range(200)}) == 200
    until(lambda: dropped(server) > 0, "an overload")
