"""Instructions per query: the replay answers what it should, the counts are the same each time, and growth is told."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fastdns.bench import replay
from fastdns.bench.cli import main
from fastdns.bench.instructions import FILE, Counts, Unmeasurable, compare, derive, functions, judge, measure, readable, total
from tests.programs import need

KEY = "gcc 1.0, glibc 2.0, x86_64"


def test_every_case_is_answered_as_it_wants(tmp_path: Path) -> None:
    replay.write_parts(tmp_path)
    command = [sys.executable, "-P", "-m", "fastdns.bench.replay", str(tmp_path)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=120)
    told = json.loads((tmp_path / "replay.json").read_text())
    assert told["queries"] == {case.name: replay.BATCH * case.counted for case in replay.CASES}
    assert told["compiler"].startswith(("gcc ", "clang "))


@pytest.mark.parametrize(
    ("flags", "answers", "message"),
    [(0x8180, 1, ""), (0x8183, 1, "rcode 3"), (0x8180, 0, "0 answers"), (None, 0, "0 replies")],
)
def test_other_answers_than_wanted_are_refused(flags: int | None, answers: int, message: str) -> None:
    case = replay.Case("some", "whoami", replay.outside_name)
    asked = replay.query(7, "example.org.", 1, False)
    head = None if flags is None else asked[:2] + flags.to_bytes(2, "big") + b"\0\1" + answers.to_bytes(2, "big")
    replies = [] if head is None else [head]
    if not message:
        replay.check(case, [asked], replies)
        return
    with pytest.raises(AssertionError, match=message):
        replay.check(case, [asked], replies)


def test_a_chain_without_a_directive() -> None:
    assert "cache" not in replay.without("cache")
    assert "disable" not in replay.without("cache")
    assert replay.without("errors").startswith("kubernetes ")
    assert replay.without("loop").split("\n") == [line for line in replay.KUBEADM.strip().split("\n") if line != "loop"]


def test_the_same_number_each_time(tmp_path: Path) -> None:
    need("valgrind")
    folders = [tmp_path / ("elsewhere" * (turn + 1)) for turn in range(2)]  # memory may lie elsewhere, too
    for folder in folders:
        folder.mkdir()
    with ThreadPoolExecutor() as pool:
        found = list(pool.map(lambda folder: measure(folder, ["kubernetes", "cache"]), folders))
    first, counts = found
    assert {name: total(profile) for name, (profile, _) in first.profiles.items()} == {name: total(profile) for name, (profile, _) in counts.profiles.items()}
    assert set(counts.instructions) == {"kubernetes", "cache"}
    for name, (profile, queries) in counts.profiles.items():
        listed = list(functions(profile, queries))
        assert any(line.endswith("fastdns._mux.walk") for line in listed)
        assert sum(float(line.split()[0]) for line in listed) == pytest.approx(counts.instructions[name], rel=0.02)
    assert 500 < counts.instructions["cache"] < counts.instructions["kubernetes"] < 20_000


def test_without_valgrind_nothing_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Unmeasurable, match="valgrind"):
        measure(tmp_path)
    assert main(["instructions"]) == 2
    assert "valgrind is not installed" in capsys.readouterr().err


def test_what_a_directive_adds() -> None:
    each = {"kubernetes": 3000, "cache": 2000, "without errors": 2960, "without cache": 2500, "with log": 6000}
    assert derive(each) == {"kubernetes": 3000, "cache": 2000, "adds errors": 40, "adds cache": 500, "adds log": 3000}
    assert derive({"cache": 2000}) == {"cache": 2000}


@pytest.mark.parametrize(
    ("counted", "written", "grown"),
    [
        (3000, 3000, False),
        (3089, 3000, False),
        (3091, 3000, True),
        (2000, 3000, False),
        (59, 40, False),  # the difference of two numbers: within what says nothing
        (61, 40, True),
        (3000, None, True),
    ],
)
def test_growth(counted: int, written: int | None, grown: bool) -> None:
    assert bool(compare({"some": counted}, {} if written is None else {"some": written})) is grown


def test_a_compiler_without_counts_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "numbers.json"
    file.write_text(json.dumps({"another": {"cache": 1}}))
    counts = Counts(KEY, {"cache": 2000}, {})
    assert judge(counts, file, update=False) == 1
    assert "To record them: fastdns-bench instructions --update" in capsys.readouterr().out
    assert judge(counts, file, update=True) == 0
    assert json.loads(file.read_text()) == {"another": {"cache": 1}, KEY: {"cache": 2000}}
    assert judge(Counts(KEY, {"cache": 2100}, {}), file, update=False) == 1
    assert "cache: 2100 instructions, 100 more" in capsys.readouterr().out


def test_one_case_alone_updates_its_number_only(tmp_path: Path) -> None:
    file = tmp_path / "numbers.json"
    file.write_text(json.dumps({KEY: {"cache": 1, "hosts": 2}}))
    judge(Counts(KEY, {"cache": 3}, {}), file, update=True)
    assert json.loads(file.read_text()) == {KEY: {"cache": 3, "hosts": 2}}


def test_the_file_has_all_cases() -> None:
    wanted = set(derive({case.name: 1 for case in replay.CASES}))
    for key, numbers in json.loads(FILE.read_text()).items():
        assert set(numbers) == wanted, key


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("__pyx_f_7fastdns_5_wire_wire_accept", "fastdns._wire.wire_accept"),
        ("__pyx_f_7fastdns_7plugins_5cache_6_cache_keep.isra.0", "fastdns.plugins.cache._cache.keep.isra.0"),
        ("__memcmp_sse2", "__memcmp_sse2"),
    ],
)
def test_names_of_functions(name: str, wanted: str) -> None:
    assert readable(name) == wanted
