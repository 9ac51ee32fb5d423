"""R8: upstreams that lose datagrams. Which ones is settled beforehand: the number of a transmission of a name decides with the seed."""

from __future__ import annotations

import collections
import hashlib
import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator

import dns.name
import pytest

from tests.server import Server

Serve = Callable[..., Server]

#: Share of datagrams that are lost -> share of questions to be answered within five seconds.
GOALS = {0.1: 0.9999, 0.3: 0.999, 0.5: 0.99}
#: Transmissions of a question in two attempts, and how many of them a busy machine may be too late for.
SENT, LATE = 10, 2
SEED = 8


def lost(name: bytes, number: int, loss: float, seed: int = SEED) -> bool:
    """Whether a transmission of a question is lost, or its reply, which is the same."""
    digest = hashlib.blake2b(name + bytes([number & 255, seed]), digest_size=8).digest()
    return int.from_bytes(digest, "big") < loss * 2**64


def needed(name: bytes, loss: float) -> int:
    """How many transmissions it takes until a reply comes through."""
    return next(number for number in range(1, 1000) if not lost(name, number, loss))


class Lossy:
    """An upstream that answers any question with an address, but for what is lost."""

    def __init__(self, loss: float, seed: int = SEED) -> None:
        self.loss = loss
        self.seed = seed
        self.seen: collections.Counter[bytes] = collections.Counter()
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        self.sock.bind(("127.0.0.1", 0))
        self.sock.settimeout(0.2)
        self.address = f"127.0.0.1:{self.sock.getsockname()[1]}"
        self.going = True
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self) -> None:
        while self.going:
            try:
                query, client = self.sock.recvfrom(4096)
            except TimeoutError:
                continue
            end = query.index(b"\0", 12) + 5
            name = query[12:end].lower()
            self.seen[name] += 1
            if not lost(name, self.seen[name], self.loss, self.seed):
                answer = b"\xc0\x0c\0\1\0\1\0\0\0\5\0\4\xc0\0\2\x01" if query[end - 4 : end - 2] == b"\0\1" else b""
                counts = struct.pack("!4H", 1, bool(answer), 0, 0)
                self.sock.sendto(query[:2] + b"\x81\x80" + counts + query[12:end] + answer, client)

    def close(self) -> None:
        self.going = False
        self.thread.join()
        self.sock.close()


@pytest.fixture
def upstreams() -> Iterator[dict[str, Lossy]]:
    """One for each loss, and two more that share the questions of a zone."""
    made = {f"l{loss * 100:.0f}.test.": Lossy(loss) for loss in GOALS} | {"one": Lossy(0.5, 1), "two": Lossy(0.5, 2)}
    yield made
    for upstream in made.values():
        upstream.close()


def ask(server: Server, names: list[bytes], rate: float) -> dict[bytes, float]:
    """Asks for the addresses of all names, so many a second. The seconds until each was answered; -1 where it was not."""
    took = dict.fromkeys(names, -1.0)
    under_way: dict[int, tuple[bytes, float]] = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        sock.connect(("127.0.0.1", server.port))
        begun = time.monotonic()
        number, end = 0, begun + len(names) / rate + 20
        while (number < len(names) or under_way) and time.monotonic() < end:
            while number < len(names) and number < (time.monotonic() - begun) * rate:
                under_way[number & 0xFFFF] = names[number], time.monotonic()
                sock.send(struct.pack("!6H", number & 0xFFFF, 0x0100, 1, 0, 0, 0) + names[number])
                number += 1
            while select.select([sock], [], [], 0.005)[0]:
                reply = sock.recv(4096)
                name, sent = under_way.pop(int.from_bytes(reply[:2], "big"))
                assert reply[12 : 12 + len(name)] == name
                if reply[3] & 15 == 0 and reply.endswith(b"\xc0\0\2\x01"):
                    took[name] = time.monotonic() - sent
    return took


COREFILE = """
.:{port} {
    bind 127.0.0.1
    FORWARDS
}
"""


@pytest.mark.parametrize(("count", "rate"), [(500, 400), pytest.param(20000, 800, marks=[pytest.mark.slow, pytest.mark.timeout(300)])])
def test_r8_upstream_loss(serve: Serve, upstreams: dict[str, Lossy], count: int, rate: int) -> None:
    """Whoever is answered at one of the first transmissions gets that answer, and nobody is asked without need."""
    zones = {f"l{loss * 100:.0f}.test.": loss for loss in GOALS} | {"two.test.": 0.5}
    targets = {zone: upstreams[zone].address if zone in upstreams else f"{upstreams['one'].address} {upstreams['two'].address}" for zone in zones}
    server = serve(COREFILE.replace("FORWARDS", "\n".join(f"forward {zone} {to}" for zone, to in targets.items())))
    question = b"\0\1\0\1"
    asked = [(zone, dns.name.from_text(f"q{number}.{zone}").to_wire() + question) for number in range(count) for zone in zones]
    # An upstream must have answered once before it is asked again for what may be lost.
    ask(server, [dns.name.from_text(f"warm{number}.{zone}").to_wire() + question for number in range(20) for zone in zones], rate)
    for upstream in upstreams.values():
        upstream.seen.clear()
    took = ask(server, [name for _, name in asked], rate * len(zones))
    for zone, loss in zones.items():
        names = [name for where, name in asked if where == zone]
        answered = [took[name] for name in names if 0 <= took[name] <= 5]
        share = len(answered) / len(names)
        if zone in upstreams:
            sent = [upstreams[zone].seen[name] for name in names]
            wanted = [needed(name, loss) for name in names]
            print(f"{zone} {share:.4f} answered, the last after {max(answered):.2f} s, {sum(sent) / len(names):.2f} transmissions each")
            early = [name for name, number in zip(names, wanted, strict=True) if number <= SENT - LATE]
            assert [name for name in early if took[name] < 0] == []
            assert max(sent) <= SENT
            # Twice what a loss makes necessary is for a machine on which replies take longer than the time until a question is repeated.
            assert sum(sent) <= 2 * sum(min(number, SENT) for number in wanted)
        else:
            print(f"{zone} {share:.4f} answered, the last after {max(answered):.2f} s")
        assert share >= GOALS[loss]
