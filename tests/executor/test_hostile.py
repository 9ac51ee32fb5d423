"""Python plugins that return, set and raise what no plugin should: each harms its own queries alone."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import urllib.error
from collections.abc import Callable
from pathlib import Path

import pytest

from fastdns.executor.verdicts import Verdicts
from fastdns.plugin import PASS, Metric, Plugin, Record, Remembered
from fastdns.telemetry.metrics import Metric as NativeMetric
from fastdns.testing import Executor, ask, make
from tests.server import Server
from tests.waiting import LIMIT, until

#: Has a fault at WHERE: `import`, `setup`, `startup`, `close`, `shutdown`, `restart`, `ready`, `metric` or none.
PLUGIN = """
import multiprocessing
import os
import sys
import time
from fastdns.plugin import DROP, PASS, Answer, Failure, Metric, Plugin, Record, Remembered, Reply

class Mute(BaseException):
    def __str__(self):
        raise self
    __repr__ = __str__

def fail():
    raise RAISED

if "WHERE" == "import":
    fail()

METRIC = Metric("hostile_total", "Counter.", "counter", ("kind",))
if "WHERE" == "metric":
    GAUGE = Metric("hostile_gauge", "Gauge.", "gauge", ("kind",))
    GAUGE.watch(("a",), fail)
    GAUGE.set((5,), 1)

RESULTS = {
    "counter": lambda q: q.reply("A 192.0.2.1").remember(60, counter=10**9),
    "another": lambda q: q.reply("A 192.0.2.1").remember(60, counter=1),
    "fail": lambda q: q.fail(4000),
    "failed": lambda q: q.fail(70000),
    "rcode": lambda q: q.reply(rcode=5000),
    "negative": lambda q: q.reply(rcode=-1),
    "mx": lambda q: q.reply(Record(15, b"")),
    "a": lambda q: q.reply(Record(1, b"abc")),
    "soa": lambda q: q.reply(Record(6, b"\\0\\0")),
    "ttl": lambda q: q.reply(Record(1, bytes(4), 2**31)),
    "owner": lambda q: q.reply(Record(1, bytes(4), 60, b"\\x3f" * 300)),
    "huge": lambda q: q.reply(*[Record(1, bytes(4))] * 100000),
    "text": lambda q: Failure(2, 5),
    "packs": lambda q: type("P", (), {"pack": lambda self: 10**12})(),
    "remembered": lambda q: Remembered(b"", 60, None, False, None, 0),
    "mute": lambda q: exec("raise Mute", globals()),
    "exit": lambda q: sys.exit(3),
    "recursion": lambda q: RESULTS["recursion"](q),
    "type": lambda q: type,
}

class Hostile(Plugin):
    zones = ["hostile.test."]
    memory = {"a": 1}

    def serve(self, query):
        what = query.name.partition(".")[0]
        if what == "fork":
            if os.fork() == 0:
                time.sleep(1000)
            return query.reply("A 192.0.2.7")
        if what == "child":
            if os.fork() == 0:
                return query.reply("A 192.0.2.8")
            return query.reply("A 192.0.2.7")
        if what == "process":
            self.process = multiprocessing.get_context("fork").Process(target=time.sleep, args=(1000,))
            self.process.start()
            return query.reply("A 192.0.2.7")
        make = RESULTS.get(what)
        return query.reply("A 192.0.2.7") if make is None else make(query)

    def close(self):
        if "WHERE" == "close":
            fail()

    def ready(self):
        if "WHERE" == "ready":
            fail()
        return True

def setup(controller):
    if "WHERE" == "setup":
        fail()
    if "WHERE" in ("startup", "shutdown", "restart"):
        getattr(controller, "on_WHERE")(fail)
    return Hostile()
"""
COREFILE = """.:{port} {
    bind 127.0.0.1
    prometheus 127.0.0.1:{port2}
    ready 127.0.0.1:{port3}
    errors
    plugin {dir}/hostile.py
    whoami
}
"""
Serve = Callable[..., Server]


def write(folder: Path, where: str = "", raised: str = "SystemExit(1)") -> None:
    (folder / "hostile.py").write_text(PLUGIN.replace("WHERE", where).replace("RAISED", raised))


def names_of_results() -> list[str]:
    return re.findall(r'^    "(\w+)": lambda q', PLUGIN, re.M)


def test_results_that_are_none(serve: Serve) -> None:
    """SERVFAIL, an error of the plugin, and nothing else; counters that are none leave the verdict in use for its query."""
    server = serve(COREFILE, prepare=write)
    page = server.ports["port2"]
    names = names_of_results()
    assert len(names) > 15
    before = server.get(page, "/metrics").count("\n")
    for count, name in enumerate(names, 1):
        wanted = {"counter": ["192.0.2.1"], "another": ["192.0.2.1"]}.get(name, ["SERVFAIL"])
        assert server.answers(f"{name}.hostile.test.", timeout=LIMIT) == wanted, name
        assert server.metric(page, 'fastdns_plugin_errors_total{plugin="hostile"}') == count, name
        assert server.answers("plain.hostile.test.") == ["192.0.2.7"], name
        assert server.query("a.example.org.").additional
    assert before <= server.get(page, "/metrics").count("\n")
    assert "its attribute 'memory' is dict and no number of verdicts" in server.log()
    assert "remember: counter is int, and not what Metric.cell returns" in server.log()
    assert server.metric(page, 'fastdns_plugin_hangs_total{plugin="hostile"}') == 0


@pytest.mark.parametrize("raised", ["SystemExit(1)", "KeyboardInterrupt()", "Mute()"])
@pytest.mark.parametrize("where", ["import", "setup", "startup", "restart"])
def test_what_refuses_a_reload_leaves_the_next_one(serve: Serve, where: str, raised: str) -> None:
    server = serve(COREFILE, prepare=write)
    write(server.folder, where, raised)
    if where == "restart":  # it is the former configuration's
        server.reload(COREFILE)
        write(server.folder)
    server.signal(signal.SIGUSR1)
    server.wait_log(r"SIGUSR1: starting with listener file descriptors: ")
    assert server.answers("plain.hostile.test.") == ["192.0.2.7"]
    if where != "restart":
        write(server.folder)
        server.reload(COREFILE)
        assert server.answers("plain.hostile.test.") == ["192.0.2.7"]


@pytest.mark.parametrize("where", ["close", "shutdown", "ready", "metric"])
def test_what_is_raised_later_leaves_the_process_whole(serve: Serve, where: str) -> None:
    server = serve(COREFILE, prepare=lambda folder: write(folder, where, "SystemExit(1)"))
    for _ in range(2):
        server.reload(COREFILE)
        assert server.answers("plain.hostile.test.") == ["192.0.2.7"]
    assert "fastdns_plugin_hangs_total" in server.get(server.ports["port2"], "/metrics")
    if where == "close":
        server.wait_log("Closing hostile: SystemExit")
    if where == "ready":
        with pytest.raises(urllib.error.HTTPError, match="503"):
            server.get(server.ports["port3"], "/ready")
        server.wait_log("plugin/hostile does not say whether it is ready: SystemExit")
    else:
        assert server.get(server.ports["port3"], "/ready") == "OK"


def sockets(process: int) -> set[str]:
    """Inodes of the sockets that a process has."""
    inodes = set()
    for link in Path(f"/proc/{process}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            target = os.readlink(link)
            if target.startswith("socket:"):
                inodes.add(target)
    return inodes


def children(process: int) -> list[int]:
    return [int(child) for task in Path(f"/proc/{process}/task").iterdir() for child in (task / "children").read_text().split()]


@pytest.mark.parametrize("name", ["fork", "process"])
def test_a_forked_child_has_no_socket_of_the_server(serve: Serve, name: str) -> None:
    server = serve(COREFILE, prepare=write)
    assert server.answers(f"{name}.hostile.test.") == ["192.0.2.7"]
    try:
        (child,) = children(server.process.pid)
        until(lambda: not sockets(child) & sockets(server.process.pid))
        for _ in range(5):
            assert server.answers("plain.hostile.test.") == ["192.0.2.7"]
    finally:
        os.kill(child, signal.SIGKILL)


def test_a_forked_child_that_comes_back_ends(serve: Serve) -> None:
    server = serve(COREFILE, prepare=write)
    for _ in range(5):
        assert server.answers("child.hostile.test.") == ["192.0.2.7"]
    until(lambda: all("zombie" in Path(f"/proc/{child}/status").read_text() for child in children(server.process.pid)))
    assert server.answers("plain.hostile.test.") == ["192.0.2.7"]


def test_a_counter_is_what_a_metric_has_made() -> None:
    counted = Metric("hostile_unit_total", "Counter.", "counter", ("kind",))
    victim = NativeMetric("hostile_victim_total", "Counter.", "counter", ("kind",))
    number = victim.cell(("a",))
    query = make("a.example.")
    verdicts = Verdicts("test", 9)
    assert verdicts.put(query, PASS.remember(9, counter=counted.cell(("a",))))
    for wrong in (number, 10**9, -1, "a", 1.5, object(), counted, type(counted.cell(("a",)))):
        with pytest.raises(TypeError, match=r"not what Metric.cell returns"):
            verdicts.put(query, Remembered(PASS, 9, None, False, None, wrong))  # type: ignore[arg-type]
    assert victim.collect() == []
    with pytest.raises(TypeError):
        type(counted.cell(("a",)))(5, ("a",))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="labels"):
        counted.cell(("a", "b"))


def test_a_subclass_of_a_metric_counts_with_no_other_cell() -> None:
    class Other(NativeMetric):
        def cell(self, values: tuple[str, ...], zero: bool = False) -> int:
            return 10**9

    other = Other("hostile_other_total", "Counter.", "counter", ("kind",))
    other.add(("a",))
    assert other.collect() == [(("a",), 1.0)]


@pytest.mark.parametrize("name", ["", "a b", "a\nb", "é", "1a"])
def test_names_of_metrics_that_break_the_page(name: str) -> None:
    with pytest.raises(ValueError, match="no name of a metric"):
        Metric(name, "Counter.", "counter")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 0, -1, 10**9])
def test_deadlines_that_are_none(value: float) -> None:
    from fastdns.executor.handler import PythonHandler

    class Waits(Plugin):
        deadline = value

    with pytest.raises(ValueError, match="deadline"):
        PythonHandler("waits", Waits())


def test_rdata_fits_its_type() -> None:
    class Wrong(Plugin):
        def serve(self, query: object) -> object:  # type: ignore[override]
            return make("a.example.").reply(Record(33, b"\0\1"))

    with pytest.raises(ValueError, match="does not fit its type SRV"):
        ask(Wrong(), "a.example.")
    assert Executor(Plugin()).served == 0
