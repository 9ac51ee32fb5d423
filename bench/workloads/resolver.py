"""What the resolver in a pod asks: search lists, ndots, A and AAAA together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

__all__ = ["LIBCS", "Resolver"]

LIBCS = ("glibc", "musl")


@dataclass(frozen=True, slots=True)
class Resolver:
    """``/etc/resolv.conf`` of pods with ``dnsPolicy: ClusterFirst`` and the C library that reads it.

    Both libraries send the queries for A and AAAA at the same moment and go through the list until a name has an address.
    musl stops at a name that is there without an address and asks nothing but the name itself once it has `ndots` dots;
    glibc then asks for the name itself first, and goes through the list afterwards.
    """

    zone: str = "cluster.local."
    #: Search domains of the node, behind those of the cluster.
    domains: Sequence[str] = ()
    ndots: int = 5
    libc: str = "glibc"

    def candidates(self, name: str, namespace: str) -> list[str]:
        """The absolute names that stand for a name in a pod of a namespace, in the order in which they are asked for."""
        if name.endswith("."):
            return [name]
        itself = name + "."
        suffixes = (f"{namespace}.svc.{self.zone}", f"svc.{self.zone}", self.zone, *self.domains)
        searched = [f"{name}.{suffix}" for suffix in suffixes]
        if name.count(".") < self.ndots:
            return [*searched, itself]
        return [itself] if self.libc == "musl" else [itself, *searched]

    def asked(self, name: str, namespace: str, found: Callable[[str], bool | None]) -> Iterator[str]:
        """The candidates up to the one that ends the search.

        `found` says of a name whether it has an address; False: it is there without; None: there is no such name, as far as is known.
        """
        for candidate in self.candidates(name, namespace):
            yield candidate
            has = found(candidate)
            if has or (has is False and self.libc == "musl"):
                return
