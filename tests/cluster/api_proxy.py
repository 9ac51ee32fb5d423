"""``python api_proxy.py PORT SERVER CERT KEY CA FAULT``: an HTTPS proxy in front of an API server, for clients that are to see one fault of it and no other.

``SERVER`` is HOST:PORT, with a certificate of ``CA``. The file ``FAULT`` names the fault. On SIGHUP it and the certificate are read again, and all connections
end. Each request is a line of the log: the status or what became of it, and its target. Needs the standard library alone.
"""

from __future__ import annotations

import asyncio
import json
import re
import signal
import ssl
import sys
from collections.abc import Sequence
from pathlib import Path

__all__ = ["EXPIRED", "FAULTS", "Proxy", "refusal"]

#: ``none``; ``away``: connections are closed; a number: each request is refused with that status; ``gone``: each watch that would go on from a version is told
#: that this version is too old, as after a compaction; ``timeouts``: watches end after SECONDS.
FAULTS = ("none", "away", "429", "500", "503", "gone", "timeouts")
SECONDS = 2
#: Octets at a time, and of a request's head at most.
CHUNK = 1 << 16
#: What an API server says of a version that it no longer has, in JSON and in protobuf.
EXPIRED = b"too old resource version"
REASONS = {410: "Expired", 429: "TooManyRequests", 500: "InternalError", 503: "ServiceUnavailable"}


class Proxy:
    """``server`` is a host and a port; ``certificate`` the paths of a chain and its key."""

    def __init__(self, server: tuple[str, int], certificate: tuple[str, str], ca: str, fault: Path) -> None:
        self.server, self.certificate, self.file = server, certificate, fault
        self.fault = "none"
        self.clients: set[asyncio.StreamWriter] = set()
        self.to_server = ssl.create_default_context(cafile=ca)
        self.to_clients = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)

    def load(self) -> None:
        self.to_clients.load_cert_chain(*self.certificate)
        self.fault = self.file.read_text().strip()
        if self.fault not in FAULTS:
            raise ValueError(f"{self.file}: {self.fault}")
        for writer in self.clients:
            writer.transport.abort()
        log("fault", self.fault)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, which has one request."""
        self.clients.add(writer)
        try:
            if self.fault != "away":
                await self.answer((await reader.readuntil(b"\r\n\r\n")).decode("latin-1"), reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            self.clients.discard(writer)
            writer.close()

    async def answer(self, head: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        target = head.split(" ", 2)[1]
        if self.fault.isdigit():
            log(self.fault, target)
            writer.write(refusal(int(self.fault)))
        elif self.fault == "gone" and resumes(target):
            log("gone", target)
            writer.write(expired())
        else:
            await self.forward(target, passed_on(head, self.fault == "timeouts"), reader, writer)
        await writer.drain()

    async def forward(self, target: str, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_server, to_server = await asyncio.open_connection(*self.server, ssl=self.to_server)
        self.clients.add(to_server)
        body = asyncio.create_task(copied(reader, to_server))
        try:
            to_server.write(head)
            first = await from_server.read(CHUNK)
            log(first[9:12].decode("latin-1"), target)
            while first:
                if EXPIRED in first:
                    log("gone", target)
                writer.write(first)
                await writer.drain()
                first = await from_server.read(CHUNK)
            log("end", target)
        finally:
            body.cancel()
            self.clients.discard(to_server)
            to_server.close()


async def copied(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while octets := await reader.read(CHUNK):
            writer.write(octets)
            await writer.drain()
    except OSError:
        pass


def resumes(target: str) -> bool:
    """Whether a request is a watch that goes on from a version, and no list in the form of one."""
    return "watch=" in target and "sendInitialEvents=" not in target


def passed_on(head: str, timeouts: bool) -> bytes:
    """The head of a request for the server: for one request of a connection, and of a watch that soon ends."""
    lines = [line for line in head.split("\r\n") if not line.lower().startswith("connection:")]
    if timeouts:
        lines[0] = re.sub(r"timeoutSeconds=\d+", f"timeoutSeconds={SECONDS}", lines[0])
    return "\r\n".join([lines[0], "Connection: close", *lines[1:]]).encode("latin-1")


def status(code: int, message: str) -> dict[str, object]:
    """A Status of the API."""
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message, "reason": REASONS[code], "code": code}


def refusal(code: int) -> bytes:
    """As the API server refuses: 429 with the time after which to ask again."""
    body = json.dumps(status(code, REASONS[code])).encode()
    return response(code, body, "Retry-After: 1\r\n" if code == 429 else "")


def expired() -> bytes:
    """A watch of one event, an error."""
    return response(200, json.dumps({"type": "ERROR", "object": status(410, f"{EXPIRED.decode()}: 1 (2)")}).encode() + b"\n")


def response(code: int, body: bytes, header: str = "") -> bytes:
    head = f"HTTP/1.1 {code} {REASONS.get(code, 'OK')}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n{header}Connection: close\r\n\r\n"
    return head.encode() + body


def log(what: str, target: str) -> None:
    print(what, target, flush=True)


async def run(port: int, proxy: Proxy) -> None:
    proxy.load()
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, proxy.load)
    server = await asyncio.start_server(proxy.serve, "0.0.0.0", port, ssl=proxy.to_clients, limit=CHUNK)
    async with server:
        await server.serve_forever()


def main(arguments: Sequence[str]) -> None:
    port, server, certificate, key, ca, fault = arguments
    host, _, number = server.rpartition(":")
    asyncio.run(run(int(port), Proxy((host, int(number)), (certificate, key), ca, Path(fault))))


if __name__ == "__main__":
    main(sys.argv[1:])
