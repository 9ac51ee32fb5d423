"""The commands `nodes` and `nodes-report`: ways of answering on a node, measured on a real API server."""

from __future__ import annotations

import http.server
import json
import socket
import threading
import urllib.request
import xml.etree.ElementTree
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import URLError

import pytest

from fastdns.bench.cli import main
from fastdns.bench.nodes.changes import KINDS, Change, changes, pause
from fastdns.bench.nodes.link import Link
from fastdns.bench.nodes.outages import OUTAGES
from tests.waiting import LIMIT, until

SMALL = ["--services", "100", "--endpoints", "300", "--names", "10", "--changes", "4", "--seconds", "2", "--ttl", "2", "--later", "8"]
SMALL += ["--rounds", "1", "--round-seconds", "1", "--rate", "200"]


@pytest.mark.timeout(600)
def test_ways_are_measured(cluster_programs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A cache is old for as long as its TTL and empty after a restart, a replica is not."""
    assert main(["nodes", *SMALL, "--api-programs", str(cluster_programs), "--json", str(tmp_path / "found.json")]) == 0
    found = json.loads((tmp_path / "found.json").read_text())
    assert list(found["ways"]) == ["cache", "replica"]
    for way in found["ways"].values():
        assert way["rss_mb"] > 10
        assert way["cpu_us"][0] > 0
        for kind in KINDS:
            assert (len(way["staleness"][kind]["s"]), way["staleness"][kind]["missing"]) == (4, 0)
    # Of services that are there, so for a TTL of two seconds; and absence is kept for up to five.
    assert 0 < max(found["ways"]["cache"]["staleness"]["deleted"]["s"]) < 10
    load = found["api"]["fastdns, the cluster's DNS"]
    assert load["watches"] == 3
    assert load["octets"] > 10_000
    assert load["octets_per_change"] > 100
    outages = found["outages"]
    assert list(outages) == list(OUTAGES)
    for outage in ("centre", "both"):
        assert outages[outage]["cache"]["later"] == {"asked": 0, "others": 0}
    for outage in OUTAGES:
        assert outages[outage]["replica"]["later"] == {"asked": 1, "others": 1}
    assert outages["api"]["cache"]["later"] == {"asked": 1, "others": 1}
    assert outages["restart"]["cache"]["first"] is None
    assert outages["restart"]["replica"]["first"]["cpu_s"] > 0
    assert "fastdns-node: replica: " in capsys.readouterr().out

    assert main(["nodes-report", str(tmp_path / "found.json"), "--staleness", str(tmp_path / "age.svg")]) == 0
    assert "| both are away: names answered after 1 s, 8 s |" in capsys.readouterr().out


def test_programs_that_are_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nodes", *SMALL, "--api-programs", str(tmp_path)]) == 1
    assert f"no etcd and apiserver in {tmp_path}: `python -m tests.apiserver --build-only` builds them" in capsys.readouterr().err
    assert main(["nodes", *SMALL, "--coredns", str(tmp_path / "coredns")]) == 1
    assert f"{tmp_path}/coredns is not a program" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--services", "100", "--names", "20"], ["--node-cache", "/bin/true"], ["--rounds", "0"]])
def test_what_cannot_be_measured(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nodes", *arguments]) == 2
    assert "9 services for each of --names" in capsys.readouterr().err


def test_changes() -> None:
    made = changes(20, 30, 1)
    assert made == changes(20, 30, 1) != changes(20, 30, 2)
    assert {kind: sum(change.kind == kind for change in made) for kind in KINDS} == dict.fromkeys(KINDS, 20)
    assert [change.due for change in made] == sorted(change.due for change in made)
    assert len({change.address for change in made}) == len(made)
    methods = {kind: Change(1, kind, 0.0).write()[0] for kind in KINDS}
    assert methods == {"new": "POST", "changed": "PUT", "deleted": "DELETE"}
    # Right before a change and soon after it a name is asked for often.
    assert (pause(10), pause(0.1), pause(0.001), pause(-1), pause(-5)) == (0.5, 0.1, 0.01, 0.01, 0.1)


# ---- the link ----


@pytest.fixture
def server() -> Iterator[http.server.HTTPServer]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(bytes(100_000))

        def log_message(self, *_: Any) -> None:
            pass

    made = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=made.serve_forever, daemon=True)
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


def get(port: int) -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=LIMIT) as reply:
        return len(reply.read())


def test_a_link_counts_and_can_be_cut(server: http.server.HTTPServer) -> None:
    with Link(server.server_port) as link:
        assert get(link.port) == 100_000
        counted = link.octets
        assert 100_000 < counted < 101_000
        with socket.create_connection(("127.0.0.1", link.port)) as kept:
            kept.settimeout(LIMIT)
            until(lambda: len(link._pairs) == 2)
            link.cut()
            assert kept.recv(1) == b""
        with pytest.raises(URLError):
            get(link.port)
        link.mend()
        assert get(link.port) == 100_000
        assert link.octets > counted + 100_000


# ---- the report ----

LEFT = {"soon": {"asked": 1.0, "others": 0.0}, "later": {"asked": 0.0, "others": 0.0}}
ALL = {"soon": {"asked": 1.0, "others": 1.0}, "later": {"asked": 1.0, "others": 0.9999}}
RUN = {
    "cluster": {"services": 100, "endpoints": 1000},
    "conditions": {"ttl": 30, "changes": 4, "rate": 100, "names": 10, "later": 40},
    "ways": {
        "coredns": {
            "title": "CoreDNS on every node",
            "hops": "0",
            "rss_mb": 70.4,
            "cpu_us": [30.0, 20.0, 25.0],
            "staleness": {kind: {"s": [0.01, 0.02], "missing": 0} for kind in KINDS},
        },
        "cache": {"title": "a cache", "hops": "0 or 1", "rss_mb": 33.0, "staleness": {kind: {"s": [1.0, 29.96], "missing": 1} for kind in KINDS}},
    },
    "api": {"CoreDNS on every node": {"watches": 3, "octets": 2_500_000, "octets_per_change": 526.4}},
    "outages": {outage: {"coredns": ALL, "cache": LEFT} for outage in OUTAGES},
}


def test_a_table_and_pictures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = {**RUN, "cluster": {"services": 10, "endpoints": 100}}
    for name, one in (("a", RUN), ("b", other)):
        (tmp_path / name).write_text(json.dumps(one))
    pictures = tmp_path / "age.svg", tmp_path / "memory.svg"
    assert main(["nodes-report", str(tmp_path / "a"), str(tmp_path / "b"), "--staleness", str(pictures[0]), "--memory", str(pictures[1])]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "| | CoreDNS on every node | a cache |"
    assert "| old answers after a deleted Service: median, p99, longest | 15 ms, 20 ms, 20 ms | 15.5 s, 30.0 s, 30.0 s; 1 not answered |" in lines
    assert "| CPU of an answer on the node | 25.0 us | not measured |" in lines
    assert "| memory on the node | 70 MB | 33 MB |" in lines
    assert "| watches that a node has on the API server | 3 | 0 |" in lines
    assert "| and for each change | 526 octets | 0 |" in lines
    outage = "| the API server is away: names answered after 1 s, 40 s | 100 %, 100 %; names not asked for before 100 %, 99.9 % |"
    assert f"{outage} 100 %, 0 %; names not asked for before 0 %, 0 % |" in lines
    for picture in pictures:
        tree = xml.etree.ElementTree.parse(picture)
        assert {"CoreDNS on every node", "a cache"} <= {element.text for element in tree.iter("{http://www.w3.org/2000/svg}text")}
        assert len(list(tree.iter("{http://www.w3.org/2000/svg}polyline"))) == 2


def test_files_of_other_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "other.json").write_text('{"version": 1}')
    assert main(["nodes-report", str(tmp_path / "other.json")]) == 1
    assert "fastdns-bench: KeyError" in capsys.readouterr().err
