"""The command `overload`: a quota that holds a process, and goals beside what was measured."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fastdns.bench.cli import main
from fastdns.bench.overload import goals
from fastdns.bench.servers.quota import CpuQuota, QuotaError

SPIN = "import os\nos.write(1, b'x')\nwhile True:\n    pass"


@pytest.fixture
def quota() -> CpuQuota:
    try:
        return CpuQuota(0.1, 0.1)
    except QuotaError as error:
        pytest.skip(str(error))


def test_a_quota_holds_a_process(quota: CpuQuota) -> None:
    with subprocess.Popen([sys.executable, "-c", SPIN], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.read(1)
            with quota:
                quota.hold(process.pid)
                end = time.monotonic() + 60
                while quota.throttled()[1] < 5:
                    assert time.monotonic() < end
                    time.sleep(0.01)
                periods, throttled = quota.throttled()
                assert periods >= throttled
                folder = quota.folder
            assert not folder.exists()
            assert process.poll() is None, "it goes on without a quota"
        finally:
            process.kill()


def test_what_is_no_quota(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(QuotaError, match="at least 1 ms"):
        CpuQuota(0.001, 0.1)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert main(["overload"]) == 2
    assert "root alone" in capsys.readouterr().err


def test_goals() -> None:
    assert goals({"share": 0.8, "p99": 0.21}, 0.21) == []
    assert goals({"share": 0.5, "p99": 0.3}, 0.21) == ["50% of the capacity became answers, the goal is 80%", "p99 is 300 ms, the goal is 210 ms"]


def test_a_short_run(quota: CpuQuota, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What it says of itself; figures of a second are none."""
    quota.__exit__(None, None, None)
    status = main(["overload", "--seconds", "1", "--rounds", "1", "--times", "2", "--json", str(tmp_path / "figures")])
    assert status in (0, 1)
    found = json.loads((tmp_path / "figures").read_text())["overload"]
    assert [each["shed"] for each in found["rounds"]] == ["50ms", "off"]
    for each in found["rounds"]:
        assert each["capacity"] > 0
        assert each["offered"] > each["capacity"]
        assert each["answered"] > 0
    assert "goals: 80%, p99 210 ms" in capsys.readouterr().out
