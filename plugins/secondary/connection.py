"""A connection to a primary over TCP or TLS, and the questions that share it, told apart by message ID (RFC 7766 6.2.1.1, RFC 5936 4.1.1, RFC 9103 6.2).

No thread belongs to a connection. One of those that wait for an answer reads for all; when it has its own, another one goes on. Nobody reads a connection
that nothing is asked on.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from fastdns.corefile.address import join_host_port, split_address
from fastdns.plugins.secondary.secure import PROTOCOL, Secure

if TYPE_CHECKING:
    from fastdns.tls.blocking import ClientStream

__all__ = ["CONNECT_SECONDS", "IDLE_SECONDS", "OUTSTANDING_MOST", "Connection", "Exchange", "ExchangeError", "SetupError", "place"]

#: Seconds that a primary has for taking a connection with its TLS, and for each message.
CONNECT_SECONDS: Final = 5.0
IDLE_SECONDS: Final = 10.0
#: Seconds without any answer after which a question is asked on a new connection, if that may help, the second where it waits for another one's answer to
#: end: see `Exchange.until`.
PATIENCE_SECONDS: Final = 3.0
BEHIND_SECONDS: Final = 1.0
#: A connection that was heard so many seconds ago is taken to be alive.
RECENT_SECONDS: Final = 1.0
#: Questions of a connection that have no answer yet.
OUTSTANDING_MOST: Final = 16
#: Octets of an answer from which on nothing else is asked on its connection: there are primaries that answer one question after the other.
LARGE_OCTETS: Final = 32 << 10
#: Octets that wait for one thread before the others read no more.
HELD_OCTETS: Final = 1 << 20
READ_OCTETS: Final = 1 << 16


class ExchangeError(Exception):
    """What went wrong with a primary, in CoreDNS's words where it has some."""


class SetupError(ExchangeError):
    """There is no connection to the primary."""


class EndError(ExchangeError):
    """The primary has closed the connection."""


class Exchange:
    """A question on a connection, and its answer of one or several messages. One thread's, but for `interrupt`."""

    def __init__(self, connection: Connection, ident: int, deadline: float, opened: bool, shared: bool) -> None:
        self.connection = connection
        self.ident = ident
        #: Monotonic: when all of the answer has to be there, and when the question was sent or its last message taken.
        self.deadline = deadline
        self.last = self.sent = time.monotonic()
        #: When the connection had brought its last message before.
        self.heard = connection.heard
        #: Whether the connection was made for this question.
        self.opened = opened
        #: Whether others waited for answers on it then.
        self.shared = shared
        self.octets = 0
        self.messages: deque[bytes] = deque()
        #: Octets of `messages`.
        self.held = 0
        self.interrupted = False
        #: The question could not be sent.
        self.unsent: ExchangeError | None = None

    @property
    def answered(self) -> bool:
        return self.octets > 0

    def until(self) -> float:
        """When waiting for the next message ends.

        A question without any answer on a connection that others have made is soon given up where the connection may be half-open (it has been silent for
        long) or where others are answered first. One that brings what others have asked for is not silent. Under the connection's lock.
        """
        heard = self.connection.heard
        if not self.answered and not self.opened and (self.shared or heard > self.sent or self.sent - self.heard > RECENT_SECONDS):
            behind = self.connection.is_answering()
            return self.sent + min(BEHIND_SECONDS if behind else PATIENCE_SECONDS, (self.deadline - self.sent) / 2)
        return min(self.deadline, max(self.last, heard) + IDLE_SECONDS)

    def receive(self) -> bytes:
        """The next message. Raises ExchangeError."""
        return self.connection.receive(self)

    def interrupt(self) -> None:
        """End a `receive` that waits, from another thread; it raises ExchangeError."""
        self.connection.interrupt(self)

    def keepalive(self, seconds: float) -> None:
        """The primary wants the connection to be idle for so long at most (RFC 7828)."""
        self.connection.idle_seconds = seconds

    def end(self, *, complete: bool) -> None:
        """Give the question up. ``complete``: nothing more will come for it. Once."""
        self.connection.end(self, complete)


class Connection:
    """From any thread."""

    def __init__(self, address: str, secure: Secure | None, name: str, seconds: float, idle_seconds: float, ended: Callable[[Connection], object]) -> None:
        """Connect within so many seconds. ``name``: what the certificate must name. ``ended`` is called when nothing is asked any more. Raises SetupError."""
        self.address = address
        self.secure = secure
        self.renewed = secure.renewed if secure is not None else 0
        #: Seconds that it may be idle.
        self.idle_seconds = idle_seconds
        #: Monotonic: when it was made, when its last message came, and since when nothing is asked.
        self.made = self.heard = self.idle_since = time.monotonic()
        #: Questions that were answered.
        self.answers = 0
        self._ended = ended
        self._changed = threading.Condition()
        self._sending = threading.Lock()
        self._exchanges: dict[int, Exchange] = {}
        #: IDs of questions whose answers nobody waits for.
        self._given_up: set[int] = set()
        #: Why nothing more can be read, and nothing more sent. What has come before the primary closed is still read when it can no longer be sent to.
        self._failure: ExchangeError | None = None
        self._send_failure: ExchangeError | None = None
        #: Nothing more is asked.
        self._retired = False
        self._reading = False
        self._received = bytearray()
        self._tls: ClientStream | None = None
        self._tls_lock = threading.Lock()
        self.socket = _connect(address, min(CONNECT_SECONDS, seconds))
        self._woken = -1
        try:
            if secure is not None:
                self._handshake(secure, name, self.made + min(CONNECT_SECONDS, seconds))
            self._woken = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        except OSError as error:
            self.close()
            raise SetupError(f"dial tcp {address}: {_reason(error)}") from error
        except BaseException:
            self.close()
            raise

    def _handshake(self, secure: Secure, name: str, until: float) -> None:
        from fastdns.tls.blocking import ClientStream, HandshakeError, WantsRead, WantsWrite

        self._tls = ClientStream(secure.context, self.socket, name)
        while True:
            try:
                self._tls.handshake()
                break
            except WantsRead:
                ready = _wait(self.socket.fileno(), select.POLLIN, until)
            except WantsWrite:
                ready = _wait(self.socket.fileno(), select.POLLOUT, until)
            except HandshakeError as error:
                raise SetupError(str(error)) from error
            if not ready:
                raise SetupError(f"tls: handshake with {self.address}: i/o timeout")
        if self._tls.protocol not in ("", PROTOCOL):
            raise SetupError(f"tls: {self.address} speaks '{self._tls.protocol}'")

    def close(self) -> None:
        """Nothing may use it any more."""
        if self._tls is not None:
            self._tls.close()
        self.socket.close()
        if self._woken >= 0:
            os.close(self._woken)
            self._woken = -1

    # ---- what it is good for ----

    @property
    def usable(self) -> bool:
        """Whether more may be asked on it, as far as is known."""
        return self._failure is None and self._send_failure is None and not self._retired and (self.secure is None or self.secure.renewed == self.renewed)

    @property
    def has_room(self) -> bool:
        """Whether something else may be asked while answers are awaited."""
        with self._changed:
            return len(self._exchanges) < OUTSTANDING_MOST and all(one.octets < LARGE_OCTETS for one in self._exchanges.values())

    def is_answering(self) -> bool:
        """Whether a part of an answer has come; under the lock."""
        return any(one.answered for one in self._exchanges.values())

    @property
    def ended_by_primary(self) -> bool:
        return isinstance(self._failure or self._send_failure, EndError)

    @property
    def idle(self) -> bool:
        return not self._exchanges

    def retire(self) -> bool:
        """Nothing more is asked on it. Whether nothing is."""
        with self._changed:
            self._retired = True
            return not self._exchanges

    def is_open(self) -> bool:
        """Whether the primary has not closed it, nor sent what nobody has asked for; only while it is idle."""
        with self._changed:
            if self._exchanges:
                return True
            try:
                self._read_some()
            except BlockingIOError:
                return True
            except OSError:
                pass
            self._retired = True
            return False

    # ---- questions ----

    def ask(self, make: Callable[[int], bytes], deadline: float, *, opened: bool) -> Exchange | None:
        """Send the message that ``make`` makes for an ID; None: nothing more may be asked. Raises what ``make`` raises."""
        with self._changed:
            if not self.usable:
                return None
            ident = int.from_bytes(os.urandom(2))
            while ident in self._exchanges:
                ident = int.from_bytes(os.urandom(2))
            exchange = self._exchanges[ident] = Exchange(self, ident, deadline, opened, bool(self._exchanges))
        try:
            self._send(make(ident))
        except ExchangeError as error:
            exchange.unsent = error  # which is raised when its answer is waited for
        except BaseException:
            exchange.end(complete=False)
            raise
        return exchange

    def end(self, exchange: Exchange, complete: bool) -> None:
        with self._changed:
            del self._exchanges[exchange.ident]
            if complete:
                self.answers += 1
            else:
                self._given_up.add(exchange.ident)
                self._retired = True
            self._retired = self._retired or self.idle_seconds <= 0
            exchange.messages.clear()
            exchange.held = 0
            left = bool(self._exchanges)
            self.idle_since = time.monotonic()
            self._changed.notify_all()
        if not left:
            self._ended(self)

    def interrupt(self, exchange: Exchange) -> None:
        with self._changed:
            exchange.interrupted = True
            self._changed.notify_all()
            if self._woken >= 0:
                with contextlib.suppress(BlockingIOError):
                    os.eventfd_write(self._woken, 1)

    def receive(self, exchange: Exchange) -> bytes:
        while True:
            with self._changed:
                while True:
                    if exchange.messages:
                        message = exchange.messages.popleft()
                        exchange.held -= len(message)
                        exchange.last = time.monotonic()
                        self._changed.notify_all()
                        return message
                    if exchange.interrupted:
                        raise ExchangeError("interrupted")
                    if failure := exchange.unsent or self._failure:
                        raise ExchangeError(str(failure))
                    until = exchange.until()
                    if time.monotonic() >= until:
                        raise ExchangeError(f"read tcp {self._route()}: i/o timeout")
                    if not self._reading and all(one.held < HELD_OCTETS for one in self._exchanges.values()):
                        self._reading = True
                        break
                    self._changed.wait(until - time.monotonic())
            octets = b""
            try:
                octets = self._read(until)
            except ExchangeError as error:
                self._fail(error)
            finally:
                with self._changed:
                    self._take(octets)
                    self._reading = False
                    self._changed.notify_all()

    # ---- the network ----

    def _read(self, until: float) -> bytes:
        """Octets that have come by then; b"": none, or somebody was interrupted. Raises ExchangeError."""
        try:
            return self._read_some() or self._at_end()
        except BlockingIOError:
            pass
        except OSError as error:
            raise EndError(f"read tcp {self._route()}: {_reason(error, 'read: ')}") from error
        poll = select.poll()
        poll.register(self.socket, select.POLLIN)
        poll.register(self._woken, select.POLLIN)
        if any(fd == self._woken for fd, _ in poll.poll(max(0.0, until - time.monotonic()) * 1000)):
            with contextlib.suppress(BlockingIOError):
                os.eventfd_read(self._woken)
        return b""

    def _at_end(self) -> bytes:
        raise EndError("unexpected EOF" if self._received else "EOF")

    def _read_some(self) -> bytes:
        """b"" at the end. Raises OSError, of which BlockingIOError: there is nothing."""
        if self._tls is None:
            return self.socket.recv(READ_OCTETS)
        with self._tls_lock:
            return self._tls.receive()

    def _take(self, octets: bytes) -> None:
        """Give each message that is whole to who has asked for it; under the lock."""
        received = self._received
        received += octets
        at = 0
        while len(received) - at >= 2:
            length = received[at] << 8 | received[at + 1]
            if len(received) - at - 2 < length:
                break
            if not self._give(bytes(memoryview(received)[at + 2 : at + 2 + length])):
                received.clear()  # nothing that follows what nobody has asked for is believed
                return
            at += 2 + length
        if at:
            del received[:at]
            self.heard = time.monotonic()

    def _give(self, message: bytes) -> bool:
        """False: nobody has asked for it."""
        exchange = self._exchanges.get(int.from_bytes(message[:2], "big")) if len(message) >= 2 else None
        if exchange is not None:
            exchange.messages.append(message)
            exchange.held += len(message)
            exchange.octets += len(message)
        elif int.from_bytes(message[:2], "big") not in self._given_up:
            self._failure = self._failure or ExchangeError("dns: id mismatch")
            return False
        return True

    def _send(self, message: bytes) -> None:
        left = memoryview(struct.pack(">H", len(message)) + message)
        until = time.monotonic() + IDLE_SECONDS
        with self._sending:
            while left and self._send_failure is None:
                try:
                    left = left[self._write(left) :]
                except BlockingIOError:
                    if not _wait(self.socket.fileno(), select.POLLOUT, until):
                        self._send_failure = ExchangeError(f"write tcp {self._route()}: i/o timeout")
                except OSError as error:
                    self._send_failure = EndError(f"write tcp {self._route()}: {_reason(error, 'write: ')}")
            if self._send_failure is not None:
                raise self._send_failure

    def _write(self, octets: memoryview) -> int:
        if self._tls is None:
            return self.socket.send(octets)
        with self._tls_lock:
            return self._tls.send(octets)

    def _fail(self, error: ExchangeError) -> None:
        with self._changed:
            self._failure = self._failure or error
            self._changed.notify_all()

    def _route(self) -> str:
        try:
            return f"{join_host_port(*self.socket.getsockname()[:2])}->{self.address}"
        except OSError:
            return self.address


def _connect(address: str, seconds: float) -> socket.socket:
    """A socket that does not block. Raises SetupError."""
    try:
        family, where = place(address)
        one = socket.socket(family, socket.SOCK_STREAM)
    except (OSError, ValueError) as error:
        raise SetupError(f"dial tcp {address}: {_reason(error)}") from error
    try:
        one.settimeout(seconds)
        one.connect(where)
        one.setblocking(False)
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except OSError as error:
        one.close()
        raise SetupError(f"dial tcp {address}: {_reason(error, 'connect: ')}") from error
    return one


def _wait(fd: int, event: int, until: float) -> bool:
    poll = select.poll()
    poll.register(fd, event)
    return bool(poll.poll(max(0.0, until - time.monotonic()) * 1000))


def place(address: str) -> tuple[int, Any]:
    """Family and address for a socket of ``address:port``. Raises SetupError, OSError and ValueError."""
    host, port = split_address(address)
    family, _, _, _, where = socket.getaddrinfo(host, _port(port), type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)[0]
    return family, where


def _port(text: str) -> int:
    """A number or the name of a service. Raises SetupError."""
    try:
        port = int(text) if text.isascii() and text.isdigit() else socket.getservbyname(text, "tcp")
    except OSError as error:
        raise SetupError(f"dial tcp: lookup tcp/{text}: unknown port") from error
    if port > 65535:
        raise SetupError(f"dial tcp: address {text}: invalid port")
    return port


def _reason(error: Exception, call: str = "") -> str:
    """As Go says it."""
    if isinstance(error, TimeoutError) and error.errno is None:
        return "i/o timeout"
    if isinstance(error, OSError) and error.errno:
        reason = os.strerror(error.errno)
        return call + reason[:1].lower() + reason[1:]
    return str(error)
