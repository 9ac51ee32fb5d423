"""The section `rates`, the differences of two of them, and the time series of the last hour."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import pytest

from fastdns.server import control
from fastdns.telemetry import difference, history
from fastdns.telemetry.quantile import quantile
from tests.server import Server


@pytest.fixture(autouse=True)
def _no_history() -> Iterator[None]:
    history.clear()
    yield
    history.clear()


# ---- quantiles ----


@pytest.mark.parametrize(
    ("share", "counts", "expected"),
    [
        (0.5, [10, 0, 0, 0], 0.5),
        (1.0, [10, 0, 0, 0], 1.0),
        (0.5, [0, 10, 0, 0], 1.5),
        (0.9, [5, 5, 0, 0], 1.8),
        (0.99, [0, 0, 0, 3], 4.0),
        (0.5, [0, 0, 0, 0], None),
    ],
)
def test_quantiles(share: float, counts: list[int], expected: float | None) -> None:
    """By hand, linear in the buckets to 1, 2 and 4 and above."""
    assert quantile(share, [1.0, 2.0, 4.0], counts) == (None if expected is None else pytest.approx(expected))


# ---- differences ----


def totals(time: float, queries: int, servfail: int, counts: list[int], upstream: list[int]) -> dict[str, object]:
    rcodes = {"NOERROR": queries - servfail, "SERVFAIL": servfail}
    bounds = [0.001, 0.01]
    return {
        "time": time,
        "queries": queries,
        "rcodes": rcodes,
        "types": {"A": queries},
        "transports": {"udp": queries},
        "plugins": {},
        "latency": {"bounds": bounds, "counts": counts},
        "zones": [{"server": "dns://:53", "zone": ".", "view": "", "queries": queries, "rcodes": rcodes, "latency": counts, "seconds": 0.0}],
        "cache": {"requests": queries, "hits": queries // 2, "entries": 7},
        "upstreams": {
            "bounds": bounds,
            "rows": [{"to": "192.0.2.1:53", "plugin": "forward", "queries": sum(upstream), "rcodes": {}, "latency": upstream, "seconds": 0.0}],
        },
    }


def test_rates_are_those_of_the_time_between() -> None:
    found = difference.between(totals(100.0, 1000, 10, [1000, 0, 0], [5, 0, 0]), totals(102.0, 1200, 30, [1100, 100, 0], [5, 10, 0]))
    assert found["queries"] == 100
    assert found["rcodes"] == {"NOERROR": 90, "SERVFAIL": 10}
    assert found["latency"]["counts"] == [100, 100, 0]
    assert found["latency"]["p50"] == pytest.approx(0.001)
    assert found["latency"]["p99"] == pytest.approx(0.001 + 0.009 * 0.98)
    assert found["cache"] == {"requests": 100, "hits": 50, "entries": 7, "hit_share": 0.5}
    (upstream,) = found["upstreams"]
    assert (upstream["queries"], upstream["p50"]) == (5, pytest.approx(0.0055))


def test_a_server_that_was_started_again_begins_at_nothing() -> None:
    found = difference.between(totals(100.0, 1000, 10, [1000, 0, 0], [5, 0, 0]), totals(101.0, 30, 0, [30, 0, 0], [0, 0, 0]))
    assert (found["queries"], found["rcodes"]["NOERROR"], found["latency"]["counts"]) == (30, 30, [30, 0, 0])


def test_servers_are_added_up() -> None:
    one = difference.between(totals(0.0, 0, 0, [0, 0, 0], [0, 0, 0]), totals(1.0, 100, 0, [100, 0, 0], [0, 0, 0]))
    other = difference.between(totals(0.0, 0, 0, [0, 0, 0], [0, 0, 0]), totals(1.0, 300, 300, [0, 300, 0], [0, 9, 0]))
    both = difference.combined([one, other])
    assert both["queries"] == 400
    assert both["rcodes"] == {"NOERROR": 100, "SERVFAIL": 300}
    assert both["latency"]["counts"] == [100, 300, 0]
    assert both["latency"]["p50"] == pytest.approx(0.001 + 0.009 * 100 / 300)
    assert [(row["zone"], row["queries"], row["counts"]) for row in both["zones"]] == [(".", 400, [100, 300, 0])]
    assert [row["queries"] for row in both["upstreams"]] == [9]


# ---- series ----


def test_samples_are_kept_for_an_hour() -> None:
    for number in range(history.SAMPLES + 40):
        history.sample({"queries": float(number), "gap": 1.0 if number % 2 else None})
    found = history.since(0)
    assert (found["first"], found["last"]) == (41, history.SAMPLES + 40)
    assert len(found["series"]["queries"]) == history.SAMPLES
    assert (found["series"]["queries"][0], found["series"]["queries"][-1]) == (40, history.SAMPLES + 39)
    assert found["series"]["gap"][:4] == [None, 1.0, None, 1.0]


def test_later_samples_alone_are_told() -> None:
    for number in range(5):
        history.sample({"queries": float(number)})
    assert history.since(3)["series"] == {"queries": [3.0, 4.0]}
    assert history.since(5)["series"] == {"queries": []}
    assert history.since(1000)["first"] == 1, "a number of a former process"


def test_memory_does_not_grow() -> None:
    """However many names there are: further series are left out, and take the place of one without a number for an hour."""
    history.sample({f"old.{number}": 1.0 for number in range(history.SERIES_MAX)})
    history.sample({f"new.{number}": 1.0 for number in range(100)})
    found = history.since(0)
    assert len(found["series"]) == history.SERIES_MAX
    assert found["left_out"] == 100
    assert sum(sys.getsizeof(ring) for ring in history._rings.values()) < history.SERIES_MAX * (history.SAMPLES * 8 + 200)
    for _ in range(history.SAMPLES):
        history.sample({"old.0": 1.0})
    history.sample({"new.0": 2.0})
    found = history.since(0)
    assert len(found["series"]) == history.SERIES_MAX
    assert found["series"]["new.0"][-2:] == [None, 2.0]


# ---- in the server ----


def test_queries_are_in_the_section(serve: Callable[..., Server]) -> None:
    server = serve(
        "example.org:{port} {\n prometheus 127.0.0.1:{port2}\n whoami\n}\n"
        "example.net:{port} {\n prometheus 127.0.0.1:{port2}\n template ANY ANY {\n  rcode NXDOMAIN\n }\n}"
    )
    before = control.ask({"sections": ["rates"]}, server.pid)["rates"]
    assert before["counted"]
    for _ in range(3):
        server.query("www.example.org.")
    server.query("www.example.net.", "AAAA", tcp=True)
    after = control.ask({"sections": ["rates"]}, server.pid)["rates"]
    assert (after["queries"], after["rcodes"], after["types"], after["transports"]) == (
        4,
        {"NOERROR": 3, "NXDOMAIN": 1},
        {"A": 3, "AAAA": 1},
        {"tcp": 1, "udp": 3},
    )
    assert {(row["server"], row["zone"]): row["queries"] for row in after["zones"]} == {
        (f"dns://:{server.port}", "example.org."): 3,
        (f"dns://:{server.port}", "example.net."): 1,
    }
    assert sum(after["latency"]["counts"]) == 4
    assert after["plugins"] == {"template": 1, "whoami": 3}
    found = difference.between(before, after)
    assert found["queries"] * found["seconds"] == pytest.approx(4)


def test_without_counting_it_says_so(serve: Callable[..., Server]) -> None:
    server = serve(".:{port} {\n whoami\n}")
    server.query("example.org.")
    found = control.ask({"sections": ["rates"], "history_after": 0}, server.pid)["rates"]
    assert (found["counted"], found["queries"]) == (False, 0)
    assert found["history"]["series"] == {}, "nobody wants them, so there are none"


def test_upstreams_and_cache(serve: Callable[..., Server]) -> None:
    upstream = serve(".:{port} {\n whoami\n}")
    server = serve(f".:{{port}} {{\n prometheus 127.0.0.1:{{port2}}\n cache\n forward . 127.0.0.1:{upstream.port}\n}}")
    for _ in range(5):
        server.query("example.org.")
    found = control.ask({"sections": ["rates"]}, server.pid)["rates"]
    (row,) = found["upstreams"]["rows"]
    assert (row["to"], row["plugin"], row["rcodes"]) == (f"127.0.0.1:{upstream.port}", "forward", {"NOERROR": row["queries"]})
    assert found["cache"]["requests"] == 5
    assert found["cache"]["hits"] == 5 - row["queries"]
