"""The snapshot: what is written is read back, a restart serves from it while the API server is away, broken files are refused."""

from __future__ import annotations

import json
import os
import random
import re
import threading
import zlib
from pathlib import Path
from typing import Any

import pytest

from fastdns.control import tasks as control
from fastdns.plugins.kubernetes.decode.objects import Sink
from fastdns.plugins.kubernetes.decode.stream import JSON, Stream
from fastdns.plugins.kubernetes.store import snapshot as file_format
from fastdns.plugins.kubernetes.store.store import Store
from fastdns.plugins.kubernetes.watch import metrics, snapshot
from fastdns.plugins.kubernetes.watch.cluster import acquire
from fastdns.plugins.kubernetes.watch.connection import Endpoint
from fastdns.plugins.kubernetes.watch.informers import Options
from fastdns.plugins.kubernetes.watch.resources import Kind, Selectors, kinds
from fastdns.plugins.kubernetes.watch.selectors import Selector
from tests.native.recorder import Recorder
from tests.plugins.kubernetes.conftest import addresses
from tests.plugins.kubernetes.test_decoders import OBJECTS, feed
from tests.server import free_port
from tests.waiting import LIMIT, until

IMPORTS = [
    {"metadata": {"name": "i", "namespace": "n"}, "spec": {"type": "ClusterSetIP", "ips": ["10.0.0.1"], "ports": [{"name": "p", "port": 1}]}},
    {"metadata": {"name": "h", "namespace": "n"}, "spec": {"type": "Headless", "ports": None}},
]


def fill(sink: Sink) -> Sink:
    """All the objects of the decoders' tests."""
    for kind in Kind:
        stream = Stream(sink, kind, True)
        known = Kind.SLICE if kind is Kind.IMPORT_SLICE else kind
        things = IMPORTS if kind is Kind.IMPORT else [one for other, one, _ in OBJECTS if other is known]
        stream.begin_list()
        stream.begin(JSON, False, -2)
        feed(stream, json.dumps({"metadata": {"resourceVersion": "1"}, "items": things}).encode())
        stream.commit_list()
    return sink


def write(sink: Sink, path: Path, head: bytes = b"{}") -> bytes:
    with path.open("wb") as file:
        octets, _ = file_format.save(sink, list(Kind), file.fileno(), head)
    data = path.read_bytes()
    assert len(data) == octets
    return data


def read(data: bytes, sink: Sink, wanted: Any = tuple(Kind)) -> int:
    _, start = file_format.check(data)
    return file_format.load(sink, data, start, wanted)


def views(recorder: Recorder) -> list[dict[Any, Any]]:
    """Without the trigger times, which are of events and not of state."""
    return [{name: {**view, "trigger": 0} for name, view in recorder.objects(kind).items()} for kind in Kind]


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    recorder = Recorder()
    fill(recorder)
    data = write(recorder, tmp_path / "s", b'{"a": 1}')
    again = Recorder()
    assert file_format.check(data)[0] == b'{"a": 1}'
    assert read(data, again) == sum(map(len, views(recorder)))
    assert int.from_bytes(data[-4:], "little") == zlib.crc32(data[:-4])
    assert again.synced == set(Kind)
    assert ("begin", "service", 2) in again.log
    assert views(again) == views(recorder)


def test_the_store_gives_back_what_it_answers_from(tmp_path: Path) -> None:
    recorder, again = Recorder(), Recorder()
    fill(recorder)
    read(write(fill(Store()), tmp_path / "s"), again)

    def answers(view: dict[str, Any]) -> list[Any]:
        parts = ("name", "headless", "external_name", "cluster_ips", "external_ips", "ports", "endpoints", "ip", "ips", "labels", "host_network")
        return [view.get(part) for part in parts]

    # Pods without an address or with another spelling of one, slices of no service.
    useless = {"q", "zeros", "mapped", "fqdn", "empty"}
    for kind in Kind:
        kept = {name: answers(view) for name, view in again.objects(kind).items() if name[1] not in useless}
        known = {name: view for name, view in recorder.objects(kind).items() if name[1] not in useless and view.get("service") != ""}
        given = {name: answers(view) for name, view in known.items()}
        assert kept == given


def test_only_the_kinds_wanted_are_read(tmp_path: Path) -> None:
    data = write(fill(Recorder()), tmp_path / "s")
    again = Recorder()
    read(data, again, [Kind.SERVICE])
    assert again.synced == {Kind.SERVICE}
    assert again.objects(Kind.POD) == {}


def test_every_damage_is_seen(tmp_path: Path) -> None:
    data = write(fill(Recorder()), tmp_path / "s")
    chance = random.Random(3)
    for _ in range(300):
        broken = bytearray(data)
        broken[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        with pytest.raises(ValueError):
            file_format.check(bytes(broken))
    for length in (0, 10, 35, 36, len(data) - 1):
        with pytest.raises(ValueError):
            file_format.check(data[:length])


def test_a_right_checksum_over_nonsense_crashes_nothing(tmp_path: Path) -> None:
    data = write(fill(Recorder()), tmp_path / "s")
    chance = random.Random(4)
    outcomes = set()
    for _ in range(1000):
        broken = bytearray(data[:-5])
        for _ in range(3):
            broken[chance.randrange(len(file_format.MAGIC) + 3, len(broken))] = chance.randrange(256)
        broken.append(255)
        whole = bytes(broken) + zlib.crc32(broken).to_bytes(4, "little")
        again = Recorder()
        try:
            read(whole, again)
            outcomes.add("read")
        except ValueError:
            outcomes.add("refused")
            assert not again.synced
    assert outcomes == {"read", "refused"}


OBJECTS_SERVED = ["ns default", "svc default/a 10.0.0.1 ports=http:TCP:80", "eps default/a ports=http:TCP:80 10.1.0.1"]


def stale(url: str) -> Any:
    return dict(metrics.snapshot_stale.collect()).get((url.removeprefix("http://"),))


def run_once(fakekube: Any, path: Path, port: int) -> None:
    """A process that lived, wrote its snapshot and ended."""
    server = fakekube(OBJECTS_SERVED, port=port)
    lease = acquire(Endpoint(server.url), Options(snapshot=str(path)), kinds(), Recorder)
    lease.start()
    assert lease.wait(LIMIT)
    lease.release()
    server.stop()
    assert path.is_file()
    assert os.listdir(path.parent) == [path.name]


def test_a_restart_serves_while_the_server_is_away(fakekube: Any, follow: Any, tmp_path: Path, lines: list[str]) -> None:
    path, port = tmp_path / "snapshot", free_port()
    run_once(fakekube, path, port)
    url = f"http://127.0.0.1:{port}"
    recorder, lease = follow(Endpoint(url), *kinds(), snapshot=str(path))
    assert addresses(recorder) == {"a": "10.0.0.1"}
    assert lease.synced
    assert lease.stale
    assert stale(url) == 1
    assert len(lines) == 1
    assert re.fullmatch(rf"\[INFO\] plugin/kubernetes: Serving 3 objects from the snapshot {path}, \d+ s old, until the API server is heard", lines[0])
    server = fakekube([*OBJECTS_SERVED, "svc default/b 10.0.0.2"], port=port)
    server.delete("svc default/a")
    until(lambda: addresses(recorder) == {"b": "10.0.0.2"})
    until(lambda: stale(url) == 0)
    assert not lease.stale


def test_more_kinds_than_the_snapshot_has_wait_for_the_server(fakekube: Any, follow: Any, tmp_path: Path) -> None:
    path, port = tmp_path / "snapshot", free_port()
    run_once(fakekube, path, port)
    recorder, lease = follow(Endpoint(f"http://127.0.0.1:{port}"), *kinds(pods=True), wait=0, snapshot=str(path))
    until(lambda: addresses(recorder))
    assert not lease.synced


def test_one_that_no_thread_has_put_in_its_place_is_at_the_end(fakekube: Any, tmp_path: Path) -> None:
    """All threads of the pool are busy, or slow: nothing is lost, and no draft is left behind."""
    go = threading.Event()
    busy = [control.after(0, lambda: go.wait(LIMIT)) for _ in range(control.POOL_THREADS)]
    path = tmp_path / "snapshot"
    server = fakekube(OBJECTS_SERVED)
    lease = acquire(Endpoint(server.url), Options(snapshot=str(path)), kinds(), Recorder)
    try:
        lease.start()
        assert lease.wait(LIMIT)
        until(lambda: os.listdir(tmp_path))
        assert not path.exists()
        lease.release()
        assert os.listdir(tmp_path) == [path.name]
    finally:
        go.set()
        lease.release()
    assert len(busy) == control.POOL_THREADS


def test_it_is_written_again_when_something_changed(fakekube: Any, follow: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "EVERY", 0.05)
    path = tmp_path / "snapshot"
    server = fakekube(OBJECTS_SERVED)
    follow(Endpoint(server.url), *kinds(), snapshot=str(path))
    until(path.exists)
    before = path.stat().st_ino, path.stat().st_mtime_ns
    server.apply("svc default/b 10.0.0.2")
    until(lambda: (path.stat().st_ino, path.stat().st_mtime_ns) != before)
    again = Recorder()
    until(lambda: read(path.read_bytes(), again) and set(addresses(again)) == {"a", "b"})


REFUSED = {
    "another cluster": (lambda url: Endpoint("http://127.0.0.1:1"), {}, "is of another cluster or of other selectors: not used"),
    "other selectors": (Endpoint, {"selectors": Selectors(Selector.parse("a"))}, "is of another cluster or of other selectors: not used"),
}


@pytest.mark.parametrize(("origin", "options", "said"), REFUSED.values(), ids=REFUSED.keys())
def test_a_snapshot_of_something_else_is_not_used(fakekube: Any, follow: Any, tmp_path: Path, lines: list[str], origin: Any, options: Any, said: str) -> None:
    path, port = tmp_path / "snapshot", free_port()
    run_once(fakekube, path, port)
    _, lease = follow(origin(f"http://127.0.0.1:{port}"), *kinds(), wait=0, snapshot=str(path), **options)
    until(lambda: lines)
    assert lines == [f"[WARNING] plugin/kubernetes: snapshot {path} {said}"]
    assert not lease.synced


@pytest.mark.parametrize("content", [b"", b"nonsense" * 10, file_format.MAGIC + b"{}\n\xff\0\0\0\0"])
def test_a_broken_file_is_said_and_does_no_harm(content: bytes, fakekube: Any, follow: Any, tmp_path: Path, lines: list[str]) -> None:
    path = tmp_path / "snapshot"
    path.write_bytes(content)
    recorder, _ = follow(Endpoint(fakekube(OBJECTS_SERVED).url), *kinds(), snapshot=str(path))
    assert addresses(recorder) == {"a": "10.0.0.1"}
    assert len(lines) == 1
    assert lines[0].startswith(f"[WARNING] plugin/kubernetes: snapshot {path} is not usable: ")


def test_a_folder_that_is_missing_is_said_once(fakekube: Any, follow: Any, tmp_path: Path, lines: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "EVERY", 0.02)
    path = tmp_path / "missing" / "snapshot"
    follow(Endpoint(fakekube(OBJECTS_SERVED).url), *kinds(), snapshot=str(path))
    until(lambda: lines)
    assert len(lines) == 1
    assert lines[0].startswith(f"[ERROR] plugin/kubernetes: snapshot {path} cannot be written: ")
