"""bufsize: what the upstream and the client see of a limited size."""

from __future__ import annotations

from collections.abc import Callable

import dns.flags
import pytest

from fastdns.corefile import CorefileError
from fastdns.plugins.bufsize import parse
from fastdns.setup import Controller
from tests.server import Server


@pytest.mark.parametrize(("text", "wanted"), [("bufsize", 1232), ("bufsize 512", 512), ("bufsize 4096", 4096), ("bufsize 600\nbufsize x", 600)])
def test_sizes(text: str, wanted: int) -> None:
    assert parse(Controller.of(text)) == wanted


@pytest.mark.parametrize(("text", "last"), [("bufsize 511", "511"), ("bufsize 4097", "4097"), ("bufsize x", "x"), ("bufsize 600 700", "700")])
def test_errors(text: str, last: str) -> None:
    with pytest.raises(CorefileError) as caught:
        parse(Controller.of(text))
    wanted = f"plugin/bufsize: plugin/bufsize: Testfile:1 - Error during parsing: Wrong argument count or unexpected line ending after '{last}'"
    assert str(caught.value) == wanted


def test_sizes_on_the_wire(serve: Callable[..., Server]) -> None:
    addresses = "\n".join(f"192.0.2.{i} many.test" for i in range(60))
    behind = serve(f".:{{port}} {{\n log . {{>bufsize}}\n hosts {{\n{addresses}\n}}\n}}")
    server = serve(f".:{{port}} {{\n bufsize 600\n forward . 127.0.0.1:{behind.port}\n}}")
    for size, wanted in ((4096, 600), (601, 600), (600, 600), (512, 512)):
        before = len(behind.log())
        reply = server.query("x.test.", use_edns=0, payload=size)
        assert reply.payload == wanted
        behind.wait_log(rf"^\[INFO\] {wanted}$", start=before)
    before = len(behind.log())
    assert server.query("x.test.").edns < 0
    behind.wait_log(r"^\[INFO\] 512$", start=before)
    reply = server.query("many.test.", use_edns=0, payload=4096)
    assert reply.flags & dns.flags.TC
    assert len(reply.to_wire()) <= 600
    reply = server.query("many.test.", use_edns=0, payload=4096, tcp=True)
    assert not reply.flags & dns.flags.TC
    assert reply.payload == 600
    assert len(reply.answer[0]) == 60
