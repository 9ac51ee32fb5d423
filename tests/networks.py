"""Networks of a test's own (network_namespaces(7)), for root: all ports are free there, and nobody else hears what is sent."""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

__all__ = ["enter_network", "own_network"]

CLONE_NEWNET = 0x40000000
SIOCSIFFLAGS, SIOCSIFMTU = 0x8914, 0x8922
IFF_UP = 1


def enter_network(mtu: int = 65_536) -> None:
    """Give the calling thread, and the threads and processes that it starts, a network of their own: a loopback. Raises PermissionError."""
    _check(ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        fcntl.ioctl(sock, SIOCSIFMTU, struct.pack("16si12x", b"lo", mtu))
        fcntl.ioctl(sock, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP))


@contextmanager
def own_network() -> Iterator[None]:
    """The same for as long as the context lasts. Skips where that is not allowed."""
    with open("/proc/thread-self/ns/net", "rb") as former:
        try:
            enter_network()
        except PermissionError:
            pytest.skip("network namespaces are for root")
        try:
            yield
        finally:
            _check(ctypes.CDLL(None, use_errno=True).setns(former.fileno(), CLONE_NEWNET))


def _check(status: int) -> None:
    if status < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
