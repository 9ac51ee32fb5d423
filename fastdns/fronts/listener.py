"""A front end's listening address as the engine and the instance see it: like `fastdns.engine.listener.Listener`, but without a part in the workers."""

from __future__ import annotations

import concurrent.futures
import os
import socket
import time
from collections.abc import Sequence
from errno import EADDRNOTAVAIL, EAFNOSUPPORT
from typing import TYPE_CHECKING

from fastdns.fronts import load, thread
from fastdns.fronts.front import Front, Settings
from fastdns.telemetry.log import Log

if TYPE_CHECKING:
    from fastdns.engine.engine import Engine

__all__ = ["FrontListener"]

log = Log()

BACKLOG = 1024
#: Seconds that a front end may take to start, and connections of an address that is no longer served to end.
START_SECONDS = 10.0
STOP_SECONDS = 5.0


class FrontListener:
    """The socket of one address and its front end; made by :meth:`fastdns.engine.engine.Engine.place`."""

    def __init__(self, engine: Engine, index: int, generation: int, transport: str, host: str, port: int, reuse: Sequence[int], settings: Settings) -> None:
        """``reuse``: descriptors of a former process. OSError, ValueError."""
        self.engine = engine
        self.index = index
        self.generation = generation
        self.host = host
        self.port = port
        self.watched = False
        kind = load(transport)
        self.sockets = [_open(host, port, kind.kind, reuse)]
        self.port = self.sockets[0].getsockname()[1]
        self._stopping: concurrent.futures.Future[None] | None = None
        try:
            self.front: Front = kind(self.sockets[0], settings, thread.loop(), self)
        except BaseException:
            self._close_sockets()
            raise

    def filenos(self) -> list[int]:
        """Descriptors, for a successor process."""
        return [sock.fileno() for sock in self.sockets]

    def adopt(self, settings: Settings) -> None:
        """A configuration that serves the address has been published."""
        thread.call(self.front.adopt, settings)

    # ---- what the engine calls ----

    def _prepare(self) -> None:
        pass

    def _forget_sockets(self) -> None:
        pass

    def _watch(self) -> None:
        self.watched = True
        thread.begin(self.front.start()).result(START_SECONDS)

    def _unwatch(self) -> None:
        """Take no more clients; those that are there get their replies."""
        if self.watched:
            self.watched = False
            self._stopping = thread.begin(self.front.stop())

    def _ended(self, deadline: float) -> bool:
        """Whether all replies have left by the deadline (seconds, monotonic)."""
        stopping, self._stopping = self._stopping, None
        if stopping is None:
            return True
        try:
            stopping.result(max(0.0, deadline - time.monotonic()))
        except (TimeoutError, concurrent.futures.CancelledError):
            stopping.cancel()
            return False
        except Exception as error:
            log.error(f"Stopping {self.front.settings.address}: {error}")
        return True

    def _close_sockets(self) -> None:
        for sock in self.sockets:
            sock.close()
        self.sockets = []

    def pause(self) -> None:
        """Take no more queries. For good: close follows."""
        self._unwatch()

    def close(self) -> None:
        """Close the sockets once the front end has stopped."""
        self._unwatch()
        self._ended(time.monotonic() + STOP_SECONDS)
        thread.call(self._close_sockets)
        self.engine._forget(self)


def _open(host: str, port: int, kind: socket.SocketKind, reuse: Sequence[int]) -> socket.socket:
    """A bound socket of its address; all addresses of both families where the host is empty. OSError."""
    for descriptor in reuse:
        given = socket.socket(fileno=os.dup(descriptor))
        if given.type == kind:
            given.setblocking(False)
            return given
        given.close()
    family = socket.AF_INET6 if ":" in host or not host else socket.AF_INET
    try:
        return _bound(family, host or "::", port, kind, dual=not host)
    except OSError as error:
        if host or error.errno not in (EAFNOSUPPORT, EADDRNOTAVAIL):
            raise
        return _bound(socket.AF_INET, "0.0.0.0", port, kind, dual=False)  # no IPv6 on this machine


def _bound(family: socket.AddressFamily, host: str, port: int, kind: socket.SocketKind, dual: bool) -> socket.socket:
    address, _, zone = host.partition("%")
    sock = socket.socket(family, kind | socket.SOCK_CLOEXEC)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if kind == socket.SOCK_STREAM:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if dual else 1)
        scope = socket.if_nametoindex(zone) if zone else 0
        sock.bind((address, port, 0, scope) if family == socket.AF_INET6 else (address, port))
        if kind == socket.SOCK_STREAM:
            sock.listen(BACKLOG)
        sock.setblocking(False)
    except OSError:
        sock.close()
        raise
    return sock
