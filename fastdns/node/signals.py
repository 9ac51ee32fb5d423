"""Signals that are waited for. Nothing native is imported here, for they must be blocked before any thread starts."""

from __future__ import annotations

import signal

__all__ = ["Signals"]


class Signals:
    """Signals as numbers to wait for; they are kept from the first moment."""

    WANTED = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGCHLD)

    def __init__(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, self.WANTED)

    def wait(self, seconds: float) -> int | None:
        """The next signal within some seconds, if one comes."""
        information = signal.sigtimedwait(self.WANTED, max(seconds, 0.0))
        return None if information is None else information.si_signo

    @classmethod
    def forget(cls) -> None:
        """In the child, before the server starts: signals come to it as ever."""
        signal.pthread_sigmask(signal.SIG_UNBLOCK, cls.WANTED)
