"""The command `pods`: an API server that makes its objects while it sends them, and what is measured with it."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError

import pytest

from fastdns.bench.cli import main
from fastdns.bench.parts.numbered import ENDPOINTS, HEADLESS, VERSION, Numbered, address, changed_address
from fastdns.bench.parts.numbered_api import Change, NumberedServer
from fastdns.plugins.kubernetes.decode.stream import PROTOBUF, Stream
from fastdns.plugins.kubernetes.store.store import Store
from fastdns.plugins.kubernetes.watch.resources import RESOURCES, Kind

SERVICES, PODS = 40, 700


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with NumberedServer(SERVICES, PODS, 1) as server:
        yield server.url


def get(url: str, path: str) -> bytes:
    with urllib.request.urlopen(url + path, timeout=30) as reply:
        octets: bytes = reply.read()
        return octets


def listed(url: str, kind: Kind, limit: int) -> Store:
    store = Store()
    stream = Stream(store, kind)
    stream.begin_list()
    following = "0"
    while following:
        body = get(url, f"{RESOURCES[kind].path}?limit={limit}&continue={following}")
        stream.begin(PROTOBUF, False, len(body))
        stream.feed(body, len(body))
        stream.end()
        stream.finish_list()
        following = stream.following
    stream.commit_list()
    return store


def test_objects_of_a_seed() -> None:
    one, same, other = Numbered(SERVICES, PODS, 1), Numbered(SERVICES, PODS, 1), Numbered(SERVICES, PODS, 2)
    assert [one.pod(number, VERSION) for number in range(PODS)] == [same.pod(number, VERSION) for number in range(PODS)]
    assert one.pod(0, VERSION) != other.pod(0, VERSION)
    for kind in one.kinds.values():
        assert len({kind.make(number, VERSION) for number in range(kind.count)}) == kind.count
        for number in range(kind.count):
            assert len(kind.make(number, VERSION)) == len(kind.make(number % kind.period, VERSION))
    assert min(len(one.pod(number, VERSION)) for number in range(PODS)) >= 2000


def test_addresses_differ() -> None:
    found = [address(number, 100) for number in range(0, 3_000_000, 997)] + [address(number, 200) for number in range(0, 500_000, 997)]
    found += [changed_address(number) for number in range(0, 500_000, 997)]
    assert len(set(found)) == len(found)
    assert {len(one) for one in found} == {14}


def test_changes_are_of_what_is_asked_for() -> None:
    numbered = Numbered(SERVICES, PODS, 1)
    for number in range(200):
        change = Change(number, numbered)
        assert change.plural == ("pods" if number % 2 else "endpointslices")
        assert change.service % HEADLESS == 0
        assert (change.pod >= SERVICES * ENDPOINTS) == bool(number % 2)


@pytest.mark.parametrize("limit", [0, 7, 10_000])
@pytest.mark.parametrize("kind", [Kind.NAMESPACE, Kind.SERVICE, Kind.SLICE, Kind.POD])
def test_lists(url: str, kind: Kind, limit: int) -> None:
    """Whole and in pieces."""
    assert sum(listed(url, kind, limit).counts().values()) == (PODS if kind is Kind.POD else SERVICES)


def test_unknown_paths(url: str) -> None:
    with pytest.raises(HTTPError, match="404"):
        get(url, "/api/v1/secrets")


def test_a_server_is_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shape = ["--services", str(SERVICES), "--pods", str(PODS)]
    main(["pods", *shape, "--changes", "100", "--rate", "500", "--seconds", "2", "--json", str(tmp_path / "found.json")])
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["faults"] == []
    assert found["changing"]["changes"]["missing"] == 0
    assert found["changing"]["changes"]["sampled"] > 10
    assert found["changing"]["changes"]["written"] > 200
    assert found["ready"]["peak_mb"] > 0
    assert "700 pods" in capsys.readouterr().out


def test_too_small_a_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pods", "--services", "100", "--pods", "1000"]) == 2
    assert "more than ten pods" in capsys.readouterr().err
