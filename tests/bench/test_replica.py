"""``fastdns-bench replica``: a small cluster, from the first transfer to restarts from disk."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fastdns.bench.cli import main


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("mode", "took"), [("records", False), ("objects", True)])
def test_a_small_cluster(tmp_path: Path, mode: str, took: bool) -> None:
    assert main(["replica", mode, "--services", "40", "--restarts", "2", "--json", str(tmp_path / "out.json")]) == 0
    found = json.loads((tmp_path / "out.json").read_text())
    assert found["cluster"] == {"services": 40, "endpoints": 400, "pods": 0}
    assert found["octets"] > 40 * 60
    for run in found["restarts"]:
        assert run["cpu_s"] > 0
        assert 0 <= run["read_s"] < run["s"]
        assert 0 < run["rss_mb"] <= run["peak_mb"]
        assert ("took_s" in run) == took
    assert len(found["empty"]) == len(found["python"]) == 2


def test_what_cannot_be_measured(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replica", "records", "--pods", "1000000"]) == 2
    assert main(["replica", "objects", "--services", "40", "--pods", "400"]) == 2
    assert "more than ten for each service" in capsys.readouterr().err
