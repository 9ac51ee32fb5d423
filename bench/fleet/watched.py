"""What a server and the kernel hold and spend while something goes on, sampled from outside."""

from __future__ import annotations

import contextlib
import threading
import time
from pathlib import Path

from fastdns.bench import measure

__all__ = ["Watched", "kernel_mb", "waited_ns"]

#: Seconds between two samples.
SAMPLE = 0.1
PAGE_MB = 4096 / (1 << 20)


def kernel_mb() -> float:
    """MB that all TCP sockets of this network namespace have in buffers, both ends of each connection (/proc/net/sockstat)."""
    for line in Path("/proc/net/sockstat").read_text().splitlines():
        words = line.split()
        if words[0] == "TCP:":
            return int(words[words.index("mem") + 1]) * PAGE_MB
    return 0.0


def waited_ns(pid: int) -> dict[int, int]:
    """Nanoseconds that each thread of a process was ready to run and had no CPU (schedstat(5)), by its number."""
    found = {}
    for path in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with contextlib.suppress(OSError):  # it has ended
            found[int(path.parent.name)] = int(path.read_text().split()[1])
    return found


class Watched:
    """Of a process, between entering and leaving: `cpu` seconds, `seconds`, and the most that was seen of `rss_mb` and `kernel_mb`.

    `waited`: seconds for which the thread that did so longest was ready to run and had no CPU.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.cpu = self.seconds = self.waited = self.rss_mb = self.kernel_mb = 0.0
        #: MB in the kernel's buffers before.
        self.kernel_before = kernel_mb()
        self._over = threading.Event()

    def __enter__(self) -> Watched:
        self._began, self._before = time.monotonic(), measure.cpu_ns(self.pid)
        self._waited = waited_ns(self.pid)
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self.cpu = (measure.cpu_ns(self.pid) - self._before) * 1e-9
        self.waited = max(ns - self._waited.get(thread, 0) for thread, ns in waited_ns(self.pid).items()) * 1e-9
        self.seconds = time.monotonic() - self._began

    def _sample(self) -> None:
        while True:
            self.rss_mb = max(self.rss_mb, measure.memory_mb(self.pid))
            self.kernel_mb = max(self.kernel_mb, kernel_mb())
            if self._over.wait(SAMPLE):
                return
