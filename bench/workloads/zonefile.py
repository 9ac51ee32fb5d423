"""Zone files of any number of names, and the right answers for them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address

from fastdns._wire import name_wire
from fastdns.bench.workload import Question, WorkloadError

__all__ = ["Zone", "add_arguments"]

A, AAAA = 1, 28
#: Addresses for measuring: RFC 2544 (198.18.0.0/15) and RFC 5180 (2001:2::/48).
IPV4, IPV4_COUNT = IPv4Address("198.18.0.0"), 1 << 17
IPV6 = IPv6Address("2001:2::")


@dataclass(frozen=True, slots=True)
class Zone:
    """A zone with the names ``host-0`` to ``host-N``.

    Each has an A record, every fourth AAAA, too; every tenth is a CNAME of the name before instead; every 20th, from ``host-1``,
    has an MX record and every 20th, from ``host-2``, TXT.
    """

    origin: str
    names: int
    ttl: int = 300

    def __post_init__(self) -> None:
        if self.names < 1:
            raise WorkloadError(f"a zone cannot have {self.names} names")
        try:
            name_wire(self.name(self.names))
        except ValueError as error:
            raise WorkloadError(f"{self.origin}: {error}") from None

    def name(self, number: int) -> str:
        origin = self.origin.removesuffix(".")
        return f"host-{number}.{origin}." if origin else f"host-{number}."

    def question(self, number: int, qtype: int = A) -> Question:
        """A question about one of the names, A or AAAA, with its answer. One past the last name is denied."""
        if not 0 <= number < self.names:
            return Question(self.name(number), qtype, 3, frozenset())
        at = number - 1 if self.is_alias(number) else number
        answers = {A: [self.address(at).packed], AAAA: [self.address6(at).packed] if at % 4 == 0 else []}
        return Question(self.name(number), qtype, 0, frozenset(answers[qtype]))

    def lines(self) -> Iterator[str]:
        """The master file (RFC 1035 5.1)."""
        yield f"$ORIGIN {self.origin.removesuffix('.')}.\n$TTL {self.ttl}\n"
        yield "@ SOA ns hostmaster 1 7200 1800 86400 60\n@ NS ns\nns A 198.18.0.1\n"
        for number in range(self.names):
            yield f"host-{number} " + (f"CNAME host-{number - 1}\n" if self.is_alias(number) else f"A {self.address(number)}\n")
            if self.is_alias(number):
                continue
            if number % 4 == 0:
                yield f"host-{number} AAAA {self.address6(number)}\n"
            if number % 20 == 1:
                yield f"host-{number} MX 10 host-{number - 1}\n"
            if number % 20 == 2:
                yield f'host-{number} TXT "v=spf1 a -all"\n'

    @staticmethod
    def is_alias(number: int) -> bool:
        return number % 10 == 9

    @staticmethod
    def address(number: int) -> IPv4Address:
        return IPV4 + number % IPV4_COUNT

    @staticmethod
    def address6(number: int) -> IPv6Address:
        return IPV6 + number + 1


def add_arguments(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """``fastdns-bench zone``."""
    parser = subparsers.add_parser("zone", help="write a made-up zone", description=__doc__)
    parser.add_argument("--names", type=int, default=1000, metavar="N", help="names in it (default %(default)s)")
    parser.add_argument("--origin", default="example.org.", metavar="NAME", help="the zone (default %(default)s)")
    parser.add_argument("--output", default="-", metavar="FILE", help="where to (default: standard output)")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    zone = Zone(arguments.origin, arguments.names)
    try:
        with nullcontext(sys.stdout) if arguments.output == "-" else open(arguments.output, "w", encoding="ascii") as file:
            file.writelines(zone.lines())
    except OSError as error:
        raise WorkloadError(f"{arguments.output}: {error.strerror}") from error
    return 0
