"""Transfers to and from Knot, NSD and BIND, with NOTIFY and differences."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.plugins.secondary.peers import PROGRAMS, Peer
from tests.server import Server, free_port

Serve = Callable[..., Server]

#: Serial, and what differs between versions.
ZONE = (
    """$TTL 60
@ IN SOA ns host {serial} 3600 600 86400 60
@ IN NS ns
ns IN A 192.0.2.53
{changing}
"""
    + "".join(f"h{number} IN A 192.0.2.{number % 250}\n" for number in range(1500))
    + """
txt IN TXT "a;b" "c\\"d" "\\001"
svc IN HTTPS 1 . alpn=h2 port=8443
mail IN MX 10 ns
_x._tcp IN SRV 1 2 3 NS
*.wild IN CAA 0 issue "ca.example.net"
unknown IN TYPE731 \\# 4 abcdef01
"""
)


def zone(serial: int, changing: str) -> str:
    return ZONE.format(serial=serial, changing=changing)


@pytest.fixture
def peer(tmp_path: Path) -> Iterator[Callable[..., Peer]]:
    made: list[Peer] = []

    def make(kind: str, role: str, port: int, text: str = "") -> Peer:
        made.append(Peer(kind, role, tmp_path / f"{kind}{len(made)}", port, text))
        return made[-1]

    yield make
    for one in made:
        one.stop()


@pytest.mark.parametrize("kind", PROGRAMS)
def test_from(serve: Serve, peer: Callable[..., Peer], kind: str) -> None:
    port = free_port()
    primary = peer(kind, "primary", port, zone(1, "a IN A 192.0.2.1"))
    primary.wait(1)
    server = serve(f"example.org:{port} {{\n    secondary {{\n        transfer from {primary.address}\n    }}\n}}")
    ask = {"port": port}
    server.until("a.example.org.", "A", ["192.0.2.1"], **ask)
    for name, kind_ in [("h1499", "A"), ("txt", "TXT"), ("svc", "HTTPS"), ("mail", "MX"), ("_x._tcp", "SRV"), ("x.wild", "CAA"), ("unknown", "TYPE731")]:
        assert server.answers(f"{name}.example.org.", kind_, **ask) == primary.answers(f"{name}.example.org.", kind_)
    primary.reload(zone(2, "a IN A 192.0.2.2\nb.c IN A 192.0.2.3"))
    server.until("a.example.org.", "A", ["192.0.2.2"], **ask)
    assert server.answers("b.c.example.org.", **ask) == ["192.0.2.3"]
    server.wait_log(r"Notify from 127\.0\.0\.1 for example\.org\.: checking transfer")
    assert server.answers("h1499.example.org.", **ask) == ["192.0.2.249"]


@pytest.mark.parametrize("kind", PROGRAMS)
def test_to(serve: Serve, peer: Callable[..., Peer], kind: str) -> None:
    port = free_port()
    secondary = peer(kind, "secondary", port)
    text = f"example.org:{port} {{\n    transfer {{\n        to {secondary.address}\n    }}\n    file db {{\n        reload 1s\n    }}\n}}"
    server = serve(text, prepare=lambda folder: (folder / "db").write_text(zone(1, "a IN A 192.0.2.1")))
    secondary.wait(1)
    assert secondary.answers("h1499.example.org.") == ["192.0.2.249"]
    for name, kind_ in [("txt", "TXT"), ("svc", "HTTPS"), ("x.wild", "CAA"), ("unknown", "TYPE731")]:
        assert secondary.answers(f"{name}.example.org.", kind_) == server.answers(f"{name}.example.org.", kind_, port=port)
    server.wait_log(r'Outgoing transfer of 15\d\d records of zone "example\.org\." to 127\.0\.0\.1 for 1 SOA serial')
    (server.folder / "db").write_text(zone(2, "a IN A 192.0.2.2\nb.c IN A 192.0.2.3"))
    secondary.wait(2)
    assert secondary.answers("a.example.org.") == ["192.0.2.2"]
    assert secondary.answers("b.c.example.org.") == ["192.0.2.3"]
    # The differences, not the zone: SOA, SOA, one deleted, SOA, two added, SOA.
    server.wait_log(r'Outgoing transfer of 7 records of zone "example\.org\." to 127\.0\.0\.1 for 2 SOA serial')
