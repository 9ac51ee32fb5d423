"""The front ends of HTTP, gRPC and QUIC: what each speaks is Python on an event loop of their own, what it asks goes to the workers.

A front end is a class derived from `fastdns.fronts.front.Front` and a line in `FRONTS`. Nothing else is imported, and no thread runs, before a
Corefile names such a transport.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from fastdns.fronts.front import Front

__all__ = ["FRONTS", "Kind", "load", "missing"]


class Kind(NamedTuple):
    """Where the front end of a transport is, and what it needs."""

    module: str
    name: str
    #: Python modules it imports, which the package requires.
    modules: tuple[str, ...] = ()
    #: What the server says at start without `tls`; "" where the transport does without.
    needs_tls: str = ""


#: By scheme of the Corefile.
FRONTS: dict[str, Kind] = {
    "https3": Kind("fastdns.fronts.https3", "Https3Front", ("aioquic",), "DoH3 requires TLS, no TLS config found"),
    "quic": Kind("fastdns.fronts.doq", "DoqFront", ("aioquic",), "ListenPacket: quic: tls.Config not set"),
}


def load(transport: str) -> type[Front]:
    """The class of a transport's front end."""
    kind = FRONTS[transport]
    found: type[Front] = getattr(importlib.import_module(kind.module), kind.name)
    return found


def missing(transport: str) -> str:
    """What has to be installed before this transport can be served; "" for nothing."""
    kind = FRONTS[transport]
    absent = [name for name in kind.modules if importlib.util.find_spec(name) is None]
    return f"{transport}:// needs {' and '.join(absent)}, which is not installed" if absent else ""
