"""`fastdns top -once -json`: for scripts, and without the library of the page."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from fastdns.top.servers import Servers
from fastdns.top.sources import Console, Credentials, Local, SourceError
from tests.server import Server, command

COREFILE = ".:{port} {\n    prometheus 127.0.0.1:{port2}\n    whoami\n}\n"


def top(*words: str, env: dict[str, str] | None = None) -> tuple[int, str, str]:
    done = subprocess.run([*command(), "top", *words], capture_output=True, text=True, timeout=60, check=False, env=env)
    return done.returncode, done.stdout, done.stderr


def test_rates_of_a_second(serve: Callable[..., Server]) -> None:
    server = serve(COREFILE)
    over = threading.Event()

    def ask() -> None:
        while not over.wait(0.02):
            server.query("example.org.")

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        status, out, err = top("--once", "--json", "--pid", str(server.pid))
    finally:
        over.set()
        asking.join()
    assert (status, err) == (0, "")
    found = json.loads(out)
    assert [(row["pid"], row["error"]) for row in found["servers"]] == [(server.pid, "")]
    assert 5 < found["rates"]["queries"] <= 51
    assert found["rates"]["rcodes"] == {"NOERROR": found["rates"]["queries"]}
    assert found["totals"]["queries"] >= found["rates"]["queries"] * found["rates"]["seconds"]
    assert 0 < found["rates"]["latency"]["p50"] <= found["rates"]["latency"]["p99"]


def test_no_server() -> None:
    status, out, _ = top("-once", "-json", "-pid", "1")
    assert status == 1
    assert json.loads(out)["servers"] == [{"source": "process 1", "error": "no server with process id 1 runs here"}]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("-json",), "-json goes with -once"),
        (("-interval", "1ms"), "the interval is at least 0.2 s"),
        (("-window", "2m"), "the window is one of 1m, 10m, 1h"),
        (("-once", "-json", "-pid", "1", "127.0.0.1:1"), "a process, addresses and a selector exclude each other"),
        (("-once", "-json", "ftp://127.0.0.1"), "ftp://127.0.0.1 is no address of a console"),
        (("-once", "-json", "-token", "/none", "127.0.0.1:1"), "No such file or directory"),
    ],
)
def test_wrong_command_lines(words: tuple[str, ...], text: str) -> None:
    status, out, err = top(*words)
    assert (status, out) == (1, "")
    assert text in err


def test_without_the_library_it_says_what_to_install(serve: Callable[..., Server], tmp_path: Path) -> None:
    server = serve(COREFILE)
    (tmp_path / "rich").mkdir()
    (tmp_path / "rich" / "__init__.py").write_text("raise ModuleNotFoundError(\"No module named 'rich'\", name='rich')\n")
    env = {"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin:/bin"}
    status, out, err = top("-once", "-pid", str(server.pid), env=env)
    assert (status, out) == (1, "")
    assert err == "the page of fastdns top needs the package rich: pip install 'fastdns[top]'; -once -json works without it\n"
    assert top("-once", "-json", "-pid", str(server.pid), env=env)[0] == 0


# ---- several servers ----


class Given(Local):
    """A source of given reports."""

    def __init__(self, name: str, *reports: dict[str, object] | None) -> None:
        self.name = name
        self.reports = list(reports)

    def report(self, sections: object, request: object) -> dict[str, object]:
        found = self.reports.pop(0)
        if found is None:
            raise SourceError("gone")
        return found


def table(*rows: tuple[str, int, int]) -> dict[str, object]:
    made = [{"key": {"address": address}, "count": count, "error": error} for address, count, error in rows]
    return {"window": 60, "sampled": 1, "tables": {"clients": {"total": sum(row[1] for row in rows), "error": 1, "absent": 1, "rows": made}}}


def test_tables_of_several_servers_are_one() -> None:
    servers = Servers([Given("a", {"top": table(("10.0.0.1", 5, 0), ("10.0.0.2", 3, 1))}), Given("b", {"top": table(("10.0.0.2", 9, 2))}), Given("c", None)])
    servers.read({})
    assert servers.reports[2] == "gone"
    clients = servers.document()["top"]["tables"]["clients"]
    assert [(row["key"]["address"], row["count"], row["error"]) for row in clients["rows"]] == [("10.0.0.2", 12, 3), ("10.0.0.1", 6, 1)]
    assert (clients["total"], clients["error"]) == (17, 2)


def test_events_of_several_servers_are_in_their_order() -> None:
    def event(time: float, subject: str) -> dict[str, object]:
        return {"time": time, "subject": subject}

    servers = Servers([Given("a", {"events": {"events": [event(1, "x"), event(3, "z")]}}), Given("b", {"events": {"events": [event(2, "y")]}})])
    servers.read({})
    assert [(row["subject"], row["server"]) for row in servers.document()["events"]["events"]] == [("x", "a"), ("y", "b"), ("z", "a")]


def test_an_address_where_nothing_listens() -> None:
    with pytest.raises(SourceError, match="refused"):
        Console("127.0.0.1:1", Credentials()).report(["server"], {})
