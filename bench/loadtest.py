"""``fastdns-bench load``: drives a server and says how it did."""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
import re
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from fastdns.bench import measure
from fastdns.bench.find import find
from fastdns.bench.generator.queries import QuerySet
from fastdns.bench.interrupt import interruptible
from fastdns.bench.live import Live, add_progress_argument, duration
from fastdns.bench.load import LoadError, drive
from fastdns.bench.result import ARRIVALS, CHECKS, CURVE, PATH, TRANSPORTS, Plan, Result, Target
from fastdns.bench.thresholds import Threshold, condition, conditions
from fastdns.bench.workload import WorkloadError
from fastdns.bench.workloads.arguments import add_workload_arguments, workload_from

__all__ = ["add_arguments", "add_load_arguments", "document", "faults", "parse_target", "plan_from", "queries_from"]

#: Of the JSON document.
VERSION = 1
PORTS = {"udp": 53, "tcp": 53, "dot": 853, "doh": 443, "doh+http": 80, "doq": 853}
FORMS = "[udp://|tcp://|dot://|doh://|doh+http://|doq://]HOST[:PORT][/PATH]"
PORTS_TOLD = ", ".join(f"{transport} {port}" for transport, port in PORTS.items())
TARGET = re.compile(
    r"(?:(?P<transport>[\w+]+)://)?(?:\[(?P<six>[^\]]+)\]|(?P<host>[^:/\[\]]+|[^/\[\]]*:[^/\[\]]*:[^/\[\]]*))(?::(?P<port>\d+))?(?P<path>/[!-~]*)?"
)


def parse_target(text: str, server_name: str = "") -> Target:
    """``[udp://]host[:port]``; IPv6 addresses with a port in brackets, a path for HTTP. ArgumentTypeError."""
    found = TARGET.fullmatch(text)
    transport = (found["transport"] if found else None) or "udp"
    if not found or transport not in TRANSPORTS or (found["path"] and not transport.startswith("doh")):
        raise argparse.ArgumentTypeError(f"{text!r} is not {FORMS}")
    try:
        return Target(found["six"] or found["host"], int(found["port"] or PORTS[transport]), transport, server_name, found["path"] or PATH)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def parse_steps(text: str) -> list[float]:
    """``1000,2000,5000`` or a ramp ``1000..9000/5`` of five steps. ArgumentTypeError."""
    ramp = re.fullmatch(r"([\d.]+)\.\.([\d.]+)/(\d+)", text)
    try:
        if not ramp:
            return [float(rate) for rate in text.split(",")]
        low, high, count = float(ramp[1]), float(ramp[2]), int(ramp[3])
        return [low + (high - low) * i / max(1, count - 1) for i in range(count)]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is neither RATE,RATE,... nor LOW..HIGH/STEPS") from None


def add_load_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the target, and the options that :func:`plan_from` and :func:`queries_from` read."""
    parser.add_argument("target", type=parse_target, metavar=FORMS, help=f"whom to ask (default: udp; ports {PORTS_TOLD}; path {PATH})")
    parser.add_argument("--server-name", default="", metavar="NAME", help="for SNI, and HTTP's host; certificates are not checked")
    load = parser.add_argument_group("load")
    load.add_argument("--seconds", type=float, default=10, metavar="S", help="(default %(default)s)")
    load.add_argument("--warm", type=float, default=0, metavar="S", help="send, without counting, for so long before (default %(default)s)")
    pace = load.add_mutually_exclusive_group()
    pace.add_argument("--rate", type=float, default=0, metavar="QPS", help="open loop: so many queries a second, whatever comes back")
    pace.add_argument("--steps", type=parse_steps, default=[], metavar="QPS,...", help="open loop in equal parts; LOW..HIGH/STEPS is a ramp")
    load.add_argument(
        "--window", type=int, default=128, metavar="N", help="closed loop, without --rate: queries under way over all clients (default %(default)s)"
    )
    load.add_argument("--clients", type=int, default=8, metavar="N", help="sockets or connections (default %(default)s)")
    load.add_argument(
        "--threads", type=int, default=1, metavar="N", help="with doq processes, as costly as the server: 24,000 queries/s each (default %(default)s)"
    )
    load.add_argument("--cpus", default="", metavar="LIST", help="pin the threads to these CPUs, as in 2,4-7")
    load.add_argument("--timeout", type=float, default=5, metavar="S", help="a query without a reply for so long is lost (default %(default)s)")
    load.add_argument("--arrivals", choices=ARRIVALS, default="even", help="of an open loop (default %(default)s)")
    load.add_argument("--seed", type=int, default=1, help="of random arrivals (default %(default)s)")
    load.add_argument("--check", choices=CHECKS, default="all", help="whose answers are compared; id, question and rcode always are (default %(default)s)")
    load.add_argument("--edns", type=int, default=0, metavar="SIZE", help="send an OPT record with this UDP size")
    load.add_argument("--do", action="store_true", help="ask for DNSSEC records")
    load.add_argument("--no-recursion", action="store_true", help="leave RD out")


def add_arguments(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("load", help="drive a server and measure it")
    add_load_arguments(parser)
    add_workload_arguments(parser)
    judged = parser.add_argument_group("judging", "status 1 when a condition is met, a reply was wrong, or nothing was answered")
    judged.add_argument(
        "--fail-if", type=condition, action="append", default=[], metavar="'p99>2ms'", help="may be repeated: pN, mean, max, lost, rate, SERVFAIL…"
    )
    judged.add_argument(
        "--find", type=conditions, metavar="'p99<2ms,lost<0.1%'", help="the highest rate at which all this holds, in runs of --seconds, beginning at --rate"
    )
    judged.add_argument("--json", type=Path, metavar="FILE", help="write everything there")
    add_progress_argument(judged)
    parser.set_defaults(run=run)


def plan_from(given: argparse.Namespace) -> Plan:
    """ValueError for what cannot be done."""
    cpus = measure.parse_cpus(given.cpus) if given.cpus else []
    return Plan(
        seconds=given.seconds,
        rate=given.rate,
        window=given.window,
        clients=given.clients,
        threads=given.threads,
        cpus=cpus,
        timeout=given.timeout,
        steps=given.steps,
        warm=given.warm,
        seed=given.seed,
        check=given.check,
        arrivals=given.arrivals,
    )


def queries_from(given: argparse.Namespace) -> QuerySet:
    """WorkloadError or ValueError."""
    return QuerySet(workload_from(given), udp_size=given.edns, do=given.do, rd=not given.no_recursion)


def target_from(given: argparse.Namespace) -> Target:
    target: Target = given.target
    return dataclasses.replace(target, server_name=given.server_name)


def run(given: argparse.Namespace) -> int:
    """Status 1: a condition is met, replies were wrong, or there were none; 2: nothing could be measured. Ctrl-C ends the load, not the report."""
    try:
        plan, target, queries = plan_from(given), target_from(given), queries_from(given)
        with interruptible() as stop:
            if given.find is not None:
                return search(given, queries, target, plan, stop)
            with Live(given.progress) as live:
                result = drive(queries, target, plan, live.show, stop=stop)
    except (WorkloadError, LoadError, ValueError) as error:
        print(f"fastdns-bench load: {error}", file=sys.stderr)
        return 2
    return conclude(given, result)


def conclude(given: argparse.Namespace, result: Result) -> int:
    """Shows a result, writes it down with --json, and judges it."""
    print_result(result)
    if given.json is not None:
        write(given.json, [result], "load")
    return verdict(result, given.fail_if)


def search(given: argparse.Namespace, queries: QuerySet, target: Target, plan: Plan, stop: threading.Event) -> int:
    def tell(rate: float, good: bool, result: Result) -> None:
        values = ", ".join(f"{each.text} ({each.measured(result)})" for each in given.find)
        print(f"{rate:12,.0f} /s  {'holds' if good else 'fails'}  {values}" + (f", {result.wrongs} wrong" if result.wrongs else ""), flush=True)

    if given.steps:
        raise ValueError("--find takes its own steps")
    found = find(lambda each: drive(queries, target, each, stop=stop), plan, given.find, first=plan.rate or 1000, progress=tell, stop=stop)
    if given.json is not None:
        write(given.json, [result for _, _, result in found.tried], "find")
    if found.best is None:
        print("no rate holds" + (f" ({found.limit})" if found.limit else ""))
        return 1
    print(f"highest: {found.rate:,.0f} queries per second" + (f" ({found.limit})" if found.limit else ""))
    print_result(found.best)
    return verdict(found.best, given.fail_if)


def verdict(result: Result, fail_if: Sequence[Threshold]) -> int:
    """Says on standard error what is not as it should be: 1, else 0."""
    failed = [*faults(result)]
    failed += [f"{each.text}: {each.measured(result)}" for each in fail_if if each.holds(result)]
    for text in failed:
        print(f"FAILED: {text}", file=sys.stderr)
    return int(bool(failed))


def faults(result: Result) -> Iterator[str]:
    """What is wrong with any result, whatever the conditions."""
    if result.wrong:
        yield f"wrong replies: {counts(result.wrong)}"
    elif not result.answered:
        yield "nothing was answered"


# ---- output ----


def counts(found: dict[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in sorted(found.items(), key=lambda pair: -pair[1])) or "none"


def print_result(result: Result) -> None:
    plan = result.plan
    how = f"window {plan.window}" if plan.closed else f"{len(plan.steps)} steps" if plan.steps else f"{plan.rate:,.0f} /s due"
    length = f"{result.seconds:.3g} of {plan.seconds:g} s, stopped" if result.stopped else f"{result.seconds:g} s"
    print(f"{result.label} to {result.target}: {length}, {how}, {plan.clients} clients, {plan.threads} threads")
    print(f"  answered  {result.answered:,} of {result.sent:,}, {result.rate:,.0f} /s")
    print(f"  lost      {result.lost:,} ({result.lost_share * 100:.3g} %)", end="")
    for name in ("unsent", "late", "refused", "resets", "truncated", "dropped"):
        if value := getattr(result, name):
            print(f", {name} {value:,}", end="")
    print(f"\n  wrong     {counts(result.wrong)}")
    print(f"  rcodes    {counts(result.rcodes)}")
    if result.statuses:
        print(f"  statuses  {counts(result.statuses)}")
    print(f"  latency   {percentiles(result)}")
    if result.latency.count:
        print(f"  spread    {spread(result)}")
        print(f"  curve     {', '.join(f'p{p:g} {duration(result.latency.percentile(p))}' for p in CURVE)}")
    print(f"  generator {result.cpu_us:.2f} us of CPU a query")
    for step in result.steps:
        print(f"  at {step.plan.rate:10,.0f} /s  answered {step.rate:,.0f} /s, lost {step.lost:,}, {percentiles(step)}")


def spread(result: Result) -> str:
    """The lowest and the highest of the run's whole seconds."""
    whole = [each for each in result.intervals if each.seconds > 0.5 and each.answered] or [each for each in result.intervals if each.answered]
    rates = [each.answered / max(each.seconds, 1e-9) for each in whole]
    late = [each.p99 for each in whole]
    return f"{min(rates):,.0f} to {max(rates):,.0f} /s, p99 {duration(min(late))} to {duration(max(late))}, by the second" if whole else "no second is over"


def percentiles(result: Result) -> str:
    if not result.latency.count:
        return "nothing answered"
    named = [("p50", 50.0), ("p90", 90.0), ("p99", 99.0), ("p99.9", 99.9), ("max", 100.0)]
    return ", ".join(f"{name} {duration(result.latency.percentile(p))}" for name, p in named)


def document(results: Sequence[Result], scenario: str) -> dict[str, Any]:
    """The JSON document of runs, as all commands of this package write it."""
    runs = [{"subject": str(result.target), "scenario": scenario, "rate": result.plan.rate, "result": result.to_json()} for result in results]
    return {"version": VERSION, "made": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"), "machine": measure.machine(), "runs": runs}


def write(path: Path, results: Sequence[Result], scenario: str) -> None:
    path.write_text(json.dumps(document(results, scenario), indent=1) + "\n")
