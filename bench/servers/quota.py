"""A cgroup that holds a process to a share of a CPU, as a container's limit does."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from types import TracebackType
from typing import Self

__all__ = ["CpuQuota", "QuotaError"]

ROOT = Path("/sys/fs/cgroup")
#: Where controllers of version 1 are, which the second one is among in a hybrid hierarchy.
V1 = (ROOT / "cpu", ROOT / "cpu,cpuacct")
#: Seconds until a process that was moved away has left.
TO_LEAVE = 2.0


class QuotaError(Exception):
    """There is no cgroup to be had."""


class CpuQuota:
    """A cgroup for CPU time: cpu.max of version 2 (cgroup-v2.rst), or CFS bandwidth of version 1. Use as a context; its processes go back when it ends.

    ``share`` is in CPUs, ``period`` in seconds. Raises QuotaError.
    """

    def __init__(self, share: float, period: float) -> None:
        microseconds = round(period * 1e6)
        quota = round(share * microseconds)
        if not 1000 <= microseconds <= 1_000_000 or quota < 1000:
            raise QuotaError("a period is from 1 ms to 1 s, and the quota in it at least 1 ms")
        if os.geteuid() != 0:
            raise QuotaError("a CPU quota takes a cgroup, which root alone can make")
        self.parent = hierarchy()
        self.folder = self.parent / f"fastdns-bench-{os.getpid()}"
        try:
            self.folder.mkdir()
        except OSError as error:
            raise QuotaError(f"no cgroup can be made: {error}") from error
        try:
            if (self.folder / "cpu.max").exists():
                self._write("cpu.max", f"{quota} {microseconds}")
            else:
                self._write("cpu.cfs_period_us", str(microseconds))
                self._write("cpu.cfs_quota_us", str(quota))
        except OSError as error:
            self.folder.rmdir()
            raise QuotaError(f"the cgroup takes no CPU quota: {error}") from error

    def hold(self, pid: int) -> None:
        """Takes a process with all its threads in. Raises QuotaError."""
        try:
            self._write("cgroup.procs", str(pid))
        except OSError as error:
            raise QuotaError(f"process {pid} cannot be held to a quota: {error}") from error

    def throttled(self) -> tuple[int, int]:
        """Periods in which it had something to run, and those of them in which it used up its quota."""
        found = dict(line.split() for line in (self.folder / "cpu.stat").read_text().splitlines())
        return int(found.get("nr_periods", 0)), int(found.get("nr_throttled", 0))

    def _write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for pid in (self.folder / "cgroup.procs").read_text().split():
            with contextlib.suppress(ProcessLookupError):
                (self.parent / "cgroup.procs").write_text(pid)
        end = time.monotonic() + TO_LEAVE
        while True:
            try:
                self.folder.rmdir()
            except OSError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.01)
            else:
                return


def hierarchy() -> Path:
    """The folder below which cgroups for CPU time can be made. Raises QuotaError."""
    controllers = ROOT / "cgroup.controllers"
    try:
        if controllers.exists():
            if "cpu" in controllers.read_text().split():
                control = ROOT / "cgroup.subtree_control"
                if "cpu" not in control.read_text().split():
                    control.write_text("+cpu")
                return ROOT
        else:
            for folder in V1:
                if (folder / "cpu.cfs_quota_us").exists():
                    return folder
    except OSError as error:
        raise QuotaError(f"the cgroups here cannot be used: {error}") from error
    raise QuotaError("there is no cgroup hierarchy with the controller cpu")
