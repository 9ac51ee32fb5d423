"""Clients that nobody here wrote: nsupdate of BIND and knsupdate of Knot."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.plugins.dynupdate.zones import DATABASE, knsupdate, nsupdate, seed, serial
from tests.server import Server

Serve = Callable[..., Server]


@pytest.fixture
def server(serve: Serve) -> Server:
    return serve(DATABASE, prepare=seed)


@pytest.mark.parametrize("options", [(), ("-v",)])
def test_nsupdate(server: Server, options: tuple[str, ...]) -> None:
    commands = (
        "zone example.org.\nprereq nxrrset host.example.org. A\nupdate add host.example.org. 60 A 192.0.2.10\nupdate add host.example.org. 60 AAAA 2001:db8::10"
    )
    done = nsupdate(server, commands, *options)
    assert (done.returncode, done.stderr) == (0, "")
    assert server.answers("host.example.org.") == ["192.0.2.10"]
    assert server.answers("host.example.org.", "AAAA") == ["2001:db8::10"]
    done = nsupdate(server, commands, *options)
    assert "YXRRSET" in done.stderr
    assert nsupdate(server, "zone example.org.\nupdate delete host.example.org. A").returncode == 0
    assert server.answers("host.example.org.") == []
    assert serial(server) == 3


def test_nsupdate_finds_the_zone_itself(server: Server) -> None:
    assert nsupdate(server, "update add x.y.example.org. 60 TXT found").returncode == 0
    assert server.answers("x.y.example.org.", "TXT") == ['"found"']


@pytest.mark.parametrize("options", [(), ("-v",)])
def test_knsupdate(server: Server, options: tuple[str, ...]) -> None:
    commands = "zone example.org.\nprereq nxdomain host.example.org.\nadd host.example.org. 60 A 192.0.2.10"
    done = knsupdate(server, commands, *options)
    assert done.returncode == 0, done.stderr
    assert server.answers("host.example.org.") == ["192.0.2.10"]
    done = knsupdate(server, commands, *options)
    assert "YXDOMAIN" in done.stderr + done.stdout
    assert knsupdate(server, "zone example.org.\ndel host.example.org. A 192.0.2.10").returncode == 0
    assert server.answers("host.example.org.") == ["NXDOMAIN"]
