"""Load clients of other projects, and a small one over their libraries: loads that our own generator had no part in."""

from __future__ import annotations

from fastdns.bench.clients.client import Client, Load
from fastdns.bench.clients.dnsperf import Dnsperf
from fastdns.bench.clients.ghz import Ghz
from fastdns.bench.clients.h2load import H2load
from fastdns.bench.clients.quicgo import QuicGo

__all__ = ["CLIENTS", "Client", "Load"]

#: By name. No two have a transport in common.
CLIENTS: dict[str, Client] = {client.name: client for client in (Dnsperf(), H2load(), QuicGo(), Ghz())}
