"""The client loop: a thread with an event loop of its own, which asks upstreams over TLS and HTTPS for the workers.

It starts with the first instance that has such an upstream and ends with the last. A worker's question comes by the offload queue
(`fastdns.plugins.forward._clients`), goes to the upstream's client, and the reply is posted back.
"""

from __future__ import annotations

import asyncio
import threading
from typing import Protocol

from fastdns.control.tls import client_context
from fastdns.plugins.forward import _clients
from fastdns.plugins.forward._forward import ForwardHandler
from fastdns.plugins.forward.https import HttpsClient
from fastdns.plugins.forward.tls import TlsClient
from fastdns.telemetry.log import Log

__all__ = ["Client", "ClientLoop", "join"]

_log = Log("plugin/forward")


class Client(Protocol):
    """What asks one upstream."""

    async def ask(self, request: bytes) -> bytes:
        """The reply, with the request's id. Raises OSError (TimeoutError, ConnectionError, ssl.SSLError) or ValueError."""

    async def probe(self) -> None:
        """Asks the health-check question on a connection of its own; raises as `ask` does when no reply comes."""

    def close(self) -> None:
        """Closes all connections."""


class ClientLoop:
    """The thread, its loop, and the clients by number. Made by `join`."""

    def __init__(self) -> None:
        self.wake = _clients.open_wake()
        self.loop = _new_loop()
        self.clients: dict[int, tuple[ForwardHandler, int, Client]] = {}
        self.tasks: dict[asyncio.Task[None], int] = {}
        self.thread = threading.Thread(target=self._run, name="forward-clients", daemon=True)
        self.thread.start()

    def add(self, handler: ForwardHandler, index: int, client: Client) -> None:
        """Takes a client for one upstream of an instance."""
        global _last
        _last += 1
        self.clients[_last] = (handler, index, client)
        handler.set_client(index, _last)

    def leave(self, handler: ForwardHandler) -> None:
        """The instance is gone: its clients close; with the last of them the thread ends."""
        mine = [number for number, (owner, _, _) in self.clients.items() if owner is handler]
        closed = [self.clients.pop(number)[2] for number in mine]
        self.loop.call_soon_threadsafe(self._close, mine, closed)
        with _lock:
            if not self.clients:
                _forget(self)
                self.loop.call_soon_threadsafe(self.loop.stop)

    def _close(self, numbers: list[int], clients: list[Client]) -> None:
        for task, number in list(self.tasks.items()):
            if number in numbers:
                task.cancel()
        for client in clients:
            client.close()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.add_reader(self.wake, self._take)
        try:
            self.loop.run_forever()
            self.loop.run_until_complete(asyncio.sleep(0))  # cancelled tasks end
        finally:
            self.loop.remove_reader(self.wake)
            self.loop.close()

    def _take(self) -> None:
        for request_number, number, request in _clients.take():
            found = self.clients.get(number)
            if found is None:
                _clients.give(request_number, None, "the upstream is gone")
                continue
            handler, index, client = found
            if request is None:
                _clients.give(request_number, None)
                task = self.loop.create_task(_probe(handler, index, client))
            else:
                task = self.loop.create_task(_ask(request_number, client, request))
            self.tasks[task] = number
            task.add_done_callback(self.tasks.pop)


async def _ask(request_number: int, client: Client, request: bytes) -> None:
    reply, error = None, "the upstream is gone"
    try:
        reply = await client.ask(request)
    except EOFError:
        error = "EOF"
    except (OSError, ValueError) as failure:
        error = str(failure) or type(failure).__name__
    finally:
        _clients.give(request_number, reply, error)


async def _probe(handler: ForwardHandler, index: int, client: Client) -> None:
    """Asks until there is an answer."""
    while True:
        try:
            await client.probe()
        except (OSError, ValueError, EOFError):
            handler.probe_failed(index)
            await asyncio.sleep(max(handler.options.interval / 1e9, 0.01))
        else:
            handler.probe_succeeded(index)
            return


def _new_loop() -> asyncio.AbstractEventLoop:
    import uvloop

    return uvloop.new_event_loop()


# ---- one for the process ----

_lock = threading.Lock()
_loop_now: ClientLoop | None = None
_last = 0


def _forget(client_loop: ClientLoop) -> None:
    global _loop_now
    if _loop_now is client_loop:
        _loop_now = None


def join(handler: ForwardHandler) -> None:
    """Gives every TLS and HTTPS upstream of an instance its client, and starts the client loop if need be. Raises ValueError, OSError."""
    global _loop_now
    context = client_context(handler.options.tls)
    with _lock:
        if _loop_now is None:
            _loop_now = ClientLoop()
        client_loop = _loop_now
        handler.client_loop = client_loop
        for index, target in enumerate(handler.upstreams):
            if target.scheme == "tls":
                client_loop.add(handler, index, TlsClient(target, handler.options, context, _counter(handler, index)))
            elif target.scheme == "https":
                client_loop.add(handler, index, HttpsClient(target, handler.options, context))


def _counter(handler: ForwardHandler, index: int):  # type: ignore[no-untyped-def]
    return lambda hit: handler.count_connection(index, hit)
