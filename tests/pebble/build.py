"""Builds Pebble of ``program/go.mod``, once for the machine."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.apiserver.build import Unbuildable, go_command

__all__ = ["build"]

SOURCES = Path(__file__).with_name("program")
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fastdns-pebble"
PACKAGE = "github.com/letsencrypt/pebble/v2/cmd/pebble"


def build() -> Path:
    """The program. Raises Unbuildable."""
    sources = sorted(SOURCES.iterdir())
    target = CACHE / hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:16]
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.is_file():
            build_into(target, sources)
    return target


def build_into(target: Path, sources: list[Path]) -> None:
    go = go_command()
    if go is None:
        raise Unbuildable("needs Go")
    print("building Pebble (half a minute the first time)", file=sys.stderr)
    with tempfile.TemporaryDirectory(dir=CACHE) as name:
        folder = Path(name)
        for path in sources:
            shutil.copy(path, folder)
        command = [go, "build", "-trimpath", "-o", "pebble", "-ldflags", "-s -w", PACKAGE]
        done = subprocess.run(command, cwd=folder, stdout=sys.stderr, preexec_fn=lambda: os.nice(10))
        if done.returncode:
            raise Unbuildable(f"{' '.join(command[:3])} ended with status {done.returncode}; it needs Go's module proxy")
        (folder / "pebble").rename(target)
