"""``fastdns-bench micro``: runs the micro-benchmarks of this folder, and compares nanoseconds for an operation with what the project has written down.

Processor time counts, the least of many rounds, so that other processes on the machine matter little. What seems slower is run again, and
counts only when it stays so. Numbers belong to a kind of processor and a compiler; on any other nothing is compared, and this is printed.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

__all__ = ["FILE", "add_arguments", "compare", "judge", "key", "measure", "processor", "scale"]

FOLDER = Path(__file__).parent
FILE = FOLDER / "baseline.json"

#: Loops that no change of ours makes faster or slower, only the processor's clock and who else uses its caches.
YARDSTICKS = ("yardstick clock", "yardstick memory")
#: What counts as slower: by this share and so many nanoseconds. Where memory happens to lie makes 3 of some runs.
GROWTH, LEAST = 0.3, 3.0
#: What wakes another thread depends on the scheduler, too.
WAKING, WAKING_GROWTH = "executor ", 1.0
#: How often what seems slower is run again; what is written down, too.
AGAIN = 3


class Unmeasurable(Exception):
    """A benchmark failed, or there is no pytest-benchmark; the text says what."""


# ---- whose numbers they are ----


def processor(cpuinfo: str) -> str:
    """The kind of a processor by the text of /proc/cpuinfo: maker, family and model, and the name that people know it by."""
    found = dict(re.findall(r"^([^:\n]*?)\s*: (.*)$", cpuinfo.partition("\n\n")[0], re.MULTILINE))
    number = [found[name] for name in ("vendor_id", "cpu family", "model", "CPU implementer", "CPU part") if name in found]
    return " ".join([found.get("model name", platform.machine()), f"({'/'.join(number)})"] if number else [platform.machine()])


def key() -> str:
    from fastdns.bench.micro.replay import compiler

    try:
        cpuinfo = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        cpuinfo = ""
    return f"{compiler()}, {platform.python_implementation()} {'.'.join(platform.python_version_tuple()[:2])}, {processor(cpuinfo)}"


# ---- measuring ----


def measure(chosen: Sequence[str]) -> dict[str, float]:
    """Nanoseconds for one operation of each benchmark that pytest chooses by these arguments. Raises Unmeasurable."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "micro.json"
        command = [
            *(sys.executable, "-P", "-m", "pytest", "-q", "--no-header", "-p", "no:cacheprovider"),
            *("--benchmark-enable", "--benchmark-quiet", f"--benchmark-json={report}"),
            *("--benchmark-timer=time.process_time", "--benchmark-disable-gc", "--benchmark-max-time=0.4", "--benchmark-min-rounds=7"),
            *(chosen or [str(FOLDER)]),
        ]
        done = subprocess.run(command, cwd=FOLDER.parent.parent, capture_output=True, text=True, check=False)
        if done.returncode or not report.exists():
            raise Unmeasurable(f"pytest ended with status {done.returncode}:\n{done.stdout[-3000:]}{done.stderr[-1000:]}")
        result = json.loads(report.read_text(encoding="utf-8"))
    return {one["fullname"]: one["stats"]["min"] * 1e9 / one["extra_info"]["operations"] for one in result["benchmarks"]}


def named(fullname: str) -> str:
    """bench/micro/test_cache.py::test_find[hit] -> cache find hit"""
    found = re.fullmatch(r".*test_(\w+)\.py::test_(\w+)(?:\[(.*)\])?", fullname)
    if found is None:
        return fullname
    file, function, variant = found.groups(default="")
    return " ".join(word for word in (file, function.replace("_", " "), variant) if word)


# ---- comparing ----


def scale(counted: dict[str, float], written: dict[str, float]) -> float:
    """By how much this machine is slower now than the one of the file was, by the worse yardstick; 1 within what says nothing."""
    ratio = max((counted[name] / written[name] for name in YARDSTICKS if name in counted and name in written), default=1.0)
    return ratio if abs(ratio - 1) > 0.05 else 1.0


def compare(counted: dict[str, float], written: dict[str, float]) -> list[str]:
    """The benchmarks that have become slower."""
    factor = scale(counted, written)

    def limit(name: str) -> float:
        return written[name] * factor * (1 + (WAKING_GROWTH if name.startswith(WAKING) else GROWTH)) + LEAST

    return [name for name, ns in counted.items() if name in written and name not in YARDSTICKS and ns > limit(name)]


def table(counted: dict[str, float], written: dict[str, float]) -> Iterator[str]:
    factor = scale(counted, written)
    if factor != 1:
        yield f"By its yardsticks this machine takes {factor:.2f} times as long now as when the file was written; changes are shown without that factor."
    yield f"{'ns for one':32}{'now':>10}{'file':>10}{'change':>9}"
    for name, ns in counted.items():
        former = written.get(name)
        change = "" if former is None or name in YARDSTICKS else f"{ns / (former * factor) - 1:+.0%}"
        yield f"{name:32}{ns:10.1f}{'' if former is None else format(former, '.1f'):>10}{change:>9}".rstrip()


def judge(kind: str, counted: dict[str, float], written: dict[str, dict[str, float]]) -> tuple[int, Iterable[str]]:
    """The exit status, and what to say."""
    known = written.get(kind)
    lines = [kind, *table(counted, known or {})]
    if known is None:
        others = "; ".join(written) or "none"
        lines.append(f"Nothing is compared: the file has no numbers of this compiler and processor, only of: {others}. --update writes these down.")
        return 0, lines
    slower = compare(counted, known)
    if slower:
        lines += [f"Slower than noise explains, {AGAIN} times in a row: {', '.join(slower)}."]
        lines += ["If that is meant, run fastdns-bench micro --update and say why in the commit."]
    return int(bool(slower)), lines


# ---- the command ----


def add_arguments(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("micro", help="nanoseconds of the parts of a query, with pytest-benchmark")
    parser.add_argument("--update", action="store_true", help="write the numbers into the file")
    parser.add_argument("--file", type=Path, default=FILE, help="numbers that were written down (default: %(default)s)")
    parser.add_argument("-k", dest="some", metavar="EXPRESSION", help="only the benchmarks that pytest's -k chooses")
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Status 1: something is slower than the file says; 2: a benchmark failed."""
    written: dict[str, dict[str, float]] = json.loads(given.file.read_text(encoding="utf-8")) if given.file.exists() else {}
    kind = key()
    try:
        found = measure(["-k", given.some, str(FOLDER)] if given.some else [])
        for _ in range(AGAIN):
            slower = set(compare({named(one): ns for one, ns in found.items()}, written.get(kind, {})))
            if not slower and not given.update:
                break
            chosen = [one for one in found if given.update or named(one) in {*slower, *YARDSTICKS}]
            found |= {one: min(ns, found[one]) for one, ns in measure(chosen).items()}
    except Unmeasurable as error:
        print(f"fastdns-bench micro: {error}", file=sys.stderr)
        return 2
    counted = {named(one): ns for one, ns in found.items()}
    status, lines = judge(kind, counted, written)
    print(*lines, sep="\n")
    if given.update:
        written[kind] = {**written.get(kind, {}), **{name: round(ns, 1) for name, ns in counted.items()}}
        given.file.write_text(json.dumps(written, indent=4) + "\n", encoding="utf-8")
        return 0
    return status
