"""The server as a child process, with listening sockets as systemd passes them (sd_listen_fds(3))."""

from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import time

from fastdns.node.rights import User, drop_rights
from fastdns.node.store import Sockets
from fastdns.server import early
from fastdns.server.activation import FIRST

__all__ = ["Child"]

#: linux/prctl.h
PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)
#: Seconds between two looks whether the child has ended.
POLL = 0.02


class Child:
    """A process that has been started; one thread at a time may use it."""

    def __init__(self, command: list[str], environment: dict[str, str], sockets: Sockets, user: User | None = None) -> None:
        """Start a program, as the user if there is one. ``command[0]`` is its path. Raises OSError when there is no process to be had."""
        descriptors = [descriptor for some in sockets.values() for descriptor in some]
        names = ":".join(name for name, some in sockets.items() for _ in some)
        if descriptors:
            environment = {**environment, "LISTEN_FDS": str(len(descriptors)), "LISTEN_FDNAMES": names}
        #: Negative: the signal that has ended it. None: it runs.
        self.status: int | None = None
        parent = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            # subprocess cannot have descriptors begin at 3, and LISTEN_PID is known here alone.
            try:
                _become(command, environment, descriptors, parent, user)
            except OSError as error:
                os.write(2, f"fastdns-node: the server is not started: {error}\n".encode())
            finally:
                os._exit(127)

    def poll(self) -> int | None:
        """The status if the process has ended."""
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = os.waitstatus_to_exitcode(status)
        return self.status

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def end(self, number: int, seconds: float) -> None:
        """Send a signal and wait for the end; SIGKILL after so many seconds."""
        self.send_signal(number)
        deadline = time.monotonic() + seconds
        while self.poll() is None:
            if time.monotonic() > deadline:
                os.kill(self.pid, signal.SIGKILL)
            time.sleep(POLL)


def _become(command: list[str], environment: dict[str, str], descriptors: list[int], parent: int, user: User | None) -> None:
    early.block()  # until the server has its handlers
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if user is not None:
        drop_rights(user)
    # The server gets SIGTERM when its parent dies, also before exec: the parent's handler is not for it. A change of user would clear this.
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        return
    above = FIRST + len(descriptors)
    for i, descriptor in enumerate([fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, above) for descriptor in descriptors]):
        os.dup2(descriptor, FIRST + i)
    os.execve(command[0], command, {**environment, "LISTEN_PID": str(os.getpid())})
