"""The Corefile of rrl: coredns/rrl's directives and defaults."""

from __future__ import annotations

import pytest

from fastdns.corefile import CorefileError
from fastdns.plugins.rrl.settings import KINDS, parse
from fastdns.setup import Controller


def settings(body: str, keys: list[str] | None = None, arguments: str = ""):
    return parse(Controller.of(f"rrl {arguments} {{\n {body}\n}}", keys or ["example.org"]))


def test_defaults() -> None:
    found = parse(Controller.of("rrl", ["example.org"]))
    assert found.zones == ["example.org."]
    assert (found.window, found.ipv4_prefix_length, found.ipv6_prefix_length) == (15, 24, 56)
    assert found.rates == dict.fromkeys(KINDS, 0)
    assert (found.slip_ratio, found.max_table_size, found.report_only, found.by) == (0, 100000, False, "")


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ("responses-per-second 10", {"request": 0, "response": 10, "nodata": 10, "nxdomain": 10, "referral": 10, "error": 10}),
        ("nodata-per-second 0\n responses-per-second 0.5", {"response": 0.5, "nodata": 0, "nxdomain": 0.5}),
        ("nxdomains-per-second 3\n referrals-per-second 4\n errors-per-second 5", {"response": 0, "nxdomain": 3, "referral": 4, "error": 5}),
        ("requests-per-second 1e3", {"request": 1000, "response": 0}),
    ],
)
def test_rates(body: str, wanted: dict[str, float]) -> None:
    found = settings(body)
    assert {kind: found.rates[kind] for kind in wanted} == wanted


@pytest.mark.parametrize(
    ("body", "name", "wanted"),
    [
        ("window 0.5", "window", 0.5),
        ("window 0", "window", 0),
        ("ipv4-prefix-length 32", "ipv4_prefix_length", 32),
        ("ipv6-prefix-length 128", "ipv6_prefix_length", 128),
        ("slip-ratio 10", "slip_ratio", 10),
        ("max-table-size 2000", "max_table_size", 2000),
        ("max-table-size 0", "max_table_size", 1024),
        ("report-only", "report_only", True),
        ("by pod", "by", "pod"),
        ("by namespace", "by", "namespace"),
    ],
)
def test_properties(body: str, name: str, wanted: object) -> None:
    assert getattr(settings(body), name) == wanted


def test_zones() -> None:
    assert settings("window 1", arguments="a.org b.org").zones == ["a.org.", "b.org."]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("window", "Wrong argument count or unexpected line ending after 'window'"),
        ("window x", 'x invalid value. strconv.ParseFloat: parsing "x": invalid syntax'),
        ("window -1", "window cannot be negative"),
        ("window 1e6", "window is a day at most: 86400"),
        ("window nan", "nan invalid value. not a finite number"),
        ("ipv4-prefix-length 33", "33 must be between 1 and 32"),
        ("ipv6-prefix-length 0", "0 must be between 1 and 128"),
        ("ipv6-prefix-length x", 'x invalid value. strconv.Atoi: parsing "x": invalid syntax'),
        ("responses-per-second -1", "-1 cannot be negative"),
        ("responses-per-second 1 2", "Wrong argument count or unexpected line ending after '2'"),
        ("errors-per-second 1e10", "1e10 must be 0, or between once a day and 1000000000"),
        ("slip-ratio 11", "11 must be between 0 and 10"),
        ("max-table-size -1", "-1 must be between 0 and 67108864"),
        ("report-only yes", "Wrong argument count or unexpected line ending after 'yes'"),
        ("by node", "by is 'pod' or 'namespace', not 'node'"),
        ("burst 3", "unknown property 'burst'"),
    ],
)
def test_errors(body: str, message: str) -> None:
    with pytest.raises(CorefileError) as caught:
        settings(body)
    assert str(caught.value).endswith(f"Error during parsing: {message}"), caught.value


def test_once() -> None:
    with pytest.raises(CorefileError):
        parse(Controller.of("rrl\nrrl"))
