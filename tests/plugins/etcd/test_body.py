"""HTTP/1.1 replies, taken apart as they come."""

from __future__ import annotations

import pytest

from fastdns.control.connection import HttpError
from fastdns.plugins.etcd.body import Body

HEAD = b"HTTP/1.1 200 OK\r\n"
REPLIES = [
    (HEAD + b"Content-Length: 5\r\n\r\nhello", b"hello", True),
    (HEAD + b"content-length: 0\r\n\r\n", b"", True),
    (HEAD + b"\r\nhello", b"hello", False),
    (HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n1;x=y\r\n!\r\n0\r\n\r\n", b"hello!", True),
    (HEAD + b"Transfer-Encoding: chunked\r\n\r\nA\r\n0123456789\r\n0\r\nTrailer: x\r\nOther: y\r\n\r\n", b"0123456789", True),
    (b"HTTP/1.1 100 Continue\r\n\r\n" + HEAD + b"Content-Length: 2\r\n\r\nok", b"ok", True),
]


@pytest.mark.parametrize(("octets", "wanted", "ends"), REPLIES)
@pytest.mark.parametrize("size", [1, 2, 7, 4096])
def test_replies_however_they_are_cut(octets: bytes, wanted: bytes, ends: bool, size: int) -> None:
    body = Body()
    got = b""
    for at in range(0, len(octets), size):
        assert not body.ended
        body.feed(octets[at : at + size])
        got += body.take()
    assert (got, body.status, body.ended) == (wanted, 200, ends)
    body.end()
    assert body.ended


@pytest.mark.parametrize(
    "octets",
    [
        b"",
        HEAD,
        HEAD + b"Content-Length: 5\r\n\r\nhell",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n",
        HEAD + b"Content-Length: -5\r\n\r\n",
        HEAD + b"Content-Length: 5x\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\nx\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"0" * 5000,
        HEAD + b"A: b\r\n" * 20000,
        b"SSH-2.0-OpenSSH\r\n\r\n",
    ],
)
def test_what_is_no_whole_reply(octets: bytes) -> None:
    body = Body()

    def read() -> None:
        body.feed(octets)
        body.end()

    with pytest.raises(HttpError):
        read()
