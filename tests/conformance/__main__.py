"""``python -m tests.conformance``: replay the corpus against a server. README.md describes the cases."""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.conformance.cases import CASES, Case, directives, find_cases, load_yaml, write_expected
from tests.conformance.report import Report, accept
from tests.conformance.run import Result, Run
from tests.conformance.steps import STEPS

__all__ = ["main"]

DIFFERENCES = Path(__file__).parents[2] / "docs" / "differences.yaml"


def main(arguments: Sequence[str] | None = None) -> int:
    """Status 1: a check failed that is no listed difference, a listed one passed, or something was skipped that may not be."""
    given = parser().parse_args(arguments)
    cases = find_cases(given.cases, given.k)
    report = Report({} if given.record else load_yaml(given.differences), given.v)
    with ThreadPoolExecutor(given.j) as pool:
        list(pool.map(lambda case: replay(case, given, report), cases))
    for _ in range(given.retries):
        for case in report.failed_cases():
            print(f"AGAIN {case.name}", flush=True)
            replay(case, given, report)
    report.print_summary()
    if given.json:
        report.write_json(given.json)
    stale = report.stale(complete=not given.k and given.cases == [CASES])
    for name in stale:
        print(f"PASSES NOW {name}: take it off {given.differences.name}")
    totals = report.totals()
    return int(bool(totals["fail"] or stale or (given.no_skips and totals["skip"])))


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m tests.conformance", description="Replay the conformance corpus against a server.")
    made.add_argument("--server", required=True, help="the server's command, with {corefile} for the Corefile")
    made.add_argument("--cases", nargs="+", type=Path, default=[CASES], help="files or folders of cases (default: all)")
    made.add_argument("-k", default="", metavar="REGEX", help="only cases whose PLUGIN/NAME matches")
    made.add_argument("-j", type=int, default=2, metavar="N", help="cases at a time (default: %(default)s)")
    made.add_argument("--retries", type=int, default=0, metavar="N", help="run cases that failed again, one at a time")
    made.add_argument("--built", default="", metavar="NAMES", help="the server's directives: cases that use others are skipped")
    made.add_argument("--differences", type=Path, default=DIFFERENCES, help="YAML of checks that fail on purpose (default: docs/differences.yaml)")
    made.add_argument("--no-skips", action="store_true", help="fail when something is skipped")
    made.add_argument("--record", action="store_true", help="write the server's answers as the recorded ones")
    made.add_argument("--json", type=Path, metavar="FILE", help="write all results")
    made.add_argument("--keep", action="store_true", help="keep the folders of the runs and print their names")
    made.add_argument("-v", action="store_true", help="print what passes and the slowest cases, too")
    return made


def replay(case: Case, given: argparse.Namespace, report: Report) -> None:
    run = Run(case, given.server, given.record)
    start = time.monotonic()
    built = set(re.findall(r"\w+", given.built))
    missing = directives(str(case.document.get("corefile", ""))) - built if built else set()
    if missing:
        run.results = [Result("skip", 0, f"needs {' '.join(sorted(missing))}")] * max(1, case.checks)
    else:
        run.run(STEPS, given.keep)
    if given.record and run.recorded:
        write_expected(case.expected_path, run.recorded)
    report.add(case, time.monotonic() - start, accept(case, run.results, report.differences))
    if given.keep:
        print(f"KEPT {case.name} {run.folder}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
