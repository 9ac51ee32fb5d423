"""The server that faults happen to: it may be another process after some of them."""

from __future__ import annotations

import contextlib
import os
import re
import signal
from pathlib import Path

from tests.server import STARTED, Server
from tests.waiting import until


class Target(Server):
    def upgrade(self) -> None:
        """SIGUSR2: returns when the new process serves and the former one has ended."""
        former, start = self.pid, len(self.log())
        self.signal(signal.SIGUSR2)
        self.wait_log_of(STARTED, start)
        self.pid = until(lambda: next((pid for pid in self.successors() if pid != former), 0), "the process that takes over")
        until(lambda: not serves(former), "the end of the former process")
        if former == self.process.pid:
            self.process.wait()

    def wait_log_of(self, pattern: re.Pattern[str], start: int) -> None:
        """As `wait_log`, also where the process that was started first has ended."""
        until(lambda: pattern.search(self.log()[start:]), f"{pattern.pattern} in the output")

    def kill(self) -> None:
        """SIGKILL, and a start as whoever supervises it would do."""
        former, start = self.pid, len(self.log())
        with contextlib.suppress(ProcessLookupError):
            os.kill(former, signal.SIGKILL)
        if former == self.process.pid:
            self.process.wait()
        until(lambda: not serves(former), "the end of the process")
        self.start()
        self.wait_log_of(STARTED, start)


def serves(pid: int) -> bool:
    """Whether it is there. Its main thread may be a zombie while others, which share its sockets, have yet to end."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][:1] != "Z" or len(os.listdir(f"/proc/{pid}/task")) > 1
    except OSError:
        return False
