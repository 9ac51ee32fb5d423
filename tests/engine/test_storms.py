"""Events of queries that are evicted and shed: one for each look, however many there are."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from typing import Any, cast

import dns.message
import pytest

from fastdns.engine.engine import Engine
from fastdns.engine.storms import Storms
from fastdns.telemetry import events
from fastdns.telemetry.metrics import Metric
from fastdns.testing import Upstream
from tests.server import Server
from tests.waiting import until


class Counting:
    """An engine that has evicted so many queries."""

    evicted = 0

    def statistics(self) -> dict[str, int]:
        return {"evicted": self.evicted}


def test_a_storm_is_an_event_for_each_look() -> None:
    engine = Counting()
    storms = Storms(cast(Engine, engine))
    before = max((event.number for event in events.last()), default=0)
    shed = Metric("coredns_shed_dropped_total", "Counter of queries and responses dropped, per server, by reason.", "counter", ("server", "reason"))
    storms.look()
    engine.evicted = 70
    shed.add(("dns://:53", "age"), 5000)
    shed.add(("dns://:53", "response"), 1)
    storms.look()
    storms.look()
    shed.add(("dns://:53", "age"), 2)
    storms.look()
    assert [(event.kind, event.subject, event.details) for event in events.last(before)] == [
        ("evicted", "queries", {"count": 70}),
        ("shed", "dns://:53", {"count": 5001}),
        ("shed", "dns://:53", {"count": 2}),
    ]


@pytest.mark.timeout(180)
def test_evicted_queries_are_an_event_and_a_line_of_the_log(serve: Callable[..., Server]) -> None:
    """The upstream never answers, and more queries come than can wait."""
    with Upstream(lambda query: None) as upstream:
        server = serve(f".:{{port}} {{\n    bind 127.0.0.1\n    forward . {upstream.address}\n}}", "-log-format=json")
        packets = [dns.message.make_query(f"n{number}.example", "A").to_wire() for number in range(8000)]
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as crowd:
            crowd.connect(("127.0.0.1", server.port))
            for packet in packets:
                crowd.send(packet)

            def lines() -> list[dict[str, Any]]:
                found = [json.loads(line) for line in server.log().splitlines()]
                return [line for line in found if line.get("event") == "evicted"]

            until(lines, "the event", Storms.INTERVAL * 4)
        (line,) = lines()
        assert (line["level"], line["subject"]) == ("INFO", "queries")
        assert line["details"]["count"] > 0
        assert line["msg"] == f"evicted queries: {line['cause']}"
