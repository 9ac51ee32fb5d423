"""What a server costs, read from outside: CPU of all its threads, memory, and how far the machine's own noise goes."""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import platform
import statistics
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fastdns.bench.servers.running import pinned

PROC = Path("/proc")
#: Seconds between two readings of memory.
SAMPLE = 0.2
#: One piece of fixed work for `noise`: about a millisecond, and how many.
PIECE = bytes(1 << 20)
PIECES = 40


def family(pid: int) -> Iterator[int]:
    """The process and all that descend from it."""
    yield pid
    for path in (PROC / str(pid) / "task").glob("*/children"):
        try:
            children = path.read_text().split()
        except OSError:
            continue
        for child in children:
            yield from family(int(child))


def cpu_ns(pid: int) -> int:
    """Nanoseconds on a CPU, kernel included, of all threads of the process and its descendants (the scheduler's own count, schedstat(5)).

    Threads that have ended are not in it: take differences while a server keeps its threads.
    """
    total = 0
    for each in family(pid):
        for path in (PROC / str(each) / "task").glob("*/schedstat"):
            try:
                total += int(path.read_text().split()[0])
            except (OSError, IndexError):
                continue
    return total


def memory_mb(pid: int) -> float:
    """MB of memory. Of several processes each page is shared out among those that have it (PSS), of one it is the resident set."""
    pids = list(family(pid))
    if len(pids) == 1:
        return field_kb(pid, "status", "VmRSS:") / 1024
    return sum(field_kb(each, "smaps_rollup", "Pss:") for each in pids) / 1024


def memory_peak_mb(pid: int) -> float:
    """MB that the processes have had resident at most; the sum over them, pages that they share counted for each."""
    return sum(field_kb(each, "status", "VmHWM:") for each in family(pid)) / 1024


def field_kb(pid: int, page: str, name: str) -> int:
    """One figure of a page of /proc/PID; 0 where the process has ended."""
    try:
        for line in (PROC / str(pid) / page).read_text().splitlines():
            if line.startswith(name):
                return int(line.split()[1])
    except OSError:
        pass
    return 0


def queue_drops(port: int) -> int:
    """Datagrams that found the queues of the UDP sockets bound to this port full, since these sockets were opened."""
    return sum(
        int(line.split()[-1])
        for page in ("udp", "udp6")
        if (PROC / "net" / page).exists()
        for line in (PROC / "net" / page).read_text().splitlines()[1:]
        if int(line.split()[1].rpartition(":")[2], 16) == port
    )


class Meter:
    """Measures a process between entering and leaving: `cpu_ns`, and `memory`, pairs of seconds since the start and MB."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.cpu_ns = 0
        self.seconds = 0.0
        self.memory: list[tuple[float, float]] = []
        self._over = threading.Event()

    def __enter__(self) -> Meter:
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._began = time.monotonic()
        self._before = cpu_ns(self.pid)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.cpu_ns = cpu_ns(self.pid) - self._before
        self.seconds = time.monotonic() - self._began
        self._over.set()
        self._thread.join()
        self.memory.append((round(self.seconds, 3), round(memory_mb(self.pid), 2)))

    def _sample(self) -> None:
        while not self._over.wait(SAMPLE):
            self.memory.append((round(time.monotonic() - self._began, 3), round(memory_mb(self.pid), 2)))


def noise(cpus: Sequence[int]) -> float:
    """How much longer the same work takes on these CPUs at times: nine tenths of the pieces take at most (1 + noise) times the median.

    Differences below that are not the server's.
    """
    taken = []
    with pinned(cpus[:1]):
        for _ in range(PIECES):
            began = time.perf_counter_ns()
            hashlib.sha256(PIECE).digest()
            taken.append(time.perf_counter_ns() - began)
    return statistics.quantiles(taken, n=10)[-1] / statistics.median(taken) - 1


def machine() -> dict[str, Any]:
    """What the figures were taken on."""
    model = ""
    for line in (PROC / "cpuinfo").read_text().splitlines():
        if line.startswith(("model name", "Model")):
            model = line.partition(":")[2].strip()
            break
    return {
        "cpu": model or platform.machine(),
        "cpus": len(os.sched_getaffinity(0)),
        "memory_mb": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20,
        "kernel": platform.release(),
        "python": platform.python_version(),
    }


def write_figures(path: Path, found: Mapping[str, Any]) -> None:
    """Writes them as JSON, with when and where they were measured. Raises OSError."""
    path.write_text(json.dumps({"made": datetime.datetime.now(datetime.UTC).isoformat(), "machine": machine(), **found}, indent=1) + "\n")


def cpu_sets(server: str, load: str) -> tuple[list[int], list[int]]:
    """CPUs for the server under test and for everything else, from lists such as `0,2-3`; empty: the first one, and the others.

    With one CPU both share it. Raises ValueError for CPUs that this process may not use.
    """
    usable = sorted(os.sched_getaffinity(0))
    first = parse_cpus(server) or usable[:1]
    rest = parse_cpus(load) or [cpu for cpu in usable if cpu not in first] or usable
    for cpu in {*first, *rest} - set(usable):
        raise ValueError(f"CPU {cpu} is not one of those that may be used: {usable}")
    return first, rest


def parse_cpus(text: str) -> list[int]:
    """Numbers of a list such as `0,2-3`. Raises ValueError."""
    found: list[int] = []
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return sorted(set(found))
