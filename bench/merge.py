"""``fastdns-bench merge``: what several workers measured at the same time, as one result."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fastdns.bench.loadtest import VERSION, conclude
from fastdns.bench.result import Result
from fastdns.bench.thresholds import condition

__all__ = ["MergeError", "add_arguments", "read"]


class MergeError(ValueError):
    """Files that hold no results, or results of different runs."""


def add_arguments(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("merge", help="add the results of workers up, exactly")
    parser.add_argument("files", nargs="+", metavar="FILE", help="documents of `load --json`, or logs of workers; - for standard input")
    parser.add_argument("--workers", type=int, metavar="N", help="fail unless there are results of so many")
    parser.add_argument("--fail-if", type=condition, action="append", default=[], metavar="'p99>2ms'", help="as for `load`")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the sum there")
    parser.set_defaults(run=run)


def read(path: str) -> Iterator[Result]:
    """Results of all documents in a file: one document, or a log with a document on some of its lines. MergeError; OSError."""
    text = sys.stdin.read() if path == "-" else Path(path).read_text()
    found = False
    for stored in documents(text):
        if stored.get("version") != VERSION:
            raise MergeError(f"{path}: version {stored.get('version')} of a document, where this is for {VERSION}")
        try:
            for each in stored["runs"]:
                yield Result.from_json(each["result"])
                found = True
        except (KeyError, TypeError, ValueError) as error:
            raise MergeError(f"{path}: not a result: {error!r}") from error
    if not found:
        raise MergeError(f"{path}: no results in it")


def documents(text: str) -> Iterator[dict[str, Any]]:
    for part in (text, *text.splitlines()):
        try:
            stored = json.loads(part)
        except ValueError:
            continue
        if isinstance(stored, dict) and "runs" in stored:
            yield stored
        if part is text:
            return


def run(given: argparse.Namespace) -> int:
    """Status 1: a condition is met, replies were wrong, or there were none; 2: nothing could be merged."""
    try:
        results = [result for path in given.files for result in read(path)]
        if given.workers is not None and len(results) != given.workers:
            raise MergeError(f"results of {len(results)} workers, not of {given.workers}")
        whole = Result.merged(results)
    except (OSError, ValueError) as error:
        print(f"fastdns-bench merge: {error}", file=sys.stderr)
        return 2
    return conclude(given, whole)
