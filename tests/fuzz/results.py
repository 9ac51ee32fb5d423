"""Random results of a Python plugin: objects of every kind that `serve` may return, with attributes of any type and methods that raise.

An executor asks a plugin that returns one for each query. Whatever it is, the query has an end, the plugin's thread goes on, and no metric of others counts.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from typing import Any

from fastdns.plugin import DROP, PASS, Answer, Failure, Metric, Record, Remembered, Reply

#: Nobody counts with it.
VICTIM = Metric("fuzzed_victims_total", "Counter that no result may count with.", "counter", ("number",))
for _number in range(64):
    VICTIM.add((str(_number),), 0)
OWN = Metric("fuzzed_results_total", "Counter that the results may count with.", "counter", ("kind",))

NUMBERS = (0, 1, -1, 2, 15, 16, 255, 256, 4000, 4095, 4096, 5000, 65535, 65536, 2**31 - 1, 2**31, 2**32, 2**63, 2**64, 10**9, 10**30, 10**5000)
TEXTS = (
    "A 192.0.2.1",
    "a.example.",
    "..",
    "a" * 64 + ".example.",
    "x." * 200,
    "\0",
    "\ud800",
    "ä.example.",
    "192.0.2.0/24",
    "::/0",
    "0/99",
    "a\nb",
    "t" * 100_000,
)
OCTETS = (b"", b"\0", b"\xc0\x0c", b"\xff" * 300, b"\x01a\x07example\0", b"\x01a\x07example\0" * 3, bytes(65536), bytes(4), bytes(16))
TYPES = (1, 2, 5, 6, 12, 15, 16, 28, 33, 35, 41, 43, 46, 47, 48, 50, 52, 64, 65, 250, 251, 252, 255, 257, 65280)


class Raised(BaseException):
    """What no handler of Exception catches; nor has it a text."""

    def __str__(self) -> str:
        raise self


class Hostile:
    """An object each of whose methods raises, or returns one of its kind."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def _answer(self, *_: Any) -> Any:
        if self.random.random() < 0.5:
            raise self.random.choice((Raised(), SystemExit(3), KeyboardInterrupt(), RecursionError("deep"), ValueError("no"), GeneratorExit(), MemoryError()))
        return Hostile(self.random.getrandbits(32))

    __str__ = __repr__ = __len__ = __eq__ = __hash__ = __bool__ = __iter__ = __next__ = __int__ = __float__ = __index__ = _answer
    __bytes__ = __getitem__ = __contains__ = __format__ = __call__ = __lt__ = __le__ = __gt__ = __ge__ = __getattr__ = _answer

    def __del__(self) -> None:
        if "random" in self.__dict__ and self.random.random() < 0.05:
            sum(range(10))


class Text(str):
    """A text whose methods lie."""

    def encode(self, *_: Any, **__: Any) -> Any:
        return 5

    def __format__(self, _: str) -> str:
        return Text("formatted")

    __len__ = lambda self: 1 << 40  # noqa: E731


class Octets(bytes):
    """Octets whose methods lie."""

    def __bytes__(self) -> bytes:
        return Octets(b"other")

    __len__ = lambda self: 1 << 40  # noqa: E731


class Rows(list[Any]):
    """A list whose length lies."""

    __len__ = lambda self: 7  # noqa: E731


class Late(Reply):
    """A reply that is another one each time."""

    def to_wire(self, query: Any) -> Any:
        return self.answer() if callable(self.answer) else super().to_wire(query)


class Packs:
    """A message of another library."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def pack(self) -> Any:
        return self.value


def make_result(rng: random.Random, name: str) -> Any:
    """A result for a query; most of them are wrong in one part or several. What is remembered is so for this name alone."""
    if rng.random() < 0.3:
        return make_remembered(rng, name)
    return make_verdict(rng)


def make_remembered(rng: random.Random, name: str) -> Any:
    verdict = make_verdict(rng)
    seconds = rng.choice((60, 1, 0.5, make_value(rng)))
    suffix = rng.choice((None, None, name, "a.example.", make_value(rng)))
    client = rng.choice((None, None, "127.0.0.0/8", make_value(rng)))
    counter = rng.choice((None, 0, OWN.cell(("a",)), make_value(rng)))
    try:
        return Remembered(verdict, seconds, suffix, rng.choice((True, False, make_value(rng))), client, counter)
    except Exception:
        return None


def make_verdict(rng: random.Random) -> Any:
    kind = rng.randrange(9)
    if kind < 4:
        rows = [[make_record(rng) for _ in range(rng.choice((0, 1, 1, 2, 5)))] for _ in range(3)]
        reply = rng.choice((Reply, Reply, Late))(rows[0], make_rcode(rng), rows[1], rows[2], rng.choice((True, False, make_value(rng))))
        if rng.random() < 0.2:
            setattr(reply, rng.choice(("answer", "authority", "additional", "rcode", "authoritative")), make_value(rng))
        return reply
    if kind == 4:
        return Failure(make_rcode(rng), rng.choice(("why", make_value(rng))))
    if kind == 5:
        return Answer(rng.choice((None, make_message(rng), make_value(rng))), make_rcode(rng), rng.choice(("", make_value(rng))))
    if kind == 6:
        return make_message(rng)
    if kind == 7:
        return rng.choice((PASS, DROP, None, Packs(make_value(rng)), Packs(make_message(rng))))
    return make_value(rng)


def make_rcode(rng: random.Random) -> Any:
    return rng.choice((0, 2, 3, 5, 16, make_value(rng)))


def make_record(rng: random.Random) -> Any:
    if rng.random() < 0.05:
        return make_value(rng)
    rdata = rng.choice((bytes([192, 0, 2, 1]), bytes(rng.randrange(40)), rng.randbytes(rng.randrange(60)), make_value(rng)))
    owner = rng.choice((None, None, b"\x01a\x07example\0", rng.randbytes(rng.randrange(30)), make_value(rng)))
    return Record(rng.choice((*TYPES, make_value(rng))), rdata, rng.choice((60, make_value(rng))), owner)


def make_message(rng: random.Random) -> Any:
    """A message with some octets changed."""
    question = b"\x01a\x07example\0\0\x01\0\x01"
    record = b"\xc0\x0c" + struct.pack("!HHIH", rng.choice(TYPES), 1, 60, 4) + rng.randbytes(4)
    octets = bytearray(struct.pack("!6H", 0, 0x8400 | rng.randrange(16), 1, 1, 0, 0) + question + record)
    for _ in range(rng.choice((0, 0, 1, 3))):
        octets[rng.randrange(len(octets))] = rng.randrange(256)
    if rng.random() < 0.2:
        del octets[rng.randrange(len(octets)) :]
    return rng.choice((bytes, bytearray, Octets))(octets)


def make_value(rng: random.Random) -> Any:
    """A value of any type."""
    makers: tuple[Callable[[], Any], ...] = (
        lambda: rng.choice(NUMBERS),
        lambda: rng.choice(TEXTS),
        lambda: rng.choice(OCTETS),
        lambda: Text(rng.choice(TEXTS[:6])),
        lambda: Octets(rng.choice(OCTETS)),
        lambda: Hostile(rng.getrandbits(32)),
        lambda: Rows([make_record(rng)] if rng.random() < 0.5 else []),
        lambda: rng.choice((None, True, 1.5, float("nan"), float("inf"), -1.0, 1e308, 1j, (), [], {}, set(), object(), type, OWN, len, ...)),
        lambda: (Record(1, bytes(4)) for _ in range(3)),
        lambda: [Record(1, bytes(4))] * rng.choice((1, 4000)),
        lambda: bytearray(rng.randbytes(5)),
        lambda: memoryview(b"abcd"),
    )
    return rng.choice(makers)()
