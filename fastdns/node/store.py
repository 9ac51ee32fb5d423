"""The listening sockets of the server, kept by its parent: they stay open, and queries wait in them, while no server runs.

The server gives them by the protocol of systemd (sd_notify(3), `fastdns.server.activation`). Between the caches of a node they go in the same messages.
"""

from __future__ import annotations

import array
import os
import shutil
import socket
import tempfile
from contextlib import suppress

from fastdns.server.activation import MESSAGE_MAX, place
from fastdns.system.credentials import UCRED, Credentials

__all__ = ["Notices", "Sockets", "Store", "fields", "receive"]

#: Sockets and their names by service, in the order of its workers.
Sockets = dict[str, list[int]]

#: Descriptors that one message can have (SCM_MAX_FD), and octets of its text.
DESCRIPTORS_MAX = 253
TEXT_MAX = 4096
#: Sockets that are kept at most.
SOCKETS_MAX = 1024
#: asm-generic/socket.h
SO_RCVBUFFORCE = 33
#: Octets that a UDP socket may hold, of which the kernel counts twice as many. 768 for a query: 5,000 a second for the 5 s that clients wait.
RECEIVE_BUFFER = 10 << 20


class Store:
    """Sockets by name. What is received becomes current as a whole, by READY."""

    def __init__(self) -> None:
        self.sockets: Sockets = {}
        self._coming: Sockets = {}
        #: Whether READY has come since `begin`.
        self.ready = False

    def begin(self) -> None:
        """Forget what came without READY: another server is started."""
        _close(self._coming)
        self._coming, self.ready = {}, False

    def take(self, said: dict[str, str], descriptors: list[int]) -> bool:
        """Act on a message. Returns whether the sockets are complete by it. Descriptors that are no sockets for queries are closed."""
        name = said.get("FDNAME", "")
        if said.get("FDSTORE") == "1" and name and sum(map(len, self._coming.values())) + len(descriptors) <= SOCKETS_MAX:
            kept = [descriptor for descriptor in descriptors if place(descriptor) is not None]
            self._coming.setdefault(name, []).extend(kept)
            for descriptor in kept:
                _enlarge(descriptor)
            descriptors = [descriptor for descriptor in descriptors if descriptor not in kept]
        for descriptor in descriptors:
            os.close(descriptor)
        if said.get("READY") != "1":
            return False
        # A server gives all that it has, each time: FDSTOREREMOVE says nothing more.
        former, self.sockets, self._coming, self.ready = self.sockets, self._coming, {}, True
        _close(former)
        return True

    def send(self, sock: socket.socket) -> None:
        """Send all sockets over a Unix socket. OSError."""
        for name, descriptors in self.sockets.items():
            for at in range(0, len(descriptors), MESSAGE_MAX):
                socket.send_fds(sock, [f"FDSTORE=1\nFDNAME={name}".encode()], descriptors[at : at + MESSAGE_MAX])
        sock.send(b"READY=1")

    def adopt(self, other: Store) -> None:
        """Have the sockets of another store in the place of these."""
        former, self.sockets, other.sockets = self.sockets, other.sockets, {}
        _close(former)

    def close(self) -> None:
        """Keep nothing any more."""
        self.begin()
        _close(self.sockets)
        self.sockets = {}


class Notices:
    """The socket on which the server tells its parent that it serves, and gives it its sockets. OSError where it cannot be made."""

    def __init__(self) -> None:
        self._folder = tempfile.mkdtemp(prefix="fastdns-node-")
        self.path = os.path.join(self._folder, "notify")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
            self.socket.bind(self.path)
            # The server may be another user. The folder's name is not to be guessed, and `read` believes its process alone.
            os.chmod(self.path, 0o666)  # noqa: S103 - see above
            os.chmod(self._folder, 0o711)  # noqa: S103 - see above
            self.socket.setblocking(False)
        except OSError:
            self.close()
            raise

    def read(self, store: Store, pid: int) -> bool:
        """Take what the process with this id has sent. Returns whether the sockets have become others."""
        changed = False
        with suppress(BlockingIOError):
            while True:
                said, descriptors, sender = receive(self.socket)
                if sender == pid:
                    changed = store.take(said, descriptors) or changed
                else:
                    for descriptor in descriptors:
                        os.close(descriptor)
        return changed

    def close(self) -> None:
        self.socket.close()
        shutil.rmtree(self._folder, ignore_errors=True)


def receive(sock: socket.socket) -> tuple[dict[str, str], list[int], int]:
    """A message of a Unix socket: its fields, its descriptors, and the process id of the sender where the socket asks for it, else 0.

    Without fields: the end, or a message that is none. Raises OSError.
    """
    space = socket.CMSG_SPACE(DESCRIPTORS_MAX * array.array("i").itemsize) + socket.CMSG_SPACE(UCRED.size)
    data, ancillary, flags, _ = sock.recvmsg(TEXT_MAX, space, socket.MSG_CMSG_CLOEXEC)
    descriptors, sender = array.array("i"), 0
    for level, kind, octets in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            descriptors.frombytes(octets[: len(octets) - len(octets) % descriptors.itemsize])
        elif (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS):
            sender = Credentials.from_octets(octets).pid
    if flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
        _close({"": list(descriptors)})
        return {}, [], sender
    return fields(data), list(descriptors), sender


def fields(data: bytes) -> dict[str, str]:
    """The lines NAME=VALUE of a message; those that are none are left out."""
    lines = data.decode("utf-8", "replace").splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)


def _enlarge(descriptor: int) -> None:
    """Give a UDP socket room for the queries that come while no server runs. It stays as it is where that is not allowed."""
    with socket.socket(fileno=os.dup(descriptor)) as sock, suppress(OSError):
        if sock.type == socket.SOCK_DGRAM and sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) < 2 * RECEIVE_BUFFER:
            sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, RECEIVE_BUFFER)


def _close(sockets: dict[str, list[int]]) -> None:
    for descriptors in sockets.values():
        for descriptor in descriptors:
            os.close(descriptor)
