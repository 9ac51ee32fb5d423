"""The programs that tests start. Without one a test skips and says which package has it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.waiting import REPLY
from tools import system_packages


def program(name: str) -> str:
    """The path of a program."""
    path = system_packages.program(name)
    if path is None:
        pytest.skip(f"needs {name}: install {system_packages.package(name) or name}")
    return path


def need(*names: str) -> None:
    for name in names:
        program(name)


def environment() -> dict[str, str]:
    """Ours without the libraries of make sanitize, with which others' programs hang, and are themselves reported."""
    return {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}


@contextmanager
def running(*command: str) -> Iterator[None]:
    """A program that runs until the context ends."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment())
    try:
        yield
    finally:
        process.terminate()
        process.wait(REPLY)


#: Of programs that tests build from Go modules.
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fastdns-deploy-tools"


def built(go: str, name: str, module: str, version: str) -> str:
    """The program of a Go module, built once for the machine."""
    folder = CACHE / f"{name}-{version}"
    program = folder / name
    if not program.exists():
        environment = {**os.environ, "GOBIN": str(folder), "GOFLAGS": "-buildvcs=false", "PATH": f"{Path(go).parent}:{os.environ['PATH']}"}
        done = subprocess.run([go, "install", f"{module}@{version}"], capture_output=True, text=True, env=environment, timeout=1200)
        if done.returncode:
            pytest.skip(f"needs Go's module proxy to build {module}: {done.stderr.strip()[-200:]}")
    return str(program)
