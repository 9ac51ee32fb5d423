"""What the process uses: the ``process_*`` metrics every dashboard draws, and the few of Go's that operators of CoreDNS look at."""

from __future__ import annotations

import os
import resource
import time
from functools import partial
from typing import TYPE_CHECKING

from fastdns import __version__
from fastdns.telemetry import log_writer
from fastdns.telemetry.metrics import Metric

if TYPE_CHECKING:
    from fastdns.engine.engine import Engine

__all__ = ["register", "register_engine", "register_runtime"]

TICKS = os.sysconf("SC_CLK_TCK")
GO_MEMORY = "Resident memory size in bytes: what a dashboard made for CoreDNS draws as memory of the Go runtime."
GO_MEMORY_NAMES = ("go_memstats_alloc_bytes", "go_memstats_heap_alloc_bytes", "go_memstats_heap_inuse_bytes", "go_memstats_sys_bytes")
PAGE = os.sysconf("SC_PAGE_SIZE")


class Process:
    """/proc/self, read at most every tenth of a second."""

    def __init__(self) -> None:
        self.read_at = 0.0
        self.stat: list[str] = []
        with open("/proc/stat", encoding="ascii") as file:
            self.boot = next((float(line.split()[1]) for line in file if line.startswith("btime")), 0.0)

    def field(self, number: int) -> float:
        """A field of /proc/self/stat by its number in proc(5)."""
        if time.monotonic() - self.read_at > 0.1:
            with open("/proc/self/stat", encoding="utf-8", errors="replace") as file:
                self.stat = file.read().rpartition(")")[2].split()
            self.read_at = time.monotonic()
        return float(self.stat[number - 3])

    def network(self, name: str) -> float:
        """A counter of the network namespace: InOctets, OutOctets."""
        with open("/proc/self/net/netstat", encoding="ascii") as file:
            lines = [line.split() for line in file if line.startswith("IpExt:")]
        return float(dict(zip(*lines, strict=True))[name])


def register() -> None:
    """Register all that is always there."""
    process = Process()
    gauges = {
        "process_open_fds": ("Number of open file descriptors.", lambda: len(os.listdir("/proc/self/fd")) - 1),
        "process_max_fds": ("Maximum number of open file descriptors.", lambda: resource.getrlimit(resource.RLIMIT_NOFILE)[0]),
        "process_virtual_memory_bytes": ("Virtual memory size in bytes.", lambda: process.field(23)),
        "process_virtual_memory_max_bytes": ("Maximum amount of virtual memory available in bytes.", virtual_memory_max),
        "process_resident_memory_bytes": ("Resident memory size in bytes.", lambda: process.field(24) * PAGE),
        "process_start_time_seconds": (
            "Start time of the process since unix epoch in seconds.",
            lambda: process.boot + process.field(22) / TICKS,
        ),
        "go_goroutines": ("Number of threads: what a dashboard made for CoreDNS draws as goroutines.", lambda: process.field(20)),
        "go_threads": ("Number of OS threads created.", lambda: process.field(20)),
        **{name: (GO_MEMORY, lambda: process.field(24) * PAGE) for name in GO_MEMORY_NAMES},
    }
    counters = {
        "process_cpu_seconds_total": (
            "Total user and system CPU time spent in seconds.",
            lambda: (process.field(14) + process.field(15)) / TICKS,
        ),
        "process_network_receive_bytes_total": ("Number of bytes received by the process over the network.", lambda: process.network("InOctets")),
        "process_network_transmit_bytes_total": ("Number of bytes sent by the process over the network.", lambda: process.network("OutOctets")),
        "fastdns_log_lines_dropped_total": ("Counter of log lines that a stuck or broken standard output has cost.", log_writer.dropped),
    }
    for kind, metrics in (("gauge", gauges), ("counter", counters)):
        for name, (text, function) in metrics.items():
            Metric(name, text, kind).watch((), function)
    build = Metric("coredns_build_info", "A metric with a constant '1' value labeled by version, revision, and goversion from which CoreDNS was built.",
                   "gauge", ("version", "revision", "goversion"))  # fmt: skip
    Metric("go_info", "Information about the environment: what a dashboard made for CoreDNS shows as the version of Go.", "gauge", ("version",)).set(
        (python_version(),), 1
    )
    build.set((__version__, os.environ.get("FASTDNS_REVISION", ""), python_version()), 1)
    Metric("coredns_panics_total", "A metrics that counts the number of panics.", "counter")


def register_engine(engine: Engine) -> None:
    """Register what the workers count by themselves."""
    for key, kind, name, text in (
        ("parked", "gauge", "fastdns_parked_queries", "Queries that wait for an upstream, a plugin or a child."),
        ("slots", "gauge", "fastdns_query_slots", "Places for queries made so far."),
        ("connections", "gauge", "fastdns_tcp_connections", "Open TCP connections of clients."),
        ("evicted", "counter", "fastdns_evicted_queries_total", "Counter of waiting queries that got SERVFAIL because there were too many."),
        ("send_errors", "counter", "fastdns_send_errors_total", "Counter of replies that the kernel would not take."),
        ("large_refused", "counter", "fastdns_cut_replies_total", "Counter of replies cut because too many large ones were under way."),
    ):
        Metric(name, text, kind).watch((), partial(_statistic, engine, key))


def _statistic(engine: Engine, key: str) -> int:
    return engine.statistics()[key]


def register_runtime() -> None:
    """Register what `runtime_metrics` adds: Python's garbage collector and what it allocates."""
    import gc
    import sys

    for name, text, field in (
        ("python_gc_objects_collected_total", "Objects collected during gc.", "collected"),
        ("python_gc_objects_uncollectable_total", "Uncollectable objects found during gc.", "uncollectable"),
        ("python_gc_collections_total", "Number of times this generation was collected.", "collections"),
    ):
        metric = Metric(name, text, "counter", ("generation",))
        for generation in range(len(gc.get_stats())):
            metric.watch((str(generation),), lambda generation=generation, field=field: gc.get_stats()[generation][field])  # type: ignore[misc]
    Metric("python_allocated_blocks", "Memory blocks that the interpreter has allocated.", "gauge").watch((), sys.getallocatedblocks)
    Metric("python_info", "Python platform information.", "gauge", ("implementation", "version")).set(
        (sys.implementation.name, python_version().removeprefix("python")), 1
    )


def virtual_memory_max() -> float:
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return 2.0**64 if limit == resource.RLIM_INFINITY else limit


def python_version() -> str:
    import sys

    return "python" + ".".join(map(str, sys.version_info[:3]))
