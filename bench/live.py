"""The progress of a run, for people who watch."""

from __future__ import annotations

import argparse
import sys

from fastdns.bench.result import Interval

__all__ = ["Live", "add_progress_argument", "duration"]


def add_progress_argument(parser: argparse._ArgumentGroup) -> None:
    parser.add_argument("--progress", action="store_true", help="a line each second even where standard error is no terminal")


class Live:
    """A line with the last second's rate, loss and p99: rewritten in place on a terminal, else only if `always`, one below the other."""

    def __init__(self, always: bool = False) -> None:
        self.terminal = sys.stderr.isatty()
        self.always = always
        self.width = 0

    def __enter__(self) -> Live:
        return self

    def __exit__(self, *error: object) -> None:
        if self.width and self.terminal:
            print("\r" + " " * self.width + "\r", end="", file=sys.stderr, flush=True)

    def show(self, interval: Interval, label: str = "") -> None:
        if not self.terminal and not self.always:
            return
        line = f"{label} " if label else ""
        line += f"{interval.second:7.1f} s {interval.answered / max(interval.seconds, 1e-9):12,.0f} /s"
        if interval.rate:
            line += f" of {interval.rate:,.0f}"
        line += f"  lost {interval.lost}  p50 {duration(interval.p50)}  p99 {duration(interval.p99)}"
        if interval.wrong:
            line += f"  WRONG {interval.wrong}"
        if self.terminal:
            print("\r" + line.ljust(self.width), end="", file=sys.stderr, flush=True)
            self.width = max(self.width, len(line))
        else:
            print(line, file=sys.stderr, flush=True)


def duration(seconds: float) -> str:
    if seconds < 1e-3:
        return f"{seconds * 1e6:.1f} us"
    return f"{seconds * 1e3:.2f} ms" if seconds < 1 else f"{seconds:.2f} s"
