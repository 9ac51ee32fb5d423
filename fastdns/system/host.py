"""The machine that the server runs on."""

from __future__ import annotations

import os
import socket
from pathlib import Path

__all__ = ["cpu_count", "host_name", "memory_limit"]

CGROUPS = Path("/sys/fs/cgroup")
OWN_CGROUPS = Path("/proc/self/cgroup")


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
        lines = OWN_CGROUPS.read_text().splitlines()
    except OSError:
        return 0
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            found += [_octets(folder / "memory.max") for folder in _upwards(CGROUPS, path)]
        elif "memory" in controllers.split(","):
            found += [_octets(folder / "memory.limit_in_bytes") for folder in _upwards(CGROUPS / controllers, path)]
    return min((limit for limit in found if limit), default=0)


def _octets(file: Path) -> int:
    """A limit of memory; 0: none, or no file. Version 1 writes no limit as the largest number of pages."""
    try:
        limit = int(file.read_text())
    except (OSError, ValueError):  # "max"
        return 0
    return limit if limit < 1 << 62 else 0


def _quotas() -> list[tuple[int, int]]:
    """Quota and period, both in microseconds, of the process's cgroup and of those above it (cgroups(7), versions 2 and 1)."""
    found = []
    try:
        lines = OWN_CGROUPS.read_text().splitlines()
    except OSError:
        return []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            found += [_read(folder / "cpu.max") for folder in _upwards(CGROUPS, path)]
        elif "cpu" in controllers.split(","):
            found += [
                _read(folder / "cpu.cfs_quota_us", folder / "cpu.cfs_period_us")
                for mount in (CGROUPS / controllers, CGROUPS / "cpu")
                for folder in _upwards(mount, path)
            ]
    return [limit for limit in found if limit is not None]


def _upwards(mount: Path, path: str) -> list[Path]:
    own = mount / path.lstrip("/")
    # In a container the path may be one of the host's: what is mounted then is the container's own.
    return [folder for folder in (own, *own.parents) if folder.is_relative_to(mount)]


def _read(*files: Path) -> tuple[int, int] | None:
    """A quota and its period, which stand in one file or in two; None: no limit, or no file."""
    try:
        quota, period = map(int, " ".join(file.read_text() for file in files).split())
    except (OSError, ValueError):  # "max"
        return None
    return (quota, period) if quota > 0 and period > 0 else None
