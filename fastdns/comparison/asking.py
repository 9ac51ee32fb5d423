"""Questions of a file asked of one server, or of two, at a bounded rate; what comes back goes to a tally."""

from __future__ import annotations

import secrets
import selectors
import socket
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from fastdns.comparison.question import is_answer
from fastdns.comparison.replies import is_truncated
from fastdns.comparison.tally import Tally
from fastdns.corefile.address import join_host_port, packed

__all__ = ["Asked", "Limits", "Server", "ask_all", "parse_server"]

DEFAULT_PORT = 53
#: Octets that the kernel keeps of answers.
RECEIVE_BUFFER = 1 << 20
#: Datagrams that are read of one server before others have their turn.
BATCH = 64


class Limits(NamedTuple):
    #: Questions a second.
    rate: float = 100.0
    #: Questions that wait for answers.
    outstanding: int = 64
    #: Seconds for one answer.
    timeout: float = 2.0


class Asked(NamedTuple):
    """A question, with id 0; the reply that is recorded, or empty; and the client's address, or empty."""

    question: bytes
    recorded: bytes
    client: bytes


class Server(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return join_host_port(self.host, self.port)


class Pair:
    """A question under way."""

    __slots__ = ("asked", "deadline", "replies")

    def __init__(self, asked: Asked, servers: int, deadline: float) -> None:
        self.asked, self.deadline = asked, deadline
        self.replies = [b""] * servers


def parse_server(text: str) -> Server:
    """``ADDRESS[:PORT]``, an IPv6 address with a port in brackets. Raises ValueError."""
    host, colon, port = text, "", ""
    if packed(text) is None:
        host, colon, port = text.rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
    if packed(host) is None or (colon and not (port.isascii() and port.isdigit() and 0 < int(port) < 65536)):
        raise ValueError(f"not an address of a server: '{text}'")
    return Server(host, int(port) if colon else DEFAULT_PORT)


def ask_all(questions: Iterable[Asked], servers: list[Server], tally: Tally, limits: Limits) -> None:
    """Ask one server (its answers are compared with the recorded ones) or two (theirs with one another). Raises OSError without a socket."""
    waiting: OrderedDict[int, Pair] = OrderedDict()
    with selectors.DefaultSelector() as selector:
        sockets = []
        try:
            for number, server in enumerate(servers):
                sockets.append(_socket(server))
                selector.register(sockets[-1], selectors.EVENT_READ, number)
            _run(iter(questions), servers, sockets, selector, waiting, tally, limits)
        finally:
            for one in sockets:
                one.close()


def _run(
    questions: Iterator[Asked],
    servers: list[Server],
    sockets: list[socket.socket],
    selector: selectors.BaseSelector,
    waiting: OrderedDict[int, Pair],
    tally: Tally,
    limits: Limits,
) -> None:
    following = next(questions, None)
    turn = time.monotonic()
    while following is not None or waiting:
        now = time.monotonic()
        while following is not None and now >= turn and len(waiting) < limits.outstanding:
            _send(following, sockets, waiting, now + limits.timeout)
            turn = max(turn + 1 / limits.rate, now - 1)  # who was held up may catch up on a second
            following = next(questions, None)
        ends = [next(iter(waiting.values())).deadline] if waiting else []
        if following is not None and len(waiting) < limits.outstanding:
            ends.append(turn)
        for key, _ in selector.select(max(0.0, min(ends, default=now) - now)):
            _receive(key.data, servers, sockets, waiting, tally, limits)
        now = time.monotonic()
        while waiting and (pair := next(iter(waiting.values()))).deadline <= now:
            waiting.popitem(last=False)
            _end(pair, tally)


def _send(asked: Asked, sockets: list[socket.socket], waiting: OrderedDict[int, Pair], deadline: float) -> None:
    while (number := secrets.randbelow(65536)) in waiting:
        pass
    waiting[number] = Pair(asked, len(sockets), deadline)
    for one in sockets:
        try:
            one.send(number.to_bytes(2, "big") + asked.question[2:])
        except OSError:  # refused before, or the kernel's buffer is full: it counts as no answer
            pass


def _receive(server: int, servers: list[Server], sockets: list[socket.socket], waiting: OrderedDict[int, Pair], tally: Tally, limits: Limits) -> None:
    for _ in range(BATCH):
        try:
            reply = sockets[server].recv(65535)
        except BlockingIOError:
            return
        except OSError:  # nobody listens there
            continue
        number = int.from_bytes(reply[:2], "big")
        pair = waiting.get(number)
        if pair is None or pair.replies[server] or not is_answer(reply, pair.asked.question):
            continue
        if is_truncated(reply):
            reply = _by_tcp(servers[server], pair.asked.question, limits.timeout) or reply
        pair.replies[server] = reply
        if all(pair.replies):
            del waiting[number]
            _end(pair, tally)


def _end(pair: Pair, tally: Tally) -> None:
    first, *rest = pair.replies
    a, b = (first, rest[0]) if rest else (pair.asked.recorded, first)
    if a or b:
        tally.add(pair.asked.question, pair.asked.client, a, b)
    else:
        tally.silent += 1


def _by_tcp(server: Server, question: bytes, timeout: float) -> bytes:
    """The whole reply (RFC 7766); empty where there is none."""
    try:
        with socket.create_connection(server, timeout) as connection:
            connection.settimeout(timeout)
            connection.sendall(len(question).to_bytes(2, "big") + question)
            with connection.makefile("rb") as stream:
                size = int.from_bytes(stream.read(2), "big")
                reply = stream.read(size)
    except OSError:
        return b""
    return reply if len(reply) == size and is_answer(reply, question) else b""


def _socket(server: Server) -> socket.socket:
    """Connected: the kernel takes datagrams of this server alone."""
    family = socket.AF_INET6 if ":" in server.host else socket.AF_INET
    one = socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
    one.setblocking(False)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
    one.connect(server)
    return one
