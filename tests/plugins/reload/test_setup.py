"""reload: intervals that are taken, and that are not."""

from __future__ import annotations

import pytest

from fastdns.corefile import CorefileError
from fastdns.plugins.reload import setup
from fastdns.server.canary import RULES, parse_rules
from fastdns.setup import Controller

GOOD = [
    ("reload", 22.5, 37.5),
    ("reload 10s", 7.5, 12.5),
    ("reload 2s", 1.5, 2.5),
    ("reload 10s 2s", 9, 11),
    ("reload 10s 0s", 10, 10),
    ("reload 10s 0", 10, 10),
    ("reload 1h 1h", 2700, 4500),
    ("reload 1h\nreload 10s 0s", 10, 10),
]


@pytest.mark.parametrize(("text", "least", "most"), GOOD)
def test_period(text: str, least: float, most: float) -> None:
    for _ in range(50):
        controller = Controller.of(text)
        setup(controller)
        assert least <= controller.values["reload"].period <= most


def test_one_watch_for_all_blocks() -> None:
    first, second = Controller.of("reload 10s 0s"), Controller.of("reload 20s 0s")
    second.values, second.hooks = first.values, first.hooks
    setup(first)
    setup(second)
    assert first.values["reload"].period == 20
    assert len(first.hooks.started) == len(first.hooks.shutdown) == 1


CANARIES = [
    ("canary 5% 60s", "5% of the clients for 60 s", {}),
    ("canary 0.5% 1s fail-if servfail>1%", "0.5% of the clients for 1 s, unless servfail>1%", {2: 0.01}),
    ("canary 99% 24h fail-if SERVFAIL>0.5% refused>10% dropped>0%", None, {2: 0.005, 5: 0.1, "dropped": 0}),
]


@pytest.mark.parametrize(("text", "shown", "conditions"), CANARIES)
def test_canary(text: str, shown: str | None, conditions: dict[int | str, float]) -> None:
    controller = Controller.of(f"reload 10s 0s {{\n {text}\n}}")
    setup(controller)
    rules = controller.values[RULES]
    assert {condition.rcode: condition.share for condition in rules.conditions} == conditions
    assert shown is None or str(rules) == shown
    setup(other := Controller.of("reload 10s 0s {\n canary 5% 60s\n}\nreload 10s 0s"))
    assert RULES not in other.values, "the last one counts"


@pytest.mark.parametrize(
    ("condition", "counts", "fails"),
    [
        ("servfail>1%", {2: 1}, False),
        ("servfail>1%", {2: 2}, True),
        ("servfail>1%", {2: 1, 0: 49}, False),
        ("servfail>1%", {2: 2, 0: 198}, False),
        ("servfail>1%", {2: 3, 0: 197}, True),
        ("servfail>10%", {2: 10, 0: 5}, False),
        ("servfail>10%", {2: 11}, True),
        ("servfail>0%", {2: 1, 0: 10**6}, False),
        ("servfail>0%", {2: 2, 0: 10**6}, True),
        ("servfail>1%", {5: 50}, False),
        ("dropped>1%", {"dropped": 50, 0: 50}, True),
    ],
)
def test_when_a_condition_fails(condition: str, counts: dict[int | str, int], fails: bool) -> None:
    """Shares are of at least a hundred answers, and one bad answer is no failure."""
    (found,) = parse_rules(["5%", "60s", "fail-if", condition], lambda: None).conditions
    assert found.fails(counts) is fails


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("reload 1s", "interval value must be greater or equal to 2s"),
        ("reload -5s", "interval value must be greater or equal to 2s"),
        ("reload 10s 500ms", "jitter value must be 0 or greater or equal to 1s"),
        ("reload 10s -1s", "jitter value must be 0 or greater or equal to 1s"),
        ("reload x", 'time: invalid duration "x"'),
        ("reload 10", 'time: missing unit in duration "10"'),
        ("reload 10s y", 'time: invalid duration "y"'),
        ("reload {\n nosuch\n}", "Testfile:2 - Error during parsing: unknown property 'nosuch'"),
        ("reload {\n canary 5%\n}", "a canary has a share and a duration: canary 5% 60s fail-if servfail>1%"),
        ("reload {\n canary 5 60s\n}", "a share is more than 0% and less than 100%, not 5"),
        ("reload {\n canary 0% 60s\n}", "a share is more than 0% and less than 100%, not 0%"),
        ("reload {\n canary 100% 60s\n}", "a share is more than 0% and less than 100%, not 100%"),
        ("reload {\n canary 5% 100ms\n}", "a canary lasts from 1s to 24h, not 100ms"),
        ("reload {\n canary 5% 60s servfail>1%\n}", "expected 'fail-if' and conditions, not 'servfail>1%'"),
        ("reload {\n canary 5% 60s fail-if\n}", "expected 'fail-if' and conditions, not 'fail-if'"),
        ("reload {\n canary 5% 60s fail-if slow>1%\n}", "a condition is RCODE>SHARE%, such as servfail>1%, not slow>1%"),
        ("reload {\n canary 5% 60s fail-if servfail>1\n}", "a condition is RCODE>SHARE%, such as servfail>1%, not servfail>1"),
        ("reload 10s 1s 1s", "Testfile:1 - Error during parsing: Wrong argument count or unexpected line ending after '1s'"),
    ],
)
def test_refused(text: str, message: str) -> None:
    with pytest.raises((CorefileError, ValueError)) as caught:
        setup(Controller.of(text))
    assert str(caught.value) == message
