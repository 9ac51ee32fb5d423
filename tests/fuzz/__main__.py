"""Coverage-guided fuzzing with libFuzzer: ``python -m tests.fuzz [TARGET ...]``, after ``make fuzz-build`` has compiled what the targets are for.

Inputs that reach something new are kept in ``build/fuzz/found/TARGET``, one that fails in ``build/fuzz/failures``. ``--minimise`` takes what covers
most with least of them into ``tests/fuzz/corpora``. ``--coverage`` prints the table of docs/robustness.md.
"""

from __future__ import annotations

import argparse
import base64
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.fuzz.targets import CORPORA, TARGETS

ROOT = Path(__file__).resolve().parents[2]
BUILT = ROOT / "build" / "fuzz"
FOUND = BUILT / "found"
FAILURES = BUILT / "failures"
LIBRARY = BUILT / "libfuzzer.so"
CLANG = "clang"

INPUT_MAX = 4096  # octets
TIMEOUT = 10  # seconds that an input may take

#: What the report of a failure begins with: AddressSanitizer's, LeakSanitizer's and libFuzzer's, UndefinedBehaviorSanitizer's, a target's own.
REPORT = re.compile(r"^.*(ERROR: |runtime error: |==fuzz== ).*$", re.MULTILINE)
REPORT_LINES = 40


def runtime(name: str) -> Path:
    folder = subprocess.run([CLANG, "-print-runtime-dir"], text=True, stdout=subprocess.PIPE, check=True).stdout.strip()
    return Path(folder, f"libclang_rt.{name}-{os.uname().machine}")


def build_library() -> None:
    """libFuzzer as a shared library, which a process has to load before any module."""
    source = Path(__file__).with_name("libfuzzer.c")
    if LIBRARY.is_file() and LIBRARY.stat().st_mtime > source.stat().st_mtime:
        return
    LIBRARY.parent.mkdir(parents=True, exist_ok=True)
    archive = ["-Wl,--whole-archive", f"{runtime('fuzzer_no_main')}.a", "-Wl,--no-whole-archive"]
    command = [CLANG, "-O1", "-shared", "-fPIC", str(source), *archive, "-lstdc++", "-lpthread", "-ldl", "-lm", "-o", str(LIBRARY)]
    subprocess.run(command, check=True)


def environment() -> dict[str, str]:
    asan = "leak_check_at_exit=0:allocator_may_return_null=1:verify_asan_link_order=0:quarantine_size_mb=32:malloc_context_size=12"
    return os.environ | {
        "FASTDNS_FUZZED": str(BUILT),
        "FASTDNS_LIBFUZZER": str(LIBRARY),
        "LD_PRELOAD": f"{LIBRARY} {runtime('asan')}.so",
        "PYTHONMALLOC": "malloc",
        "ASAN_OPTIONS": asan,
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "ASAN_SYMBOLIZER_PATH": shutil.which("llvm-symbolizer") or "",
    }


def dictionary(name: str) -> list[str]:
    """libFuzzer's argument for the words of a target."""
    if not TARGETS[name].words:
        return []
    path = BUILT / f"{name}.dict"
    path.write_text("".join('"' + "".join(f"\\x{octet:02x}" for octet in word) + '"\n' for word in TARGETS[name].words))
    return [f"-dict={path}"]


def start(name: str, arguments: Sequence[str], folders: Iterable[Path]) -> subprocess.CompletedProcess[str]:
    """Run a target to its end: libFuzzer's output and status."""
    # Python keeps what is in its frames where LeakSanitizer does not look.
    leaks = f"-detect_leaks={int(TARGETS[name].check is None)}"
    command = [sys.executable, "-m", "tests.fuzz.child", name, f"-max_len={INPUT_MAX}", f"-timeout={TIMEOUT}", leaks, *arguments, *map(str, folders)]
    return subprocess.run(command, cwd=ROOT, env=environment(), text=True, errors="replace", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)


def number(name: str, output: str) -> int:
    """The last one that libFuzzer gives behind a name."""
    found = re.findall(rf"{re.escape(name)}:? *(\d+)", output)
    return int(found[-1]) if found else 0


def failure(output: str) -> str:
    """What of libFuzzer's output says what went wrong: the beginning of the first report, and the input, which whoever sees this alone can try."""
    began = REPORT.search(output)
    lines = output[began.start() :].splitlines()[:REPORT_LINES] if began else output.splitlines()[-REPORT_LINES:]
    for path in re.findall(r"Test unit written to (.+)", output):
        lines += [f"input: {path}", f"in base64: {base64.b64encode(Path(path).read_bytes()).decode()}"]
    return "\n".join(lines)


def fuzz(name: str, seconds: int) -> tuple[str, str]:
    """A row for the report, and what went wrong."""
    found = FOUND / name
    found.mkdir(parents=True, exist_ok=True)
    FAILURES.mkdir(parents=True, exist_ok=True)
    arguments = [f"-max_total_time={seconds}", f"-artifact_prefix={FAILURES}/{name}-", "-print_final_stats=1", "-reload=0", *dictionary(name)]
    done = start(name, arguments, [found, CORPORA / name])
    figures = [number(what, done.stdout) for what in ("stat::number_of_executed_units", "stat::average_exec_per_sec", "cov", "ft")]
    row = f"{name:15} {figures[0]:>10} runs {figures[1]:>7}/s  {figures[2]:>5} edges {figures[3]:>6} features"
    return row, "" if done.returncode == 0 else failure(done.stdout)


def minimise(name: str) -> str:
    """The smallest inputs that reach each edge become the corpus."""
    kept = BUILT / "minimised" / name
    shutil.rmtree(kept, ignore_errors=True)
    kept.mkdir(parents=True)
    done = start(name, ["-set_cover_merge=1", "-use_counters=0"], [kept, CORPORA / name, FOUND / name])
    if done.returncode:
        return failure(done.stdout)
    shutil.rmtree(CORPORA / name, ignore_errors=True)
    shutil.copytree(kept, CORPORA / name)
    return ""


def coverage(name: str) -> str:
    """A row of the table: files and octets of the corpus, edges that they reach of all edges of the functions that the target is for."""
    files = [path for path in (CORPORA / name).iterdir() if path.is_file()]
    target = TARGETS[name]
    done = start(name, ["-runs=0", "-print_coverage=1"], [CORPORA / name])
    reached: dict[str, tuple[int, int]] = {}
    prefixes = tuple("__pyx_f_7fastdns_" + "".join(f"{len(part)}{part}_" for part in module.split(".")) for module in target.modules)
    # A module's own functions and the inline ones of its header, wherever they were compiled: of several copies the one that is reached most.
    for hit, edges, function in re.findall(r"COVERED_FUNC: hits: \d+ edges: (\d+)/(\d+) (\w+)", done.stdout):
        if function.startswith(prefixes):
            reached[function] = max(reached.get(function, (0, 0)), (int(hit), int(edges)))
    lines = re.search(r"==lines== (\d+)/(\d+)", done.stdout)
    hits, total = (int(lines[1]), int(lines[2])) if lines else (sum(one[0] for one in reached.values()), sum(one[1] for one in reached.values()))
    share = f"{hits} of {total} {'lines' if lines else 'edges'}, {100 * hits // max(total, 1)} %"
    modules = ", ".join(module.removeprefix("plugins.") for module in target.modules)
    return f"| `{name}` | `{target.entry}` | {len(files)} files, {sum(path.stat().st_size for path in files)} octets | {modules} | {share} |"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"all by default: {', '.join(TARGETS)}")
    parser.add_argument("--seconds", type=int, default=60, help="of each target; 60 by default")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="targets at a time")
    parser.add_argument("--minimise", action="store_true", help="take what was found into the corpora")
    parser.add_argument("--coverage", action="store_true", help="print what the corpora cover")
    options = parser.parse_args()
    names = options.targets or list(TARGETS)
    if unknown := sorted({*names} - {*TARGETS}):
        parser.error(f"no such target: {', '.join(unknown)}")
    build_library()
    failed = 0
    with ThreadPoolExecutor(options.jobs) as pool:
        if options.coverage:
            print("\n".join(["| target | entry | corpus | modules | reached |", "|---|---|---|---|---|", *pool.map(coverage, names)]))
            return 0
        if options.minimise:
            for name, said in zip(names, pool.map(minimise, names), strict=True):
                print(f"{name:15} {len(list((CORPORA / name).iterdir()))} files", said)
                failed += bool(said)
            return int(failed > 0)
        for row, said in pool.map(lambda name: fuzz(name, options.seconds), names):
            print(row, "FAILED" if said else "", flush=True)
            if said:
                failed += 1
                print(said, flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
