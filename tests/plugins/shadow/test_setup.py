"""shadow: what the Corefile may say."""

from __future__ import annotations

import re

import pytest

from fastdns.comparison.asking import Server
from fastdns.corefile import CorefileError
from fastdns.plugins.shadow.settings import Settings, parse
from fastdns.setup import Controller

PLAIN = Settings(Server("192.0.2.1", 53))


@pytest.mark.parametrize(
    ("text", "settings", "zones"),
    [
        ("shadow 192.0.2.1", PLAIN, []),
        ("shadow [2001:db8::1]:5353", Settings(Server("2001:db8::1", 5353)), []),
        ("shadow 192.0.2.1 2.5%", PLAIN._replace(share=0.025), []),
        ("shadow 192.0.2.1 {\n zones a.test b.test\n}", PLAIN, ["a.test.", "b.test."]),
        (
            "shadow 192.0.2.1 {\n rate 50\n outstanding 8\n examine 5\n keep 7\n timeout 1s\n buffer 2MiB\n ignore serial denial\n}",
            Settings(Server("192.0.2.1", 53), 1.0, 50, 8, 1.0, 2 << 20, 5, 7, frozenset(("serial", "denial"))),
            [],
        ),
        ("shadow 192.0.2.1 {\n ignore none\n}", PLAIN._replace(ignored=frozenset()), []),
    ],
)
def test_good(text: str, settings: Settings, zones: list[str]) -> None:
    assert parse(Controller.of(text)) == (settings, zones)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("shadow", "Wrong argument count"),
        ("shadow 192.0.2.1 5% 6%", "Wrong argument count"),
        ("shadow dns.example", "not an address of a server: 'dns.example'"),
        ("shadow 192.0.2.1:0", "not an address of a server: '192.0.2.1:0'"),
        ("shadow 192.0.2.1 0%", "the share must be above 0% and at most 100%: '0%'"),
        ("shadow 192.0.2.1 101%", "the share must be"),
        ("shadow 192.0.2.1 half", "the share must be"),
        ("shadow 192.0.2.1 {\n rate 0\n}", "rate must be between 1 and 1000000"),
        ("shadow 192.0.2.1 {\n rate x\n}", "x invalid value"),
        ("shadow 192.0.2.1 {\n outstanding 4097\n}", "outstanding must be between 1 and 4096"),
        ("shadow 192.0.2.1 {\n timeout 1ms\n}", "timeout must be between 10ms and 30s"),
        ("shadow 192.0.2.1 {\n buffer 1K\n}", "the buffer must be between 64KiB and 256MiB, such as 1MiB: '1K'"),
        ("shadow 192.0.2.1 {\n ignore all\n}", "known differences are alias-end, denial, serial, sha1, not all"),
        ("shadow 192.0.2.1 {\n zones\n}", "Wrong argument count"),
        ("shadow 192.0.2.1 {\n colour red\n}", "unknown property 'colour'"),
        ("shadow 192.0.2.1\nshadow 192.0.2.2", "this plugin can only be used once per Server Block"),
    ],
)
def test_bad(text: str, problem: str) -> None:
    with pytest.raises((CorefileError, ValueError), match=re.escape(problem)):
        parse(Controller.of(text))
