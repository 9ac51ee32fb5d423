"""recorder: what the Corefile may say."""

from __future__ import annotations

import re

import pytest

from fastdns.corefile import CorefileError
from fastdns.plugins.recorder.settings import LABELS_ALL, Files, Settings, octets, parse
from fastdns.plugins.recorder.triggers import Rule
from fastdns.setup import Controller

MIB = 1 << 20


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("recorder 16MiB", Settings(16 * MIB)),
        ("recorder 1048576", Settings(MIB)),
        ("recorder 2M {\n slow 250ms\n}", Settings(2 * MIB, slow=250_000_000)),
        ("recorder 1G {\n names hash\n}", Settings(1 << 30, name_hash=True, name_labels=0)),
        ("recorder 1GiB {\n names hash 2\n clients 24 56\n}", Settings(1 << 30, name_hash=True, name_labels=2, prefix_ipv4=24, prefix_ipv6=56)),
        ("recorder 4MiB {\n names cut 3\n}", Settings(4 * MIB, name_labels=3)),
    ],
)
def test_memory(text: str, wanted: Settings) -> None:
    assert parse(Controller.of(text)) == (wanted, Files())
    assert wanted.name_hash or wanted.name_labels in (3, LABELS_ALL)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("to /r", Files("/r")),
        ("to /r 4", Files("/r", 4)),
        ("to /r 4 8MiB", Files("/r", 4, 8 * MIB)),
        ("to /r\n when p99 > 50ms", Files("/r", rules=(Rule("p99", 0.05, 10.0, "50ms"),))),
        ("to /r\n when servfail > 2.5% over 1m", Files("/r", rules=(Rule("servfail", 0.025, 60.0, "2.5%"),))),
        (
            'when fastdns_queries > 100\n when "go_x{a=\\"b\\",c=\\"d\\"}" > 0.5 over 2s\n to /r',
            Files("/r", rules=(Rule("fastdns_queries", 100.0, 10.0, "100"), Rule("go_x", 0.5, 2.0, "0.5", (("a", "b"), ("c", "d"))))),
        ),
    ],
)
def test_files(text: str, wanted: Files) -> None:
    assert parse(Controller.of(f"recorder 16MiB {{\n {text}\n}}"))[1] == wanted


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("recorder", "Wrong argument count"),
        ("recorder 1MiB 2MiB", "Wrong argument count"),
        ("recorder 1MB", "the size must be between 1MiB and 16GiB, such as 16MiB: '1MB'"),
        ("recorder 1048575", "the size must be between"),
        ("recorder 17G", "the size must be between"),
        ("recorder 1M {\n slow 0s\n}", "slow must be longer than no time"),
        ("recorder 1M {\n slow soon\n}", "invalid duration"),
        ("recorder 1M {\n names lost\n}", "names are 'hash' or 'cut', not 'lost'"),
        ("recorder 1M {\n names cut\n}", "names cut needs the number of labels that stay"),
        ("recorder 1M {\n names hash 128\n}", "128 must be between 0 and 127"),
        ("recorder 1M {\n clients 24\n}", "Wrong argument count"),
        ("recorder 1M {\n clients 33 56\n}", "33 must be between 0 and 32"),
        ("recorder 1M {\n to\n}", "Wrong argument count"),
        ("recorder 1M {\n to /r 1\n}", "1 must be between 2 and 10000"),
        ("recorder 1M {\n to /r 2 1K\n}", "the files must be between 1MiB and 16GiB together"),
        ("recorder 1M {\n when p99 > 5ms\n}", "'when' needs the folder that 'to' gives"),
        ("recorder 1M {\n to /r\n when p99 5ms\n}", "a rule is 'when SUBJECT > LIMIT [over DURATION]'"),
        ("recorder 1M {\n to /r\n when servfail > 5\n}", "servfail is compared with a share such as 5%, not '5'"),
        ("recorder 1M {\n to /r\n when servfail > 0%\n}", "servfail is compared with a share"),
        ("recorder 1M {\n to /r\n when p99 > 5ms over 2h\n}", "a rule looks at a second to an hour: 2h"),
        ("recorder 1M {\n to /r\n when 5x > 1\n}", "'5x' is neither p99 nor servfail nor the name of a metric"),
        ("recorder 1M {\n to /r\n when x > many\n}", "a metric is compared with a number, not 'many'"),
        ("recorder 1M {\n tape\n}", "unknown property 'tape'"),
        ("recorder 1M\nrecorder 2M", "this plugin can only be used once per Server Block"),
    ],
)
def test_what_is_refused(text: str, problem: str) -> None:
    with pytest.raises((CorefileError, ValueError), match=re.escape(problem)):
        parse(Controller.of(text))


@pytest.mark.parametrize(("text", "wanted"), [("1", 1), ("3K", 3072), ("2MiB", 2 * MIB), ("1GiB", 1 << 30), ("1kb", None), ("-1", None), ("", None)])
def test_sizes(text: str, wanted: int | None) -> None:
    assert octets(text) == wanted
