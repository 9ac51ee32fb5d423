"""Signals, received by waiting for them, together with files. No native module is imported here: a signal must not end the process while these load."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Iterable

__all__ = ["Signals"]


class Signals:
    """Takes the signals from now on. To be made on the main thread."""

    #: Those that end the process.
    ENDS = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)
    WANTED = (*ENDS, signal.SIGUSR1, signal.SIGCHLD)

    def __init__(self) -> None:
        # The C handler writes the number of a signal there, whatever thread it runs on.
        self._reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        for number in (signal.SIGUSR2, signal.SIGHUP):  # which would end the process
            signal.signal(number, signal.SIG_IGN)
        for number in self.WANTED:
            signal.signal(number, lambda number, frame: None)

    def wait(self, seconds: float, files: Iterable[int] = ()) -> tuple[list[int], set[int]]:
        """Wait for signals, or for files that can be read, for so many seconds at most. Returns numbers of signals and the descriptors of such files."""
        poll = select.poll()
        for descriptor in (self._reader, *files):
            poll.register(descriptor, select.POLLIN)
        ready = {descriptor for descriptor, _ in poll.poll(max(seconds, 0.0) * 1000)}
        try:
            numbers = list(os.read(self._reader, 4096))
        except BlockingIOError:
            numbers = []
        return numbers, ready - {self._reader}
