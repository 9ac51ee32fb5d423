"""DNS servers under test: what they are asked to do (`Work`) and how each kind is started for it (`Adapter`)."""

from __future__ import annotations

from fastdns.bench.servers.adapter import Adapter, Listen, Work, Zone
from fastdns.bench.servers.corefiles import SECURE, CoreDNS, Fastdns
from fastdns.bench.servers.native import Floor, Relay
from fastdns.bench.servers.nghttpd import Nghttpd
from fastdns.bench.servers.peers import Knot, Nsd, Unbound
from fastdns.bench.servers.running import Running, StartError

__all__ = ["ADAPTERS", "SECURE", "Adapter", "Listen", "Running", "StartError", "Work", "Zone", "subject"]

#: By the name that `--subject` takes.
ADAPTERS: dict[str, type[Adapter]] = {kind.name: kind for kind in (Fastdns, CoreDNS, Knot, Nsd, Unbound, Floor, Relay, Nghttpd)}


def subject(text: str) -> Adapter:
    """The adapter for `NAME` or `NAME=PATH`, a program other than the one on the search path. Raises ValueError for names not known.

    >>> subject("coredns=/opt/coredns").label
    'coredns'
    """
    name, _, path = text.partition("=")
    kind = ADAPTERS.get(name)
    if kind is None:
        raise ValueError(f"unknown server {name!r}: one of {', '.join(ADAPTERS)}")
    return kind(path)
