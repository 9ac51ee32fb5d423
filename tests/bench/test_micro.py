"""fastdns-bench micro: whose numbers are compared with whose, and what counts as slower. The benchmarks themselves are tests in bench/micro."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from fastdns.bench.cli import main
from fastdns.bench.micro.command import AGAIN, FILE, YARDSTICKS, compare, judge, key, named, processor, scale

INTEL = "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\nmodel name\t: Some Xeon\n\nprocessor\t: 1\nmodel\t: 1\n"
ARM = "processor\t: 0\nBogoMIPS\t: 243.75\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n"


@pytest.mark.parametrize(("text", "wanted"), [(INTEL, "Some Xeon (GenuineIntel/6/143)"), (ARM, "(0x41/0xd0c)"), ("", "")])
def test_kinds_of_processors(text: str, wanted: str) -> None:
    assert processor(text).endswith(wanted)
    assert processor(text)


@pytest.mark.parametrize(
    ("fullname", "wanted"),
    [
        ("bench/micro/test_cache.py::test_find[hit]", "cache find hit"),
        ("bench/micro/test_engine.py::test_suffix_hashes", "engine suffix hashes"),
        ("else", "else"),
    ],
)
def test_names(fullname: str, wanted: str) -> None:
    assert named(fullname) == wanted


@pytest.mark.parametrize(
    ("ns", "yardstick", "slower"),
    [
        (100.0, 1.0, False),
        (132.0, 1.0, False),
        (134.0, 1.0, True),
        (50.0, 1.0, False),
        (134.0, 1.04, True),  # within what says nothing about the clock
        (134.0, 1.1, False),
        (147.0, 1.1, True),
        (108.0, 0.8, True),
    ],
)
def test_slower(ns: float, yardstick: float, slower: bool) -> None:
    written = {"some": 100.0, YARDSTICKS[0]: 1.0}
    assert bool(compare({"some": ns, YARDSTICKS[0]: yardstick}, written)) is slower


def test_what_is_not_compared() -> None:
    assert not compare({"new": 5.0, YARDSTICKS[0]: 9.0, "tiny": 4.0}, {YARDSTICKS[0]: 1.0, "tiny": 1.0})
    assert not compare({"executor some": 1900.0}, {"executor some": 1000.0})
    assert compare({"executor some": 2100.0}, {"executor some": 1000.0})
    assert scale({"some": 1.0}, {YARDSTICKS[0]: 1.0}) == 1
    clock, memory = YARDSTICKS
    assert scale({clock: 1.0, memory: 3.0}, {clock: 2.0, memory: 2.0}) == 1.5


def test_another_machine_is_told() -> None:
    status, lines = judge("gcc 1, mine", {"some": 900.0}, {"gcc 1, theirs": {"some": 1.0}})
    assert status == 0
    assert "Nothing is compared: the file has no numbers of this compiler and processor, only of: gcc 1, theirs." in "\n".join(lines)
    status, lines = judge("gcc 1, mine", {"some": 900.0}, {"gcc 1, mine": {"some": 1.0}})
    assert status == 1
    assert f"{AGAIN} times in a row: some." in "\n".join(lines)


@pytest.mark.timing
@pytest.mark.parametrize(("written", "status"), [(10_000.0, 0), (0.1, 1)])
def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str], written: float, status: int) -> None:
    file = tmp_path / "numbers.json"
    file.write_text(json.dumps({key(): {"engine suffix hashes": written}}))
    assert main(["micro", "--file", str(file), "-k", "suffix"]) == status
    out = capsys.readouterr().out
    assert "engine suffix hashes" in out
    assert ("Slower than noise explains" in out) == bool(status)


@pytest.mark.timing
def test_numbers_are_written_down(tmp_path: Path) -> None:
    file = tmp_path / "numbers.json"
    file.write_text(json.dumps({key(): {"another": 1.0}}))
    assert main(["micro", "--file", str(file), "-k", "suffix", "--update"]) == 0
    told = json.loads(file.read_text())[key()]
    assert set(told) == {"another", "engine suffix hashes"}
    assert 1 < told["engine suffix hashes"] < 10_000


def test_a_benchmark_that_fails(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["micro", "-k", "nothing_of_this_name"]) == 2
    assert "pytest ended with status" in capsys.readouterr().err


def test_the_file_has_every_benchmark() -> None:
    command = [sys.executable, "-P", "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", str(FILE.parent)]
    listed = subprocess.run(command, cwd=FILE.parent.parent.parent, capture_output=True, text=True, check=True, timeout=120).stdout
    wanted = {named(line) for line in listed.splitlines() if "::" in line}
    assert wanted
    for kind, numbers in json.loads(FILE.read_text()).items():
        assert set(numbers) == wanted, kind
