"""Signals, received by waiting for them. No native module is imported here: the signals must be blocked before any thread starts."""

from __future__ import annotations

import signal

__all__ = ["Signals"]


class Signals:
    """Blocks the signals, so that they stay pending until `wait`."""

    WANTED = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGCHLD)

    def __init__(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, self.WANTED)

    def wait(self, seconds: float) -> int | None:
        """The next signal, or None after this many seconds."""
        information = signal.sigtimedwait(self.WANTED, max(seconds, 0.0))
        return None if information is None else information.si_signo

    @classmethod
    def forget(cls) -> None:
        """Unblock the signals; called in the child before the server starts."""
        signal.pthread_sigmask(signal.SIG_UNBLOCK, cls.WANTED)
