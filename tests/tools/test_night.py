"""``make night``: parts that are run once for a commit, and one page of results."""

from __future__ import annotations

import runpy
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOL = ROOT / "tools/night.py"

pytestmark = pytest.mark.skipif(not TOOL.is_file(), reason="needs the source tree")


@pytest.fixture
def night(tmp_path: Path) -> dict[str, Any]:
    """The module's names, for a repository with one commit."""
    for command in (["init", "-q"], ["-c", "user.name=a", "-c", "user.email=a@a.test", "commit", "-q", "--allow-empty", "-m", "first"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    names = runpy.run_path(str(TOOL))
    part = names["Part"]
    names["main"].__globals__.update(
        ROOT=tmp_path,
        PARTS=[
            part("good", "echo once >> runs; echo 3 passed", "passes"),
            part("bad", "echo first; echo 'a | b'; exit 3", "fails"),
            part("long", "sleep 987 & echo waits; wait", "takes too long", 1),
        ],
    )
    return names


def test_a_run_is_resumed_and_its_results_are_on_one_page(night: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert night["main"]([]) == 1
    rows = (tmp_path / "build/night/results.md").read_text().splitlines()[-3:]
    assert [[cell.strip() for cell in row.split("|")[1:6]] for row in rows] == [
        ["good", "passed", "0", "3 passed", "passes"],
        ["bad", "failed", "0", "a / b", "fails"],
        ["long", "too long", "1", "waits", "takes too long"],
    ]
    assert subprocess.run(["pgrep", "-fx", "sleep 987"], stdout=subprocess.DEVNULL, check=False).returncode == 1
    assert night["main"]([]) == 1
    assert (tmp_path / "runs").read_text() == "once\n"
    assert capsys.readouterr().out.count("night: bad: fails") == 2


def test_parts_by_name(night: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert night["main"](["good"]) == night["main"](["good"]) == 0
    assert (tmp_path / "runs").read_text() == "once\n" * 2
    assert night["main"](["nosuch"]) == 2
    assert capsys.readouterr().err == "night: no part nosuch; there are good, bad, long\n"


def test_another_commit_is_run_from_the_start(night: dict[str, Any], tmp_path: Path) -> None:
    night["main"](["good"])
    subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@a.test", "commit", "-q", "--allow-empty", "-m", "second"], cwd=tmp_path, check=True)
    night["main"].__globals__["PARTS"] = night["main"].__globals__["PARTS"][:1]
    assert night["main"]([]) == 0
    assert (tmp_path / "runs").read_text() == "once\n" * 2


def test_each_path_of_the_parts_is_there() -> None:
    names = runpy.run_path(str(TOOL))
    words = [word.strip("'") for part in names["PARTS"] for word in part.command.replace("=", " ").split()]
    paths = [word for word in words if word.startswith("tests/")]
    assert len(paths) > 20
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_all_fuzz_targets_have_their_part() -> None:
    from tests.fuzz.targets import TARGETS

    parts = [part.command for part in runpy.run_path(str(TOOL))["PARTS"] if part.name.startswith("fuzz-") and "FUZZ='" in part.command]
    assert sorted(name for command in parts for name in command.split("FUZZ='")[1].split("'")[0].split()) == sorted(TARGETS)
