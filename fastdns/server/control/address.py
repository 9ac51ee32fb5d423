"""The address of the control socket, for the server and for its clients.

A server listens on ``/run/fastdns/PID``, or on ``PID`` in a folder of its user below ``/run/fastdns`` or ``$XDG_RUNTIME_DIR/fastdns``. Nobody else can write
there. Where no such folder can be written, as in a container with a read-only root, the name is ``@fastdns-control/PID`` in the abstract namespace of Unix
sockets. Any process of the network namespace may bind such a name, so a client asks the kernel who listens (SO_PEERCRED), and passes over everybody else.
"""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from fastdns.system.credentials import Credentials, peer_credentials

__all__ = ["NAME", "connect", "listen", "remove"]

NAME = "\0fastdns-control/"
RUN = "/run/fastdns"
MODE = 0o755


class Found(NamedTuple):
    """A socket that may be a server's. ``owner`` is the user of its folder, None for a name in the abstract namespace."""

    pid: int
    address: str
    owner: int | None


def listen() -> socket.socket:
    """A socket that listens for this process. Raises OSError where no address is to be had."""
    for folder in _own_folders():
        path = os.path.join(folder, str(os.getpid()))
        with suppress(OSError):
            _remove_stale(folder)
            listener = _bound(path)
            # Credentials decide who is answered.
            os.chmod(path, 0o666)  # noqa: S103 - see above
            return listener
    return _bound(f"{NAME}{os.getpid()}")


def remove(listener: socket.socket) -> None:
    """Remove the file of a socket of `listen`, if it has one."""
    path = listener.getsockname()
    if isinstance(path, str):
        with suppress(OSError):
            os.unlink(path)


def connect(pid: int, timeout: float) -> socket.socket:
    """A connection to the server with this process id (0: the only one). Raises OSError, and ValueError where no such server is to be had."""
    connections: dict[int, socket.socket] = {}
    strangers: list[tuple[int, Credentials]] = []
    busy: list[Found] = []
    for found in _candidates():
        if (pid and found.pid != pid) or found.pid in connections:
            continue
        try:
            # A process that accepts nobody delays a client that looks for the only server by nothing.
            connection = _connected(found, timeout if pid else 0.0)
        except BlockingIOError:
            busy.append(found)
        except (ConnectionRefusedError, FileNotFoundError):
            continue
        else:
            listening = peer_credentials(connection)
            if _is_trusted(found, listening):
                connections[found.pid] = connection
            else:
                connection.close()
                strangers.append((found.pid, listening))
    if len(connections) == 1:
        connection = connections.popitem()[1]
        connection.settimeout(timeout)
        return connection
    for connection in connections.values():
        connection.close()
    if connections:
        raise ValueError(f"several servers run here, name one by -pid: {' '.join(map(str, sorted(connections)))}")
    if busy:
        return connect(busy[0].pid, timeout)
    for number, stranger in strangers if pid else ():
        raise ValueError(f"the control socket of process {number} is held by process {stranger.pid} of user {stranger.uid}")
    raise ValueError(f"no server with process id {pid} runs here" if pid else "no server runs here; -conf explains a Corefile")


# ---- private parts ----


def _bound(address: str) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        listener.bind(address)
        listener.listen(4)
    except OSError:
        listener.close()
        raise
    return listener


def _connected(found: Found, timeout: float) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(timeout)
        connection.connect(found.address)
    except OSError:
        connection.close()
        raise
    return connection


def _bases() -> list[str]:
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    return [RUN, os.path.join(runtime, "fastdns")] if os.path.isabs(runtime) else [RUN]


def _own_folders() -> Iterator[str]:
    """Folders that only this process's user can write, the first choice first. Each is made if it can be."""
    for base in _bases():
        for folder in (base, os.path.join(base, str(os.geteuid()))):
            with suppress(OSError):
                os.mkdir(folder, MODE)
            if _owner(folder) == os.geteuid() and os.access(folder, os.W_OK):
                yield folder


def _owner(folder: str) -> int | None:
    """The user of a folder that nobody else can write; None for any other file."""
    try:
        status = os.lstat(folder)
    except OSError:
        return None
    return status.st_uid if stat.S_ISDIR(status.st_mode) and not status.st_mode & 0o022 else None


def _remove_stale(folder: str) -> None:
    """Remove sockets of processes that have ended, and one with this process's id."""
    for name in os.listdir(folder):
        if name.isdecimal() and (name == str(os.getpid()) or not os.path.exists(f"/proc/{name}")):
            os.unlink(os.path.join(folder, name))


def _candidates() -> Iterator[Found]:
    """All sockets by name, those in folders first."""
    for base in _bases():
        folders = [base]
        with suppress(OSError):
            folders += [os.path.join(base, name) for name in os.listdir(base) if name.isdecimal()]
        for folder in folders:
            owner = _owner(folder)
            with suppress(OSError):
                for name in os.listdir(folder) if owner is not None else ():
                    path = os.path.join(folder, name)
                    if name.isdecimal() and stat.S_ISSOCK(os.lstat(path).st_mode):
                        yield Found(int(name), path, owner)
    with open("/proc/net/unix", encoding="ascii", errors="replace") as lines:
        marker = "@" + NAME[1:]
        names = {line.rpartition(marker)[2].strip() for line in lines if marker in line}
    for name in sorted(names):
        if name.isdecimal():
            yield Found(int(name), NAME + name, None)


def _is_trusted(found: Found, listening: Credentials) -> bool:
    """Whether the process that listens is the one which the address names.

    In a folder the user is the folder's, whom a client that is root believes. The kernel tells process id 0 for a process of another PID namespace.
    """
    if found.owner is not None:
        return listening.pid in (0, found.pid) and listening.uid == found.owner and (found.owner in (0, os.getuid()) or os.getuid() == 0)
    return listening.pid == found.pid and listening.uid in (0, os.getuid())
