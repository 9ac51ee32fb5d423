"""reload: intervals that are taken, and that are not."""

from __future__ import annotations

import pytest

from fastdns.corefile import CorefileError
from fastdns.plugins.reload import setup
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
        ("reload 10s 1s 1s", "Testfile:1 - Error during parsing: Wrong argument count or unexpected line ending after '1s'"),
    ],
)
def test_refused(text: str, message: str) -> None:
    with pytest.raises((CorefileError, ValueError)) as caught:
        setup(Controller.of(text))
    assert str(caught.value) == message
