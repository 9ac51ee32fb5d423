"""Made-up clusters and zones, as the commands write them."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from pathlib import Path

import pytest

from fastdns.bench.cli import main
from fastdns.bench.workloads import synthetic


def written(path: Path, *arguments: str) -> list[synthetic.Object]:
    assert main(["cluster", "--output", str(path), *arguments]) == 0
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_the_numbers_asked_for(tmp_path: Path) -> None:
    shape = ("--services", "100", "--headless", "7", "--external-services", "3", "--namespaces", "4", "--endpoints", "1000", "--pods", "1500")
    objects = written(tmp_path / "c.jsonl", *shape)
    kinds = Counter(item["kind"] for item in objects)
    assert (kinds["Namespace"], kinds["Service"], kinds["Pod"]) == (4 + 2, 100 + 7 + 3 + 2, 1500)
    primary = [item for item in objects if item["kind"] == "EndpointSlice" and item["addressType"] == "IPv4"]
    assert sum(len(item["endpoints"]) for item in primary) == 1000
    assert max(len(item["endpoints"]) for item in primary) <= 100
    for taken in (
        [(item["kind"], item["metadata"].get("namespace"), item["metadata"]["name"]) for item in objects],
        [item["metadata"]["uid"] for item in objects],
        [address for item in objects if item["kind"] == "Service" for address in item["spec"].get("clusterIPs", ()) if address != "None"],
        [item["status"]["podIP"] for item in objects if item["kind"] == "Pod"],
    ):
        assert len(set(taken)) == len(taken)
    assert "Pod" not in {item["kind"] for item in written(tmp_path / "n.jsonl", *shape, "--without-pods")}


def test_a_seed_gives_the_same_names_every_time(tmp_path: Path) -> None:
    """On every machine and with every version: figures of two runs are of the same questions."""
    text = [json.dumps(item, sort_keys=True) for item in written(tmp_path / "c.jsonl", "--services", "40", "--endpoints", "90")]
    assert hashlib.sha256("\n".join(text).encode()).hexdigest()[:16] == "8af6bd1f2aa9bd93"
    assert written(tmp_path / "d.jsonl", "--services", "40", "--endpoints", "90", "--cluster-seed", "2") != [json.loads(line) for line in text]


def test_fewer_pods_than_endpoints(tmp_path: Path) -> None:
    kinds = Counter(item["kind"] for item in written(tmp_path / "c.jsonl", "--services", "10", "--endpoints", "50", "--pods", "20"))
    assert kinds["Pod"] == 20


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["cluster", "--output", "/nowhere/c.jsonl"], "/nowhere/c.jsonl: No such file or directory"),
        (["cluster", "--output", "c.txt"], "c.txt: the ending must be one of .json, .jsonl, .ndjson, .yaml, .yml"),
        (["cluster", "--services", "1000000000"], "a cluster cannot have 1000000000 services"),
        (["zone", "--names", "0"], "a zone cannot have 0 names"),
        (["zone", "--origin", "a..b"], "a..b: "),
        (["zone", "--output", "/nowhere/z"], "/nowhere/z: No such file or directory"),
    ],
)
def test_complaints(capsys: pytest.CaptureFixture[str], arguments: list[str], complaint: str) -> None:
    assert main(arguments) == 1
    assert capsys.readouterr().err.startswith(f"fastdns-bench: {complaint}")


def test_a_zone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["zone", "--names", "30", "--origin", "z.test"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("$ORIGIN z.test.\n$TTL 300\n@ SOA ")
    assert main(["zone", "--names", "30", "--origin", "z.test.", "--output", str(tmp_path / "zone")]) == 0
    assert (tmp_path / "zone").read_text() == text
    assert [line for line in text.splitlines() if line.startswith(("host-20 ", "host-21 ", "host-22 ", "host-29 "))] == [
        "host-20 A 198.18.0.20",
        "host-20 AAAA 2001:2::15",
        "host-21 A 198.18.0.21",
        "host-21 MX 10 host-20",
        "host-22 A 198.18.0.22",
        'host-22 TXT "v=spf1 a -all"',
        "host-29 CNAME host-28",
    ]
