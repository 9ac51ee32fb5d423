"""Primaries, and the connections to them that are kept (RFC 7766 6.2, RFC 9103 6): one for the questions about all zones of a primary, more while it
sends something large or answers one question a connection."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable
from typing import Final

from fastdns import control
from fastdns.corefile.address import split_address, strip_scope
from fastdns.plugins.secondary.connection import CONNECT_SECONDS, Connection, Exchange, ExchangeError, SetupError
from fastdns.plugins.secondary.secure import Secure
from fastdns.telemetry.log import Log
from fastdns.telemetry.metrics import Metric

__all__ = ["Primary", "primary_of"]

log = Log("plugin/secondary")

CONNECTIONS = Metric("fastdns_secondary_connections_total", "Counter of connections to primaries that were tried, by result.", "counter", ("primary", "result"))
REQUESTS = Metric("fastdns_secondary_requests_total", "Counter of questions to primaries over TCP and TLS.", "counter", ("primary", "connection"))

#: Seconds that a connection is idle before it is closed, where the primary does not say how long it may be (RFC 7828): servers close after ten and more.
KEEP_SECONDS: Final = 8.0
#: Of what the primary says, so that it is not the primary that closes.
KEEP_SHARE: Final = 0.8
#: Seconds between two looks at connections that are idle.
LOOK_SECONDS: Final = 5.0
#: Seconds for which is remembered what a primary cannot.
MEMORY_SECONDS: Final = 3600.0


class Attempt:
    """To make a connection. Several threads may wait for it."""

    def __init__(self, until: float) -> None:
        #: Monotonic: how long it is tried.
        self.until = until
        self._ended = threading.Event()
        self._connection: Connection | None = None
        self._error: BaseException | None = None

    def end(self, made: Connection | BaseException) -> None:
        if isinstance(made, Connection):
            self._connection = made
        else:
            self._error = made
        self._ended.set()

    def result(self) -> Connection:
        """Wait for it. Raises what making it has raised."""
        self._ended.wait()
        if self._connection is None:
            raise self._error or SetupError("no connection")
        return self._connection


class Primary:
    """A server that zones come from. From any thread."""

    def __init__(self, address: str, secure: Secure | None = None, name: str = "") -> None:
        """``address`` with port. ``name`` is what its certificate must name, by default its address."""
        self.address = address
        self.secure = secure
        self.name = name or strip_scope(split_address(address)[0])
        #: As logs and metrics have it.
        self.text = f"tls://{address}" if secure is not None else address
        self._lock = threading.Lock()
        self._connections: list[Connection] = []
        #: The connection that is being made.
        self._attempt: Attempt | None = None
        #: Monotonic: when `_look` is called next; 0: not.
        self._looks_at = 0.0
        self._users = 0
        #: Monotonic: until when it is taken to answer one question at a time, and not to know EDNS.
        self._single_until = 0.0
        self._plain_until = 0.0

    def __repr__(self) -> str:
        return f"Primary({self.text})"

    # ---- who uses it ----

    def join(self) -> None:
        """A zone is kept up with it."""
        with self._lock:
            self._users += 1
        if self.secure is not None:
            self.secure.watch()

    def leave(self) -> None:
        """Undo `join`; connections of a primary that nobody uses end."""
        with self._lock:
            self._users -= 1
            unused = self._users <= 0
        if unused:
            self._close(lambda connection: True)

    # ---- what it can ----

    @property
    def knows_edns(self) -> bool:
        return time.monotonic() >= self._plain_until

    def without_edns(self) -> None:
        """It has refused a question with an OPT."""
        self._plain_until = time.monotonic() + MEMORY_SECONDS

    # ---- questions ----

    def ask(self, make: Callable[[int], bytes], seconds: float) -> tuple[Exchange, bytes]:
        """Send the message that ``make`` makes for an ID, and wait for the first one of its answer, all within so many seconds.

        A question on a connection that others have made is asked once more on a new one if it ends without an answer. Raises ExchangeError.
        """
        deadline = time.monotonic() + seconds
        exchange = self._begin(make, deadline)
        try:
            return exchange, exchange.receive()
        except ExchangeError as error:
            self._give_up(exchange)
            if exchange.opened or time.monotonic() >= deadline:
                raise
            log.debug(f"{self.text}: {error}: asking on a new connection")
        exchange = self._ask_first(make, deadline, Attempt(min(deadline, time.monotonic() + CONNECT_SECONDS)))
        try:
            return exchange, exchange.receive()
        except ExchangeError:
            self._give_up(exchange)
            raise

    def _give_up(self, exchange: Exchange) -> None:
        connection = exchange.connection
        if exchange.shared and connection.answers <= 1 and connection.ended_by_primary:
            self._single_until = time.monotonic() + MEMORY_SECONDS
        exchange.end(complete=False)

    def _begin(self, make: Callable[[int], bytes], deadline: float) -> Exchange:
        """On a connection that stands or is being made by another thread, or else on a new one. Raises SetupError."""
        while True:
            found = self._find(min(deadline, time.monotonic() + CONNECT_SECONDS))
            if isinstance(found, Attempt):
                return self._ask_first(make, deadline, found)
            exchange = found.ask(make, deadline, opened=False)
            if exchange is not None:
                REQUESTS.add((self.text, "kept"))
                return exchange

    def _find(self, until: float) -> Connection | Attempt:
        """A connection; or what the caller has to make one by. Several questions share one that is being made. Raises SetupError of such a one."""
        self._close(lambda connection: not connection.usable)
        with self._lock:
            shares = time.monotonic() >= self._single_until
            for connection in reversed(self._connections):
                if connection.usable and (connection.is_open() if connection.idle else shares and connection.has_room):
                    return connection
            standing = self._attempt
            if standing is None or standing.until < until - CONNECT_SECONDS / 2 or not shares:
                self._attempt = Attempt(until)
                return self._attempt
        return standing.result()

    def _ask_first(self, make: Callable[[int], bytes], deadline: float, attempt: Attempt) -> Exchange:
        """On a new connection, which others find once this is sent: a primary that answers one question only answers it. Raises SetupError."""
        connection = None
        try:
            connection = self._open(attempt.until - time.monotonic())
            exchange = connection.ask(make, deadline, opened=True)
            if exchange is None:
                raise SetupError(f"{self.text}: the certificates have changed meanwhile")
        except BaseException as error:
            if connection is not None:
                connection.close()
            self._attempted(attempt)
            attempt.end(error)
            raise
        REQUESTS.add((self.text, "new"))
        self._attempted(attempt, connection)
        attempt.end(connection)
        return exchange

    def _open(self, seconds: float) -> Connection:
        try:
            connection = Connection(self.address, self.secure, self.name, max(seconds, 0.001), KEEP_SECONDS, self._released)
        except SetupError:
            CONNECTIONS.add((self.text, "failed"))
            raise
        CONNECTIONS.add((self.text, "made"))
        log.debug(f"Connected to {self.text}")
        return connection

    def _attempted(self, attempt: Attempt, *connections: Connection) -> None:
        with self._lock:
            self._connections += connections
            if self._attempt is attempt:
                self._attempt = None

    # ---- the end of connections ----

    def _released(self, connection: Connection) -> None:
        """Nothing is asked on it any more."""
        if not connection.usable or self._users <= 0:
            self._close(lambda one: one is connection)
            return
        self._look_in(connection.idle_seconds)

    def _look_in(self, seconds: float) -> None:
        """Look in so many seconds, or earlier."""
        at = time.monotonic() + max(0.05, min(seconds, LOOK_SECONDS))
        with self._lock:
            if self._looks_at and self._looks_at <= at:
                return
            self._looks_at = at
        control.after(at - time.monotonic(), self._look)

    def _look(self) -> None:
        """Close what was idle for long enough, or was closed by the primary."""
        now = time.monotonic()
        self._close(lambda one: not one.usable or now - one.idle_since >= one.idle_seconds - 0.01 or not one.is_open())
        with self._lock:
            self._looks_at = 0.0
            left = [one.idle_since + one.idle_seconds - now for one in self._connections if one.idle]
        if left:
            self._look_in(min(left))

    def _close(self, which: Callable[[Connection], bool]) -> None:
        """Those of these that are idle."""
        with self._lock:
            closing = [one for one in self._connections if one.idle and which(one) and one.retire()]
            self._connections = [one for one in self._connections if one not in closing]
        for connection in closing:
            connection.close()


def keepalive_seconds(announced: int) -> float:
    """How long a connection may be idle, of the option's value in 100 ms (RFC 7828 3.1)."""
    return announced / 10 * KEEP_SHARE


_lock = threading.Lock()
_made: weakref.WeakValueDictionary[tuple[str, Secure | None, str], Primary] = weakref.WeakValueDictionary()


def primary_of(address: str, secure: Secure | None = None, name: str = "") -> Primary:
    """The same one for all zones that have it."""
    with _lock:
        key = (address, secure, name)
        found = _made.get(key)
        if found is None:
            found = _made[key] = Primary(address, secure, name)
        return found
