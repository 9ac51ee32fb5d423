"""``fastdns-bench worker``: one of several machines that drive a server at the same time."""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
import os
import sys
import time

from fastdns.bench.live import Live, add_progress_argument
from fastdns.bench.load import LoadError, drive
from fastdns.bench.loadtest import add_load_arguments, document, faults, plan_from, queries_from, target_from
from fastdns.bench.result import Plan
from fastdns.bench.workload import WorkloadError
from fastdns.bench.workloads.arguments import add_workload_arguments

__all__ = ["add_arguments", "share_of"]

#: What an indexed Job of Kubernetes numbers its pods with.
INDEX = "JOB_COMPLETION_INDEX"


def parse_start(text: str) -> float:
    """Unix time of an ISO time with its zone, or of Unix seconds. ArgumentTypeError."""
    try:
        return float(text)
    except ValueError:
        pass
    try:
        when = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is neither an ISO time nor Unix seconds") from None
    if when.tzinfo is None:
        raise argparse.ArgumentTypeError(f"{text!r} has no zone: add Z for UTC")
    return when.timestamp()


def add_arguments(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("worker", help="drive a server as one of several machines, from a set time on")
    add_load_arguments(parser)
    add_workload_arguments(parser)
    several = parser.add_argument_group(
        "workers", "rates and windows are those of all workers together; the JSON on standard output is for `fastdns-bench merge`"
    )
    several.add_argument("--workers", type=int, required=True, metavar="N", help="how many there are")
    several.add_argument("--index", type=int, metavar="I", help=f"which one this is, from 0 (default: ${INDEX})")
    several.add_argument("--start", type=parse_start, required=True, metavar="TIME", help="when all begin: ISO with zone, or Unix seconds")
    add_progress_argument(several)
    parser.set_defaults(run=run)


def share_of(plan: Plan, index: int, workers: int) -> Plan:
    """One worker's part of a plan for all. ValueError when it has none."""
    if not 0 <= index < workers:
        raise ValueError(f"worker {index} is not from 0 to {workers - 1}")
    window = plan.window // workers + (index < plan.window % workers)
    if plan.closed and window < 1:
        raise ValueError(f"a window of {plan.window} queries is too small for {workers} workers")
    return dataclasses.replace(
        plan, rate=plan.rate / workers, steps=[rate / workers for rate in plan.steps], window=max(1, window), seed=plan.seed * workers + index
    )


def run(given: argparse.Namespace) -> int:
    """Status 1: replies were wrong, or there were none; 2: nothing could be measured, or the time to begin was over."""
    try:
        index = given.index if given.index is not None else int(os.environ[INDEX])
        whole = plan_from(given)
        plan = share_of(whole, index, given.workers)
        # Different choices of the same kind, and queries that are due in turn, not all at once.
        given.workload_seed = given.workload_seed * given.workers + index
        queries = queries_from(given)
        rate = (whole.steps or [whole.rate])[0]
        start = given.start + (index / rate if rate else 0)
        left = start - time.time()
        if left < 0:
            raise LoadError(f"ready {-left:.1f} s after the others were to begin: give a later --start")
        print(f"worker {index} of {given.workers} begins in {left:.1f} s", file=sys.stderr, flush=True)
        with Live(given.progress) as live:
            result = drive(queries, target_from(given), plan, live.show, start=start)
    except KeyError:
        print(f"fastdns-bench worker: which one? Give --index, or set {INDEX}", file=sys.stderr)
        return 2
    except (WorkloadError, LoadError, ValueError) as error:
        print(f"fastdns-bench worker: {error}", file=sys.stderr)
        return 2
    print(json.dumps(document([result], "load")), flush=True)
    return int(any(faults(result)))
