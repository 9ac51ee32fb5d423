"""A small client of the API server for bulk work, on asyncio alone."""

from __future__ import annotations

import argparse
import asyncio
import json
import ssl
import urllib.parse
from pathlib import Path
from typing import Any

__all__ = ["APIError", "Connection", "add_server_arguments", "connect"]


class APIError(Exception):
    """A status that is no success."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"HTTP {status}: {text[:500]}")
        self.status = status


class Connection:
    """One HTTP/1.1 connection, opened by the first request and again after it has closed; one request at a time."""

    def __init__(self, server: str, token: str = "", ca: str | None = None) -> None:
        url = urllib.parse.urlsplit(server)
        self.host, self.port = url.hostname, url.port or (443 if url.scheme == "https" else 80)
        self.tls = ssl.create_default_context(cafile=ca) if url.scheme == "https" else None
        authorization = f"Authorization: Bearer {token}\r\n" if token else ""
        self.headers = f" HTTP/1.1\r\nHost: {url.netloc}\r\nAccept: application/json\r\n{authorization}"
        self.reader: asyncio.StreamReader | None = None
        self.writer: asyncio.StreamWriter | None = None

    async def request(self, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        """The status and the body. Raises OSError, asyncio.IncompleteReadError."""
        head = f"{method} {path}{self.headers}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        if self.reader is None or self.writer is None:
            self.reader, self.writer = await asyncio.open_connection(self.host, self.port, ssl=self.tls)
        self.writer.write(head.encode() + body)
        try:
            return await self._read_reply(self.reader)
        except (asyncio.IncompleteReadError, ConnectionError):
            self.close()
            raise

    async def _read_reply(self, reader: asyncio.StreamReader) -> tuple[int, bytes]:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        if "\r\ntransfer-encoding: chunked" in head:
            parts = []
            while size := int(await reader.readline(), 16):
                parts.append(await reader.readexactly(size))
                await reader.readexactly(2)
            await reader.readexactly(2)
            body = b"".join(parts)
        else:
            length = head.partition("\r\ncontent-length: ")[2].partition("\r\n")[0]
            body = await reader.readexactly(int(length or 0))
        if "\r\nconnection: close" in head:
            self.close()
        return int(head.split(" ", 2)[1]), body

    async def get_json(self, path: str) -> Any:
        """Raises APIError."""
        status, body = await self.request("GET", path)
        if status != 200:
            raise APIError(status, body.decode(errors="replace"))
        return json.loads(body)

    def close(self) -> None:
        if self.writer:
            self.writer.close()
        self.reader = self.writer = None


def add_server_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--server", help="URL of the API server, http or https")
    parser.add_argument("--token-file", type=Path, help="file with a bearer token")
    parser.add_argument("--ca", help="certificate of the server's CA, for https")


def connect(options: argparse.Namespace) -> Connection:
    token = options.token_file.read_text(encoding="utf-8").strip() if options.token_file else ""
    return Connection(options.server, token, options.ca)
