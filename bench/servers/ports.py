"""Ports for servers under test."""

from __future__ import annotations

import random
import socket

#: Below those that the kernel gives to clients.
PORTS = range(10_000, 32_000)


def free_port() -> int:
    """A port that is free for UDP and TCP on every address at this moment."""
    while True:
        port = random.choice(PORTS)
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as stream, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
            try:
                stream.bind(("", port))
                datagrams.bind(("", port))
            except OSError:
                continue
            return port
