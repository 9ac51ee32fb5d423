"""SIGUSR2: starts the program again as a child process, with this process's sockets, and its Corefile and secrets (of TLS, QUIC and plugins) on standard
input.

The child writes to a pipe once it serves. Until then, and if it fails, the parent continues to serve. Afterwards the parent serves the QUIC connections
that it has, whose datagrams the child passes on, until they have ended, for QUIC_SECONDS at most.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from fastdns.server import early
from fastdns.server.source import Source
from fastdns.setup import inheritance

if TYPE_CHECKING:
    from threading import Event

    from fastdns.engine.listener import Listener
    from fastdns.engine.loop import Workers

__all__ = ["Inheritance", "hand_over", "inherit", "leave", "outlast"]

#: Set for the child, as CoreDNS does.
VARIABLE = "CADDY__UPGRADE"

SERVED = b"served"

#: Seconds that the child may take: plugins may wait for others at start.
CHILD_SECONDS = 60.0

#: Seconds that the parent serves its QUIC connections: longer than their idle time, where the Corefile does not set it.
QUIC_SECONDS = 15.0

#: Known to have been imported where a Corefile has had QUIC.
QUIC = "fastdns.engine.quic.listener"


class Inheritance:
    """Corefile and descriptors from the parent process."""

    def __init__(self, source: Source, listeners: dict[str, list[int]], report: int) -> None:
        self.source = source
        #: Descriptors by address label.
        self.listeners = listeners
        self._report = report

    def succeeded(self) -> None:
        """Notify the parent that this process serves, with duplicates of the inherited descriptors."""
        for descriptors in self.listeners.values():
            for descriptor in descriptors:
                os.close(descriptor)
        os.write(self._report, SERVED)
        os.close(self._report)


def inherit() -> Inheritance | None:
    """Read what the parent wrote to standard input; None when this process was not started by SIGUSR2."""
    if os.environ.pop(VARIABLE, "") != "1":
        return None
    import json

    from fastdns.tls import tickets

    data = bytearray()
    while part := os.read(0, 1 << 16):
        data += part
    left = json.loads(data)
    source = Source(bytes.fromhex(left["data"]), left["file"], left["path"], left["built_in"])
    tickets.adopt(bytes.fromhex(left["tickets"]))
    inheritance.adopt(left.get("secrets", {}))
    if left.get("quic"):
        from fastdns.engine.quic import listener

        listener.adopt(left["quic"])
    os.set_inheritable(left["report"], False)
    return Inheritance(source, left["listeners"], left["report"])


def hand_over(source: Source, listeners: dict[str, Listener], workers: Workers) -> int:
    """Start the child and wait until it serves. Returns its process id. Raises OSError when it does not; the child is then dead."""
    import json
    import select
    import subprocess

    from fastdns.tls import tickets

    quic = sys.modules.get(QUIC)
    descriptors = {label: listener.filenos() for label, listener in listeners.items()}
    reader, report = os.pipe2(os.O_CLOEXEC)
    letter = {
        "file": source.file,
        "path": os.path.abspath(source.path) if source.path else "",
        "built_in": source.built_in,
        "data": source.data.hex(),
        "listeners": descriptors,
        "report": report,
        "tickets": tickets.handed().hex(),
        "secrets": inheritance.handed(),
    }
    passed = [descriptor for some in descriptors.values() for descriptor in some]
    channel = -1
    served = False
    try:
        if quic is not None:
            letter["quic"] = offered = quic.offered(workers)
            channels = [descriptor for _, descriptor in offered["processes"] if descriptor >= 0]
            channel = channels[-1]
            passed += channels
        blocked = early.block()
        try:
            child = subprocess.Popen(
                [sys.executable, *sys.orig_argv[1:]],
                stdin=subprocess.PIPE,
                pass_fds=[*passed, report],
                env={**os.environ, VARIABLE: "1"},
                restore_signals=True,
            )
        finally:
            early.unblock(blocked)
        os.close(report)
        report = -1
        with child.stdin:  # type: ignore[union-attr]
            child.stdin.write(json.dumps(letter).encode())  # type: ignore[union-attr]
        ready, _, _ = select.select([reader], [], [], CHILD_SECONDS)
        if not ready or os.read(reader, len(SERVED)) != SERVED:
            child.kill()
            child.wait()
            raise OSError("the new process did not start to serve")
        served = True
        return child.pid
    finally:
        os.close(reader)
        if channel >= 0:
            os.close(channel)
        if quic is not None and not served:
            quic.withdraw(workers)
        if report >= 0:
            os.close(report)


def leave(listeners: dict[str, Listener]) -> None:
    """The child reads the sockets of QUIC from now on; connections stay here."""
    quic = sys.modules.get(QUIC)
    if quic is not None:
        quic.leave(listeners.values())


def outlast(workers: Workers, hurried: Event) -> None:
    """Wait for the end of the QUIC connections, up to QUIC_SECONDS, or until the event is set. The rest is closed once what was asked is answered."""
    quic = sys.modules.get(QUIC)
    if quic is not None:
        quic.outlast(workers, QUIC_SECONDS, hurried)
