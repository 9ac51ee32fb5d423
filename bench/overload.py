"""``fastdns-bench overload``: a server held to a share of a CPU by its cgroup, and asked many times what it can answer."""

from __future__ import annotations

import argparse
import statistics
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fastdns.bench import measure
from fastdns.bench.generator.queries import QuerySet
from fastdns.bench.load import LoadError, drive
from fastdns.bench.result import Plan, Result, Target
from fastdns.bench.scenarios.names import PROBE, names
from fastdns.bench.servers import Running, StartError, Work, subject
from fastdns.bench.servers.quota import CpuQuota, QuotaError
from fastdns.bench.workload import WorkloadError

__all__ = ["add_arguments", "goals"]

#: The share of the capacity that is to become answers, and what answers may wait beyond two periods of the quota, in seconds.
KEPT, BEYOND = 0.8, 0.01
NAMES = 5000
#: Queries a second of a second client, whose answers are timed; and its share of the capacity at most.
SAMPLED, SAMPLED_SHARE = 1000.0, 0.1

COREFILE = """.:{port} {
    {bind}
    SHED
    whoami
}
"""


def add_arguments(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("overload", help="a server held to a share of a CPU and asked many times what it can answer, with shed and without")
    parser.add_argument("--cpu", type=float, default=0.1, metavar="CPUS", help="that its cgroup has (%(default)s)")
    parser.add_argument("--period", type=float, default=0.1, metavar="S", help="of the quota (%(default)s)")
    parser.add_argument("--times", type=float, default=10, metavar="N", help="what it can answer is offered so many times (%(default)s)")
    parser.add_argument("--shed", action="append", default=[], metavar="AGE|off", help="of the directive shed; again for more (50ms off)")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="of each, in turn; medians count (%(default)s)")
    parser.add_argument("--seconds", type=float, default=10, metavar="S", help="of each load (%(default)s)")
    parser.add_argument("--window", type=int, default=500, metavar="N", help="queries under way while the capacity is measured (%(default)s)")
    parser.add_argument("--clients", type=int, default=64, metavar="N", help="sockets (%(default)s)")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="of the generator, which the quota does not hold (%(default)s)")
    parser.add_argument("--timeout", type=float, default=1, metavar="S", help="an answer that is later does not count (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="(%(default)s)")
    parser.add_argument("--server-cpus", default="", metavar="LIST", help="(the first)")
    parser.add_argument("--load-cpus", default="", metavar="LIST", help="(the others)")
    parser.add_argument("--subject", default="fastdns", metavar="NAME[=PATH]", help="the server (%(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Status 1: with *shed* a goal is missed; 2: nothing could be measured."""
    try:
        found = figures(given)
    except (OSError, ValueError, StartError, QuotaError, LoadError, WorkloadError) as error:
        print(f"fastdns-bench overload: {error}", file=sys.stderr)
        return 2
    show(given, found)
    if given.json is not None:
        measure.write_figures(given.json, {"overload": found})
    return int(any(missed for each in found["medians"] for missed in each["missed"] if each["shed"] != "off"))


def figures(given: argparse.Namespace) -> dict[str, Any]:
    """JSON."""
    adapter = subject(given.subject)
    if missing := adapter.missing():
        raise WorkloadError(missing)
    server_cpus, load_cpus = measure.cpu_sets(given.server_cpus, given.load_cpus)
    noise = [measure.noise(server_cpus)]
    ages = given.shed or ["50ms", "off"]
    rounds: list[dict[str, Any]] = []
    with CpuQuota(given.cpu, given.period) as quota:
        for _ in range(given.rounds):
            for age in ages:
                work = Work("overload", COREFILE.replace("SHED", "" if age == "off" else f"shed {age}"), PROBE, needs=("shed", "whoami"))
                with Running(adapter, work, server_cpus) as running:
                    quota.hold(running.pid)
                    rounds.append({"shed": age, **one_round(given, running, quota, load_cpus)})
    noise.append(measure.noise(server_cpus))
    limit = 2 * given.period + BEYOND
    medians = [{"shed": age, **median_of([each for each in rounds if each["shed"] == age])} for age in ages]
    for each in medians:
        each["missed"] = goals(each, limit)
    return {
        "quota": {"cpus": given.cpu, "period": given.period},
        "goals": {"share": KEPT, "p99": limit},
        "noise": max(noise),
        "medians": medians,
        "rounds": rounds,
    }


def one_round(given: argparse.Namespace, running: Running, quota: CpuQuota, cpus: Sequence[int]) -> dict[str, float]:
    """What it can answer, and what becomes of many times that."""
    queries = QuerySet(names(NAMES, given.seed, None))
    target = Target("127.0.0.1", running.port)
    common = {"seconds": given.seconds, "clients": given.clients, "threads": given.threads, "cpus": list(cpus), "seed": given.seed, "check": "sample"}
    capacity = drive(queries, target, Plan(window=given.window, warm=1, timeout=5, **common))
    can = capacity.answered / capacity.seconds
    if not can:
        raise LoadError(f"{running.label} answered nothing")
    sampled: list[Result | BaseException] = []
    sample = Plan(seconds=given.seconds, rate=min(SAMPLED, can * SAMPLED_SHARE), warm=1, clients=8, cpus=list(cpus), timeout=5, seed=given.seed, check="sample")

    def ask() -> None:
        try:
            sampled.append(drive(queries, target, sample))
        except LoadError as error:
            sampled.append(error)

    before = quota.throttled()
    second = threading.Thread(target=ask)
    second.start()
    flood = drive(queries, target, Plan(rate=can * given.times, warm=1, timeout=given.timeout, **common))
    second.join()
    after = quota.throttled()
    timed = sampled[0]
    if not isinstance(timed, Result):
        raise timed
    running.check()
    return {
        "capacity": can,
        "offered": (flood.sent + timed.sent) / given.seconds,
        "answered": (flood.answered + timed.answered) / given.seconds,
        "share": (flood.answered + timed.answered) / given.seconds / can,
        "p50": timed.latency.percentile(50),
        "p99": timed.latency.percentile(99),
        "flood_p99": flood.latency.percentile(99),
        "throttled": (after[1] - before[1]) / max(1, after[0] - before[0]),
        "generator_cpu": (flood.cpu + timed.cpu) / given.seconds,
    }


def median_of(rounds: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {name: statistics.median(each[name] for each in rounds) for name in rounds[0] if name != "shed"}


def goals(found: dict[str, Any], limit: float) -> list[str]:
    """Those that are missed; ``limit`` is in seconds."""
    missed = []
    if found["share"] < KEPT:
        missed.append(f"{found['share']:.0%} of the capacity became answers, the goal is {KEPT:.0%}")
    if found["p99"] > limit:
        missed.append(f"p99 is {found['p99'] * 1000:.0f} ms, the goal is {limit * 1000:.0f} ms")
    return missed


def show(given: argparse.Namespace, found: dict[str, Any]) -> None:
    print(f"{given.cpu:g} CPU in periods of {given.period * 1000:g} ms, {given.rounds} rounds of {given.seconds:g} s")
    print(f"goals: {KEPT:.0%}, p99 {found['goals']['p99'] * 1000:.0f} ms")
    print(f"noise of the server's CPU: {found['noise']:.0%}")
    print(f"{'shed':>6} {'capacity/s':>11} {'offered/s':>11} {'times':>6} {'answered/s':>11} {'share':>6} {'p50 ms':>8} {'p99 ms':>8} {'throttled':>9}")
    for each in found["medians"]:
        print(
            f"{each['shed']:>6} {each['capacity']:11,.0f} {each['offered']:11,.0f} {each['offered'] / each['capacity']:6.1f} {each['answered']:11,.0f}"
            f" {each['share']:6.0%} {each['p50'] * 1000:8.1f} {each['p99'] * 1000:8.1f} {each['throttled']:9.0%}"
        )
        for text in each["missed"]:
            print(f"       missed: {text}")
