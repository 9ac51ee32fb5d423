"""What precedes the content's length in each request of DNS over HTTP (RFC 8484)."""

from __future__ import annotations

from fastdns.bench.result import Target

__all__ = ["request_head"]

MEDIA_TYPE = "application/dns-message"
#: Of HPACK's static table (RFC 7541, appendix A).
AUTHORITY, PATH, ACCEPT, CONTENT_TYPE = 1, 4, 19, 31
#: Fields of that table with their values: POST, https.
POST, HTTPS = 3, 7


def request_head(target: Target) -> bytes:
    """Fields of HTTP/2 as a header block without references to earlier ones, text of HTTP/1.1, or nothing for other transports."""
    host = target.server_name or (f"[{target.host}]" if ":" in target.host else target.host)
    if target.transport == "doh+http":
        lines = (f"POST {target.path} HTTP/1.1", f"Host: {host}:{target.port}", f"Content-Type: {MEDIA_TYPE}", f"Accept: {MEDIA_TYPE}", "Content-Length: ")
        return "\r\n".join(lines).encode()
    if target.transport != "doh":
        return b""
    authority = host if target.port == 443 else f"{host}:{target.port}"
    fields = {AUTHORITY: authority, PATH: target.path, CONTENT_TYPE: MEDIA_TYPE, ACCEPT: MEDIA_TYPE}
    return bytes([0x80 | POST, 0x80 | HTTPS]) + b"".join(integer(index, 4) + text(value.encode()) for index, value in fields.items())


def text(octets: bytes) -> bytes:
    return integer(len(octets), 7) + octets


def integer(value: int, bits: int) -> bytes:
    """RFC 7541 5.1, the bits before it 0: a literal that is not indexed, a string without Huffman's code."""
    most = (1 << bits) - 1
    if value < most:
        return bytes([value])
    found = [most]
    value -= most
    while value >= 128:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])
