"""Mutated packets against the plugins that answer from zones, sign, transfer and check signatures (R1)."""

from __future__ import annotations

import os
import random
import re
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.dnskeys import make_key
from tests.fuzz import packets
from tests.plugins.file.zones import make_zones
from tests.server import Server

Serve = Callable[..., Server]

COUNT = int(os.environ.get("FASTDNS_PACKETS", "10000"))

COREFILE = """
.:{port} {
    bind 127.0.0.1
    errors
    nsid a name
    chaos
    tsig {
        secret key. c2VjcmV0c2VjcmV0
    }
    rewrite name suffix .old.example .nsec3.example
    minimal
    transfer . nsec3.example nsec.example example.org {
        to *
    }
    dnssec example.org {
        key file {dir}/key
    }
    file {dir}/db example.org
    file {dir}/db.nsec.signed nsec.example
    file {dir}/db.nsec3.signed nsec3.example
    file {dir}/db.optout.signed optout.example
    secondary second.example {
        transfer from 127.0.0.1:1
    }
}
"""

ZONE = "@ 60 IN SOA ns host 1 3600 600 86400 60\n@ 60 IN NS ns\nwww 60 IN A 192.0.2.1\nwww 60 IN A 192.0.2.2\n*.w 60 IN CNAME www\ncut 60 IN NS ns.cut\n"

LABELS = ["", "www.", "x.wild.", "gone.", "chain1.", "x.moved.", "host.outward.", "child.", "x.safe.", "x.alias.", "the.empty.", "*.", "big.", "a.w.", "x.cut."]


@pytest.mark.timeout(3600)
def test_R1_mutated_packets_for_zones(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"{label}{zone}" for zone in ("nsec.example.", "nsec3.example.", "optout.example.", "example.org.", "old.example.") for label in LABELS]
    monkeypatch.setattr(packets, "NAMES", [*names, "version.bind.", "id.server.", "second.example.", "a." * 119 + "nsec3.example."])

    def prepare(folder: Path) -> None:
        make_zones(folder, 5)
        make_key(folder, "example.org.", 13, 257, "key", 1)
        (folder / "db").write_text(ZONE)

    server = serve(COREFILE, prepare=prepare)
    source = random.Random(5)
    sent = replies = 0
    while sent < COUNT:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.connect(("127.0.0.1", server.port))
            for _ in range(20):
                replies += packets.throw_datagrams(sock, [packets.packet(source) for _ in range(100)])
        replies += packets.throw_stream(source, server.port, [packets.packet(source) for _ in range(source.choice([1, 10, 50]))])
        sent += 2000
        assert server.process.poll() is None, server.log()[-5000:]
    assert replies > COUNT // 20
    assert server.answers("www.example.org.") == ["192.0.2.1", "192.0.2.2"]
    assert not re.search(r"Sanitizer|runtime error|Traceback", server.log()), server.log()[-5000:]
