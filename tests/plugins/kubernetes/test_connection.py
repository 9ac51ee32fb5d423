"""Ways to the API server: tokens and certificates as they rotate, limits, metrics."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from fastdns.control.connection import HttpError, parse_head
from fastdns.plugins.kubernetes.watch import metrics, reflector
from fastdns.plugins.kubernetes.watch.address import Address, ApiConfigError
from fastdns.plugins.kubernetes.watch.client import Limiter, Limits
from fastdns.plugins.kubernetes.watch.connection import Endpoint, InCluster
from tests.plugins.kubernetes.conftest import STREAM, addresses, chunk, pair, reply, service, status
from tests.programs import program
from tests.waiting import LIMIT, until

SYNCED = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "4", "annotations": {"k8s.io/initial-events-end": "true"}}}}
OBJECTS = ["svc default/a 10.0.0.1"]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reflector, "FIRST_PAUSE", 0.02)
    monkeypatch.setattr(reflector, "LONGEST_PAUSE", 0.2)


URLS = [
    ("http://h:8080", False, Address("h", 8080, False, "")),
    ("https://h", False, Address("h", 443, True, "")),
    ("h:6443", False, Address("h", 6443, False, "")),
    ("h:6443", True, Address("h", 6443, True, "")),
    ("https://[fd00::1]:6443/k8s/clusters/x/", False, Address("fd00::1", 6443, True, "/k8s/clusters/x")),
]


@pytest.mark.parametrize(("url", "tls", "expected"), URLS)
def test_addresses(url: str, tls: bool, expected: Address) -> None:
    assert Address.parse(url, tls) == expected


@pytest.mark.parametrize("url", ["ftp://h", "http://", "http://h:port", "https://h:99999", "https://[::1"])
def test_bad_addresses(url: str) -> None:
    with pytest.raises(ApiConfigError):
        Endpoint(url)


def test_texts_of_an_address() -> None:
    address = Address.parse("https://[fd00::1]:6443/x")
    assert (address.netloc, address.dial, address.url) == ("[fd00::1]:6443", "[fd00::1]:6443", "https://[fd00::1]:6443/x")
    assert Address.parse("https://h").netloc == "h"


# ---- in-cluster ----


def test_outside_of_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(ApiConfigError) as caught:
        InCluster()
    assert str(caught.value) == ("unable to load in-cluster configuration, KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT must be defined")


def account(folder: Path, certificates: Path, url: str, token: str, monkeypatch: pytest.MonkeyPatch) -> InCluster:
    host, _, port = url.removeprefix("https://").partition(":")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", port)
    (folder / "token").write_text(token + "\n")
    (folder / "ca.crt").write_bytes((certificates / "ca.crt").read_bytes())
    return InCluster(folder)


def test_the_token_is_followed(fakekube: Any, follow: Any, certificates: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = fakekube(OBJECTS, tls=pair(certificates, "server"), token="first")
    recorder, _ = follow(account(tmp_path, certificates, server.url, "first", monkeypatch))
    server.token = "second"
    (tmp_path / "new").write_text("second")
    os.replace(tmp_path / "new", tmp_path / "token")
    server.apply("svc default/b 10.0.0.2")
    server.cut()
    server.apply("svc default/c 10.0.0.3")
    until(lambda: set(addresses(recorder)) == {"a", "b", "c"})


def test_a_token_that_is_refused_is_asked_for_again(
    fakekube: Any, follow: Any, lines: list[str], certificates: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = fakekube(OBJECTS, tls=pair(certificates, "server"), token="second")
    _, lease = follow(account(tmp_path, certificates, server.url, "first", monkeypatch), wait=0)
    until(lambda: lines)
    assert lines == ["[ERROR] plugin/kubernetes: Failed to watch: failed to list *v1.Service: Unauthorized"]
    (tmp_path / "token").write_text("second")
    assert lease.wait(LIMIT, say=False)


def test_no_token_is_an_error_at_set_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    with pytest.raises(ApiConfigError, match=r"^open .*/token: no such file or directory$"):
        InCluster(tmp_path)


# ---- endpoint with tls ----


def test_client_certificates_are_read_again(fakekube: Any, follow: Any, lines: list[str], certificates: Path, tmp_path: Path) -> None:
    for end in ("crt", "key"):
        (tmp_path / f"client.{end}").write_bytes((certificates / f"client.{end}").read_bytes())
    server = fakekube(OBJECTS, tls=pair(certificates, "server"), client_ca=str(certificates / "ca.crt"))
    api = Endpoint(server.url, *pair(tmp_path, "client"), str(certificates / "ca.crt"))
    recorder, _ = follow(api)
    before = api.context()
    assert api.context() is before
    for end in ("crt", "key"):
        (tmp_path / f"client.{end}").write_bytes((certificates / f"other.{end}").read_bytes())
    server.cut()
    server.apply("svc default/b 10.0.0.2")
    until(lambda: "b" in addresses(recorder))
    assert api.context() is not before


def test_a_server_with_another_ca_is_not_trusted(fakekube: Any, follow: Any, lines: list[str], certificates: Path, tmp_path: Path) -> None:
    words = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "k", "-out", "ca", "-subj", "/CN=other", "-days", "2"]
    subprocess.run([program("openssl"), *words], check=True, capture_output=True, cwd=tmp_path)
    server = fakekube(OBJECTS, tls=pair(certificates, "server"))
    follow(Endpoint(server.url, ca=str(tmp_path / "ca")), wait=0)
    until(lambda: lines)
    assert "tls: " in lines[0]
    assert server.requests == []


# ---- limits and metrics ----


def run_limited(limits: Limits, count: int, hold: float = 0.0) -> tuple[list[float], list[float], int]:
    """When `count` requests at once got their turn, for how long the bucket let them wait, and how many ran at the same time."""
    limiter = Limiter(limits)
    turns: list[float] = []
    delays: list[float] = []
    most = 0
    begun = time.monotonic()

    async def one() -> None:
        nonlocal most
        delays.append(await limiter.enter())
        turns.append(time.monotonic() - begun)
        most = max(most, limiter.running)
        await asyncio.sleep(hold)
        limiter.leave()

    async def all_at_once() -> None:
        await asyncio.gather(*(one() for _ in range(count)))

    asyncio.run(all_at_once())
    return turns, delays, most


def test_the_limiter_lets_a_burst_through_and_then_so_many_a_second() -> None:
    turns, delays, _ = run_limited(Limits(qps=10, burst=3), 7)
    assert delays[:3] == [0, 0, 0]
    for place, (turn, delay) in enumerate(zip(turns, delays, strict=True)):
        earliest = max(0, place - 2) / 10
        assert turn >= earliest - 0.005
        assert delay <= earliest
    assert delays[-1] > 0


def test_so_many_wait_for_a_reply_at_once() -> None:
    turns, _, most = run_limited(Limits(qps=1000, burst=1000, inflight=2), 6, hold=0.05)
    assert most == 2
    assert turns[-1] > 0.09


def test_metrics(scripted: Any, follow: Any) -> None:
    turns = iter([[reply(status(500), 500)]])
    server = scripted(lambda path, query: next(turns, [STREAM + chunk({"type": "ADDED", "object": service("a")}, SYNCED), 30.0]))
    host = server.url.removeprefix("http://")

    def counts() -> list[float]:
        requests = dict(metrics.requests.collect())
        histograms = [dict(histogram.collect()).get(("GET", host), ((), 0)) for histogram in (metrics.request_duration, metrics.limiter_duration)]
        return [requests.get(("500", "GET", host), 0), requests.get(("200", "GET", host), 0), *(sum(buckets) for buckets, _ in histograms)]  # type: ignore[misc]

    before = counts()  # of an earlier test whose server had the same port
    follow(Endpoint(server.url))
    assert [now - then for now, then in zip(counts(), before, strict=True)] == [1, 1, 2, 2]


def test_metrics_of_requests_without_a_reply(follow: Any) -> None:
    follow(Endpoint("http://127.0.0.1:1"), wait=0)
    until(lambda: dict(metrics.requests.collect()).get(("<error>", "GET", "127.0.0.1:1")))


def test_host_labels_are_utf8() -> None:
    assert metrics.label("a\udcffb") == "a�b"


HEADS = [
    (b"HTTP/1.1 200 OK\r\nA: b", (200, {"a": "b"})),
    (b"HTTP/1.1 200", (200, {})),
]


@pytest.mark.parametrize(("head", "expected"), HEADS)
def test_heads(head: bytes, expected: tuple[int, dict[str, str]]) -> None:
    assert parse_head(head) == expected


@pytest.mark.parametrize("head", [b"", b"HTTP/1.1 20 OK", b"HTTP/1.1 abc", b"HTTP/2 200", b"HTTP/1.1 200 OK\r\nno colon"])
def test_malformed_heads(head: bytes) -> None:
    with pytest.raises(HttpError):
        parse_head(head)
