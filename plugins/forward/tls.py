"""A client for DNS over TLS (RFC 7858): connections that are kept and take several questions at once."""

from __future__ import annotations

import asyncio
import secrets
import ssl
import time
from collections.abc import Callable

from fastdns.corefile.address import join_host_port, strip_scope
from fastdns.plugins.forward.options import Options
from fastdns.plugins.forward.upstreams import Target

__all__ = ["TlsClient", "connect", "probe_request"]

#: Questions in flight on one connection before another is made, and connections.
DEPTH = 64
CONNECTIONS = 8
DIAL_MOST = 5.0
PROBE_TIMEOUT = 1.0


async def connect(target: Target, options: Options, context: ssl.SSLContext, timeout: float) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A verified TLS connection. Raises OSError with the text that operators know."""
    name = options.tls_servername or target.servername or strip_scope(target.host)
    own = (options.source_address, 0) if options.source_address else None
    try:
        return await asyncio.wait_for(
            asyncio.open_connection(target.host, target.port, ssl=context, server_hostname=name, local_addr=own, limit=1 << 17), timeout
        )
    except TimeoutError:
        raise OSError(f"dial tcp {target.text}: i/o timeout") from None
    except ssl.SSLCertVerificationError as error:
        raise OSError(f"tls: failed to verify certificate: {error.verify_message}") from None
    except ssl.SSLError as error:
        raise OSError(f"tls: {error.reason or error}") from None
    except OSError as error:
        raise OSError(f"dial tcp {target.text}: connect: {reason(error)}") from None


def reason(error: OSError) -> str:
    """What the system says, without asyncio's words around it."""
    import os

    text = os.strerror(error.errno) if error.errno else str(error)
    return text[:1].lower() + text[1:]


def probe_request(options: Options) -> bytes:
    """The health check's question, id 0."""
    from fastdns._wire import name_wire

    return bytes([0, 0, int(options.probe_recursion), 0, 0, 1, 0, 0, 0, 0, 0, 0]) + name_wire(options.probe_name) + b"\0\2\0\1"


class Connection:
    """One TLS connection and the questions under way on it, by id."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.opened = self.used = time.monotonic()
        self.waiting: dict[int, asyncio.Future[bytes]] = {}
        self.closed = False
        self.retired = False
        self.task = asyncio.get_running_loop().create_task(self._read())

    async def ask(self, request: bytes, timeout: float) -> bytes:
        """Sends under a random id of its own; EOFError when the connection ends first."""
        number = secrets.randbelow(65536)
        while number in self.waiting:
            number = secrets.randbelow(65536)
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self.waiting[number] = future
        try:
            self.writer.write(len(request).to_bytes(2, "big") + number.to_bytes(2, "big") + request[2:])
            reply = await asyncio.wait_for(future, timeout)
        except TimeoutError:
            self.retired = True
            own, peer = (join_host_port(*self.writer.get_extra_info(name, ("", 0))[:2]) for name in ("sockname", "peername"))
            raise OSError(f"read tcp {own}->{peer}: i/o timeout") from None
        finally:
            del self.waiting[number]
            self.used = time.monotonic()
            if self.retired and not self.waiting:
                self.close()
        return request[:2] + reply[2:]

    async def _read(self) -> None:
        error: Exception = EOFError()
        try:
            while True:
                size = int.from_bytes(await self.reader.readexactly(2), "big")
                message = await self.reader.readexactly(size)
                future = self.waiting.get(int.from_bytes(message[:2], "big"))
                if future is not None and not future.done():
                    future.set_result(message)
        except (OSError, EOFError, ssl.SSLError) as failure:
            if not isinstance(failure, EOFError | ConnectionResetError):
                error = OSError(f"read tcp: {reason(failure)}" if isinstance(failure, OSError) else str(failure))
        finally:
            self.closed = True
            self.writer.close()
            for future in self.waiting.values():
                if not future.done():
                    future.set_exception(error)

    def close(self) -> None:
        """Ends it; whoever still waits gets EOFError."""
        self.closed = True
        self.task.cancel()


class TlsClient:
    """Asks one upstream. ``count`` is called for each question with whether a kept connection took it."""

    def __init__(self, target: Target, options: Options, context: ssl.SSLContext, count: Callable[[bool], None]) -> None:
        self.target = target
        self.options = options
        self.context = context
        self.count = count
        self.connections: list[Connection] = []
        #: Connections in the making, and how many questions wait for each.
        self.dials: dict[asyncio.Task[Connection], int] = {}
        #: Seconds that connecting takes, a moving average.
        self.dial = 15.0
        self.sweeper: asyncio.TimerHandle | None = None

    async def ask(self, request: bytes) -> bytes:
        """The reply. A kept connection that the upstream has closed is replaced once. Raises OSError, EOFError."""
        timeout = self.options.read_timeout / 1e9
        kept = self._kept()
        self.count(kept is not None)
        if kept is not None:
            try:
                return await kept.ask(request, timeout)
            except EOFError:
                pass
        return await (await self._connect()).ask(request, timeout)

    async def probe(self) -> None:
        """The health check's question on a connection of its own."""
        reader, writer = await connect(self.target, self.options, self.context, PROBE_TIMEOUT)
        try:
            connection = Connection(reader, writer)
            await connection.ask(probe_request(self.options), PROBE_TIMEOUT)
            connection.close()
        finally:
            writer.close()

    def close(self) -> None:
        """Closes all connections."""
        for dial in self.dials:
            dial.cancel()
        for connection in self.connections:
            connection.close()
        self.connections.clear()
        if self.sweeper is not None:
            self.sweeper.cancel()

    def _kept(self) -> Connection | None:
        self._sweep()
        best = min(
            (connection for connection in self.connections if not connection.retired and len(connection.waiting) < DEPTH),
            key=lambda connection: len(connection.waiting),
            default=None,
        )
        if best is not None and best.waiting and len(self.connections) < CONNECTIONS:
            return None
        return best

    async def _connect(self) -> Connection:
        """A new connection; one that others are making serves all of them once there are enough."""
        if self.dials and len(self.dials) + len(self.connections) >= CONNECTIONS:
            dial = min(self.dials, key=self.dials.__getitem__)
        else:
            dial = asyncio.get_running_loop().create_task(self._dial())
            self.dials[dial] = 0
            dial.add_done_callback(self.dials.pop)
        self.dials[dial] += 1
        return await asyncio.shield(dial)

    async def _dial(self) -> Connection:
        begun = time.monotonic()
        timeout = 1.0 if self.dial < 1 else min(2 * self.dial, DIAL_MOST)
        try:
            reader, writer = await connect(self.target, self.options, self.context, timeout)
        finally:
            self.dial += (time.monotonic() - begun - self.dial) / 4
        connection = Connection(reader, writer)
        self.connections.append(connection)
        if self.sweeper is None:
            self._sweep_later()
        return connection

    def _sweep_later(self) -> None:
        self.sweeper = asyncio.get_running_loop().call_later(10, self._swept)

    def _swept(self) -> None:
        self.sweeper = None
        self._sweep()
        if self.connections:
            self._sweep_later()

    def _sweep(self) -> None:
        """Lets go of closed, idle, old and surplus connections."""
        now = time.monotonic()
        idle = 0
        for connection in list(self.connections):
            if not connection.closed:
                if self.options.max_age and now - connection.opened > self.options.max_age / 1e9:
                    connection.retired = True
                if connection.waiting:
                    continue
                idle += 1
                surplus = self.options.max_idle and idle > self.options.max_idle
                if not (connection.retired or surplus or now - connection.used > self.options.expire / 1e9):
                    continue
                connection.close()
            self.connections.remove(connection)
