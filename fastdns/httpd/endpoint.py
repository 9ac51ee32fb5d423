"""The HTTP endpoints of health, ready, prometheus and console.

Endpoints with the same address share a listener. While a reload is in progress the former configuration's endpoint answers and the new one waits, so
that a probe or a scrape never finds a closed port. The life of an endpoint: `open` at start-up, `serve` once the configuration serves, `close`.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Hashable
from typing import Any

from fastdns.corefile.address import join_host_port, split_address
from fastdns.httpd import listener as native
from fastdns.httpd.message import Later, Reply, Request, parse_head
from fastdns.httpd.places import Places
from fastdns.telemetry.log import Log

__all__ = ["HEALTH", "Endpoint", "bind", "page_address"]

log = Log("http")

BACKLOG = 128

#: Replies of `Later` that are made at the same time, of all listeners; further ones are refused.
LATER_MAX = 8
_later = Places(LATER_MAX)

Page = Callable[[Request], Reply | Later]


def HEALTH(request: Request) -> Reply:  # noqa: N802
    """The page that the native thread answers by itself at the path /health."""
    return Reply(body=b"OK")


BUSY = Reply(503, b"503 too many at the same time\n")
NOT_FOUND = Reply(404, b"404 page not found\n", fields=(("X-Content-Type-Options", "nosniff"),))


class Endpoint:
    """A page at an address and path, of one configuration."""

    def __init__(self, address: str, path: str, page: Page, tls: Any = None) -> None:
        """``address`` is ``host:port``, the host empty for all addresses; ``tls`` has an `ssl.SSLContext` as ``context``."""
        self.address = address
        self.path = path
        self.page = page
        self.tls = tls

    def open(self) -> None:
        """Listen on the address, or share its listener, whose page answers until `serve`; nothing when it is open. Raises OSError."""
        with _lock:
            if self._listener is not None:
                return
            listener = _listeners.get(self.address)
            if listener is not None and bool(listener.tls) != bool(self.tls):
                listener = None  # plain HTTP and TLS need different listeners: the former one is replaced
            if listener is None:
                listener = _listeners[self.address] = _Listener(self.address, self.tls)
            self._listener = listener
            listener.endpoints.append(self)
            listener.changed()

    def serve(self) -> None:
        """Answer with this page from now on, in place of a former configuration's."""
        with _lock:
            listener = self._listener
            if listener is not None and self in listener.endpoints:
                listener.endpoints.remove(self)
                listener.endpoints.insert(0, self)
                listener.tls = self.tls
                listener.changed()
                self.pending = False

    def close(self) -> None:
        """Stop answering. The listener is closed with its last endpoint."""
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

    #: Opened, but `serve` was not called yet.
    pending = True
    _listener: _Listener | None = None

    def follow(self, controller: Any, patience: float = 0.0) -> None:
        """Register hooks that open and close the endpoint with the controller's configuration. It stays open until the process ends.

        With ``patience``, for a client that asks again only after a while, the kernel takes connections from now on. They are answered when the
        configuration serves, or so many seconds after its start-up hooks began.
        """
        restarting = False
        timer: threading.Timer | None = None

        def restart() -> None:
            nonlocal restarting
            restarting = True

        def failed() -> None:
            nonlocal restarting
            restarting = False

        def start() -> None:
            nonlocal timer
            if controller.share < 1 and self.address in _listeners:
                return  # a canary: until it is promoted, connections are the serving configuration's, whether over TLS or not
            if not patience or self.address not in _reserved:
                self.open()
                return
            timer = threading.Timer(patience, self.open)
            timer.daemon = True
            timer.start()

        def started() -> None:
            # It would open again what a reload has closed by then. Where it runs already, it opens what is opened here anyway.
            if timer is not None:
                timer.cancel()
                timer.join()
            self.open()
            self.serve()

        if patience:
            reserve(self.address)
        controller.on_startup(start)
        controller.on_started(started, whole=True)
        controller.on_restart(restart)
        controller.on_restart_failed(failed)
        # Still pending: the configuration was rejected.
        controller.on_shutdown(lambda: self.close() if restarting or self.pending else None)


# ---- listeners ----

_lock = threading.RLock()
_listeners: dict[str, _Listener] = {}
#: By address sockets that listen and whose connections nobody takes yet.
_reserved: dict[str, socket.socket] = {}
_thread: threading.Thread | None = None


def page_address(controller: Any, address: str) -> str:
    """The address in the directive's arguments, or else ``address``. Raises CorefileError, ValueError."""
    arguments = controller.args(0, 1)
    if arguments:
        address = arguments[0]
        split_address(address)
    return address


def bind(address: str) -> socket.socket:
    """A listening socket for ``host:port``; an empty host is all addresses of both families. Raises OSError."""
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


def reserve(address: str) -> None:
    """Listen on an address that no endpoint has open yet. Where that fails, `Endpoint.open` raises the error."""
    with _lock, contextlib.suppress(OSError):
        if address not in _listeners and address not in _reserved:
            _reserved[address] = bind(address)


class _Listener:
    """A listening socket and its endpoints; for a path the first one answers."""

    def __init__(self, address: str, tls: Any) -> None:
        self.endpoints: list[Endpoint] = []
        self.tls = tls
        sock = _reserved.pop(address, None) or bind(address)
        if tls is not None:
            from fastdns.httpd.secure import SecureListener

            self.secure: Any = SecureListener(sock, lambda: self.tls.context, self.answer, _made_later)
            return
        self.secure = None
        sock.setblocking(False)
        self.number = native.add_listener(sock.detach(), False, False)
        _listeners_by_number[self.number] = self
        _start_thread()

    def page(self, path: str) -> Page | None:
        # A client that waited since `reserve` is read at once, before its endpoint is in the list.
        with _lock:
            return next((endpoint.page for endpoint in self.endpoints if endpoint.path == path), None)

    def changed(self) -> None:
        if self.secure is None:
            natively = self.page("/health") is HEALTH
            native.set_health(self.number, natively, natively and all(endpoint.path == "/health" for endpoint in self.endpoints))

    def close(self) -> None:
        if self.secure is not None:
            self.secure.close()
        else:
            del _listeners_by_number[self.number]
            native.remove_listener(self.number)

    def answer(self, request: Request) -> Reply | Later:
        page = self.page(request.path)
        if page is None:
            return NOT_FOUND
        return _made(request.path, lambda: page(request))


def _made(path: str, make: Callable[[], Reply | Later]) -> Reply | Later:
    try:
        return make()
    except BaseException as error:  # SystemExit of a plugin, too: the thread serves all pages
        log.error(f"{path}: {type(error).__name__}: {error}")
        return Reply(500, b"500 Internal Server Error\n")


_listeners_by_number: dict[int, _Listener] = {}


def _start_thread() -> None:
    global _thread
    if _thread is None or not _thread.is_alive():
        _thread = threading.Thread(target=_run, name="http", daemon=True)
        _thread.start()


def _run() -> None:
    while True:
        try:
            request, number, client, head = native.take()
            with _lock:
                listener = _listeners_by_number.get(number)
            asked = parse_head(head)
            reply = NOT_FOUND if listener is None else listener.answer(asked)
            if isinstance(reply, Later):
                _reply_later(request, client, asked.path, reply)
            else:
                native.reply(request, reply.head(), reply.body)
        except BaseException as error:  # MemoryError: the connection times out, the thread continues
            log.error(f"HTTP: {type(error).__name__}: {error}")


def _made_later(client: Hashable, path: str, later: Later) -> Reply:
    """On a thread that may take its time."""
    if not _later.take(client):
        return BUSY
    try:
        reply = _made(path, later.make)
        return reply if isinstance(reply, Reply) else BUSY
    finally:
        _later.leave(client)


def _reply_later(request: int, client: Hashable, path: str, later: Later) -> None:
    """Reply from another thread."""

    def run() -> None:
        try:
            reply = _made(path, later.make)
            if isinstance(reply, Reply):
                native.reply(request, reply.head(), reply.body)
        finally:
            _later.leave(client)

    if not _later.take(client):
        native.reply(request, BUSY.head(), BUSY.body)
        return
    try:
        threading.Thread(target=run, name="http-later", daemon=True).start()
    except RuntimeError:  # no thread can be started
        _later.leave(client)
        native.reply(request, BUSY.head(), BUSY.body)
