"""What is read from outside agrees with what a process did."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from fastdns.bench import measure
from tests.waiting import until

#: Burns a given time of CPU in two threads and a child, then waits.
BURN = """
import os, subprocess, sys, threading, time
def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(10000))
    rest.append(1)
rest = []
for _ in range(2):
    threading.Thread(target=lambda: (burn(0.1), sys.stdin.read()), daemon=True).start()
if len(sys.argv) == 1:
    child = subprocess.Popen([sys.executable, '-c', source, 'child'], stdin=0, stdout=1)
while len(rest) < 2:
    time.sleep(0.01)
print('done', flush=True)
time.sleep(1000)
"""


@pytest.fixture
def burner() -> Iterator[subprocess.Popen[str]]:
    source = f"source = {BURN!r}\n{BURN}"
    process = subprocess.Popen([sys.executable, "-c", source.replace("source,", "source,", 1)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    yield process
    for pid in reversed(list(measure.family(process.pid))):
        os.kill(pid, 9)
    process.communicate()


def test_cpu_of_all_threads_and_children(burner: subprocess.Popen[str]) -> None:
    assert burner.stdout is not None
    with measure.Meter(burner.pid) as meter:
        lines = [burner.stdout.readline() for _ in range(2)]
    assert lines == ["done\n", "done\n"]
    assert len(list(measure.family(burner.pid))) == 2
    assert measure.cpu_ns(burner.pid) >= 0.4e9
    assert meter.cpu_ns <= measure.cpu_ns(burner.pid)
    assert meter.memory[-1][1] > 1
    assert meter.seconds > 0
    assert measure.memory_peak_mb(burner.pid) > 2


def test_a_process_that_has_ended_costs_nothing() -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    assert measure.cpu_ns(process.pid) == 0
    assert measure.memory_mb(process.pid) == 0


def test_memory_grows_with_the_process() -> None:
    source = "import sys; x = b'.' * (64 << 20); print(flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", source], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert 64 < measure.memory_mb(process.pid) <= measure.memory_peak_mb(process.pid)
        process.communicate(b"")


def test_datagrams_that_found_a_queue_full() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as full, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        full.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2304)
        full.bind(("127.0.0.1", 0))
        port = full.getsockname()[1]
        for _ in range(50):
            sender.sendto(bytes(500), ("127.0.0.1", port))
        taken = 0
        full.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while full.recv(4096):
                taken += 1
        assert measure.queue_drops(port) == 50 - taken > 0


@pytest.mark.parametrize(("text", "cpus"), [("", []), ("3", [3]), ("0,2-4", [0, 2, 3, 4]), ("1,1", [1])])
def test_lists_of_cpus(text: str, cpus: list[int]) -> None:
    assert measure.parse_cpus(text) == cpus


def test_cpus_that_may_not_be_used_are_refused() -> None:
    with pytest.raises(ValueError, match="CPU 4095 is not one of those that may be used"):
        measure.cpu_sets("4095", "")


def test_cpus_for_server_and_load() -> None:
    usable = sorted(os.sched_getaffinity(0))
    server, load = measure.cpu_sets("", "")
    assert server == usable[:1]
    assert load == (usable[1:] or usable)


def test_noise_is_a_share() -> None:
    assert 0 <= measure.noise([]) < 100
    began = time.monotonic()
    assert until(lambda: time.monotonic() >= began)
    assert measure.machine()["cpus"] >= 1
