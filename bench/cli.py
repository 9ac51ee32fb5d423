"""The command ``fastdns-bench``: sub-commands, each from the module of its name."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module

from fastdns.bench.workload import WorkloadError

__all__ = ["main", "parser"]

#: Modules with ``add_arguments(subparsers)``, which sets the default ``run``: a function of the parsed arguments that gives the exit status.
MODULES = (
    "loadtest",
    "worker",
    "merge",
    "run",
    "compare",
    "secondaries",
    "pods",
    "replica",
    "nodes.command",
    "overload",
    "report.sizes",
    "report.nodes",
    "report",
    "instructions",
    "micro.command",
    "workloads.synthetic",
    "workloads.zonefile",
)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="fastdns-bench", description="Measures DNS servers, and what a query costs inside of fastdns.")
    subparsers = made.add_subparsers(metavar="COMMAND", required=True)
    for name in MODULES:
        import_module(f"fastdns.bench.{name}").add_arguments(subparsers)
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status; 1 and a line on standard error for a workload that cannot be made."""
    given = parser().parse_args(arguments)
    try:
        status: int = given.run(given)
    except WorkloadError as error:
        print(f"fastdns-bench: {error}", file=sys.stderr)
        return 1
    return status
