"""Builds the Collector of ``program``, once for the machine."""

from __future__ import annotations

import sys
from pathlib import Path

from tests import golang

__all__ = ["build"]

SOURCES = Path(__file__).with_name("program")
CACHE = golang.cache("otlp")
WORDS = ["build", "-trimpath", "-o", "collector", "-ldflags", "-s -w", "."]


def build() -> Path:
    """The program. Raises golang.Unbuildable."""
    target = CACHE / golang.digest(SOURCES, WORDS)
    with golang.locked(CACHE):
        if not target.is_file():
            build_into(target)
    return target


def build_into(target: Path) -> None:
    go = golang.go_command()
    print("building OpenTelemetry's Collector (two minutes the first time)", file=sys.stderr)
    with golang.copied(SOURCES, CACHE) as folder:
        golang.run([go, *WORDS], folder)
        (folder / "collector").rename(target)
