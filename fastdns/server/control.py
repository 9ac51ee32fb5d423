"""The control socket: how `fastdns explain` and `fastdns top` reach the running server.

Its name is in the abstract namespace of Unix sockets, so it needs no writable file system. Only the server's own user and root get answers.
"""

from __future__ import annotations

import os
import select
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

from fastdns.system.credentials import peer_credentials
from fastdns.telemetry.log import Log

__all__ = ["ask", "serve"]

log = Log()

NAME = "\0fastdns-control/"
#: Octets of a request, and of a reply; seconds for one.
MOST = 1 << 20
REPLY_MOST = 64 << 20
TIMEOUT = 15.0

#: What becomes of a request, as its reply. ValueError, KeyError and TypeError are result to the client.
Answer = Callable[[dict[str, Any]], dict[str, Any]]


def serve(answer: Answer) -> None:
    """Serve the socket on a new thread; ``answer`` handles each request. If the name is in use or not allowed, the server runs without it."""
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
    # accept on a blocking socket would reserve a descriptor for the next connection even when descriptors are out.
    listener.setblocking(False)
    wait = select.poll()
    wait.register(listener, select.POLLIN)
    while True:
        wait.poll()
        try:
            connection, _ = listener.accept()
        except BlockingIOError:
            continue
        except OSError:  # for example, no descriptor is left
            time.sleep(1)
            continue
        with connection:
            try:
                connection.settimeout(TIMEOUT)
                _serve_one(connection, answer)
            except (OSError, ValueError):
                pass


def _serve_one(connection: socket.socket, answer: Answer) -> None:
    import json

    if peer_credentials(connection).uid not in (0, os.getuid()):
        return
    try:
        result = answer(json.loads(_read(connection)))
    except (ValueError, KeyError, TypeError) as error:
        result = {"problem": str(error)}
    connection.sendall(json.dumps(result).encode())


def _read(connection: socket.socket, most: int = MOST) -> bytes:
    """The octets up to the end of the stream. Raises ValueError when there are more than ``most``."""
    data = bytearray()
    while part := connection.recv(65536):
        data += part
        if len(data) > most:
            raise ValueError("too much")
    return bytes(data)


def ask(request: dict[str, Any], pid: int = 0) -> dict[str, Any]:
    """Send a request to the running server with this process id (0: the only one) and return its reply. Raises ValueError and OSError."""
    import json

    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(TIMEOUT)
        try:
            pid = pid or _only()
            connection.connect(f"{NAME}{pid}")
        except ConnectionRefusedError:
            raise ValueError(f"no server with process id {pid} runs here") from None
        # Any process may take a name of the abstract namespace. Of a process in another PID namespace the kernel tells 0.
        owner = peer_credentials(connection)
        if owner.pid not in (0, pid) or owner.uid not in (0, os.getuid()):
            raise ValueError(f"the control socket of process {pid} is held by process {owner.pid} of user {owner.uid}")
        connection.sendall(json.dumps(request).encode())
        connection.shutdown(socket.SHUT_WR)
        reply = _read(connection, REPLY_MOST)
    if not reply:
        raise ValueError("the server answers its own user and root only")
    result: dict[str, Any] = json.loads(reply)
    if "problem" in result:
        raise ValueError(result["problem"])
    return result


def _only() -> int:
    """Process id of the only server in this network namespace. Raises ValueError when there is none, or more than one."""
    with open("/proc/net/unix", encoding="ascii", errors="replace") as lines:
        marker = "@" + NAME[1:]
        found = sorted({int(line.rpartition(marker)[2]) for line in lines if marker in line})
    if len(found) != 1:
        raise ValueError(
            f"several servers run here, name one by -pid: {' '.join(map(str, found))}" if found else "no server runs here; -conf explains a Corefile"
        )
    return found[0]
