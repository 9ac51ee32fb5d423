"""``fastdns-bench instructions``: what a query costs in user space, counted by callgrind, and compared with what the project has written down.

The same build gives the same number every time, on any machine, loaded or not: hashes and random numbers are fixed by `replay`, and the processor's
wider instructions, which the C library would choose among, are hidden from it. Numbers of other compilers and C libraries differ by some per cent, so the
file has one set for each.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fastdns.bench.replay import ADDITIONS, CASES, write_parts

__all__ = ["FILE", "GOALS", "Counts", "Unmeasurable", "add_arguments", "compare", "derive", "measure", "readable"]

FILE = Path(__file__).with_name("instructions.json")

#: Growth that needs to be written down. What a plugin adds is the difference of two numbers: below LEAST instructions it says nothing.
GROWTH = 0.03
LEAST = 20

#: Instructions that a query should cost at most.
GOALS = {"cache": 2000, "kubernetes": 2500, "nxdomain": 3000, "forward": 7000, "adds prometheus": 350, "adds ten rules": 900, "adds top, saturated": 150}

#: The C library chooses by the processor: without these it takes what every x86-64 has.
HIDDEN = "glibc.cpu.hwcaps=-AVX,-AVX2,-AVX512F,-AVX512VL,-ERMS,-FSRM"


class Unmeasurable(Exception):
    """No valgrind, or the replay failed; the text says what."""


@dataclass(frozen=True)
class Counts:
    """Instructions a query."""

    #: Compiler, C library and processor.
    key: str
    #: By case, and "adds NAME" for what a directive adds to the first one.
    instructions: dict[str, int]
    #: Where callgrind has put its file of each case, and how many queries that counts.
    profiles: dict[str, tuple[Path, int]]


# ---- counting ----


def measure(folder: Path, names: Sequence[str] = ()) -> Counts:
    """Replay cases (all, if no names are given) under callgrind, which leaves its files in ``folder``. Raises Unmeasurable."""
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        raise Unmeasurable("valgrind is not installed")
    report, profile = folder / "replay.json", folder / "callgrind"
    command = [
        valgrind,
        "--tool=callgrind",
        "--compress-strings=no",
        f"--callgrind-out-file={profile}",
        "--collect-atstart=no",
        "--toggle-collect=replay_counted",
        "--dump-before=replay_written_down",
        sys.executable,
        *("-P", "-m", "fastdns.bench.replay", folder, *names),
    ]
    write_parts(folder, names)
    environment = {**os.environ, "GLIBC_TUNABLES": HIDDEN, "PYTHONHASHSEED": "0"}
    done = subprocess.run([str(word) for word in command], env=environment, capture_output=True, text=True, check=False)
    if done.returncode or not report.exists():
        raise Unmeasurable(f"the replay ended with status {done.returncode}:\n{done.stderr[-3000:]}")
    result = json.loads(report.read_text(encoding="utf-8"))
    each: dict[str, int] = {}
    profiles = {}
    for part, (name, queries) in enumerate(result["queries"].items(), 1):
        profiles[name] = Path(f"{profile}.{part}"), queries
        each[name] = round(total(profiles[name][0]) / queries)
    return Counts(f"{result['compiler']}, {c_library()}, {platform.machine()}", derive(each), profiles)


def total(profile: Path) -> int:
    """The instructions that a file of callgrind sums up. Raises Unmeasurable."""
    found = re.search(r"^totals: (\d+)$", profile.read_text(encoding="utf-8", errors="replace"), re.MULTILINE)
    if found is None or found[1] == "0":
        raise Unmeasurable(f"callgrind has counted nothing: {profile.name}")
    return int(found[1])


def c_library() -> str:
    try:
        return os.confstr("CS_GNU_LIBC_VERSION") or "libc"
    except (ValueError, OSError):
        return "musl"


def derive(each: dict[str, int]) -> dict[str, int]:
    """Cases as they were counted -> with what directives add in place of the chains that lack or have them."""
    found = {name: count for name, count in each.items() if not name.startswith(("without ", "with "))}
    whole = each.get(CASES[0].name)
    if whole is None:
        return found
    for name in ADDITIONS:
        if f"without {name}" in each:
            found[f"adds {name}"] = whole - each[f"without {name}"]
    for name, count in each.items():
        if name.startswith("with "):
            found[f"adds {name.removeprefix('with ')}"] = count - whole
    return found


# ---- comparing ----


def compare(counted: dict[str, int], written: dict[str, int]) -> list[str]:
    """What has grown by more than GROWTH, as lines; a case that nobody has written down yet is one, too."""
    found = []
    for name, count in counted.items():
        former = written.get(name)
        if former is None:
            found.append(f"{name}: {count} instructions, and the file has none")
        elif count > former * (1 + GROWTH) and count - former > LEAST:
            found.append(f"{name}: {count} instructions, {count - former} more than the file's {former}")
    return found


def table(counted: dict[str, int], written: dict[str, int] | None) -> Iterable[str]:
    yield f"{'':24}{'instructions':>12}{'file':>8}{'change':>9}{'goal':>8}"
    for name, count in counted.items():
        former = None if written is None else written.get(name)
        change = f"{(count - former) / former:+.1%}" if former else ""
        goal = GOALS.get(name)
        wish = f"{goal}{' missed' if count > goal else ''}" if goal else ""
        yield f"{name:24}{count:12}{'' if former is None else former:>8}{change:>9}    {wish}".rstrip()


def readable(name: str) -> str:
    """Cython's name of a C function as module and function: ``__pyx_f_7fastdns_5_wire_wire_accept`` -> ``fastdns._wire.wire_accept``."""
    found = re.match(r"__pyx_\w?f_", name)
    if found is None:
        return name
    rest = name[found.end() :]
    parts = []
    while length := re.match(r"(\d+)(?=[^\d])", rest):
        end = length.end() + int(length[1])
        if len(rest) <= end or rest[end] != "_":
            break
        parts.append(rest[length.end() : end])
        rest = rest[end + 1 :]
    return ".".join([*parts, rest])


def functions(profile: Path, queries: int) -> Iterable[str]:
    """A case's functions by the instructions in themselves, per query."""
    costs: Counter[str] = Counter()
    name, called = "", False
    for line in profile.read_text(encoding="utf-8", errors="replace").splitlines():
        if line.startswith("fn="):
            name = line[3:].partition("'")[0]
        elif line.startswith("calls="):
            called = True  # the next line is what the called function took
        elif line.startswith(tuple("0123456789+-*")):
            if not called:
                costs[name] += int(line.split()[-1])
            called = False
    for name, cost in costs.most_common():
        if cost >= queries:
            yield f"{cost / queries:10.1f}  {readable(name)}"


# ---- the command ----


def add_arguments(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("instructions", help="instructions per query, counted by callgrind")
    parser.add_argument("--update", action="store_true", help="write the numbers into the file")
    parser.add_argument("--file", type=Path, default=FILE, help="numbers that were written down (default: %(default)s)")
    parser.add_argument("--case", action="append", default=[], choices=[case.name for case in CASES], help="count only this; may be repeated")
    parser.add_argument("--functions", action="store_true", help="list each case's functions, too")
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Status 1: something has grown, or the file has no counts of this compiler; 2: nothing could be counted."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            counts = measure(Path(folder), given.case)
        except Unmeasurable as error:
            print(f"fastdns-bench instructions: {error}", file=sys.stderr)
            return 2
        if given.functions:
            for name, (profile, queries) in counts.profiles.items():
                print(f"== {name}", *functions(profile, queries), sep="\n")
    return judge(counts, given.file, given.update)


def judge(counts: Counts, file: Path, update: bool) -> int:
    written = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    known = written.get(counts.key)
    print(f"instructions per query: {counts.key}", *table(counts.instructions, known), sep="\n")
    if update:
        written[counts.key] = {**(known or {}), **counts.instructions}
        file.write_text(json.dumps(written, indent=4) + "\n", encoding="utf-8")
        return 0
    if known is None:
        print(f"{file.name} has no counts of this compiler and C library. To record them: fastdns-bench instructions --update")
        return 1
    grown = compare(counts.instructions, known)
    if grown:
        print("Grown by more than 3 %:", *grown, "If that is meant, run fastdns-bench instructions --update and say why in the commit.", sep="\n")
    return int(bool(grown))
