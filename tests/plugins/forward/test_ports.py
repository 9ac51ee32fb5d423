"""The ports that UDP queries leave from, and on which socket a reply counts."""

from __future__ import annotations

import collections
import itertools
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fastdns.plugins.forward import ports
from tests.plugins.forward.test_attacks import PATIENT, raw_upstream, right
from tests.plugins.forward.test_forward import burst, corefile
from tests.server import Server

Serve = Callable[..., Server]
Send = Callable[[bytes], None]


@contextmanager
def counting_upstream() -> Iterator[tuple[str, dict[bytes, int]]]:
    """Answers with an address. Gives its address and the source port of each query; one that is repeated counts once."""
    seen: dict[bytes, int] = {}

    def answer(octets: bytes, send: Send, client: tuple[str, int]) -> None:
        seen[octets] = client[1]
        send(octets[:2] + b"\x81\x80\0\1\0\1\0\0\0\0" + octets[12:] + b"\xc0\x0c\0\1\0\1\0\0\0\5\0\4\xc0\0\2\1")

    with raw_upstream(answer) as up:
        yield up, seen


@pytest.mark.timing
@pytest.mark.parametrize(("option", "least"), [("", 1200), ("source_ports per-query", 16000)])
def test_ports_of_20000_queries(serve: Serve, option: str, least: int) -> None:
    with counting_upstream() as (up, seen):
        server = serve(corefile(f"{PATIENT}\n {option}", up))
        for first in range(0, 20000, 200):
            assert burst(server, [f"{i}.test." for i in range(first, first + 200)]).count("NOERROR") == 200
    assert len(seen) == 20000
    assert len(set(seen.values())) >= least
    assert set(seen.values()) <= set(ports.source_ports(wide=bool(option)))


def test_a_socket_has_16_queries(serve: Serve) -> None:
    """All at once, none answered before the last is there: no port comes up a second time by chance."""
    held: list[tuple[bytes, Send, int]] = []

    def answer(octets: bytes, send: Send, client: tuple[str, int]) -> None:
        held.append((octets, send, client[1]))
        if len({octets for octets, _, _ in held}) == 160:
            for octets, send, _ in held:
                send(right(octets))

    with raw_upstream(answer) as up:
        server = serve(corefile(PATIENT, up), "-workers", "1")
        assert burst(server, [f"{i}.test." for i in range(160)]).count("NOERROR") == 160
    uses = collections.Counter(port for _, port in {(octets, port) for octets, _, port in held})
    assert max(uses.values()) == 16
    assert len(uses) >= 10


def test_a_socket_is_replaced_after_100_ms(serve: Serve) -> None:
    with counting_upstream() as (up, seen):
        server = serve(corefile(PATIENT, up), "-workers", "1")
        for i in range(12):
            server.query(f"{i}.test.")
            time.sleep(0.11)
    assert len(set(seen.values())) >= 11, "two may be equal by chance"


def test_a_reply_on_another_port_does_not_count(serve: Serve) -> None:
    """The right reply, but to the socket of another query: it is passed over, and the one to its own socket counts."""
    held: dict[int, tuple[bytes, Send]] = {}

    def answer(octets: bytes, send: Send, client: tuple[str, int]) -> None:
        held.setdefault(client[1], (octets, send))
        if len(held) == 2:
            (first, to_first), (second, to_second) = held.values()
            for _ in range(3):
                to_second(right(first, "203.0.113.6"))
                to_first(right(second, "203.0.113.6"))
            time.sleep(0.1)
            to_first(right(first))
            to_second(right(second))

    with raw_upstream(answer) as up:
        server = serve(corefile(f"source_ports per-query\n {PATIENT}", up), "-workers", "1")
        got: list[list[str]] = []
        threads = [threading.Thread(target=lambda name=name: got.append(server.answers(name))) for name in ("a.test.", "b.test.")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert got == [["192.0.2.1"], ["192.0.2.1"]]


def test_sockets_that_wait_are_bounded(serve: Serve) -> None:
    """A silent upstream with a socket for each query: their number ends before the descriptors do, and later queries share them."""
    seen: set[bytes] = set()
    with raw_upstream(lambda octets, send, client: seen.add(octets)) as up:
        server = serve(corefile(f"source_ports per-query\n max_fails 0\n max_connect_attempts 1\n {PATIENT}", up), "-workers", "1")
        before = server.descriptors()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.connect(("127.0.0.1", server.port))
            for i in range(3000):
                label = b"%05d" % i
                client.send(i.to_bytes(2, "big") + b"\1\0\0\1\0\0\0\0\0\0" + bytes([len(label)]) + label + b"\4test\0\0\1\0\1")
                if i % 50 == 0:
                    time.sleep(0.005)
        for _ in itertools.takewhile(lambda _: len(seen) < 2500, range(100)):
            time.sleep(0.1)
        assert len(seen) >= 2500
        assert server.descriptors() <= before + 1024
        server.process.kill()  # which does not wait for those that are left


@pytest.mark.parametrize(
    ("wide", "local", "reserved", "count"),
    [
        (False, "40000\t40009\n", "\n", 10),
        (False, "40000\t40009\n", "40001,40003-40005\n", 6),
        (False, None, None, 28232),
        (False, "40000 40001", "40000-40001\n", 28232),
        (True, "40000\t40009\n", "\n", 64512 - 2768),
        (True, "40000\t40009\n", "1024-1033,8472\n", 64512 - 2768 - 11),
    ],
)
def test_which_ports(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, wide: bool, local: str | None, reserved: str | None, count: int) -> None:
    for name, text in (("ip_local_port_range", local), ("ip_local_reserved_ports", reserved)):
        if text is not None:
            (tmp_path / name).write_text(text)
    monkeypatch.setattr(ports, "SYSTEM", tmp_path)
    assert len(ports.source_ports(wide)) == count
