"""What a replay of the corpus found: lines while it runs, a summary, JSON, and whether it passed."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.conformance.cases import Case
from tests.conformance.run import Result

__all__ = ["Report", "accept"]


def accept(case: Case, results: Sequence[Result], differences: Mapping[str, str]) -> list[Result]:
    """The results with failures that ``differences`` lists (``PLUGIN/NAME#STEP`` or ``PLUGIN/NAME``: reason) as ``differs``."""
    judged = []
    for result in results:
        name = listed(case, result.step, differences)
        if result.status == "fail" and name:
            result = result._replace(status="differs", text=f"{differences[name]}: {result.text}")
        judged.append(result)
    return judged


def listed(case: Case, step: int, differences: Mapping[str, str]) -> str:
    """The name under which ``differences`` lists the step, empty if it does not."""
    return next((name for name in (f"{case.name}#{step}", case.name) if name in differences), "")


class Report:
    """Collects the results of runs, which may end in any order and thread."""

    def __init__(self, differences: Mapping[str, str], verbose: bool = False) -> None:
        self.differences, self.verbose = differences, verbose
        self.lock = threading.Lock()
        self.results: dict[str, tuple[Case, float, list[Result]]] = {}

    def add(self, case: Case, seconds: float, results: list[Result]) -> None:
        """Prints what did not pass; of several runs of a case the last one counts."""
        with self.lock:
            self.results[case.name] = case, seconds, results
            for status, text in dict.fromkeys((result.status, self._line(case, result)) for result in results):
                if self.verbose or status in ("fail", "skip"):
                    print(text, flush=True)

    def _line(self, case: Case, result: Result) -> str:
        step = f" step {result.step}" if result.step else ""
        return f"{result.status.upper()} {case.name}{step}: {result.text}"

    def failed_cases(self) -> list[Case]:
        return [case for case, _, results in self.results.values() if any(result.status == "fail" for result in results)]

    def totals(self) -> Counter[str]:
        return Counter(result.status for _, _, results in self.results.values() for result in results)

    def stale(self, complete: bool) -> list[str]:
        """Listed differences that passed. With ``complete``, when all of the corpus ran, also those that name no step of it."""
        held = set()
        for case, _, results in self.results.values():
            held |= {listed(case, result.step, self.differences) for result in results if result.status in ("differs", "skip")}
        names = [name for name in self.differences if complete or name.partition("#")[0] in self.results]
        skipped = {case.name for case, _, results in self.results.values() if any(result.status == "skip" for result in results)}
        return [name for name in names if name not in held and name.partition("#")[0] not in skipped]

    def print_summary(self) -> None:
        if self.verbose:
            for case, seconds, _ in sorted(self.results.values(), key=lambda entry: entry[1])[-10:]:
                print(f"{seconds:6.2f} s {case.name}")
        for plugin, counts in self._by_plugin().items():
            skipped = f" +{counts['skipped']} skipped" if counts["skipped"] else ""
            checked = counts["passed"] + counts["failed"]
            print(f"{plugin:14} {counts['passed']}/{checked}{skipped}  (cases {counts['cases_passed']}/{counts['cases']})")
        totals = self.totals()
        print(f"accepted differences: {totals['differs']}")
        print(f"{totals['pass']} passed, {totals['fail']} failed, {totals['skip']} skipped")

    def _by_plugin(self) -> dict[str, Counter[str]]:
        plugins: dict[str, Counter[str]] = {}
        for case, _, results in sorted(self.results.values(), key=lambda entry: entry[0].name):
            statuses = Counter(result.status for result in results)
            counts = plugins.setdefault(case.plugin, Counter())
            counts.update(passed=statuses["pass"], failed=statuses["fail"], skipped=statuses["skip"])
            counts.update(cases=1, cases_passed=int(not statuses["fail"]))
        return plugins

    def write_json(self, path: Path) -> None:
        totals = self.totals()
        cases: list[dict[str, Any]] = [
            {"case": name, "seconds": round(seconds, 2), "results": [result._asdict() for result in results]}
            for name, (_, seconds, results) in sorted(self.results.items())
        ]
        told = {"totals": {status: totals[status] for status in ("pass", "fail", "skip")}, "plugins": self._by_plugin(), "cases": cases}
        path.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
