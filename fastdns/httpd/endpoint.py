"""The small pages of health, ready and prometheus.

Endpoints of one address share a listener, those of one address and path a page: while a new configuration is loaded its endpoint stands behind
the old one, so that neither a probe nor a scrape meets a closed port. Life of an endpoint: `open` at start-up, `serve` once started, `close`.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from typing import Any

from fastdns.corefile.address import join_host_port, split_address
from fastdns.httpd import listener as native
from fastdns.httpd.message import Reply, Request, parse_head
from fastdns.telemetry.log import Log

__all__ = ["HEALTH", "Endpoint", "bind", "page_address"]

log = Log("http")

BACKLOG = 128

Page = Callable[[Request], Reply]


def HEALTH(request: Request) -> Reply:  # noqa: N802
    """The page that the native side answers by itself where it stands at /health."""
    return Reply(body=b"OK")


NOT_FOUND = Reply(404, b"404 page not found\n", fields=(("X-Content-Type-Options", "nosniff"),))


class Endpoint:
    """A page at an address, as one configuration wants it."""

    def __init__(self, address: str, path: str, page: Page, tls: Any = None) -> None:
        """``address`` is ``host:port``, the host empty for all addresses; ``tls`` an `ssl.SSLContext`."""
        self.address = address
        self.path = path
        self.page = page
        self.tls = tls

    def open(self) -> None:
        """Listen, or share who listens there already; his page goes first until `serve`. Raises OSError."""
        with _lock:
            listener = _listeners.get(self.address)
            if listener is not None and bool(listener.tls) != bool(self.tls):
                listener = None  # the new kind of listener takes over from here on
            if listener is None:
                listener = _listeners[self.address] = _Listener(self.address, self.tls)
            self._listener = listener
            listener.endpoints.append(self)
            listener.changed()

    def serve(self) -> None:
        """From now on this page, not that of an older configuration."""
        with _lock:
            listener = self._listener
            if listener is not None and self in listener.endpoints:
                listener.endpoints.remove(self)
                listener.endpoints.insert(0, self)
                listener.tls = self.tls
                listener.changed()
                self.pending = False

    def close(self) -> None:
        """Give the page up; the listener closes behind its last one."""
        with _lock:
            listener, self._listener = self._listener, None
            if listener is None:
                return
            listener.endpoints.remove(self)
            if listener.endpoints:
                listener.changed()
                return
            listener.close()
            if _listeners.get(self.address) is listener:
                del _listeners[self.address]

    #: Opened, but not serving yet.
    pending = True
    _listener: _Listener | None = None

    def follow(self, controller: Any) -> None:
        """Open and close with the configuration of a controller; stays open when the process ends."""
        restarting = False

        def restart() -> None:
            nonlocal restarting
            restarting = True

        def failed() -> None:
            nonlocal restarting
            restarting = False

        controller.on_startup(self.open)
        controller.on_started(self.serve)
        controller.on_restart(restart)
        controller.on_restart_failed(failed)
        # Still pending: the configuration was refused.
        controller.on_shutdown(lambda: self.close() if restarting or self.pending else None)


# ---- listeners ----

_lock = threading.RLock()
_listeners: dict[str, _Listener] = {}
_thread: threading.Thread | None = None


def page_address(controller: Any, address: str) -> str:
    """The directive's own address where it names one, else ``address``. Raises CorefileError, ValueError."""
    arguments = controller.args(0, 1)
    if arguments:
        address = arguments[0]
        split_address(address)
    return address


def bind(address: str) -> socket.socket:
    """A listening socket for ``host:port``; all addresses of both families where the host is empty. Raises OSError."""
    host, port = split_address(address)
    number = int(port) if port.isdigit() else socket.getservbyname(port) if port else 0
    if host:
        family, _, _, _, name = sorted(socket.getaddrinfo(host, number, type=socket.SOCK_STREAM))[0]  # IPv4 first
    else:
        family, name = socket.AF_INET6, ("::", number)
    try:
        listener = socket.socket(family, socket.SOCK_STREAM)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1 if host else 0)
    except OSError:
        if host:
            raise
        listener, name = socket.socket(socket.AF_INET, socket.SOCK_STREAM), ("0.0.0.0", number)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind(name)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise OSError(error.errno, f"listen tcp {join_host_port(host, port)}: bind: {(error.strerror or str(error)).lower()}") from error
    return listener


class _Listener:
    """A listening socket and the endpoints behind it, the one that answers first."""

    def __init__(self, address: str, tls: Any) -> None:
        self.endpoints: list[Endpoint] = []
        self.tls = tls
        sock = bind(address)
        if tls is not None:
            from fastdns.httpd.secure import SecureListener

            self.secure: Any = SecureListener(sock, lambda: self.tls, self.answer)
            return
        self.secure = None
        sock.setblocking(False)
        self.door = native.add_door(sock.detach(), False, False)
        _doors[self.door] = self
        _start_thread()

    def page(self, path: str) -> Page | None:
        return next((endpoint.page for endpoint in self.endpoints if endpoint.path == path), None)

    def changed(self) -> None:
        if self.secure is None:
            natively = self.page("/health") is HEALTH
            native.change_door(self.door, natively, natively and all(endpoint.path == "/health" for endpoint in self.endpoints))

    def close(self) -> None:
        if self.secure is not None:
            self.secure.close()
        else:
            del _doors[self.door]
            native.remove_door(self.door)

    def answer(self, request: Request) -> Reply:
        page = self.page(request.path)
        if page is None:
            return NOT_FOUND
        try:
            return page(request)
        except Exception as error:
            log.error(f"{request.path}: {type(error).__name__}: {error}")
            return Reply(500, b"500 Internal Server Error\n")


_doors: dict[int, _Listener] = {}


def _start_thread() -> None:
    global _thread
    if _thread is None or not _thread.is_alive():
        _thread = threading.Thread(target=_run, name="http", daemon=True)
        _thread.start()


def _run() -> None:
    while True:
        try:
            number, door, head = native.take()
            listener = _doors.get(door)
            reply = NOT_FOUND if listener is None else listener.answer(parse_head(head))
            native.reply(number, reply.head(), reply.body)
        except Exception as error:  # out of memory: the connection ends in time, the thread goes on
            log.error(f"HTTP: {type(error).__name__}: {error}")
