"""The connections of one client to the API server: their octets are counted, and they can be cut."""

from __future__ import annotations

import selectors
import socket
import threading

__all__ = ["Link"]

CHUNK = 1 << 16


class Link:
    """Passes connections on to a port of 127.0.0.1. While it is cut, nobody listens on its own port, and connections have ended."""

    def __init__(self, target: int) -> None:
        self.target = target
        #: Octets that the client has had from the API server.
        self.octets = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        #: The other end of each connection that is open.
        self._pairs: dict[socket.socket, socket.socket] = {}
        self._wake, self._woken = socket.socketpair()
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._wanted = True
        self._over = False
        self._changed = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def __enter__(self) -> Link:
        return self

    def __exit__(self, *_: object) -> None:
        self._over = True
        self._wake.send(b"-")
        self._thread.join()
        if self._listener.fileno() >= 0:
            self._cut()
        for each in (self._selector, self._wake, self._woken):
            each.close()

    def cut(self) -> None:
        self._set(False)

    def mend(self) -> None:
        self._set(True)

    def _set(self, wanted: bool) -> None:
        self._wanted = wanted
        self._changed.clear()
        self._wake.send(b"-")
        self._changed.wait()

    # ---- the thread ----

    def _run(self) -> None:
        while not self._over:
            for key, _ in self._selector.select():
                if key.fd == self._woken.fileno():
                    self._woken.recv(CHUNK)
                    self._obey()
                    break  # what else was ready may be closed
                if key.fd == self._listener.fileno():
                    self._accept()
                elif not self._pass(*key.data):
                    break

    def _obey(self) -> None:
        if self._wanted and self._listener.fileno() < 0:
            self._listener = socket.create_server(("127.0.0.1", self.port))
            self._selector.register(self._listener, selectors.EVENT_READ)
        elif not self._wanted and self._listener.fileno() >= 0:
            self._cut()
        self._changed.set()

    def _cut(self) -> None:
        for sock in (*self._pairs, self._listener):
            self._close(sock)
        self._pairs.clear()

    def _close(self, sock: socket.socket) -> None:
        self._selector.unregister(sock)
        sock.close()

    def _accept(self) -> None:
        client, _ = self._listener.accept()
        try:
            server = socket.create_connection(("127.0.0.1", self.target), 1)
        except OSError:
            client.close()
            return
        server.settimeout(None)
        for one, other in ((client, server), (server, client)):
            self._pairs[one] = other
            self._selector.register(one, selectors.EVENT_READ, (one, other, one is server))

    def _pass(self, sock: socket.socket, other: socket.socket, counted: bool) -> bool:
        """False when a connection has ended."""
        try:
            octets = sock.recv(CHUNK)
            if octets:
                other.sendall(octets)
        except OSError:
            octets = b""
        self.octets += counted * len(octets)
        if not octets:
            for each in (sock, other):
                del self._pairs[each]
                self._close(each)
        return bool(octets)
