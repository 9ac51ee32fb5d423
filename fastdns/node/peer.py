"""Sockets go between the pods of a node, and to a process that only keeps them, over Unix sockets in a folder of the node.

========= ======================================================================================================================================
message   from whom
========= ======================================================================================================================================
TAKE=1    who starts: it gets all sockets, each message with FDSTORE=1, FDNAME and descriptors, and READY=1 at the end
SERVING=1 who has taken sockets, once its server serves
FDSTORE=1 who serves, to the process that keeps sockets: as the answer to TAKE
========= ======================================================================================================================================

The folder is root's alone, and both sides of a connection ask the kernel who the other one is.
"""

from __future__ import annotations

import os
import socket
import stat
import time
from contextlib import suppress

from fastdns.node.store import Store, receive
from fastdns.system.credentials import peer_credentials
from fastdns.telemetry.log import Log

__all__ = ["SEND_SECONDS", "Client", "Server", "own_folder"]

log = Log()

#: Seconds for the other side, which may hang: it then counts as absent.
TAKE_SECONDS = 5.0
SEND_SECONDS = 1.0
CLIENTS_MAX = 8


class Client:
    """A connection to who gives sockets, or keeps them. Raises OSError where nobody does."""

    def __init__(self, path: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self.socket.settimeout(TAKE_SECONDS)
            self.socket.connect(path)
            _check(self.socket)
        except OSError:
            self.socket.close()
            raise

    def take(self, store: Store) -> None:
        """Have the other side's sockets in the store. Raises OSError, and the store is as it was."""
        store.begin()
        deadline = time.monotonic() + TAKE_SECONDS
        try:
            self.socket.send(b"TAKE=1")
            while True:
                self.socket.settimeout(max(0.001, deadline - time.monotonic()))
                said, descriptors, _ = receive(self.socket)
                if not said:
                    raise ConnectionError("the connection has ended")
                if store.take(said, descriptors):
                    return
        except OSError:
            store.begin()
            raise

    def has_ended(self) -> bool:
        """Nothing else comes on the connection once sockets have been taken."""
        self.socket.setblocking(False)
        try:
            return not self.socket.recv(1)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def close(self) -> None:
        self.socket.close()


class Connection:
    """Who is connected to a `Server`."""

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock
        self.has_taken = False
        self.serves = False
        #: What it has given, until that is complete.
        self.store = Store()

    def close(self) -> None:
        self.store.close()
        self.socket.close()


class Server:
    """Gives the sockets of a store to those who ask. ``keeps``: takes theirs, too."""

    def __init__(self, path: str, store: Store, keeps: bool) -> None:
        self.path, self.store, self.keeps = path, store, keeps
        self.socket: socket.socket | None = None
        self.clients: dict[int, Connection] = {}
        #: Of the file at the path that is this server's.
        self._inode = 0

    def listen(self) -> None:
        """Take the place at the path, also from another process. Raises OSError."""
        new = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        beside = f"{self.path}.{os.getpid()}"
        try:
            with suppress(FileNotFoundError):
                os.unlink(beside)
            new.bind(beside)
            new.listen(CLIENTS_MAX)
            new.setblocking(False)
            inode = os.stat(beside).st_ino
            os.rename(beside, self.path)
        except OSError:
            new.close()
            raise
        if self.socket is not None:
            self.socket.close()
        self.socket, self._inode = new, inode

    def keep_place(self) -> None:
        """Take the place at the path again when whoever took it from this server has gone. Raises OSError."""
        if self.socket is None:
            return
        with suppress(OSError):
            if os.stat(self.path).st_ino == self._inode:
                return
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as probe:
                probe.setblocking(False)
                probe.connect(self.path)
                return
        self.listen()

    def files(self) -> list[int]:
        return [*self.clients, *([self.socket.fileno()] if self.socket is not None else [])]

    def act(self, ready: set[int]) -> None:
        """Accept, answer and forget those whose files are ready. Raises OSError."""
        for number in ready & self.clients.keys():
            client = self.clients[number]
            try:
                self._answer(client)
            except BlockingIOError:
                pass
            except OSError:
                del self.clients[number]
                client.close()
                if client.serves:
                    log.warning("The pod that had taken over has ended")
                    self.keep_place()
        if self.socket is not None and self.socket.fileno() in ready:
            self._accept(self.socket)

    def _accept(self, listener: socket.socket) -> None:
        try:
            sock, _ = listener.accept()
        except OSError:
            return
        try:
            sock.settimeout(SEND_SECONDS)
            _check(sock)
            if len(self.clients) == CLIENTS_MAX:
                raise OSError("too many connections")
        except OSError as error:
            log.error(f"Refused to hand over: {error}")
            sock.close()
            return
        self.clients[sock.fileno()] = Connection(sock)

    def _answer(self, client: Connection) -> None:
        """Act on a message. Raises OSError for the end, and for what nobody says here."""
        said, descriptors, _ = receive(client.socket)
        if self.keeps and ("FDSTORE" in said or "READY" in said):
            if client.store.take(said, descriptors):
                self.store.adopt(client.store)
            return
        for descriptor in descriptors:
            os.close(descriptor)
        if "TAKE" in said:
            client.has_taken = True
            self.store.send(client.socket)
        elif "SERVING" in said and client.has_taken:
            if not client.serves:
                log.info("Another pod serves; this one does until it is ended")
            client.serves = True
        else:
            raise ConnectionError("the connection has ended")


def own_folder(folder: str) -> None:
    """Make the folder, for this user alone. Raises OSError when it is another one's."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise PermissionError(f"{folder} is not a folder of user {os.geteuid()}")
    os.chmod(folder, 0o700)


def _check(sock: socket.socket) -> None:
    """Raises OSError when the other side is neither root nor this process's user."""
    uid = peer_credentials(sock).uid
    if uid not in (0, os.geteuid()):
        raise PermissionError(f"user {uid} is not allowed to")
