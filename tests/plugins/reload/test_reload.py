"""reload: a changed Corefile is taken up, a broken one is not."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fastdns.corefile import CorefileError
from fastdns.plugins import reload
from fastdns.server.configuration import blocks_of, checksum
from fastdns.server.process import RestartError
from fastdns.server.source import Source
from tests.server import Server
from tests.waiting import until

Serve = Callable[..., Server]


class FakeProcess:
    """Just enough of a process to be restarted."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.source = Source(path.read_bytes(), str(path), str(path))
        self.instance: Any = self
        self.canary = None
        self.checksum = self.tried = checksum(blocks_of(self.source))
        self.restarts: list[bytes] = []
        self.refuses = False

    def restart(self, source: Source) -> None:
        self.restarts.append(source.data)
        if self.refuses:
            raise RestartError("no good")


@pytest.fixture
def process(tmp_path: Path) -> FakeProcess:
    path = tmp_path / "Corefile"
    path.write_text(". {\n whoami\n import more*\n}\n")
    (tmp_path / "more").write_text("debug\n")
    return FakeProcess(path)


def watch(process: FakeProcess) -> reload.Watch:
    return reload.Watch(process)  # type: ignore[arg-type]


def failures() -> float:
    return float(dict(reload.FAILED.collect()).get((), 0))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "text", "restarts"),
    [
        ("Corefile", ". {\n whoami\n import more*\n}\n", 0),
        ("Corefile", "# a comment\n\n.   {\n\n whoami # beside\n import more*\n}\n", 0),
        ("Corefile", ". {\n whoami\n debug\n}\n", 0),
        ("Corefile", ". {\n whoami\n}\n", 1),
        ("Corefile", "a.org {\n whoami\n import more*\n}\n", 1),
        ("Corefile", ". {\n whoami\n nosuch\n}\n", 0),
        ("Corefile", ". {\n", 0),
        ("more", "# debug\n", 1),
        ("more2", "bind 127.0.0.1\n", 1),
    ],
)
def test_what_counts_as_a_change(process: FakeProcess, name: str, text: str, restarts: int) -> None:
    (process.path.parent / name).write_text(text)
    watching = watch(process)
    for _ in range(3):
        watching.look()
    assert len(process.restarts) == restarts


def test_what_failed_is_not_tried_again(process: FakeProcess) -> None:
    watching = watch(process)
    process.refuses = True
    before = failures()
    for text in (". {\n whoami\n}\n", ". {\n  whoami\n}\n", "a.org {\n whoami\n}\n"):
        process.path.write_text(text)
        watching.look()
        watching.look()
    assert [data.decode() for data in process.restarts] == [". {\n whoami\n}\n", "a.org {\n whoami\n}\n"]
    assert failures() == before + 2
    assert [labels for labels, _ in reload.VERSION.collect()] == [("sha512", checksum(blocks_of(process.source.again())))]


def test_what_failed_is_taken_back(process: FakeProcess) -> None:
    """What serves is not loaded again, which would empty its caches; what failed counts as a change."""
    watching = watch(process)
    process.refuses = True
    served = process.path.read_text()
    for text in (". {\n whoami\n}\n", served, ". {\n whoami\n}\n"):
        process.path.write_text(text)
        watching.look()
    assert [data.decode() for data in process.restarts] == [". {\n whoami\n}\n"] * 2


def test_unreadable_corefile_is_left_alone(process: FakeProcess) -> None:
    process.path.unlink()
    watch(process).look()
    assert process.restarts == []


def test_standard_input_never_changes() -> None:
    source = Source(b". {\n whoami\n}\n", "/dev/stdin")
    assert source.again() is source


def test_parse_errors_name_the_file(process: FakeProcess) -> None:
    with pytest.raises(CorefileError, match=r"^Corefile:2 - Error during parsing: Unknown directive 'nosuch'$"):
        blocks_of(Source(b". {\n nosuch\n}", "Corefile"))


def answer(number: int) -> str:
    return f"a{number}.org:{{port}} {{\n bind 127.0.0.1\n reload 2s 0s\n whoami\n}}\n"


def served(server: Server, number: int) -> bool:
    return bool(server.query(f"a{number}.org.").additional)


def test_server_takes_up_changes(serve: Serve) -> None:
    """Through a good change, a restart by signal, a broken text, one that cannot be set up, and a good one again."""
    server = serve(answer(1))
    first = server.wait_log(r"^\[INFO\] plugin/reload: Running configuration SHA512 = [0-9a-f]{128}\n")[0]
    assert server.log().index(first) < server.log().index("fastdns-")
    server.write(answer(2))
    server.wait_log(r"^\[INFO\] Reloading\n\[INFO\] plugin/reload: Running configuration SHA512 = [0-9a-f]{128}\n\[INFO\] Reloading complete$")
    assert served(server, 2)
    server.reload(answer(3))
    server.write(". {\n nosuch\n}")
    server.wait_log(r"^\[WARNING\] plugin/reload: Corefile parse failed: \S+/Corefile:2 - Error during parsing: Unknown directive 'nosuch'$")
    server.write(answer(4).replace("whoami", "whoami x"))
    server.wait_log(
        r"^\[ERROR\] Restart failed: plugin/whoami: .*\n"
        r"\[ERROR\] plugin/reload: Corefile changed but reload failed: starting with listener file descriptors: plugin/whoami: "
    )
    assert served(server, 3)
    server.write(answer(5))
    until(lambda: served(server, 5))
    assert len(re.findall(r"Restart failed", server.log())) == 1


def test_what_does_not_parse_is_counted_once(serve: Serve, tmp_path: Path) -> None:
    """A snippet that is imported, and the Corefile itself."""
    snippet = tmp_path / "snippet"
    snippet.write_text("whoami\n")
    text = f".:{{port}} {{\n bind 127.0.0.1\n reload 2s 0s\n prometheus 127.0.0.1:{{port2}}\n import {snippet}\n}}\n"
    server = serve(text)

    def failed() -> int:
        found = re.search(r"^coredns_reload_failed_total (\d+)$", server.get(server.ports["port2"], "/metrics"), re.M)
        assert found, "it is there from the start: an alert on its increase sees the first one"
        return int(found[1])

    assert failed() == 0
    snippet.write_text("whoami\nnosuch\n")
    server.wait_log(r"^\[WARNING\] plugin/reload: Corefile parse failed: .*snippet:2 - Error during parsing: Unknown directive 'nosuch'$")
    assert failed() == 1
    snippet.write_text("nosuch\n")
    until(lambda: failed() == 2)
    snippet.write_text("whoami\nnosuch\n")
    until(lambda: failed() == 3)
    server.write(text.replace("whoami", "") + "# changed, and each of the next checks finds the same\n")
    until(lambda: failed() == 4)
    time.sleep(5)
    assert (failed(), server.log().count("parse failed")) == (4, 4)
    snippet.write_text("whoami\nlog\n")
    server.wait_log("Reloading complete")
    assert failed() == 4


PLUGIN = """
from fastdns.plugin import Plugin

class Fixed(Plugin):
    def serve(self, query):
        return query.reply("A 192.0.2.NUMBER")

def setup(controller):
    return Fixed()
"""


def test_files_of_plugins_are_watched(serve: Serve, tmp_path: Path) -> None:
    path = tmp_path / "fixed.py"
    path.write_text(PLUGIN.replace("NUMBER", "1"))
    written = path.stat().st_mtime_ns
    environment = {"PYTHONDONTWRITEBYTECODE": ""}
    server = serve(".:{port} {\n bind 127.0.0.1\n reload 2s 0s\n\n plugin {dir}/../fixed.py\n}\n", env=environment)
    assert server.answers("example.org.") == ["192.0.2.1"]
    path.write_text(PLUGIN.replace("NUMBER", "2"))
    os.utime(path, ns=(written, written))  # an edit within a second, of the same size
    server.until("example.org.", "A", ["192.0.2.2"])
    # A broken one is refused with the place in the Corefile and a traceback of its own frames; the former one goes on.
    path.write_text(PLUGIN.replace("NUMBER", "3") + "\ndef helper():\n    return nosuch\n\nhelper()\n")
    server.wait_log(
        r"^\[ERROR\] Restart failed: plugin/plugin: \S+/Corefile:5 - Error during parsing: \S+/fixed\.py: NameError: name 'nosuch' is not defined"
        r" \(fixed\.py:12\)\n"
        r"\[ERROR\]     at \S+/fixed\.py:14 in <module>: helper\(\)\n"
        r"\[ERROR\]     at \S+/fixed\.py:12 in helper: return nosuch\n"
        r"\[ERROR\] plugin/reload: Corefile changed but reload failed"
    )
    assert server.answers("example.org.") == ["192.0.2.2"]
    path.write_text(PLUGIN.replace("NUMBER", "4"))
    server.until("example.org.", "A", ["192.0.2.4"])
