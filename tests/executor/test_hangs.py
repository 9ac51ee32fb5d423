"""Python plugins that sleep, hang and fill their queue, beside others that do not."""

from __future__ import annotations

import contextlib
import itertools
import re
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import dns.message
import pytest

from tests.server import Server
from tests.waiting import LIMIT, until

Serve = Callable[..., Server]

#: NAME.ZONE.example: hang until the file `go` is there; anything else is answered at once.
PLUGIN = """
import os, time
from fastdns.plugin import Log, Plugin

class Hangs(Plugin):
    zones = ["NAME.example."]
    deadline = DEADLINE

    def serve(self, query):
        if query.name.startswith("hang"):
            while not os.path.exists("go"):
                time.sleep(0.01)
        if query.name.startswith("cached"):
            return query.reply("A 192.0.2.8").remember(600)
        return query.reply("A 192.0.2.7")

    def close(self):
        Log().info("NAME is closed")

def setup(controller):
    return Hangs()
"""
LOOP = """
import asyncio, os, time
from fastdns.plugin import Plugin

class Loop(Plugin):
    zones = ["NAME.example."]
    deadline = DEADLINE

    async def serve(self, query, next):
        await asyncio.sleep(0.01)
        if query.name.startswith("task"):
            asyncio.get_running_loop().call_soon(self.hang)
            await asyncio.sleep(0.1)
        if query.name.startswith("hang"):
            self.hang()
        if query.name.startswith("below"):
            return await next(query)
        return query.reply("A 192.0.2.7")

    def hang(self):
        while not os.path.exists("go"):
            time.sleep(0.01)

def setup(controller):
    return Loop()
"""
COREFILE = """.:{port} {
    bind 127.0.0.1
    prometheus 127.0.0.1:{port2}
    ready 127.0.0.1:{port3}
    errors
    plugin {dir}/../NAME.py
    plugin {dir}/../other.py
    whoami
}
"""


@pytest.fixture
def start(serve: Serve, tmp_path: Path) -> Callable[..., Server]:
    def start(name: str, text: str, deadline: float) -> Server:
        (tmp_path / f"{name}.py").write_text(text.replace("NAME", name).replace("DEADLINE", str(deadline)))
        (tmp_path / "other.py").write_text(PLUGIN.replace("NAME", "other").replace("DEADLINE", "60"))
        return serve(COREFILE.replace("NAME", name))

    return start


def threads(server: Server, name: str) -> int:
    """Threads of the server that have a plugin's name."""
    count = 0
    for task in Path(f"/proc/{server.process.pid}/task").iterdir():
        with contextlib.suppress(OSError):  # it has just ended
            count += (task / "comm").read_text().strip() == name
    return count


def hang(server: Server, names: list[str]) -> None:
    """Ask a plugin what it hangs on, once it was left behind with the question before."""
    for number, name in enumerate(names, 1):
        assert server.answers(name, timeout=LIMIT) == ["SERVFAIL"]
        server.wait_log(rf"left behind \({number} of at most 3\)")


def test_a_plugin_that_waits_holds_up_no_other(start: Callable[..., Server]) -> None:
    server = start("waits", PLUGIN, 60)
    with ThreadPoolExecutor(5) as pool:
        waiting = [pool.submit(server.answers, f"hang{i}.waits.example.", timeout=LIMIT) for i in range(5)]
        until(lambda: server.metric(server.ports["port2"], 'fastdns_plugin_queries_total{plugin="waits"}') == 5)
        for _ in range(20):
            assert server.answers("a.other.example.") == ["192.0.2.7"]
        assert not any(answer.done() for answer in waiting)
        (server.folder / "go").touch()
        assert [answer.result() for answer in waiting] == [["192.0.2.7"]] * 5


def test_three_hangs_are_the_end_until_a_reload(start: Callable[..., Server]) -> None:
    server = start("hangs", PLUGIN, 0.4)
    page, ready = server.ports["port2"], server.ports["port3"]
    assert server.answers("cached.hangs.example.") == ["192.0.2.8"]
    assert threads(server, "hangs") == threads(server, "other") == 1
    hang(server, [f"hang{i}.hangs.example." for i in range(2)])
    assert server.answers("a.hangs.example.", timeout=LIMIT) == ["192.0.2.7"]
    assert server.get(ready, "/ready") == "OK"
    assert server.answers("hang.hangs.example.", timeout=LIMIT) == ["SERVFAIL"]
    server.wait_log(r"\[ERROR\] plugin/hangs: hung 3 times within a minute: queries get SERVFAIL until a reload")
    assert server.get(ready, "/ready") == "OK\nplugin/hangs: hung 3 times within a minute: queries get SERVFAIL until a reload"
    # Not the next plugin's answer, nor anything that waits for a deadline; what is cached holds.
    begin = server.metric(page, 'fastdns_plugin_deadlines_total{plugin="hangs"}')
    for i in range(24):
        assert server.answers(f"{'hang' if i % 2 else 'a'}{i}.hangs.example.") == ["SERVFAIL"]
    server.wait_log(r"a0\.hangs\.example\. A: the Python plugin hangs")
    assert server.metric(page, 'fastdns_plugin_deadlines_total{plugin="hangs"}') == begin
    assert server.metric(page, 'fastdns_plugin_refused_total{plugin="hangs"}') == 24
    assert server.metric(page, 'fastdns_plugin_hangs_total{plugin="hangs"}') == server.metric(page, "fastdns_lane_replaced_total") == 3
    assert server.metric(page, 'fastdns_plugin_refusing{plugin="hangs"}') == 1
    assert server.metric(page, 'fastdns_plugin_stuck_threads{plugin="hangs"}') == 3
    assert server.answers("cached.hangs.example.") == ["192.0.2.8"]
    assert server.answers("a.other.example.") == ["192.0.2.7"]
    assert threads(server, "hangs") == 3
    # A reload begins anew, and the former configuration goes although its threads hang.
    server.reload(COREFILE.replace("NAME", "hangs"))
    assert server.answers("a.hangs.example.") == ["192.0.2.7"]
    server.wait_log("hangs is closed")
    server.wait_log("other is closed")
    assert server.get(ready, "/ready") == "OK"
    assert server.metric(page, 'fastdns_plugin_refusing{plugin="hangs"}') == 0
    assert threads(server, "hangs") == 4
    until(lambda: threads(server, "other") == 1)
    (server.folder / "go").touch()
    until(lambda: threads(server, "hangs") == 1)
    assert server.metric(page, 'fastdns_plugin_stuck_threads{plugin="hangs"}') == 0
    assert server.answers("hang.hangs.example.") == ["192.0.2.7"]


def test_what_waits_behind_the_third_hang_fails_with_it(start: Callable[..., Server]) -> None:
    server = start("hangs", PLUGIN, 1.0)
    hang(server, [f"hang{i}.hangs.example." for i in range(2)])
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda i: server.answers(f"hang{i}.hangs.example.", timeout=LIMIT), range(8)))
    assert answers == [["SERVFAIL"]] * 8
    server.wait_log("until a reload")
    assert threads(server, "hangs") == 3


@pytest.mark.parametrize(("name", "said"), [("hang", r"on hang0\.loops\.example\. A from 127\.0\.0\.1"), ("task", "outside of a query")])
def test_an_event_loop_that_is_held_up(start: Callable[..., Server], name: str, said: str) -> None:
    server = start("loops", LOOP, 0.5)
    assert server.answers("a.loops.example.") == ["192.0.2.7"]
    hang(server, [f"{name}{i}.loops.example." for i in range(2)])
    server.wait_log(rf"\[ERROR\] plugin/loops: hangs {said} \(loops\.py:\d+\)")
    assert server.answers("a.loops.example.", timeout=LIMIT) == ["192.0.2.7"]
    assert server.query("below.loops.example.").additional
    assert server.answers(f"{name}.loops.example.", timeout=LIMIT) == ["SERVFAIL"]
    server.wait_log("until a reload")
    for _ in range(5):
        assert server.answers("a.loops.example.") == ["SERVFAIL"]
    assert threads(server, "loops") == 3
    server.reload(COREFILE.replace("NAME", "loops"))
    assert server.answers("a.loops.example.") == ["192.0.2.7"]
    (server.folder / "go").touch()
    until(lambda: threads(server, "loops") == 1)


def test_a_full_queue_is_one_plugins_alone(start: Callable[..., Server]) -> None:
    server = start("full", PLUGIN, 60)
    query = dns.message.make_query("hang.full.example.", "A").to_wire()
    end = time.monotonic() + LIMIT
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.connect(("127.0.0.1", server.port))
        while server.metric(server.ports["port2"], 'fastdns_plugin_rejects_total{plugin="full"}') == 0:
            assert time.monotonic() < end
            for _ in range(200):
                client.send(query)
        client.settimeout(LIMIT)
        assert client.recv(512)[3] & 15 == 2
        assert server.answers("a.full.example.") == ["SERVFAIL"]
        for _ in range(10):
            assert server.answers("a.other.example.") == ["192.0.2.7"]
    (server.folder / "go").touch()
    server.until("a.full.example.", "A", ["192.0.2.7"])


def test_a_network_that_floods_keeps_no_other_out(serve: Serve, tmp_path: Path) -> None:
    """More queries wait for a plugin than may, all of one network: who is of another one is answered."""
    slow = PLUGIN.replace('        return query.reply("A 192.0.2.7")', '        time.sleep(0.002)\n        return query.reply("A 192.0.2.7")')
    (tmp_path / "slow.py").write_text(slow.replace("NAME", "slow").replace("DEADLINE", "5"))
    (tmp_path / "other.py").write_text(PLUGIN.replace("NAME", "other").replace("DEADLINE", "60"))
    server = serve(COREFILE.replace("NAME", "slow"), "-workers", "1")
    going = True

    def flood(sock: socket.socket) -> None:
        for number in itertools.count():
            sock.send(dns.message.make_query(f"f{number % 5000}.slow.example.", "A").to_wire())
            if not going:
                return

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as attacker, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        attacker.bind(("127.0.1.1", 0))
        attacker.connect(("127.0.0.1", server.port))
        client.bind(("127.0.2.1", 0))
        client.connect(("127.0.0.1", server.port))
        client.settimeout(LIMIT)
        thread = threading.Thread(target=flood, args=(attacker,))
        thread.start()
        try:
            until(lambda: server.metric(server.ports["port2"], 'fastdns_plugin_evicted_total{plugin="slow"}') > 0)
            rcodes = []
            for number in range(20):
                client.send(dns.message.make_query(f"own{number}.slow.example.", "A").to_wire())
                rcodes.append(client.recv(512)[3] & 15)
        finally:
            going = False
            thread.join()
    assert rcodes == [0] * 20
    assert server.metric(server.ports["port2"], 'fastdns_plugin_rejects_total{plugin="slow"}') == 0


def test_a_plugin_object_has_one_thread(serve: Serve, tmp_path: Path) -> None:
    """However many server blocks its set-up returns it for."""
    (tmp_path / "one.py").write_text(PLUGIN.replace("NAME", "one").replace("DEADLINE", "60") + "\nONE = Hangs()\n\ndef setup(controller):\n    return ONE\n")
    block = "plugin {dir}/../one.py\n whoami\n}\n"
    server = serve(f".:{{port}} {{\n bind 127.0.0.1\n {block}\nexample.org:{{port}} {{\n bind 127.0.0.1\n {block}")
    # Each directive loads the file, and so has an object of its own.
    assert threads(server, "one") == 2
    shared = PLUGIN.replace("NAME", "two").replace("DEADLINE", "60") + "\ndef setup(controller):\n    return controller.values.setdefault('two', Hangs())\n"
    (tmp_path / "two.py").write_text(shared)
    server.reload(f".:{{port}} {{\n bind 127.0.0.1\n {block}\nexample.org:{{port}} {{\n bind 127.0.0.1\n {block}".replace("one.py", "two.py"))
    assert threads(server, "two") == 1
    assert server.answers("a.two.example.") == ["192.0.2.7"]
    until(lambda: threads(server, "one") == 0)


#: A call of PyDLL keeps the GIL: the watchdog sees the hang in the very moment in which `serve` returns.
RETURNS = """
import ctypes
from fastdns.plugin import Plugin

class Base(Plugin):
    deadline = 0.05

    def __init__(self, zone):
        self.zones = [zone]

    def hold(self, query):
        microseconds = query.name.partition(".")[0]
        if microseconds.isdigit():
            ctypes.PyDLL(None).usleep(int(microseconds))
        return query.reply("A 192.0.2.7")

class Calls(Base):
    def serve(self, query):
        return self.hold(query)

class Loop(Base):
    async def serve(self, query, next):
        return self.hold(query)

def setup(controller):
    controller.next()
    kind, zone = controller.remaining_args()
    return globals()[kind](zone)
"""


def find_dead(serve: Serve, folder: Path, kind: str, rounds: int) -> list[str]:
    """Has each of 16 plugins hold the GIL for about its deadline, twice a round; each round begins with a reload. Returns the plugins that answer no more."""
    (folder / "returns.py").write_text(RETURNS)
    zones = [f"z{i}.example." for i in range(16)]
    blocks = "".join(f"{zone}:{{port}} {{\n bind 127.0.0.1\n plugin {{dir}}/../returns.py {kind} {zone}\n}}\n" for zone in zones)
    server = serve(blocks, "-workers", "1")
    dead = []
    for number in range(rounds):
        if number:
            server.reload(blocks)
        for zone in zones:
            for late in (0, 2000):
                server.answers(f"{50000 + late + 97 * number % 4000}.{zone}", timeout=LIMIT)
        for zone in zones:
            # The first may come while the thread is replaced.
            if not any(server.answers(f"a.{zone}", timeout=LIMIT) == ["192.0.2.7"] for _ in range(3)):
                dead.append(f"round {number}: {zone}")
    return dead


def test_a_plugin_that_returns_at_its_deadline_goes_on(serve: Serve, tmp_path: Path) -> None:
    assert find_dead(serve, tmp_path, "Calls", 2) == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["Calls", "Loop"])
def test_no_plugin_is_dead_after_a_thousand_returns_at_its_deadline(serve: Serve, tmp_path: Path, kind: str) -> None:
    assert find_dead(serve, tmp_path, kind, 32) == []


ENDS = """
import asyncio
from fastdns.plugin import Plugin

class Silent(BaseException):
    def __str__(self):
        raise self

async def leave():
    raise SystemExit(1)

class Ends(Plugin):
    zones = ["ends.example."]
    deadline = 1.0

    async def serve(self, query, next):
        what = query.name.partition(".")[0]
        if what == "stop":
            asyncio.get_running_loop().stop()
        elif what == "exit":
            self.task = asyncio.create_task(leave())
            await asyncio.sleep(0.001)
        elif what == "cancel":
            for task in asyncio.all_tasks():
                task.cancel()
            await asyncio.sleep(10)
        elif what == "silent":
            raise Silent
        return query.reply("A 192.0.2.7")

def setup(controller):
    return Ends()
"""


def test_a_plugin_that_ends_its_thread_gets_another(start: Callable[..., Server]) -> None:
    """And refuses, for all to see, when that happens three times within a minute."""
    server = start("ends", ENDS, 1)
    for name in ("silent", "cancel"):
        assert server.answers(f"{name}.ends.example.") == ["SERVFAIL"]
        assert server.answers("a.ends.example.") == ["192.0.2.7"]
    for count, name in enumerate(("stop", "exit"), 1):
        server.answers(f"{name}.ends.example.", timeout=LIMIT)
        until(lambda: len(re.findall(r"its thread has ended: ", server.log())) == count)  # noqa: B023
        server.until("a.ends.example.", "A", ["192.0.2.7"], timeout=LIMIT)
    assert "its thread has ended: SystemExit: 1" in server.log()
    server.answers("stop.ends.example.", timeout=LIMIT)
    server.wait_log("until a reload")
    assert server.answers("a.ends.example.") == ["SERVFAIL"]
    assert server.metric(server.ports["port2"], 'fastdns_plugin_refusing{plugin="ends"}') == 1
    assert "plugin/ends: " in server.get(server.ports["port3"], "/ready")
    assert server.answers("a.other.example.") == ["192.0.2.7"]
