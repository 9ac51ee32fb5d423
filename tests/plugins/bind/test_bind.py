"""bind: addresses and interfaces of a block."""

from __future__ import annotations

import pytest

import fastdns.system.interfaces
from fastdns.corefile import CorefileError
from fastdns.plugins.bind import setup
from fastdns.setup import Controller

GOOD = [
    ("bind 127.0.0.1", ["127.0.0.1"]),
    ("bind 127.0.0.1 ::1", ["127.0.0.1", "::1"]),
    ("bind 127.0.0.1\nbind 127.0.0.2", ["127.0.0.1", "127.0.0.2"]),
    ("bind eth9", ["192.0.2.9", "fe80::9%eth9"]),
    ("bind eth9 {\n except 192.0.2.9\n}", ["fe80::9%eth9"]),
    ("bind eth9 {\n except eth9\n}", []),
    ("bind eth9 127.0.0.1 {\n except 127.0.0.1\n}\nbind 127.0.0.1", ["192.0.2.9", "fe80::9%eth9", "127.0.0.1"]),
    ("bind 127.0.0.1 {\n except 127.0.0.1\n}", []),
    ("bind 127.0.0.1 {\n}", ["127.0.0.1"]),
    ("bind 0:0::1 {\n except ::1\n}", ["0:0::1"]),
    ("bind empty0", []),
]


@pytest.fixture(autouse=True)
def _interfaces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fastdns.system.interfaces, "addresses", lambda: {"eth9": ["192.0.2.9", "fe80::9%eth9"], "empty0": []})


@pytest.mark.parametrize(("text", "hosts"), GOOD)
def test_hosts(text: str, hosts: list[str]) -> None:
    controller = Controller.of(text)
    setup(controller)
    assert controller.config.listen_hosts == hosts


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("bind", "at least one address or interface name is expected"),
        ("bind {\n}", "at least one address or interface name is expected"),
        ("bind 127.0.0.1 {\n except\n}", "at least one address or interface must be given to except subdirective"),
        ("bind 127.0.0.1 {\n only ::1\n}", 'invalid option "only"'),
        ("bind nothere0", 'not a valid IP address or interface name: "nothere0"'),
        ("bind 300.0.0.1", 'not a valid IP address or interface name: "300.0.0.1"'),
        ("bind 127.0.0.1 {\n except nothere0\n}", 'not a valid IP address or interface name: "nothere0"'),
    ],
)
def test_refused(text: str, message: str) -> None:
    with pytest.raises(CorefileError) as caught:
        setup(Controller.of(text))
    assert str(caught.value) == message


def test_interfaces_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert "127.0.0.1" in fastdns.system.interfaces.addresses()["lo"]
