"""SIGUSR2: starts the program again as a child process, with this process's sockets, and its Corefile and keys of TLS tickets on standard input.

The child writes to a pipe once it serves. Until then, and if it fails, the parent continues to serve.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from fastdns.server.source import Source

if TYPE_CHECKING:
    from fastdns.engine.listener import Listener

__all__ = ["Inheritance", "hand_over", "inherit"]

#: Set for the child, as CoreDNS does.
VARIABLE = "CADDY__UPGRADE"

SERVED = b"served"

#: Seconds that the child may take: plugins may wait for others at start.
CHILD_SECONDS = 60.0


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
    os.set_inheritable(left["report"], False)
    return Inheritance(source, left["listeners"], left["report"])


def hand_over(source: Source, listeners: dict[str, Listener]) -> None:
    """Start the child and wait until it serves. Raises OSError when it does not; the child is then dead."""
    import json
    import select
    import subprocess

    from fastdns.tls import tickets

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
    }
    passed = [descriptor for some in descriptors.values() for descriptor in some]
    try:
        child = subprocess.Popen(
            [sys.executable, *sys.orig_argv[1:]],
            stdin=subprocess.PIPE,
            pass_fds=[*passed, report],
            env={**os.environ, VARIABLE: "1"},
            restore_signals=True,
        )
        os.close(report)
        report = -1
        with child.stdin:  # type: ignore[union-attr]
            child.stdin.write(json.dumps(letter).encode())  # type: ignore[union-attr]
        ready, _, _ = select.select([reader], [], [], CHILD_SECONDS)
        if not ready or os.read(reader, len(SERVED)) != SERVED:
            child.kill()
            child.wait()
            raise OSError("the new process did not start to serve")
    finally:
        os.close(reader)
        if report >= 0:
            os.close(report)
