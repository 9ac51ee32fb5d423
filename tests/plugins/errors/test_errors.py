"""errors: its Corefile, lines, and errors that are consolidated."""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Callable

import dns.message
import pytest

from fastdns.corefile import Controller, CorefileError
from fastdns.plugins.errors import setup
from tests.server import Server

Serve = Callable[..., Server]


@pytest.mark.parametrize(
    "text",
    [
        "errors",
        "errors stdout",
        "errors {\nstacktrace\n}",
        "errors stdout {\nconsolidate 1m error\n}",
        "errors {\nconsolidate 1m error\nconsolidate 5s ^.*timeout$ warning\nconsolidate 1h x debug show_first\nconsolidate 1h x show_first\n}",
        "errors {\n}",
    ],
)
def test_good(text: str) -> None:
    controller = Controller.of(text)
    assert setup(controller).name == "errors"
    assert controller.config.stacktrace is ("stacktrace" in text)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("errors a b", r"Testfile:1 - Error during parsing: Wrong argument count"),
        ("errors file", r"Testfile:1 - Error during parsing: invalid log file: file"),
        ("errors\nerrors", r"^this plugin can only be used once per Server Block$"),
        ("errors {\nnone\n}", r"^Testfile:2 - Syntax error: Unexpected token 'none', expecting 'Unknown field none'$"),
        ("errors {\nstacktrace x\n}", r"Testfile:2 - .*Wrong argument count"),
        ("errors {\nconsolidate\n}", r"Testfile:2 - .*Wrong argument count or unexpected line ending after 'consolidate'"),
        ("errors {\nconsolidate 1m\n}", r"Testfile:2 - .*Wrong argument count"),
        ("errors {\nconsolidate 1m a error show_first x\n}", r"Testfile:2 - .*Wrong argument count"),
        ("errors {\nconsolidate 1z error\n}", r"Testfile:2 - .*time: unknown unit"),
        ("errors {\nconsolidate 1m (\n}", r"Testfile:2 - .*error parsing regexp"),
        (f"errors {{\nconsolidate 1m {'a' * 10001}\n}}", r"Testfile:2 - .*regex pattern too long: 10001 > 10000"),
        ("errors {\nconsolidate 1m a show_first warning\n}", r"Testfile:2 - .*log level must come before show_first in consolidate"),
        ("errors {\nconsolidate 1m a warning error\n}", r"Testfile:2 - .*multiple log levels specified in consolidate"),
        ("errors {\nconsolidate 1m a fatal\n}", r"Testfile:2 - .*unknown option in consolidate: fatal"),
    ],
)
def test_bad(text: str, error: str) -> None:
    with pytest.raises(CorefileError, match=error):
        setup(Controller.of(text))


BLOCKS = """.:{port} {
    bind 127.0.0.1
    errors
    log no.such.name
}
one.test:{port} {
    bind 127.0.0.1
    errors {
        consolidate 1s "no next plugin found$" warning
        consolidate 1s "never reached" info
    }
    log no.such.name
}
first.test:{port} {
    bind 127.0.0.1
    errors {
        consolidate 1s "^plugin/.*found$" info show_first
    }
    log no.such.name
}
other.test:{port} {
    bind 127.0.0.1
    errors {
        consolidate 1s "matches nothing"
    }
    log no.such.name
}
long.test:{port} {
    bind 127.0.0.1
    errors {
        consolidate 1h "plugin"
    }
    log no.such.name
}
"""

ERROR = "plugin/log: no next plugin found"


def test_lines(serve: Serve) -> None:
    server = serve(BLOCKS)
    assert server.query("WWW.Example.org", "MX").rcode() == 2
    server.wait_log(rf"^\[ERROR\] plugin/errors: 2 www\.example\.org\. MX: {ERROR}$")
    server.query("x.other.test", "TYPE65400", tcp=True)
    server.wait_log(rf"^\[ERROR\] plugin/errors: 2 x\.other\.test\. TYPE65400: {ERROR}$")


def test_consolidation(serve: Serve) -> None:
    server = serve(BLOCKS)
    start = time.monotonic()
    for number in range(40):
        server.query(f"x{number}.one.test", tcp=bool(number % 2))
    server.query("only.first.test")
    server.wait_log(rf"^\[INFO\] plugin/errors: 2 only\.first\.test\. A: {ERROR}$")
    server.wait_log(r"^\[WARNING\] plugin/errors: 40 errors like 'no next plugin found\$' occurred in last 1s$")
    assert time.monotonic() - start > 0.9
    assert "x0.one.test" not in server.log()
    time.sleep(0.5)  # the other block's period ends too
    mark = len(server.log())
    for number in range(3):  # the next period: its first is shown again, and there is a sum now
        server.query(f"y{number}.first.test")
    server.wait_log(r"^\[INFO\] plugin/errors: 3 errors like '\^plugin/\.\*found\$' occurred in last 1s$", start=mark)
    assert server.log()[mark:].count(".first.test") == 1
    assert "1 errors like" not in server.log(), "a single one was shown already"


def test_pending_counts_are_told_at_the_end_and_at_a_reload(serve: Serve) -> None:
    server = serve(BLOCKS)
    for _ in range(3):
        server.query("a.long.test")
    server.reload(BLOCKS + "# changed\nc.test:{port} {\n bind 127.0.0.1\n whoami\n}\n")
    server.wait_log(r"^\[ERROR\] plugin/errors: 3 errors like 'plugin' occurred in last 1h0m0s$")
    server.query("b.long.test")
    server.signal(signal.SIGTERM)
    assert server.exit_status() == 0
    server.wait_log(r"^\[ERROR\] plugin/errors: 1 errors like 'plugin' occurred in last 1h0m0s$")


def test_a_flood_of_errors_loses_no_answer(serve: Serve) -> None:
    server = serve(BLOCKS)
    request = dns.message.make_query("x.one.test", "A").to_wire()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.connect(("127.0.0.1", server.port))
        client.settimeout(3)
        for _ in range(300):
            for _ in range(10):
                client.send(request)
            for _ in range(10):
                client.recv(512)
    told = server.wait_log(r"(\d+) errors like")
    assert int(told[1]) > 0
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        log = server.log()
        counted = sum(int(line.split(" ")[2]) for line in log.splitlines() if " errors like " in line or "too many at once" in line)
        if counted == 3000:
            return
        time.sleep(0.05)
    raise AssertionError(f"{counted} of 3000 errors are accounted for")
