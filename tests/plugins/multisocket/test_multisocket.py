"""multisocket: sockets that are open, and that all answer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fastdns.corefile import CorefileError
from fastdns.plugins.multisocket import parse
from fastdns.setup import Controller
from fastdns.system.host import cpu_count
from tests.server import Server


@pytest.mark.parametrize(("text", "wanted"), [("multisocket", cpu_count()), ("multisocket 1", 1), ("multisocket 1024", 1024), ("multisocket +5", 5)])
def test_numbers(text: str, wanted: int) -> None:
    assert parse(Controller.of(text)) == wanted


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("multisocket 0", "num sockets can not be zero or negative: 0"),
        ("multisocket -1", "num sockets can not be zero or negative: -1"),
        ("multisocket 1025", "num sockets exceeds maximum (1024): 1025"),
        ("multisocket x", 'invalid num sockets: strconv.Atoi: parsing "x": invalid syntax'),
        ("multisocket 1 2", "Testfile:1 - Error during parsing: Wrong argument count or unexpected line ending after '2'"),
        ("multisocket 1\nmultisocket 2", "Testfile:2 - Error during parsing: Wrong argument count or unexpected line ending after 'multisocket'"),
    ],
)
def test_errors(text: str, message: str) -> None:
    with pytest.raises(CorefileError) as caught:
        parse(Controller.of(text))
    assert str(caught.value) == message


def sockets(port: int, kind: str) -> int:
    """Open sockets of a port: UDP ones, or listening TCP ones."""
    lines = [line.split() for suffix in ("", "6") for line in Path(f"/proc/net/{kind}{suffix}").read_text().splitlines()[1:]]
    return sum(fields[1].endswith(f":{port:04X}") and (kind == "udp" or fields[3] == "0A") for fields in lines)


@pytest.mark.parametrize(("number", "workers", "wanted"), [(5, 2, 5), (1, 3, 3), (4, 4, 4)])
def test_sockets(serve: Callable[..., Server], number: int, workers: int, wanted: int) -> None:
    corefile = f"a.test:{{port}} {{\n multisocket {number}\n whoami\n}}\n.:{{port}} {{\n multisocket 9\n whoami\n}}\n.:{{port2}} {{\n whoami\n}}"
    server = serve(corefile, "-workers", str(workers))
    assert [sockets(server.port, kind) for kind in ("udp", "tcp")] == [wanted, wanted]
    assert sockets(server.ports["port2"], "udp") == workers
    for tcp in [False] * 40 + [True] * 20:
        assert server.query("a.test.", tcp=tcp).additional
    server.reload(corefile.replace("whoami", "errors\n whoami"))
    assert sockets(server.port, "udp") == wanted
    for tcp in [False] * 40 + [True] * 20:
        assert server.query("a.test.", tcp=tcp).additional
