"""Builds Pebble of ``program/go.mod``, once for the machine."""

from __future__ import annotations

import sys
from pathlib import Path

from tests import golang

__all__ = ["build"]

SOURCES = Path(__file__).with_name("program")
CACHE = golang.cache("pebble")
WORDS = ["build", "-trimpath", "-o", "pebble", "-ldflags", "-s -w", "github.com/letsencrypt/pebble/v2/cmd/pebble"]


def build() -> Path:
    """The program. Raises golang.Unbuildable."""
    target = CACHE / golang.digest(SOURCES, WORDS)
    with golang.locked(CACHE):
        if not target.is_file():
            build_into(target)
    return target


def build_into(target: Path) -> None:
    go = golang.go_command()
    print("building Pebble (half a minute the first time)", file=sys.stderr)
    with golang.copied(SOURCES, CACHE) as folder:
        golang.run([go, *WORDS], folder)
        (folder / "pebble").rename(target)
