"""on: commands at the start and the end."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from fastdns.corefile import CorefileError
from fastdns.plugins.on import parse
from fastdns.setup import Controller
from tests.server import Server
from tests.waiting import until


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("on startup /bin/a b c", [("startup", ("/bin/a", "b", "c"), False)]),
        ("on ShutDown a &", [("shutdown", ("a",), True)]),
        ("on certrenew a\non startup b 'c d' e\\ f", [("certrenew", ("a",), False), ("startup", ("b", "c d", "e f"), False)]),
        ("on startup &", [("startup", ("&",), False)]),
    ],
)
def test_commands(text: str, wanted: list[tuple[str, tuple[str, ...], bool]]) -> None:
    assert [command[:3] for command in parse(Controller.of(text))] == wanted


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("on", "Wrong argument count or unexpected line ending after 'on'"),
        ("on reload a", "Wrong event name or event not supported: 'reload'"),
        ("on startup", "no command contained in ''"),
        ("on startup echo 'a", "error parsing command: EOF found when expecting closing quote."),
    ],
)
def test_errors(text: str, message: str) -> None:
    with pytest.raises(CorefileError) as caught:
        parse(Controller.of(text))
    assert str(caught.value) == f"Testfile:1 - Error during parsing: {message}"


def test_an_error_is_told_without_the_plugins_name(serve: Callable[..., Server]) -> None:
    server = serve(". {\n on nonsense\n whoami\n}", wait=False)
    assert server.exit_status() == 1
    assert re.search(r"^\S+Corefile:2 - Error during parsing: Wrong event name or event not supported: 'nonsense'$", server.log(), re.M)


def test_life(serve: Callable[..., Server]) -> None:
    corefile = """.:{port} {
        on startup echo one
        on startup /bin/false
        on startup /nowhere/at/all x
        on startup nosuchcommand
        on startup env -u LD_PRELOAD sh -c 'kill $$'
        on startup sleep 3 &
        on shutdown echo bye
        whoami
    }"""
    server = serve(corefile)
    log = server.log()
    wanted = [
        r'\[INFO\] Blocking Command "echo one" with ID \S+',
        "one",
        r'\[INFO\] Blocking Command "/bin/false " with ID \S+',
        r"error on 'on-\S+' hook: exit status 1",
        r'\[INFO\] Blocking Command "/nowhere/at/all x" with ID \S+',
        r"error on 'on-\S+' hook: fork/exec /nowhere/at/all: no such file or directory",
        r'\[INFO\] Blocking Command "nosuchcommand " with ID \S+',
        r"""error on 'on-\S+' hook: exec: "nosuchcommand": executable file not found in \$PATH""",
        r'\[INFO\] Blocking Command "env -u LD_PRELOAD sh -c kill \$\$" with ID \S+',
        r"error on 'on-\S+' hook: signal: terminated",
        r'\[INFO\] Nonblocking Command "sleep 3" with ID \S+',
    ]
    for pattern in wanted:
        assert re.search(f"^{pattern}$", log, re.M), f"{pattern}\n{log}"
    server.reload(corefile.replace("echo one", "echo two").replace("sleep 3 &", "/bin/true"))
    until(lambda: re.search("^two$", server.log(), re.M), "the new configuration's command")
    assert len(re.findall("^one$", server.log(), re.M)) == 1, "the former one's is not run again"
    assert "bye" not in re.findall(r"^\w+$", server.log(), re.M)
    assert server.stop() == 0
    assert len(re.findall("^bye$", server.log(), re.M)) == 1
