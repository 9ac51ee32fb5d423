"""A cgroup that limits the memory which a process takes from then on."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

V1 = Path("/sys/fs/cgroup/memory")
V2 = Path("/sys/fs/cgroup")
#: What ends a limit, by the version.
UNLIMITED = {1: "-1", 2: "max"}


class MemoryCgroup:
    """Memory that a process has already is not counted. Who meets the limit waits until it is lifted, and is not killed: v1 does so without its OOM killer,
    v2 slows down by memory.high."""

    def __init__(self, pid: int, octets: int) -> None:
        """OSError where no cgroup can be made."""
        self.pid = pid
        self.version = 2 if (V2 / "cgroup.controllers").exists() else 1
        parent = V2 if self.version == 2 else V1
        if self.version == 2 and "memory" not in (parent / "cgroup.subtree_control").read_text().split():
            (parent / "cgroup.subtree_control").write_text("+memory")
        self.former = parent / self._path_of().lstrip("/")
        self.folder = parent / f"fastdns-chaos-{os.getpid()}"
        self.folder.mkdir()
        try:
            self._write("memory.high" if self.version == 2 else "memory.limit_in_bytes", str(octets))
            if self.version == 1:
                self._write("memory.oom_control", "1")
            self._write("cgroup.procs", str(pid))
        except OSError:
            self.folder.rmdir()
            raise

    def _path_of(self) -> str:
        for line in Path(f"/proc/{self.pid}/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if "memory" in controllers.split(",") if self.version == 1 else not controllers:
                return path
        raise OSError("the process is in no cgroup for memory")

    def _write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)

    def lift(self) -> None:
        """The process goes on, in the cgroup where it was."""
        self._write("memory.high" if self.version == 2 else "memory.limit_in_bytes", UNLIMITED[self.version])
        for pid in (self.folder / "cgroup.procs").read_text().split():
            with contextlib.suppress(ProcessLookupError):
                (self.former / "cgroup.procs").write_text(pid)
        self.folder.rmdir()
