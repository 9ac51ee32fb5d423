"""sinkhole: names of a list get an address of one's own."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_address

from fastdns.plugin import PASS, Controller, CorefileError, Plugin, Query, Reply, Result

__all__ = ["Sinkhole", "before", "setup"]

#: It answers clients differently, so it stands above the cache.
before = "cache"


class Sinkhole(Plugin):
    """Answers names of a list, and all names below them, with ``address`` ("": NXDOMAIN) for ``ttl`` seconds; but not to pods of some namespaces."""

    def __init__(self, names: Iterable[str], address: str = "", ttl: int = 60, excepted: Iterable[str] = ()) -> None:
        self.names = frozenset(name.lower().rstrip(".") + "." for name in names)
        self.record = f"{'AAAA' if ':' in address else 'A'} {address}" if address else ""
        self.ttl = ttl
        self.excepted = frozenset(excepted)

    def serve(self, query: Query) -> Result:
        suffix = self.listed(query.name)
        if suffix is None:
            return PASS.remember(self.ttl, all_types=True)
        if self.excepted:
            pod = query.client_pod
            if pod is not None and pod.namespace in self.excepted:
                return PASS
            return self.answer(query)  # not cached: another pod may have this address by then
        return self.answer(query).remember(self.ttl, suffix=suffix)

    def listed(self, name: str) -> str | None:
        """The longest name of the list that is ``name`` or above it."""
        labels = name.split(".")
        suffixes = (".".join(labels[i:]) for i in range(len(labels) - 1))
        return next((suffix for suffix in suffixes if suffix in self.names), None)

    def answer(self, query: Query) -> Reply:
        if not self.record:
            return query.reply(rcode="NXDOMAIN")
        return query.reply(*[self.record] if self.record.startswith(f"{query.type} ") else [], ttl=self.ttl)


def setup(controller: Controller) -> Sinkhole:
    """``sinkhole FILE { answer ADDRESS | ttl SECONDS | except NAMESPACE... }``"""
    names: list[str] = []
    address, ttl, excepted = "", 60, list[str]()
    while controller.once():
        with open(controller.path(controller.one_arg()), encoding="utf-8") as file:
            names = [name for line in file if (name := line.partition("#")[0].strip())]
        while controller.next_block():
            match controller.val():
                case "answer":
                    address = str(ip_address(controller.one_arg()))
                case "ttl":
                    ttl = controller.unsigned(controller.one_arg(), 31)
                case "except":
                    excepted = controller.args(1)
                case other:
                    raise controller.err(f"unknown property '{other}'")
    if not ttl:
        raise CorefileError("ttl must be positive")
    return Sinkhole(names, address, ttl, excepted)
