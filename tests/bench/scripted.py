"""A server over UDP that answers as a test says."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Self

#: A query to the datagrams that go back for it.
Script = Callable[[bytes], Iterable[bytes]]


def end_of_question(query: bytes) -> int:
    at = 12
    while query[at]:
        at += query[at] + 1
    return at + 5


def reply(query: bytes, *addresses: str, rcode: int = 0) -> bytes:
    """The question again with A records."""
    end = end_of_question(query)
    head = query[:2] + bytes([0x84 | query[2] & 1, rcode]) + query[4:6] + len(addresses).to_bytes(2, "big") + bytes(4)
    return head + query[12:end] + b"".join(b"\xc0\x0c\0\1\0\1\0\0\0\5\0\4" + socket.inet_aton(address) for address in addresses)


class Scripted:
    """Serves in a thread until the end of its context. ``stall``: of every second, how long it sleeps."""

    def __init__(self, script: Script, stall: float = 0) -> None:
        self.script = script
        self.stall = stall
        self.queries = 0
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        self.socket.bind(("127.0.0.1", 0))
        self.socket.settimeout(0.1)
        self.port: int = self.socket.getsockname()[1]
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self.serve, daemon=True)

    def serve(self) -> None:
        last = time.monotonic()
        while not self.stopping.is_set():
            try:
                query, client = self.socket.recvfrom(4096)
            except TimeoutError:
                continue
            if self.stall and time.monotonic() - last >= 1:
                time.sleep(self.stall)
                last = time.monotonic()
            self.queries += 1
            for datagram in self.script(query):
                self.socket.sendto(datagram, client)

    def __enter__(self) -> Self:
        self.thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stopping.set()
        self.thread.join()
        self.socket.close()
