"""The memory of a container, as the kernel limits it: who takes more is killed."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tests.chaos.cgroup import V1, V2
from tests.waiting import LIMIT, until

#: Octets that are left when the limit is set.
HEADROOM = 16 << 20
#: Takes 4 MiB more every 50 ms. It is smaller than a server when there is nothing left, and the kernel kills the largest process.
TAKER = "echo $$ > $0 && while :; do head -c 4194304 /dev/zero; sleep 0.05; done | tail > /dev/null"


class Memory:
    """A cgroup. With v2 all processes are killed together, as Kubernetes has it; with v1 the largest one. Where no cgroup can be made, the test kills all."""

    def __init__(self) -> None:
        self.folder: Path | None = (V2 if (V2 / "cgroup.controllers").exists() else V1) / f"fastdns-node-{os.getpid()}"
        try:
            self.folder.mkdir()
            if (self.folder / "memory.oom.group").exists():
                (self.folder / "memory.oom.group").write_text("1")
            self._file("memory.usage_in_bytes", "memory.current").read_text()
        except OSError:
            with suppress(OSError):
                self.folder.rmdir()
            self.folder = None

    def command(self, command: list[str]) -> list[str]:
        """The command, started in the cgroup."""
        if self.folder is None:
            return command
        return ["sh", "-c", 'echo $$ > "$0" && exec "$@"', str(self.folder / "cgroup.procs"), *command]

    def exhaust(self, pids: list[int], is_over: Callable[[], bool]) -> None:
        """Have more taken than there is, until one of the container's processes has been killed."""
        if self.folder is None:
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
            until(is_over, "the end")
            return
        usage = int(self._file("memory.usage_in_bytes", "memory.current").read_text())
        limit = self._file("memory.limit_in_bytes", "memory.max")
        limit.write_text(str(usage + HEADROOM))
        # A process group of its own, which ends as a whole.
        taker = subprocess.Popen(["sh", "-c", TAKER, str(self.folder / "cgroup.procs")], start_new_session=True)
        try:
            until(is_over, "a kill by the kernel")
        finally:
            os.killpg(taker.pid, signal.SIGKILL)
            taker.wait(LIMIT)
            limit.write_text("-1" if limit.name == "memory.limit_in_bytes" else "max")

    def close(self) -> None:
        """Its processes have ended."""
        if self.folder is not None:
            until(lambda: not (self._file("cgroup.procs", "cgroup.procs")).read_text(), "the end of all processes")
            self.folder.rmdir()

    def _file(self, v1: str, v2: str) -> Path:
        assert self.folder is not None
        return self.folder / (v1 if (self.folder / v1).exists() else v2)
