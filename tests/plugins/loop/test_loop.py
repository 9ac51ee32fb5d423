"""The directive, the probe's name, and that nobody but a loop ends the server."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import pytest

from fastdns.corefile import CorefileError
from fastdns.plugins.loop import probe_name, setup
from fastdns.setup import Controller
from fastdns.testing import Upstream
from tests.server import Server
from tests.waiting import until


@pytest.mark.parametrize(("text", "wanted"), [("loop argument", "Wrong argument count"), ("loop\nloop", "only be used once")])
def test_bad(text: str, wanted: str) -> None:
    with pytest.raises(CorefileError, match=wanted):
        setup(Controller.of(text))


@pytest.mark.parametrize("zone", [".", "example.org."])
def test_names_are_of_128_bits_in_the_first_zone(zone: str) -> None:
    names = [probe_name(zone) for _ in range(200)]
    first, second, rest = zip(*(name.split(".", 2) for name in names), strict=True)
    assert set(rest) == {"" if zone == "." else zone}
    for label in (*first, *second):
        assert 0 <= int(label) < 2**64
    # Each of the 64 bits is set in some and clear in others (chance of a false alarm below 2**-190).
    for labels in (first, second):
        ones, zeros = 0, 0
        for label in labels:
            ones |= int(label)
            zeros |= ~int(label)
        assert ones == 2**64 - 1
        assert zeros & (2**64 - 1) == 2**64 - 1


def test_hinfo_queries_of_clients_do_nothing(serve: Callable[..., Server]) -> None:
    server = serve(".:{port} {\n bind 127.0.0.1\n loop\n whoami\n}\n")
    for name in ["1.2.", "4547991504243258144.3688648895315093531.", "loop."] * 3:
        server.query(name, "HINFO")
    assert server.process.poll() is None
    assert "Loop (" not in server.log()


def test_a_loop_ends_the_process(serve: Callable[..., Server]) -> None:
    server = serve("example.org:{port} {\n bind 127.0.0.1\n loop\n forward . 127.0.0.1:{port}\n}\n", wait=False)
    assert server.exit_status() == 1
    line = (
        rf'^\[FATAL\] plugin/loop: Loop \(127\.0\.0\.1:\d+ -> 127\.0\.0\.1:{server.port}\) detected for zone "example\.org\.", see '
        r'https://coredns\.io/plugins/loop#troubleshooting\. Query: "HINFO \d+\.\d+\.example\.org\."$'
    )
    assert re.search(line, server.log(), re.M)


def test_no_loop(serve: Callable[..., Server]) -> None:
    with Upstream() as upstream:
        server = serve(f".:{{port}} {{\n bind 127.0.0.1\n loop\n forward . {upstream.address}\n}}\n")
        probes = until(lambda: [query for query in upstream.seen if query.question[0].rdtype == 13])
        # Whoever saw the probe cannot end the server with it once it was answered.
        time.sleep(0.1)
        for _ in range(5):
            server.query(probes[0].question[0].name.to_text(), "HINFO")
        time.sleep(0.2)
        assert server.process.poll() is None
