"""The command `sizes`: runs of `pods` as a table and a picture."""

from __future__ import annotations

import json
import xml.etree.ElementTree
from pathlib import Path

import pytest

from fastdns.bench.cli import main

RUN = {
    "server": "fastdns",
    "cluster": {"services": 50, "endpoints": 500, "pods": 1000, "octets_of_pods": 2_000_000},
    "curl": {"octets": 2e6, "seconds": 0.01, "mb_s": 200.0},
    "ready": {"seconds": 0.5, "cpu_s": 0.004, "rss_mb": 40.0, "peak_mb": 41.0},
    "relist": {"seconds": 0.1, "cpu_s": 0.01, "rss_mb": 40.0, "peak_mb": 44.0, "peak_before_mb": 41.0},
    "quiet": {"latency_s": {"p50": 1e-4, "p99": 1e-3}},
    "changing": {
        "latency_s": {"p50": 1e-4, "p99": 0.0012},
        "changes": {"endpointslices_s": {"p50": 0.001, "p99": 0.004}, "pods_s": {"p50": 0.001, "p99": 0.005}},
    },
}


def test_a_table_and_a_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [RUN, {**RUN, "cluster": {**RUN["cluster"], "pods": 10_000}}, {**RUN, "server": "coredns"}]  # type: ignore[dict-item]
    paths = [tmp_path / f"{number}.json" for number in range(len(runs))]
    for path, run in zip(paths, runs, strict=True):
        path.write_text(json.dumps(run))
    assert main(["sizes", *map(str, paths), "--svg", str(tmp_path / "memory.svg")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(" | ")[0].strip("| ") for line in lines[2:]] == ["coredns", "fastdns", "fastdns"]
    assert "| fastdns | 1,000 | 0.01 s | 0.50 s | 4.0 us | 40 MB | 41, 44 MB | 1.0 ms, 1.2 ms | 4.0 ms endpoints, 5.0 ms pods |" in lines
    tree = xml.etree.ElementTree.parse(tmp_path / "memory.svg")
    names = [element.text for element in tree.iter("{http://www.w3.org/2000/svg}text")]
    assert {"coredns", "fastdns", "pods"} <= set(names)
    assert len(list(tree.iter("{http://www.w3.org/2000/svg}polyline"))) == 2


def test_files_of_other_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "other.json").write_text('{"version": 1}')
    assert main(["sizes", str(tmp_path / "other.json")]) == 1
    assert "fastdns-bench: KeyError" in capsys.readouterr().err
