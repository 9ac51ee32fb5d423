"""etcd: a gateway that sends its replies an octet at a time, or without end."""

from __future__ import annotations

import asyncio

import pytest

from fastdns.plugins.etcd import gateway
from fastdns.plugins.etcd.gateway import EtcdError, Gateway
from tests.dripping import Dripping


@pytest.mark.parametrize(
    ("path", "error"), [(b"/head", "took longer"), (b"/body", "took longer"), (b"/chunks", "took longer"), (b"/endless", "more than 1000000 octets")]
)
def test_a_call_has_an_end(path: bytes, error: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway, "CALL_SECONDS", 0.5)
    monkeypatch.setattr(gateway, "REPLY_MAX", 1_000_000)
    server = Dripping(path)
    try:
        with pytest.raises(EtcdError, match=error):
            asyncio.run(Gateway([server.url]).range("/skydns/"))
    finally:
        server.close()


def test_a_list_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway, "LIST_SECONDS", 0.3)
    server = Dripping(b"/body")
    try:
        with pytest.raises(EtcdError, match=r"the list of /skydns/: it took longer than 0\.3 s"):
            asyncio.run(Gateway([server.url]).range("/skydns/"))
    finally:
        server.close()
