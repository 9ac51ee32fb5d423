"""A Python plugin that returns anything: no result ends the process or the plugin's thread, or is felt by another query."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import dns.message

from tests.server import Server
from tests.waiting import LIMIT

ROOT = Path(__file__).resolve().parent.parent.parent
#: Results of each of the two kinds of plugin. `make night` has a million.
RESULTS = int(os.environ.get("FASTDNS_FUZZ_RESULTS", "1500"))
SEED = os.environ.get("FASTDNS_FUZZ_SEED", "1")
WINDOW = 32

#: What is returned depends on the name alone.
PLUGIN = f"""
import random
import sys
sys.path.insert(0, {str(ROOT)!r})
from fastdns.plugin import Plugin
from tests.fuzz.results import make_result, make_value

ATTRIBUTES = ("zones", "deadline", "memory", "name", "close", "ready", "_remembered", "anything")

def make(plugin, query):
    if query.name.startswith("fixed."):
        return query.reply("A 192.0.2.7")
    rng = random.Random(f"{SEED}/{{query.name}}")
    if rng.random() < 0.05:
        setattr(plugin, rng.choice(ATTRIBUTES), make_value(rng))
    result = make_result(rng, query.name)
    if rng.random() < 0.02:
        raise result
    return result

class Calls(Plugin):
    zones = ["calls."]

    def serve(self, query):
        return make(self, query)

class Coroutine(Plugin):
    zones = ["coroutine."]

    async def serve(self, query, next):
        if query.name < "3":
            below = await next(query)
            if query.name < "2":
                return below
        return make(self, query)

def setup(controller):
    controller.next()
    return globals()[controller.remaining_args()[0]]()
"""
COREFILE = """.:{port} {
    bind 127.0.0.1
    prometheus 127.0.0.1:{port2}
    plugin {dir}/../fuzzed.py Calls
    plugin {dir}/../fuzzed.py Coroutine
    whoami
}
"""


def ask_all(port: int, names: list[str]) -> None:
    """Ask names, so many at a time. Some are dropped, so nobody waits long for the rest."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.connect(("127.0.0.1", port))
        client.settimeout(0.05)
        for begin in range(0, len(names), WINDOW):
            waiting = set()
            for i, name in enumerate(names[begin : begin + WINDOW]):
                client.send(dns.message.make_query(name, "A", id=begin + i & 0xFFFF, use_edns=i % 2).to_wire())
                waiting.add(begin + i & 0xFFFF)
            while waiting:
                try:
                    waiting.discard(int.from_bytes(client.recv(65535)[:2], "big"))
                except TimeoutError:
                    break
                except ConnectionRefusedError:
                    raise AssertionError("the server has ended") from None


def test_results_of_every_kind(serve: Callable[..., Server], tmp_path: Path) -> None:
    (tmp_path / "fuzzed.py").write_text(PLUGIN)
    server = serve(COREFILE)
    for zone in ("calls", "coroutine"):
        for begin in range(0, RESULTS, 500):
            ask_all(server.port, [f"{number % 10}{number}.{zone}." for number in range(begin, min(begin + 500, RESULTS))])
            assert server.process.poll() is None
            assert server.query("a.example.org.").additional
            assert server.answers(f"fixed.{zone}.", timeout=LIMIT) == ["192.0.2.7"]
    log = server.log()
    assert "its thread has ended" not in log
    assert "Traceback" not in log
    page = server.get(server.ports["port2"], "/metrics")
    assert "\nfuzzed_victims_total" not in page
    for line in page.splitlines():
        if line.startswith(("fastdns_plugin_hangs_total", "fastdns_plugin_refusing", "fastdns_plugin_deadlines_total")):
            assert line.endswith(" 0"), line
