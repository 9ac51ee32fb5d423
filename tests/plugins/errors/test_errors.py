"""errors: its Corefile, lines, and errors that are consolidated."""

from __future__ import annotations

import itertools
import re
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path

import dns.message
import pytest

from fastdns.corefile import CorefileError
from fastdns.plugins.errors import setup
from fastdns.setup import Controller
from tests.server import Server
from tests.waiting import REPLY, until

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
    # Of one period, where they all fell into one.
    told = r"^\[WARNING\] plugin/errors: (\d+) errors like 'no next plugin found\$' occurred in last 1s$"
    took = time.monotonic() - start
    until(lambda: sum(map(int, re.findall(told, server.log(), re.M))) == 40)
    assert time.monotonic() - start > 0.9
    assert len(re.findall(told, server.log(), re.M)) <= took + 1
    assert "x0.one.test" not in server.log()


def test_the_first_of_a_period_is_shown(serve: Serve) -> None:
    """Always; the number at the period's end only where there were more."""
    server = serve(BLOCKS)

    def one_period(round_: int, number: int) -> int:
        """Where so many errors begin in the log; -1 when they came too slowly for one period, or within that of others."""
        mark = len(server.log())
        start = time.monotonic()
        for i in range(number):
            server.query(f"x{round_}-{i}.first.test")
        took = time.monotonic() - start
        time.sleep(1.2)
        server.query(f"x{round_}.test")  # a line that follows them all
        server.wait_log(rf"x{round_}\.test", start=mark)
        return mark if took < 0.9 and f"x{round_}-0.first.test" in server.log()[mark:] else -1

    rounds = itertools.count()
    for number in (1, 3):
        mark = until(lambda number=number: one_period(next(rounds), number) + 1) - 1  # type: ignore[misc]
        if number > 1:
            server.wait_log(rf"^\[INFO\] plugin/errors: {number} errors like '\^plugin/\.\*found\$' occurred in last 1s$", start=mark)
        assert len(re.findall(rf"^\[INFO\] plugin/errors: 2 x\d+-0\.first\.test\. A: {ERROR}$", server.log()[mark:], re.M)) == 1
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
        client.settimeout(REPLY)
        for _ in range(300):
            for _ in range(10):
                client.send(request)
            for _ in range(10):
                client.recv(512)
    told = server.wait_log(r"(\d+) errors like")
    assert int(told[1]) > 0

    def counted() -> int:
        return sum(int(line.split(" ")[2]) for line in server.log().splitlines() if " errors like " in line or "too many at once" in line)

    until(lambda: counted() == 3000, "that all are accounted for")


#: Keeps the thread that consolidates waiting until there is a file `go`.
HOLDS = """
import os, threading, time
from fastdns.telemetry.log import write
from fastdns.plugins.errors import consolidation

def hold():
    with consolidation._lock:
        write("held")
        while not os.path.exists("go"):
            time.sleep(0.01)

def setup(controller):
    controller.next()
    controller.remaining_args()
    controller.on_started(lambda: threading.Thread(target=hold, daemon=True).start())
"""


def test_errors_that_were_too_many_are_told(serve: Serve, tmp_path: Path) -> None:
    """Even if nothing more happens after them."""
    (tmp_path / "holds.py").write_text(HOLDS)
    server = serve(BLOCKS + "held.test:{port} {\n bind 127.0.0.1\n plugin {dir}/../holds.py\n}\n")
    server.wait_log("^held$")
    for _ in range(600):
        server.query("x.other.test")
    (server.folder / "go").touch()
    shown = rf"^\[ERROR\] plugin/errors: 2 x\.other\.test\. A: {ERROR}$"
    lost = r"^\[ERROR\] plugin/errors: (\d+) errors were too many at once to be looked at$"
    until(lambda: len(re.findall(shown, server.log(), re.M)) + sum(map(int, re.findall(lost, server.log(), re.M))) == 600)
    assert re.search(lost, server.log(), re.M)
