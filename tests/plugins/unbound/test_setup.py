"""unbound: what the Corefile may say, and what libunbound refuses."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fastdns.corefile import CorefileError
from fastdns.plugins.unbound import parse, setup
from fastdns.setup import Controller
from tests.server import Server
from tests.waiting import REPLY

Serve = Callable[..., Server]


@pytest.mark.parametrize(
    ("text", "keys", "zones", "excepted", "settings"),
    [
        ("unbound", ["."], ["."], [], []),
        ("unbound", ["a.test", "b.test:54"], ["a.test.", "b.test."], [], []),
        ("unbound A.test b", ["."], ["a.test.", "b."], [], []),
        ("unbound 10.9.0.0/16", ["."], ["9.10.in-addr.arpa."], [], []),
        ("unbound {\n except A.test b.test\n except c.test\n}", ["."], ["."], ["a.test.", "b.test.", "c.test."], []),
        (
            'unbound . {\n option msg-cache-size 0\n config /u.conf\n option module-config "validator iterator"\n}',
            ["."],
            ["."],
            [],
            [("msg-cache-size", "0", 2), ("", "/u.conf", 3), ("module-config", "validator iterator", 4)],
        ),
    ],
)
def test_good(text: str, keys: list[str], zones: list[str], excepted: list[str], settings: list[tuple[str, str, int]]) -> None:
    options = parse(Controller.of(text, keys))
    assert (options.zones, options.excepted, options.settings) == (zones, excepted, settings)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("unbound {\n except\n}", "Testfile:2 - Error during parsing: Wrong argument count or unexpected line ending after 'except'"),
        ("unbound {\n option msg-cache-size\n}", "Testfile:2 - Error during parsing: Wrong argument count or unexpected line ending after 'msg-cache-size'"),
        ("unbound {\n option a b c\n}", "Testfile:2 - Error during parsing: Wrong argument count or unexpected line ending after 'c'"),
        ("unbound {\n config\n}", "Testfile:2 - Error during parsing: Wrong argument count or unexpected line ending after 'config'"),
        ("unbound {\n config a b\n}", "Testfile:2 - Error during parsing: Wrong argument count or unexpected line ending after 'b'"),
        ("unbound {\n optoin qname-minimisation yes\n}", "Testfile:2 - Error during parsing: Wrong argument count or unexpected line ending after 'optoin'"),
        ("unbound\nunbound", "this plugin can only be used once per Server Block"),
    ],
)
def test_bad(text: str, error: str) -> None:
    with pytest.raises(CorefileError) as caught:
        parse(Controller.of(text))
    assert str(caught.value) == error


@pytest.mark.parametrize(
    ("block", "error"),
    [
        ("option bla yes", 'Corefile:4 - Error during parsing: failed to set option "bla:" with value "yes": syntax error'),
        (
            "option qname-minimisation perhaps",
            'Corefile:4 - Error during parsing: failed to set option "qname-minimisation:" with value "perhaps": syntax error',
        ),
        ("config {dir}/none.conf", "Corefile:4 - Error during parsing: failed to read config file ({dir}/none.conf): syntax error"),
        ("config {dir}/bad.conf", "Corefile:4 - Error during parsing: failed to read config file ({dir}/bad.conf): syntax error"),
        ("option root-hints {dir}/none", "Corefile:3 - Error during parsing: failed to initialise libunbound: initialization failure"),
        ("option trust-anchor-file {dir}/none", "Corefile:3 - Error during parsing: failed to initialise libunbound: initialization failure"),
        ("option module-config nothing", "Corefile:3 - Error during parsing: failed to initialise libunbound: initialization failure"),
    ],
)
def test_what_libunbound_refuses_ends_the_server(serve: Serve, block: str, error: str) -> None:
    def prepare(folder: Path) -> None:
        (folder / "bad.conf").write_text("server:\n    no-such-option: yes\n")

    server = serve(f".:{{port}} {{\n    errors\n    unbound {{\n        {block}\n    }}\n}}\n", wait=False, prepare=prepare)
    assert server.process.wait(REPLY) == 1
    assert f"plugin/unbound: {server.folder}/{error.replace('{dir}', str(server.folder))}" in server.log()


def test_a_configuration_with_an_error_leaves_the_former_one(serve: Serve) -> None:
    good = '.:{port} {\n    unbound {\n        option local-data "one.invalid. A 192.0.2.1"\n    }\n}\n'
    server = serve(good)
    server.write(good.replace("local-data", "no-such-option"))
    before = len(server.log())
    server.signal(signal.SIGUSR1)
    server.wait_log("failed to set option", start=before)
    assert server.query("one.invalid").answer


def test_a_build_without_the_library_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastdns.plugins.unbound._unbound", None)
    with pytest.raises(CorefileError) as caught:
        setup(Controller.of("unbound"))
    assert str(caught.value) == "Testfile:1 - Error during parsing: unbound is not in this build: install libunbound-dev, then make"
