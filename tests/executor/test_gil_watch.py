"""A Python plugin that holds the interpreter lock in a call of C: the log and the metrics name it."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.server import Server
from tests.waiting import LIMIT, until

#: A name that begins with "hold" keeps the lock in a call of C until somebody writes to a pipe; one that begins with "sleep" waits without the lock.
PLUGIN = """
import ctypes, os, time
from fastdns.plugin import Plugin

class Holds(Plugin):
    zones = ["NAME.example."]
    deadline = 60

    def serve(self, query):
        if query.name.startswith("hold"):
            os.close(ctypes.PyDLL(None).open(b"pipe", os.O_RDONLY))
        if query.name.startswith("sleep"):
            time.sleep(0.9)
        return query.reply("A 192.0.2.7")

def setup(controller):
    return Holds()
"""
COREFILE = """.:{port} {
    bind 127.0.0.1
    prometheus 127.0.0.1:{port2}
    errors
    plugin {dir}/../holds.py
    plugin {dir}/../other.py
}
"""


def test_the_plugin_that_holds_the_interpreter_lock_is_named(serve: Callable[..., Server], tmp_path: Path) -> None:
    for name in ("holds", "other"):
        (tmp_path / f"{name}.py").write_text(PLUGIN.replace("NAME", name))
    server = serve(COREFILE)
    page = server.ports["port2"]
    metric = 'fastdns_plugin_lock_holds_total{plugin="%s"}'
    os.mkfifo(server.folder / "pipe")
    assert server.answers("sleep.holds.example.", timeout=LIMIT) == ["192.0.2.7"]
    assert server.metric(page, metric % "holds") == server.metric(page, metric % "other") == 0
    with ThreadPoolExecutor(2) as pool:
        held = pool.submit(server.answers, "hold.holds.example.", timeout=LIMIT)
        server.wait_log(r"\[WARNING\] plugin/holds: a call of it has held the interpreter lock for 500 ms: no Python plugin can answer until it returns")
        waiting = pool.submit(server.answers, "a.other.example.", timeout=LIMIT)
        (server.folder / "pipe").open("w").close()
        assert held.result() == waiting.result() == ["192.0.2.7"]
    question = r"( on hold\.holds\.example\. A from 127\.0\.0\.1 \(holds\.py:\d+\))?"
    server.wait_log(rf"\[WARNING\] plugin/holds: a call{question} held the interpreter lock for \d+\.\d s")
    until(lambda: server.metric(page, metric % "holds") == 1)
    assert server.metric(page, 'fastdns_plugin_lock_held_seconds_total{plugin="holds"}') >= 0.5
    assert server.metric(page, metric % "other") == 0
