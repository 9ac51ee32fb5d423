"""`proxy-url` of a kubeconfig's cluster: tunnels through HTTP proxies (CONNECT, RFC 9110, section 9.3.6) and SOCKS5 (RFC 1928, RFC 1929)."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from fastdns.plugins.kubernetes.watch.address import Address

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    Send = Callable[[bytes], Awaitable[None]]
    Receive = Callable[[int], Awaitable[bytes]]

PORTS = {"http": 80, "socks5": 1080}
#: Octets of the longest head of a reply to CONNECT.
HEAD_MAX = 8192

NO_PASSWORD, PASSWORD = 0, 2
SOCKS_ERRORS = {
    1: "general SOCKS server failure",
    2: "connection not allowed by ruleset",
    3: "network unreachable",
    4: "host unreachable",
    5: "connection refused",
    6: "TTL expired",
    7: "command not supported",
    8: "address type not supported",
}


@dataclass(frozen=True)
class Proxy:
    """A proxy and who we are to it."""

    scheme: str
    address: Address
    user: str = ""
    password: str = ""

    @classmethod
    def parse(cls, url: str) -> Proxy:
        """ValueError with client-go's texts."""
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            raise ValueError(f"could not parse: {url}") from None
        if parts.scheme == "https":
            raise ValueError('scheme "https" is not supported here, must be http or socks5')
        if parts.scheme not in PORTS:
            raise ValueError(f'unsupported scheme "{parts.scheme}", must be http or socks5')
        if not parts.hostname:
            raise ValueError(f"could not parse: {url}")
        user, password = unquote(parts.username or ""), unquote(parts.password or "")
        if len(user.encode()) > 255 or len(password.encode()) > 255:
            raise ValueError("user or password of more than 255 octets")
        return cls(parts.scheme, Address(parts.hostname, port or PORTS[parts.scheme], False, ""), user, password)

    async def tunnel(self, send: Send, receive: Receive, target: Address) -> None:
        """On a connection to the proxy, have it connect to ``target``. ``receive`` gives that many octets. OSError."""
        if self.scheme == "http":
            await self._connect(send, receive, target)
        else:
            await self._socks(send, receive, target)

    async def _connect(self, send: Send, receive: Receive, target: Address) -> None:
        lines = [f"CONNECT {target.dial} HTTP/1.1", f"Host: {target.dial}"]
        if self.user or self.password:
            lines.append("Proxy-Authorization: Basic " + base64.b64encode(f"{self.user}:{self.password}".encode()).decode())
        await send("\r\n".join([*lines, "", ""]).encode())
        head = b""
        while not head.endswith(b"\r\n\r\n"):  # octet by octet: what follows is the server's
            head += await receive(1)
            if len(head) > HEAD_MAX:
                raise OSError("a reply of more than 8 KiB")
        version, _, status = head.partition(b"\r\n")[0].decode("latin-1").partition(" ")
        if not version.startswith("HTTP/1.") or not status.startswith("200"):
            raise OSError(status or "malformed reply")

    async def _socks(self, send: Send, receive: Receive, target: Address) -> None:
        methods = bytes([NO_PASSWORD, PASSWORD] if self.user else [NO_PASSWORD])
        await send(bytes([5, len(methods)]) + methods)
        version, method = await receive(2)
        if version != 5 or method not in methods:
            raise OSError("no acceptable authentication methods")
        if method == PASSWORD:
            user, password = self.user.encode(), self.password.encode()
            await send(bytes([1, len(user)]) + user + bytes([len(password)]) + password)
            if (await receive(2))[1]:
                raise OSError("username/password authentication failed")
        await send(b"\x05\x01\x00" + socks_address(target.host) + target.port.to_bytes(2))
        version, reply, _, kind = await receive(4)
        if version != 5 or reply:
            raise OSError(SOCKS_ERRORS.get(reply, f"unknown code: {reply}"))
        length = {1: 4, 4: 16}.get(kind) or (await receive(1))[0]
        await receive(length + 2)


def socks_address(host: str) -> bytes:
    """Type and address (RFC 1928, section 5); names are resolved by the proxy. OSError for a name that is too long."""
    try:
        address = ip_address(host)
    except ValueError:
        name = host.encode()
        if len(name) > 255:
            raise OSError("FQDN too long") from None
        return bytes([3, len(name)]) + name
    return bytes([1 if address.version == 4 else 4]) + address.packed
