"""The control socket: how `fastdns explain` reaches the running server.

It is a name in the abstract namespace of Unix sockets, so nothing is left on a read-only file system; only the server's own user and root are answered.
"""

from __future__ import annotations

import os
import select
import socket
import struct
import threading
import time
from collections.abc import Callable
from typing import Any

from fastdns.telemetry.log import Log

__all__ = ["ask", "serve"]

log = Log()

NAME = "\0fastdns-control/"
#: Octets of a request or a reply; seconds for one.
MOST = 1 << 20
PATIENCE = 15.0

#: What becomes of a request, as its reply. ValueError, KeyError and TypeError are told to the client.
Answer = Callable[[dict[str, Any]], dict[str, Any]]


def serve(answer: Answer) -> None:
    """Give each request to ``answer``, on a thread of its own, from now on. A name that is taken or not allowed costs the socket only."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        listener.bind(f"{NAME}{os.getpid()}")
        listener.listen(4)
    except OSError as error:
        listener.close()
        log.debug(f"no control socket: {error}")
        return
    threading.Thread(target=_accept, args=(listener, answer), name="control", daemon=True).start()


def _accept(listener: socket.socket, answer: Answer) -> None:
    # A thread that waits in accept holds the number of a descriptor, which is a client's where they are scarce.
    listener.setblocking(False)
    wait = select.poll()
    wait.register(listener, select.POLLIN)
    while True:
        wait.poll()
        try:
            connection, _ = listener.accept()
        except BlockingIOError:
            continue
        except OSError:  # no descriptor, for one
            time.sleep(1)
            continue
        with connection:
            try:
                connection.settimeout(PATIENCE)
                _serve_one(connection, answer)
            except (OSError, ValueError):
                pass


def _serve_one(connection: socket.socket, answer: Answer) -> None:
    import json

    _, user, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    if user not in (0, os.getuid()):
        return
    try:
        told = answer(json.loads(_read(connection)))
    except (ValueError, KeyError, TypeError) as error:
        told = {"problem": str(error)}
    connection.sendall(json.dumps(told).encode())


def _read(connection: socket.socket) -> bytes:
    """All that the other side writes before it shuts its side."""
    data = bytearray()
    while part := connection.recv(65536):
        data += part
        if len(data) > MOST:
            raise ValueError("too much")
    return bytes(data)


def ask(request: dict[str, Any], pid: int = 0) -> dict[str, Any]:
    """Ask a running server: that of a process id, or the only one there is. Raises ValueError and OSError."""
    import json

    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(PATIENCE)
        try:
            connection.connect(f"{NAME}{pid or _only()}")
        except ConnectionRefusedError:
            raise ValueError(f"no server with process id {pid} runs here") from None
        connection.sendall(json.dumps(request).encode())
        connection.shutdown(socket.SHUT_WR)
        reply = _read(connection)
    if not reply:
        raise ValueError("the server answers its own user and root only")
    told: dict[str, Any] = json.loads(reply)
    if "problem" in told:
        raise ValueError(told["problem"])
    return told


def _only() -> int:
    """Process id of the one server in this network namespace. Raises ValueError."""
    with open("/proc/net/unix", encoding="ascii", errors="replace") as lines:
        marker = "@" + NAME[1:]
        found = sorted({int(line.rpartition(marker)[2]) for line in lines if marker in line})
    if len(found) != 1:
        raise ValueError(
            f"several servers run here, name one by -pid: {' '.join(map(str, found))}" if found else "no server runs here; -conf explains a Corefile"
        )
    return found[0]
