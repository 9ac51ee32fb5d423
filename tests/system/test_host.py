"""How many CPUs a process may use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fastdns.system import host


@pytest.mark.parametrize(
    ("own", "files", "expected"),
    [
        ("", {}, 64),
        ("0::/\n", {"cpu.max": "max 100000"}, 64),
        ("0::/\n", {"cpu.max": "150000 100000"}, 2),
        ("0::/\n", {"cpu.max": "1000 100000"}, 1),
        ("0::/\n", {"cpu.max": "100000000 100000"}, 64),
        ("0::/pod/container\n", {"pod/container/cpu.max": "max 100000", "pod/cpu.max": "300000 100000"}, 3),
        ("0::/pod/container\n", {"pod/container/cpu.max": "50000 100000", "pod/cpu.max": "300000 100000"}, 1),
        ("0::/of/the/host\n", {"cpu.max": "400000 100000"}, 4),
        ("0::/\n", {"cpu.max": "what"}, 64),
        ("4:cpu,cpuacct:/pod\n2:memory:/\n", {"cpu,cpuacct/pod/cpu.cfs_quota_us": "250000", "cpu,cpuacct/pod/cpu.cfs_period_us": "100000"}, 3),
        ("4:cpu,cpuacct:/pod\n", {"cpu,cpuacct/pod/cpu.cfs_quota_us": "-1", "cpu,cpuacct/pod/cpu.cfs_period_us": "100000"}, 64),
        ("4:cpu:/of/the/host\n", {"cpu/cpu.cfs_quota_us": "100000", "cpu/cpu.cfs_period_us": "100000"}, 1),
    ],
)
def test_quota(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, own: str, files: dict[str, str], expected: int) -> None:
    (tmp_path / "own").write_text(own)
    for name, text in files.items():
        path = tmp_path / "mounted" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    monkeypatch.setattr(host, "CGROUPS", str(tmp_path / "mounted"))
    monkeypatch.setattr(host, "OWN_CGROUPS", str(tmp_path / "own"))
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(64)))
    assert host.cpu_count() == expected


def test_without_cgroups(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(host, "OWN_CGROUPS", str(tmp_path / "none"))
    assert host.cpu_count() == len(os.sched_getaffinity(0))
