"""The log of events and the sections of the status document."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fastdns.server import control
from fastdns.telemetry import events, status
from tests.server import Server


def test_events_have_numbers_and_causes() -> None:
    before = max((event.number for event in events.last()), default=0)
    events.note("reload", "Corefile", "SIGUSR1", took=0.1)
    events.note("evicted", "192.0.2.1:53", "all slots were taken")
    found = events.last(before)
    assert [(event.kind, event.subject, event.cause) for event in found] == [
        ("reload", "Corefile", "SIGUSR1"),
        ("evicted", "192.0.2.1:53", "all slots were taken"),
    ]
    assert found[0].details == {"took": 0.1}
    assert found[0].number + 1 == found[1].number
    assert events.last(before, 1) == found[1:]


def test_the_oldest_events_go_first() -> None:
    for number in range(events.EVENTS_MAX + 1):
        events.note("shed", str(number), "test")
    found = events.last()
    assert len(found) == events.EVENTS_MAX
    assert found[0].subject == "1"
    assert found[-1].subject == str(events.EVENTS_MAX)


def test_kinds_are_known() -> None:
    with pytest.raises(KeyError):
        events.note("unheard_of", "x", "y")


def test_watchers_hear_of_events_until_they_end() -> None:
    heard = []
    end = events.watch(heard.append)
    events.note("reload", "Corefile", "test")
    end()
    events.note("reload", "Corefile", "test")
    assert [event.kind for event in heard] == ["reload"]


def test_sections_belong_to_who_provides_them_last() -> None:
    def first(request: object) -> str:
        return "first"

    def second(request: object) -> str:
        return "second"

    status.provide("example", first)
    status.provide("example", second)
    status.withdraw("example", first)
    assert status.report(["example", "unheard-of"]) == {"example": "second"}
    assert "example" in status.sections()
    status.withdraw("example", second)
    assert status.report(["example"]) == {}


def test_over_the_control_socket(serve: Callable[..., Server]) -> None:
    server = serve(".:{port} {\n    whoami\n}")
    assert control.ask({"sections": ["unheard-of"]}, server.pid) == {}
