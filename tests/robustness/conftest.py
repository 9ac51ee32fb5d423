"""What the tests of robustness share."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator

import pytest

from fastdns.system import debug

#: What only a debug build counts: make debug.
collect_ignore = [] if debug.enabled else ["test_live.py"]


@pytest.fixture
def closing() -> Iterator[Callable[[socket.socket], socket.socket]]:
    """``closing(sock)`` gives the socket back and closes it after the test."""
    sockets: list[socket.socket] = []

    def keep(sock: socket.socket) -> socket.socket:
        sockets.append(sock)
        return sock

    yield keep
    for sock in sockets:
        sock.close()
