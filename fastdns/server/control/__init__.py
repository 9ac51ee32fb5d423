"""The control socket: how `fastdns explain` and `fastdns top` reach the running server.

`address` says where it is. Only the server's own user and root get answers.
"""

from __future__ import annotations

import os
import select
import socket
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from fastdns.server.control import address
from fastdns.system.credentials import peer_credentials
from fastdns.telemetry.log import Log

__all__ = ["ask", "serve"]

log = Log()

#: Octets of a request, and of a reply; seconds for one.
MOST = 1 << 20
REPLY_MOST = 64 << 20
TIMEOUT = 15.0

#: What becomes of a request, as its reply. ValueError, KeyError and TypeError are result to the client.
Answer = Callable[[dict[str, Any]], dict[str, Any]]


def serve(answer: Answer) -> Callable[[], None]:
    """Serve the socket on a new thread; ``answer`` handles each request. Returns a function that removes the socket.

    If no address is to be had, the server runs without it.
    """
    try:
        listener = address.listen()
    except OSError as error:
        log.debug(f"no control socket: {error}")
        return lambda: None
    threading.Thread(target=_accept, args=(listener, answer), name="control", daemon=True).start()
    return partial(address.remove, listener)


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

    with address.connect(pid, TIMEOUT) as connection:
        connection.sendall(json.dumps(request).encode())
        connection.shutdown(socket.SHUT_WR)
        reply = _read(connection, REPLY_MOST)
    if not reply:
        raise ValueError("the server answers its own user and root only")
    result: dict[str, Any] = json.loads(reply)
    if "problem" in result:
        raise ValueError(result["problem"])
    return result
