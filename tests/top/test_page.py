"""The page of `fastdns top` in a real terminal: tmux, whose screen is read."""

from __future__ import annotations

import io
import re
import shlex
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import dns.message
import pytest
from rich.console import Console

from fastdns.testing import Upstream
from fastdns.top.screen import screen
from fastdns.top.servers import Servers
from fastdns.top.state import VIEWS, State
from fastdns.top.texts import plain
from tests.programs import program
from tests.server import Server, command
from tests.top.test_once import Given
from tests.waiting import until

Serve = Callable[..., Server]
COREFILE = """.:{port} {
    prometheus 127.0.0.1:{port2}
    whoami
}
broken.test:{port} {
    prometheus 127.0.0.1:{port2}
    template ANY ANY {
        rcode SERVFAIL
    }
}
"""


class Terminal:
    """A terminal of 110 columns and 34 lines with a program in it."""

    def __init__(self, folder: Path, *words: str) -> None:
        self.tmux = [program("tmux"), "-S", str(folder / "tmux"), "-f", "/dev/null"]
        self.run("new-session", "-d", "-x", "110", "-y", "34", shlex.join([*command(), "top", *words]) + f"; echo status $? > {folder}/status; sleep 60")

    def run(self, *words: str) -> str:
        return subprocess.run([*self.tmux, *words], capture_output=True, text=True, check=True, timeout=20).stdout

    def screen(self) -> str:
        return self.run("capture-pane", "-p")

    def keys(self, *keys: str) -> None:
        self.run("send-keys", *keys)

    def wait(self, text: str) -> None:
        self.wait_match(re.escape(text))

    def wait_match(self, pattern: str) -> None:
        try:
            until(lambda: re.search(pattern, self.screen()), f"{pattern!r} on the screen")
        except AssertionError as error:
            error.add_note(self.screen())
            raise

    def close(self) -> None:
        subprocess.run([*self.tmux, "kill-server"], check=False, timeout=20)


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Callable[..., Terminal]]:
    opened = []

    def start(*words: str) -> Terminal:
        opened.append(Terminal(tmp_path, *words))
        return opened[-1]

    yield start
    for one in opened:
        one.close()


@pytest.fixture
def asked(serve: Serve) -> Iterator[Server]:
    """A server that is asked all the time."""
    server = serve(COREFILE)
    over = threading.Event()

    def ask() -> None:
        while not over.wait(0.01):
            server.query("example.org.")
            server.query("x.broken.test.")

    asking = threading.Thread(target=ask)
    asking.start()
    yield server
    over.set()
    asking.join()


def test_views_and_keys(asked: Server, terminal: Callable[..., Terminal], tmp_path: Path) -> None:
    page = terminal("-pid", str(asked.pid), "-interval", "300ms")
    # How wide the column is depends on the latencies in it, and an interval may end between the two questions.
    page.wait_match(r"SERVFAIL +(4[5-9]|5[0-5])\.\d %")
    page.wait("queries waiting")
    page.keys("2")
    page.wait("broken.test.")
    page.wait(f"dns://:{asked.port}")
    page.keys("Down", "Enter")
    page.wait("╭─")
    assert "latency" in page.screen()
    page.keys("Escape")
    page.wait("NXDOMAIN")
    page.keys("3")
    page.wait("failed checks")
    page.keys("4")
    page.wait("the Corefile has no top")
    page.keys("5")
    page.wait("the Corefile has no recorder")
    page.keys("7")
    page.wait(f"process {asked.pid}")
    page.keys(" ")
    page.wait("paused")
    page.keys("q")
    until(lambda: (tmp_path / "status").exists() and (tmp_path / "status").read_text() == "status 0\n", "the end")
    assert "fastdns top" not in page.screen(), "the terminal is as before"


def test_a_server_that_ends_and_comes_back(asked: Server, terminal: Callable[..., Terminal]) -> None:
    page = terminal("-pid", "1", "-interval", "300ms")
    page.wait("1 without an answer")
    page.wait("no server with process id 1 runs here")


def test_once(asked: Server) -> None:
    done = subprocess.run([*command(), "top", "-once", "-pid", str(asked.pid)], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "queries a second" in done.stdout
    assert "\x1b" not in done.stdout, "no colours where no terminal is"


def test_without_a_terminal(asked: Server) -> None:
    done = subprocess.run([*command(), "top", "-pid", str(asked.pid)], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (1, "the page needs a terminal; -once prints it, -once -json is for scripts\n")


# ---- texts of strangers ----

HOSTILE = "[red]x[/] \x1b[2J\x1b]0;owned\x07\x9b31m\r\n\u202eevil"


def test_no_text_commands_the_terminal() -> None:
    """Neither by escape sequences nor by rich's markup, in any view."""
    assert plain(HOSTILE).plain.startswith("[red]x[/] \ufffd[2J")
    key = dict.fromkeys(("address", "pod", "namespace", "node"), HOSTILE)
    query = {**dict.fromkeys(("name", "type", "client", "transport", "rcode", "upstream"), HOSTILE), "time": 1.7e9, "took": 0.1, "stages": [HOSTILE], "size": 9}
    rates = {
        "time": 1.0, "counted": True, "queries": 1, "rcodes": {HOSTILE: 1}, "types": {}, "transports": {}, "plugins": {},
        "latency": {"bounds": [1.0], "counts": [1, 0]},
        "zones": [{"server": HOSTILE, "zone": HOSTILE, "view": HOSTILE, "queries": 1, "rcodes": {HOSTILE: 1}, "latency": [1, 0]}],
        "cache": {"requests": 0, "hits": 0, "entries": 0},
        "upstreams": {
            "bounds": [1.0],
            "rows": [{"to": HOSTILE, "plugin": HOSTILE, "queries": 1, "rcodes": {HOSTILE: 1}, "latency": [1, 0], "check_failures": 0}],
        },
    }  # fmt: skip
    report = {
        "server": {"host": HOSTILE, "version": HOSTILE, "uptime": 1, "rss": 1, "bounds": [{"name": HOSTILE, "used": 1, "most": 2, "unit": ""}]},
        "rates": rates,
        "top": {"window": 60, "sampled": 1, "tables": {HOSTILE: {"total": 1, "error": 0, "absent": 0, "rows": [{"key": key, "count": 1, "error": 0}]}}},
        "recorder": {"queries": [query], "held": 1, "bytes": 1},
        "events": {"events": [{"number": 1, "time": 1.7e9, "kind": HOSTILE, "subject": HOSTILE, "cause": HOSTILE, "details": {}}]},
        "slo": {"objectives": [{"server": HOSTILE, "zone": HOSTILE, "view": HOSTILE, "share": 0.99, "seconds": 1, "within": 1, "late": 0, "failed": 1}]},
        "canary": {"share": 0.1, "left": 9.0, "conditions": HOSTILE, "replies": {HOSTILE: {HOSTILE: 1}}},
        "shadow": {"targets": [{"servers": [HOSTILE, HOSTILE], "state": HOSTILE, "questions": 1, "differences": {HOSTILE: 1}}]},
    }
    servers = Servers([Given(HOSTILE, report, {**report, "rates": {**rates, "time": 2.0, "queries": 3}})])
    servers.read({})
    servers.read({})
    for view in range(len(VIEWS)):
        for opened in (False, True):
            console = Console(force_terminal=True, color_system=None, width=300, record=True, file=io.StringIO())
            console.print(screen(servers, State(view=view, opened=opened), 40))
            text = console.export_text(styles=False)
            assert not [letter for letter in text if not letter.isprintable() and letter != "\n"], VIEWS[view]
            assert "[red]x[/]" in text, VIEWS[view]


def test_slo_canary_and_shadow(serve: Serve) -> None:
    """On the overview, once the Corefile has them."""
    from fastdns.server import control
    from fastdns.top.sources import Local

    def wrong(request: dns.message.Message) -> dns.message.Message:
        reply = dns.message.make_response(request)
        reply.set_rcode(3)
        return reply

    with Upstream(wrong) as other:
        text = ".:{port} {\n bind 127.0.0.1\n prometheus 127.0.0.1:{port2}\n reload 1h 0s {\n canary 30% 1h\n }\n slo 99.5% 250ms\n SHADOW\n whoami\n}\n"
        text = text.replace("SHADOW", f"shadow {other.address}")
        server = serve(text)
        servers = Servers([Local(control.ask, server.pid)])

        def shown() -> str:
            servers.read({})
            servers.read({})
            console = Console(force_terminal=True, color_system=None, width=200, record=True, file=io.StringIO())
            console.print(screen(servers, State(), 40))
            return console.export_text(styles=False)

        server.query("a.test")
        until(lambda: "answers" in (found := shown()) and re.search(rf"{re.escape(other.address)} +answers +1 +1 ", found), "the difference")
        assert re.search(rf"\. +dns://127\.0\.0\.1:{server.port} +99\.5 % in 250 ms +100\.00 % +0 +0 ", shown())
        server.write(text.replace("whoami", "errors\n whoami"))
        server.signal(signal.SIGUSR1)
        server.wait_log("Canary: 30% of the clients")
        found = shown()
    assert re.search(r"clients +30\.0 %", found)
    assert re.search(r"serving +no answers", found)
    assert list(servers.document()) == ["servers", "rates", "totals", "events", "slo", "shadow", "canary"]
