"""A thread of load that is a process: what `Generator` does, for transports that Python carries.

The parent writes pickles to the child's standard input: what to do, then when to begin. The child answers on its standard output: that it is connected or
why not, intervals as they end, and what it cost. When its input ends, it ends.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pickle
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Collection
from typing import Any

from fastdns.bench.generator.generator import Generator
from fastdns.bench.generator.histogram import Histogram
from fastdns.bench.generator.queries import QuerySet
from fastdns.bench.result import Target

__all__ = ["Process"]


class Process:
    """Has the interface of `Generator`. Raises OSError when the process cannot do its work."""

    def __init__(self, queries: QuerySet, target: Target, cpus: Collection[int], **options: Any) -> None:
        if importlib.util.find_spec("aioquic") is None:
            raise OSError(0, "needs aioquic, which is not installed")
        self.cpu_seconds = 0.0
        self.warmed = 0
        self.dropped = 0
        self._parts: deque[dict[str, Any]] = deque()
        self._process = subprocess.Popen([sys.executable, "-P", "-m", __name__], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._say((queries, target, list(cpus), options))

    def open(self, timeout: float) -> None:
        """Waits until the process has its connections."""
        self._say(timeout)
        failure = self._hear()
        if failure is not None:
            self.close()
            raise OSError(0, failure)

    def run(self, start: int, warm: float) -> None:
        """Until the process has ended its part of the run."""
        self._say((start, warm))
        while isinstance(part := self._hear(), dict):
            self._parts.append(part)
        self.cpu_seconds, self.warmed = part

    def stop(self) -> None:
        """Ends `run` soon, from another thread."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()

    def close(self) -> None:
        assert self._process.stdout is not None
        self.stop()
        self._process.stdout.close()
        self._process.wait()

    def take(self) -> dict[str, Any] | None:
        """The oldest interval that is over and was not taken yet."""
        if not self._parts:
            return None
        part = self._parts.popleft()
        return part | {"latency": Histogram.from_json(part["latency"])}

    def _say(self, what: Any) -> None:
        assert self._process.stdin is not None
        pickle.dump(what, self._process.stdin)
        self._process.stdin.flush()

    def _hear(self) -> Any:
        assert self._process.stdout is not None
        try:
            return pickle.load(self._process.stdout)
        except EOFError:
            raise OSError(0, f"a process of the load ended with status {self._process.wait()}") from None


# ---- the child ----


def main() -> int:
    # What is typed at the terminal is the parent's affair, and so is what is printed.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)

    def say(what: Any) -> None:
        pickle.dump(what, output)
        output.flush()

    queries, target, cpus, options = pickle.load(sys.stdin.buffer)
    if cpus:
        os.sched_setaffinity(0, cpus)
    from fastdns.bench.doq import Carrier  # imports aioquic

    try:
        timeout = pickle.load(sys.stdin.buffer)
        generator = Generator(queries, **options)
        generator.open(timeout)
        family, _, _, _, address = socket.getaddrinfo(target.host, target.port, type=socket.SOCK_DGRAM)[0]
        carrier = Carrier(generator, target, family, address, options["clients"], options["timeout"])
        try:
            carrier.open(timeout)
        except OSError as error:
            say(error.strerror or str(error))
            return 1
        say(None)
        start, warm = pickle.load(sys.stdin.buffer)
    except EOFError:
        return 0

    def report() -> None:
        while (part := generator.take()) is not None:
            say(part | {"latency": part["latency"].to_json()})

    spent = time.process_time()
    carrier.run(start, warm, sys.stdin.fileno(), report)
    spent = time.process_time() - spent
    report()
    say((spent, generator.warmed))
    carrier.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
