"""The machine that the server runs on."""

from __future__ import annotations

import os
import socket

__all__ = ["cpu_count", "host_name", "memory_limit"]

# Paths are text: nothing else that each start imports needs pathlib, which takes 5 ms.
CGROUPS = "/sys/fs/cgroup"
OWN_CGROUPS = "/proc/self/cgroup"


def host_name() -> str:
    """Its name, ``localhost`` where it has none."""
    try:
        return socket.gethostname() or "localhost"
    except OSError:
        return "localhost"


def cpu_count() -> int:
    """CPUs that the process may use: of its affinity, and of its cgroup's quota, rounded up."""
    count = len(os.sched_getaffinity(0))
    return max(1, min([count, *(-(-quota // period) for quota, period in _quotas())]))


def memory_limit() -> int:
    """Octets that the process's cgroup and those above it allow, the least of them; 0: no limit."""
    found = []
    try:
        lines = _text(OWN_CGROUPS).splitlines()
    except OSError:
        return 0
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            found += [_octets(f"{folder}/memory.max") for folder in _upwards(CGROUPS, path)]
        elif "memory" in controllers.split(","):
            found += [_octets(f"{folder}/memory.limit_in_bytes") for folder in _upwards(f"{CGROUPS}/{controllers}", path)]
    return min((limit for limit in found if limit), default=0)


def _text(file: str) -> str:
    with open(file, encoding="utf-8") as opened:
        return opened.read()


def _octets(file: str) -> int:
    """A limit of memory; 0: none, or no file. Version 1 writes no limit as the largest number of pages."""
    try:
        limit = int(_text(file))
    except (OSError, ValueError):  # "max"
        return 0
    return limit if limit < 1 << 62 else 0


def _quotas() -> list[tuple[int, int]]:
    """Quota and period, both in microseconds, of the process's cgroup and of those above it (cgroups(7), versions 2 and 1)."""
    found = []
    try:
        lines = _text(OWN_CGROUPS).splitlines()
    except OSError:
        return []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            found += [_read(f"{folder}/cpu.max") for folder in _upwards(CGROUPS, path)]
        elif "cpu" in controllers.split(","):
            found += [
                _read(f"{folder}/cpu.cfs_quota_us", f"{folder}/cpu.cfs_period_us")
                for mount in (f"{CGROUPS}/{controllers}", f"{CGROUPS}/cpu")
                for folder in _upwards(mount, path)
            ]
    return [limit for limit in found if limit is not None]


def _upwards(mount: str, path: str) -> list[str]:
    """The folder of a cgroup and those above it."""
    # In a container the path may be one of the host's: what is mounted then is the container's own.
    names = [name for name in path.split("/") if name]
    return ["/".join([mount, *names[:depth]]) for depth in range(len(names), -1, -1)]


def _read(*files: str) -> tuple[int, int] | None:
    """A quota and its period, which stand in one file or in two; None: no limit, or no file."""
    try:
        quota, period = map(int, " ".join(map(_text, files)).split())
    except (OSError, ValueError):  # "max"
        return None
    return (quota, period) if quota > 0 and period > 0 else None
