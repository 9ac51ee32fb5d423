"""The directive: durations that are taken, and that are not."""

from __future__ import annotations

import pytest

from fastdns.corefile import CorefileError
from fastdns.plugins.cancel import parse
from fastdns.setup import Controller

MS = 1_000_000


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("cancel", 5001 * MS), ("cancel 500ms", 500 * MS), ("cancel 1s\ncancel 2s", 2000 * MS), ("cancel 1s\ncancel", 5001 * MS)],
)
def test_good(text: str, wanted: int) -> None:
    assert parse(Controller.of(text)) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("cancel 2", 'invalid duration: "2"'),
        ("cancel x", 'invalid duration: "x"'),
        ("cancel 0", 'invalid negative duration: "0"'),
        ("cancel -1s", 'invalid negative duration: "-1s"'),
        ("cancel 1s 2s", "Testfile:1 - Error during parsing: Wrong argument count or unexpected line ending after '2s'"),
    ],
)
def test_bad(text: str, wanted: str) -> None:
    with pytest.raises(CorefileError) as caught:
        parse(Controller.of(text))
    assert str(caught.value) == wanted
