"""``fastdns-bench run SCENARIO``: measures one server, or several, at one kind of work."""

from __future__ import annotations

import argparse
import json
import math
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from fastdns.bench.live import Live, add_progress_argument
from fastdns.bench.load import LoadError
from fastdns.bench.loadtest import faults
from fastdns.bench.report.page import page
from fastdns.bench.report.table import rate_text, table, void
from fastdns.bench.result import Result
from fastdns.bench.scenarios import SATURATED, SCENARIOS, ScenarioError
from fastdns.bench.servers import ADAPTERS, StartError
from fastdns.bench.session import Session
from fastdns.bench.thresholds import FIGURES, Record, Threshold, run_condition
from fastdns.bench.workload import WorkloadError

#: Exit status when answers were wrong, and when nothing could be measured.
WRONG, FAILED = 1, 2


def add_arguments(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("run", help="a scenario: starts the server and what it needs, asks, measures")
    add_scenarios(parser, rounds=1, rates=(), subjects=("fastdns",))


def add_scenarios(parser: argparse.ArgumentParser, *, rounds: int, rates: Sequence[float], subjects: Sequence[str]) -> None:
    """The scenarios with their flags, and these defaults; no rates: each scenario's own."""
    scenarios = parser.add_subparsers(metavar="SCENARIO", required=True)
    for name, scenario in SCENARIOS.items():
        compared = (scenario.subjects or subjects) if len(subjects) > 1 else subjects
        made = scenarios.add_parser(name, help=scenario.help, description=scenario.help)
        scenario.add_arguments(made)
        servers = made.add_argument_group("servers")
        servers.add_argument(
            "--subject", action="append", default=None, metavar="NAME[=PATH]", help=f"{', '.join(ADAPTERS)}; again for more ({' '.join(compared)})"
        )
        servers.add_argument("--server-cpus", default="", metavar="LIST", help="CPUs of the server under test, a worker for each (the first)")
        servers.add_argument("--load-cpus", default="", metavar="LIST", help="CPUs of everything else (the others)")
        servers.add_argument("--wildcard", action="store_true", help="listen on all addresses instead of 127.0.0.1, the floor too")
        load = made.add_argument_group("load")
        load.add_argument(
            "--rate", type=rates_of, default=[] if scenario.closed else list(rates), metavar="LIST", help="queries a second, such as 5000,20000,max"
        )
        load.add_argument("--sweep", type=int, default=0, metavar="N", help="also at 1/N to (N-1)/N of each server's highest rate")
        load.add_argument("--seconds", type=float, default=3, help="of each load (%(default)s)")
        load.add_argument("--rounds", type=int, default=rounds, help="loads of each server at each rate, in turn; medians count (%(default)s)")
        load.add_argument("--warm", type=float, default=1, metavar="SECONDS", help="of load before the first that counts (%(default)s)")
        load.add_argument("--window", type=int, default=128, help="queries under way at the highest rate (%(default)s)")
        load.add_argument("--clients", type=int, default=8, help="sockets or connections (%(default)s)")
        load.add_argument("--threads", type=int, default=1, help="of the generator (%(default)s)")
        load.add_argument("--timeout", type=float, default=2, metavar="SECONDS", help="after which a query is lost (%(default)s)")
        load.add_argument("--seed", type=int, default=1)
        out = made.add_argument_group("report", "status 1 when a condition is met, a reply was wrong, or nothing was answered")
        out.add_argument(
            "--fail-if", type=run_condition, action="append", default=[], metavar="'ratio>1.3'", help=f"as for `load`, and {', '.join(FIGURES)}; again for more"
        )
        add_progress_argument(out)
        out.add_argument(
            "--max-noise", type=float, default=50, metavar="PERCENT", help="the figures are void, status 2, where the machine's noise is above it (%(default)s)"
        )
        out.add_argument("--json", type=Path, metavar="FILE", help="write everything measured")
        out.add_argument("--html", type=Path, metavar="FILE", help="write a page with pictures")
        made.set_defaults(run=measure_scenario, scenario=name, default_subjects=list(compared))


def rates_of(text: str) -> list[float]:
    """Rates of a list; `max` is the highest that the server has."""
    found = []
    for part in text.split(","):
        try:
            rate = SATURATED if part == "max" else float(part)
        except ValueError:
            rate = -1.0
        if not 0 <= rate < math.inf or (not rate and part != "max"):
            raise argparse.ArgumentTypeError(f"{part!r} is neither a number above 0 nor max")
        found.append(rate)
    return found


def measure_scenario(options: argparse.Namespace) -> int:
    """0; 1 when replies were wrong, there were none or a condition is met; 2 when nothing could be measured, or the figures are void."""
    options.subject = options.subject or options.default_subjects
    options.command_line = shlex.join(["fastdns-bench", *sys.argv[1:]])
    try:
        with Live(options.progress) as live:
            document = Session(SCENARIOS[options.scenario], options, live.show).run()
    except (ScenarioError, StartError, LoadError, WorkloadError) as error:
        print(f"fastdns-bench: {error}", file=sys.stderr)
        return FAILED
    print(table(document))
    if options.json:
        options.json.write_text(json.dumps(document))
    if options.html:
        options.html.write_text(page([document]))
    noisy = void(document)
    # Where figures are void conditions on them say nothing, but replies are as wrong as ever.
    failed = list(failures(document["runs"], [] if noisy else options.fail_if))
    for text in failed:
        print(f"FAILED: {text}", file=sys.stderr)
    if noisy:
        print(noisy, file=sys.stderr)
    return WRONG if failed else FAILED if noisy else 0


def failures(runs: Sequence[Record], conditions: Sequence[Threshold]) -> Iterator[str]:
    """What of the servers under test is not as it should be; what they are compared with is judged only where nothing else was measured."""
    for run in [run for run in runs if not run["reference"]] or runs:
        who = f"{run['subject']} at {rate_text(run['rate'])}"
        result = Result.from_json(run["result"])
        yield from (f"{who}: {fault}" for fault in faults(result))
        for each in conditions:
            if each.holds(result, run):
                yield f"{who}: {each.text}: {each.measured(result, run)}"
