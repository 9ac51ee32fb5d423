"""The process as a whole: kills, clocks, and the page that says which test stands for what."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from tests.programs import program
from tests.server import Server

ROOT = Path(__file__).resolve().parent.parent.parent

#: Wall clocks say when a signature begins and ends, when a log line, a message of dnstap or a trace was written, what a SOA's serial or a metric
#: of a moment is; never how long something lives.
WALL_CLOCK = re.compile(r"\btime\(NULL\)|CLOCK_REALTIME|gettimeofday")
MAY_LOOK = {
    "fastdns/engine/http/request.pyx",  # the field `date`
    "fastdns/engine/quic/doh3.pyx",  # likewise
    "fastdns/message/typify.pyx",
    "fastdns/expression/times.pyx",
    "fastdns/telemetry/log_writer.pyx",
    "plugins/dnssec/_dnssec.pyx",
    "plugins/dnstap/_sender.pyx",
    "plugins/etcd/_etcd.pyx",
    "plugins/forward/_taps.pyx",
    "plugins/kubernetes/store/store.pyx",
    "plugins/log/_log.pyx",
    "plugins/trace/_trace.pyx",
    "plugins/tsig/_tsig.pyx",
    "plugins/cookies/_cookies.pyx",  # the age of a cookie (RFC 9018 4.3)
}


def test_R11_serving_again_after_a_kill(serve: Callable[..., Server]) -> None:
    """kill -9 and start, over and over: serving as soon as the first time, nothing left behind that blocks a start."""
    corefile = ".:{port} {\n    bind 127.0.0.1\n    hosts {\n        192.0.2.1 www.example.org\n    }\n}\n"
    port = None
    took: list[float] = []
    for _ in range(5):
        server = serve(corefile if port is None else corefile.replace("{port}", str(port)), "-pidfile", "{dir}/../pid", wait=False)
        port = port or server.port
        server.ports["port"] = port
        start = time.monotonic()
        server.wait_started()
        assert server.answers("www.example.org.") == ["192.0.2.1"]
        took.append(time.monotonic() - start)
        server.signal(signal.SIGKILL)
        server.exit_status()
    assert max(took[1:]) < took[0] + 10, took


def test_R16_lifetimes_are_not_of_the_wall_clock() -> None:
    """TTLs, deadlines and timers count monotonic time: a clock that jumps ends nothing and makes nothing immortal."""
    tracked = subprocess.run([program("git"), "ls-files", "*.pyx", "*.pxd", "*.h"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    lookers = {path for path in tracked if WALL_CLOCK.search((ROOT / path).read_text())}
    assert lookers <= MAY_LOOK, lookers


def test_R22_every_row_of_the_page_names_a_test_that_exists() -> None:
    page = (ROOT / "docs" / "robustness.md").read_text()
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", page)
    assert len(named) > 40
    for path, test in named:
        text = (ROOT / path).read_text()
        assert not test or f"def {test}(" in text, f"{path}::{test}"
