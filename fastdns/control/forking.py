"""Children that a plugin forks (`os.fork`, multiprocessing) get no socket of the server.

A socket that a child keeps stays in its group of SO_REUSEPORT after the server has closed it: the kernel goes on giving it a share of the queries, which
nobody answers. Programs that are started (`subprocess`) have none: all sockets are closed on exec.
"""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Callable, Iterable

__all__ = ["close_in_children"]


def close_in_children(ports: Callable[[], Iterable[int]]) -> None:
    """In each child from now on replace the server's sockets: all that listen, and those of the ports that ``ports`` returns."""
    os.register_at_fork(after_in_child=lambda: _replace(set(ports())))


def _replace(ports: set[int]) -> None:
    """Their descriptors stay occupied, by /dev/null: objects of the parent's, which own them, may close them."""
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for name in os.listdir("/proc/self/fd"):
        descriptor = int(name)
        try:
            if stat.S_ISSOCK(os.fstat(descriptor).st_mode) and _is_servers(descriptor, ports):
                os.dup2(null, descriptor, inheritable=False)
        except OSError:  # closed meanwhile: the folder's own
            continue
    os.close(null)


def _is_servers(descriptor: int, ports: set[int]) -> bool:
    with socket.socket(fileno=os.dup(descriptor)) as sock:
        if sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            return True
        return sock.family in (socket.AF_INET, socket.AF_INET6) and sock.getsockname()[1] in ports
