"""The watchdog ends a process that does not end by itself, and no other one."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest

from fastdns.system import watchdog
from tests.waiting import LIMIT

# PyDLL keeps the GIL during the call, and nobody signals the condition. TSan defers the handlers of signals while a thread waits for a mutex, but not here.
HELD = """
import ctypes
libc, mutex, condition = ctypes.PyDLL(None), ctypes.create_string_buffer(128), ctypes.create_string_buffer(128)
libc.pthread_mutex_lock(mutex)
print("held", file=sys.stderr, flush=True)
while True:
    libc.pthread_cond_wait(condition, mutex)
"""
FULL = """
import os
os.set_blocking(1, False)
try:
    while os.write(1, bytes(4096)):
        pass
except BlockingIOError:
    os.set_blocking(1, True)
"""


def process(code: str, seconds: float = 0.2, as_json: bool = False) -> subprocess.Popen[str]:
    begin = f"""
import os, signal, sys, time
from fastdns.system import watchdog
from fastdns.telemetry import log_line
log_line.set_json({as_json})
signal.signal(signal.SIGTERM, lambda number, frame: os.write(1, b"told\\n"))
signal.signal(signal.SIGQUIT, lambda number, frame: os.write(1, b"told\\n"))
watchdog.watch(signal.SIGTERM, {seconds})
watchdog.watch(signal.SIGQUIT, 600)
{code}
"""
    return subprocess.Popen([sys.executable, "-c", begin], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_held(held: subprocess.Popen[str]) -> None:
    assert held.stderr is not None
    assert held.stderr.readline() == "held\n"


def test_a_process_that_holds_the_gil_is_killed() -> None:
    with process(HELD) as held:
        wait_held(held)
        held.send_signal(signal.SIGTERM)
        assert held.wait(LIMIT) == 3
        assert held.stdout is not None
        assert held.stdout.read().endswith("[ERROR] The process did not end in time: killed\n")


def test_the_line_is_json_where_the_log_is() -> None:
    with process(HELD, as_json=True) as held:
        wait_held(held)
        held.send_signal(signal.SIGTERM)
        assert held.wait(LIMIT) == 3
        assert held.stdout is not None
        record = json.loads(held.stdout.read().splitlines()[-1])
        assert (record["level"], record["msg"]) == ("ERROR", "The process did not end in time: killed")


def test_the_soonest_of_two_signals_counts() -> None:
    with process(HELD) as held:
        wait_held(held)
        held.send_signal(signal.SIGQUIT)
        held.send_signal(signal.SIGTERM)
        assert held.wait(LIMIT) == 3


def test_handlers_run_and_a_process_that_ends_has_its_own_status() -> None:
    code = "print('ready', flush=True)\nsys.stdin.readline()\nsys.exit(7)"
    with process(code, 600) as ends:
        assert ends.stdin is not None
        assert ends.stdout is not None
        assert ends.stdout.readline() == "ready\n"
        ends.send_signal(signal.SIGTERM)
        assert ends.stdout.readline() == "told\n"
        ends.send_signal(signal.SIGQUIT)
        assert ends.stdout.readline() == "told\n"
        ends.stdin.write("\n")
        ends.stdin.flush()
        assert ends.wait(LIMIT) == 7


def test_a_log_that_nobody_reads_holds_up_nothing() -> None:
    with process(FULL + HELD) as held:
        wait_held(held)
        held.send_signal(signal.SIGTERM)
        assert held.wait(LIMIT) == 3


@pytest.mark.parametrize("number", [0, 65, signal.SIGKILL, signal.SIGHUP])
def test_signals_without_a_handler_are_refused(number: int) -> None:
    with pytest.raises(OSError, match="no watchdog for signal"):
        watchdog.watch(number, 1)
