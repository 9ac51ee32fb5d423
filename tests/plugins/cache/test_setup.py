"""The directive: every property, its default and its errors."""

from __future__ import annotations

import pytest

from fastdns.corefile import CorefileError
from fastdns.plugins.cache import HOUR, MINUTE, SECOND, parse
from fastdns.setup import Controller

MS = 1_000_000

GOOD = [
    ("", {}),
    ("100", {"success_ttl": 100, "denial_ttl": 100}),
    ("aaa example.nl", {"zones": ["aaa.", "example.nl."]}),
    ("25 Example.NL 10.0.0.0/24", {"zones": ["example.nl.", "0.0.10.in-addr.arpa."], "success_ttl": 25}),
    ("{\n success 10\n}", {"success_capacity": 10, "success_ttl": 3600, "success_least": 5}),
    ("{\n success 10 1800 30 more\n}", {"success_capacity": 10, "success_ttl": 1800, "success_least": 30}),
    ("25 {\n denial -10 15 0\n}", {"denial_capacity": -10, "denial_ttl": 15, "denial_least": 0, "success_ttl": 25}),
    ("{\n prefetch 10\n}", {"prefetch": 10, "prefetch_duration": MINUTE, "prefetch_percentage": 10}),
    ("{\n prefetch 0 1h 90%\n}", {"prefetch": 0, "prefetch_duration": HOUR, "prefetch_percentage": 90}),
    ("{\n serve_stale\n}", {"stale": HOUR, "verify": False, "verify_timeout": 0, "stale_ttl": 0, "recheck": 0}),
    ("{\n serve_stale 1h20m\n}", {"stale": 80 * MINUTE}),
    ("{\n serve_stale 0\n}", {"stale": 0}),
    ("{\n serve_stale 0 VERIFY\n}", {"stale": 0, "verify": True}),
    ("{\n serve_stale 1h immediate 30s 5m\n}", {"stale_ttl": 30 * SECOND, "recheck": 5 * MINUTE, "verify": False}),
    ("{\n serve_stale 1h immediate 4294967295s\n}", {"stale_ttl": 4294967295 * SECOND}),
    ("{\n serve_stale 1h verify 100ms\n}", {"verify": True, "verify_timeout": 100 * MS, "stale_ttl": 0}),
    ("{\n serve_stale 1h verify 0 0 250ms\n}", {"verify_timeout": 0, "stale_ttl": 0, "recheck": 250 * MS}),
    ("{\n serve_stale 1h verify 1s\n serve_stale 2h\n}", {"stale": 2 * HOUR, "verify": False, "verify_timeout": 0}),
    ("{\n serve_stale_policy Prefer_Positive\n serve_stale\n}", {"prefer_positive": True}),
    ("{\n servfail 0\n}", {"servfail": 0}),
    ("{\n servfail 5m\n}", {"servfail": 5 * MINUTE}),
    ("{\n disable denial\n}", {"disable_denial": ["."], "disable_success": []}),
    ("{\n disable success A.test b.test\n disable success c.test\n}", {"disable_success": ["c.test."]}),
    ("{\n keepttl\n}", {"keepttl": True}),
]


@pytest.mark.parametrize(("text", "wanted"), GOOD, ids=lambda value: value if isinstance(value, str) else "")
def test_good(text: str, wanted: dict[str, object]) -> None:
    settings = parse(Controller.of(f"cache {text}"))
    assert {name: getattr(settings, name) for name in wanted} == wanted


def test_zones_are_those_of_the_block() -> None:
    assert parse(Controller.of("cache", ["example.org", "tls://Other.Test"])).zones == ["example.org.", "other.test."]


WRONG_COUNT = "Wrong argument count or unexpected line ending"
BAD = [
    ("0", "cache TTL can not be zero or negative: 0"),
    ("-1 example.nl", "cache TTL can not be zero or negative: -1"),
    ("{\n success\n}", WRONG_COUNT),
    ("{\n denial aaa\n}", 'strconv.Atoi: parsing "aaa": invalid syntax'),
    ("{\n success 10 0\n}", "cache TTL can not be zero or negative: 0"),
    ("{\n success 10 10 -1\n}", "cache min TTL can not be negative: -1"),
    ("{\n positive 15\n}", WRONG_COUNT),
    ("{\n prefetch\n}", WRONG_COUNT),
    ("{\n prefetch -1\n}", "prefetch amount should be positive: -1"),
    ("{\n prefetch 0 blurp\n}", 'time: invalid duration "blurp"'),
    ("{\n prefetch 1 1m 20\n}", "last character of percentage should be `%`, but is: '0'"),
    ("{\n prefetch 1 1m x%\n}", 'strconv.Atoi: parsing "x": invalid syntax'),
    ("{\n prefetch 1 1m 9%\n}", "percentage should fall in range [10, 90]: 9"),
    ("{\n prefetch 1 1m 91%\n}", "percentage should fall in range [10, 90]: 91"),
    ("{\n prefetch 1 1m 20% more\n}", WRONG_COUNT),
    ("{\n serve_stale 20\n}", 'time: missing unit in duration "20"'),
    ("{\n serve_stale -20m\n}", "invalid negative duration for serve_stale"),
    ("{\n serve_stale 1m NoNo\n}", "invalid value for serve_stale refresh mode: nono"),
    ("{\n serve_stale 1h immediate 100ms\n}", "serve_stale response TTL must be a whole number of seconds"),
    ("{\n serve_stale 1h immediate 4294967296s\n}", "serve_stale response TTL exceeds the DNS TTL range"),
    ("{\n serve_stale 1h immediate -1s\n}", "invalid negative response TTL for serve_stale"),
    ("{\n serve_stale 1h immediate junk\n}", 'invalid serve_stale response TTL: time: invalid duration "junk"'),
    ("{\n serve_stale 1h immediate 30s 30s more\n}", WRONG_COUNT),
    ("{\n serve_stale 1h immediate 30s -1s\n}", "invalid negative failure recheck for serve_stale"),
    ("{\n serve_stale 1h immediate 30s 5m1s\n}", "serve_stale failure recheck cannot exceed 5 minutes"),
    ("{\n serve_stale 1h immediate 30s junk\n}", 'invalid serve_stale failure recheck: time: invalid duration "junk"'),
    ("{\n serve_stale 1h verify -1ms\n}", "invalid negative timeout for serve_stale verify"),
    ("{\n serve_stale 1h verify junk\n}", 'invalid serve_stale verify timeout: time: invalid duration "junk"'),
    ("{\n serve_stale 1h verify 1s 30s 30s more\n}", WRONG_COUNT),
    ("{\n serve_stale_policy prefer_positive\n}", "serve_stale_policy requires serve_stale"),
    ("{\n serve_stale\n serve_stale_policy\n}", WRONG_COUNT),
    ("{\n serve_stale\n serve_stale_policy Other\n}", "invalid serve_stale_policy: Other"),
    ("{\n serve_stale_policy prefer_positive\n serve_stale_policy prefer_positive\n}", "serve_stale_policy can only be specified once"),
    ("{\n servfail\n}", WRONG_COUNT),
    ("{\n servfail 20\n}", 'time: missing unit in duration "20"'),
    ("{\n servfail -1s\n}", "invalid negative ttl for servfail"),
    ("{\n servfail 6m\n}", "caching SERVFAIL responses over 5 minutes is not permitted"),
    ("{\n disable\n}", WRONG_COUNT),
    ("{\n disable both\n}", 'cache type for disable must be "success" or "denial"'),
    ("{\n disable success a..b\n}", "invalid disabled zone: a..b"),
    ("{\n keepttl 1\n}", WRONG_COUNT),
    ("\ncache", "this plugin can only be used once per Server Block"),
]


@pytest.mark.parametrize(("text", "wanted"), BAD, ids=lambda value: value)
def test_bad(text: str, wanted: str) -> None:
    with pytest.raises((CorefileError, ValueError)) as caught:
        parse(Controller.of(f"cache {text}"))
    assert wanted in str(caught.value)
