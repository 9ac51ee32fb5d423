"""The process as a whole: kills, a worker that is stuck, and the page that says which test stands for what."""

from __future__ import annotations

import collections
import contextlib
import random
import re
import select
import signal
import socket
import threading
import time
import urllib.error
from collections.abc import Callable
from pathlib import Path

import dns.message
import dns.rcode
import pytest

from fastdns.testing import Upstream
from tests.native import stuck
from tests.server import Server
from tests.waiting import LIMIT, until

ROOT = Path(__file__).resolve().parent.parent.parent

R11_COREFILE = """
.:{port} {
    bind 127.0.0.1
    hosts {
        192.0.2.1 www.example.org
        fallthrough
    }
    file {dir}/../zone example.net
    cache
    forward . 127.0.0.1:UPSTREAM
}
"""
R11_ZONE = "example.net. 60 IN SOA ns hostmaster 1 60 60 60 60\nexample.net. 60 IN NS ns\n*.example.net. 60 IN A 192.0.2.2\n"
RIGHT = {"www.example.org.": "192.0.2.1", "a.example.net.": "192.0.2.2", "b.example.com.": "192.0.2.53"}


class Load:
    """Queries that are always under way: replies that come have to be right, and which name was answered is known."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.answered: collections.Counter[str] = collections.Counter()
        self.wrong: list[str] = []
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self) -> None:
        messages = {}
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.connect(("127.0.0.1", self.port))
            client.settimeout(0.02)
            number = 0
            while not self.ended.is_set():
                for name in RIGHT:
                    number = (number + 1) & 0xFFFF
                    messages[number] = name
                    with contextlib.suppress(OSError):  # nobody listens between a kill and the start
                        client.send(dns.message.make_query(name, "A", id=number).to_wire())
                with contextlib.suppress(OSError):
                    while True:
                        self.check(dns.message.from_wire(client.recv(4096)), messages)

    def check(self, reply: dns.message.Message, messages: dict[int, str]) -> None:
        name = messages[reply.id]
        found = [rdata.to_text() for rrset in reply.answer for rdata in rrset]
        if reply.rcode() == dns.rcode.NOERROR and found == [RIGHT[name]]:
            self.answered[name] += 1
        else:
            self.wrong.append(reply.to_text())

    def close(self) -> None:
        self.ended.set()
        self.thread.join()


@pytest.mark.parametrize("kills", [40, pytest.param(300, marks=[pytest.mark.slow, pytest.mark.timeout(1500)])])
def test_R11_serving_again_after_a_kill(serve: Callable[..., Server], tmp_path: Path, kills: int) -> None:
    """kill -9 at any moment under load, and start, over and over: no wrong reply, and nothing left behind that blocks a start."""
    (tmp_path / "zone").write_text(R11_ZONE)
    chance = random.Random(11)
    with Upstream() as upstream:
        server = serve(R11_COREFILE.replace("UPSTREAM", str(upstream.port)), "-pidfile", "{dir}/../pid")
        corefile = R11_COREFILE.replace("UPSTREAM", str(upstream.port)).replace("{port}", str(server.port))
        load = Load(server.port)
        try:
            for kill in range(kills):
                if kill % 2:  # while it starts
                    time.sleep(chance.random() * 0.5)
                else:
                    server.wait_started()
                    before = load.answered.copy()
                    until(lambda before=before: all(load.answered[name] > before[name] for name in RIGHT), "an answer for each name")
                    assert (tmp_path / "pid").read_text() == f"{server.process.pid}\n"
                    time.sleep(chance.random() * 0.05)
                server.signal(signal.SIGKILL)
                assert server.exit_status() == -signal.SIGKILL
                server = serve(corefile, "-pidfile", "{dir}/../pid", wait=False)
            server.wait_started()
        finally:
            load.close()
    assert load.wrong == []


R18_PLUGIN = """
from tests.native.stuck import Stuck

def setup(controller):
    controller.next()
    return Stuck("stuck", *controller.remaining_args())
"""


def test_R18_a_stuck_worker_turns_health_to_503(serve: Callable[..., Server], tmp_path: Path) -> None:
    """A handler that does not return holds one of two workers: the other goes on, /health says so after a second, and no longer when the handler returns."""
    (tmp_path / "stuck.py").write_text(R18_PLUGIN)
    corefile = ".:{port} {\n bind 127.0.0.1\n health 127.0.0.1:{port2}\n plugin {dir}/../stuck.py {dir}/go\n whoami\n}\n"
    stuck.Stuck("compiled", "here")
    server = serve(corefile, "-workers", "2", env={"PYTHONPATH": str(ROOT)})

    def health() -> tuple[int, str]:
        try:
            return 200, server.get(server.ports["port2"], "/health")
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    assert health() == (200, "OK")
    with contextlib.ExitStack() as opened:
        clients = [opened.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) for _ in range(16)]
        for client in clients:
            client.connect(("127.0.0.1", server.port))
        begun = time.monotonic()
        clients[0].send(dns.message.make_query("stuck.example", "A", id=1).to_wire())
        until(lambda: health() != (200, "OK"), "the worker's being stuck")
        assert time.monotonic() - begun > 0.9
        assert health() == (503, "worker is stuck\n")
        for client in clients:
            client.send(dns.message.make_query("other.example", "A", id=2).to_wire())
        # The kernel shares out the clients to both workers.
        answered = until(lambda: select.select(clients, [], [], 0)[0], "an answer of the other worker")
        assert {client.recv(512)[:2] for client in answered} == {b"\0\2"}
        (server.folder / "go").touch()
        for client in {*clients} - {*answered} | {clients[0]}:
            client.settimeout(LIMIT)
            client.recv(512)
    until(lambda: health() == (200, "OK"), "its being well again")


@pytest.mark.parametrize("page", ["robustness.md", "threat-model.md"])
def test_R22_every_row_of_the_page_names_a_test_that_exists(page: str) -> None:
    """In each table with a column `test`; what stands there are tests, folders of tests, or commands of make."""
    text = (ROOT / "docs" / page).read_text()
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", text)
    assert len(named) > 20
    for path, test in named:
        assert not test or f"def {test}(" in (ROOT / path).read_text(), f"{path}::{test}"
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M)
    rows = 0
    for table in re.findall(r"(?:^\|.*\n)+", text, re.M):
        heads, _, *lines = table.splitlines()
        if heads.split("|")[-2].strip() != "test":
            continue
        for line in lines:
            rows += 1
            cell = line.rstrip(" |").rpartition("|")[2]
            made = re.findall(r"`make ([a-z-]+)", cell)
            assert re.search(r"`tests/", cell) or made, line
            assert set(made) <= set(targets), line
    assert rows > 10
