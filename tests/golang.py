"""Builds Go programs through Go's module proxy, once for the machine.

Needs the standard library alone: tests.cluster runs before anything is built.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

__all__ = ["Unbuildable", "cache", "copied", "digest", "go_command", "locked", "program", "run"]


class Unbuildable(Exception):
    """No Go, or one of its commands failed; the text says which."""


def go_command() -> str:
    """The go command, also where Go's own packages put it. Raises Unbuildable."""
    go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    if go is None:
        raise Unbuildable("needs Go")
    return go


def cache(name: str) -> Path:
    """The folder that keeps what is built for a subject."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / f"fastdns-{name}"


def sources(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.suffix in (".go", ".mod", ".sum"))


def digest(folder: Path, commands: object) -> str:
    """Of everything that programs are made from: the sources in a folder and the commands, whose ``repr`` counts."""
    made = hashlib.sha256(repr(commands).encode())
    for path in sources(folder):
        made.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return made.hexdigest()[:16]


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Makes the folder; one process at a time builds in it."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def copied(folder: Path, beside: Path) -> Iterator[Path]:
    """A copy of the sources for as long as the block runs, on the file system of ``beside``, so that what is built can be renamed."""
    with tempfile.TemporaryDirectory(dir=beside) as name:
        for path in sources(folder):
            shutil.copy(path, name)
        yield Path(name)


def run(command: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None) -> None:
    """At low priority, its output to standard error, whatever this process preloads. Raises Unbuildable."""
    # By its number: pytest may have put an object without a descriptor in place of sys.stderr.
    variables = {name: value for name, value in (os.environ if environment is None else environment).items() if name != "LD_PRELOAD"}
    done = subprocess.run(command, cwd=folder, env=variables, stdout=2, preexec_fn=lambda: os.nice(10))
    if done.returncode:
        raise Unbuildable(f"{' '.join([*command[:3], command[-1]])} ended with status {done.returncode}; it needs Go's module proxy")


def program(name: str, folder: Path, package: str, long: str) -> Path:
    """A program of one package, built from the sources in a folder, stripped. ``long`` says how long that takes. Raises Unbuildable."""
    words = ["build", "-trimpath", "-o", name, "-ldflags", "-s -w", package]
    kept = cache(name)
    target = kept / digest(folder, words)
    with locked(kept):
        if not target.is_file():
            print(f"building {name} ({long} the first time)", file=sys.stderr)
            with copied(folder, kept) as copy:
                run([go_command(), *words], copy)
                (copy / name).rename(target)
    return target
