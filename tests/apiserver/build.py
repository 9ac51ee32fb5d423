"""Builds the API server of ``program/`` and the etcd behind it, once for the machine."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

__all__ = ["Unbuildable", "build", "go_command"]

SOURCES = Path(__file__).with_name("program")
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fastdns-apiserver"
#: Packages whose types the server describes in its OpenAPI documents.
OPENAPI_INPUTS = (
    "k8s.io/api/core/v1",
    "k8s.io/api/apps/v1",
    "k8s.io/api/coordination/v1",
    "k8s.io/api/discovery/v1",
    "k8s.io/apimachinery/pkg/apis/meta/v1",
    "k8s.io/apimachinery/pkg/api/resource",
    "k8s.io/apimachinery/pkg/runtime",
    "k8s.io/apimachinery/pkg/util/intstr",
    "k8s.io/apimachinery/pkg/version",
)


class Unbuildable(Exception):
    """No Go, or one of its commands failed; the text says which."""


def go_command() -> str | None:
    """The go command, also where Go's own packages put it."""
    return shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")


def build() -> Path:
    """The folder of the programs ``apiserver`` and ``etcd``. Raises Unbuildable."""
    target = CACHE / digest()
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.is_dir():
            build_into(target)
    return target


def digest() -> str:
    """Of everything that the programs are made from."""
    made = hashlib.sha256(repr(commands("go")).encode())
    for path in sources():
        made.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return made.hexdigest()[:16]


def sources() -> list[Path]:
    return sorted(path for path in SOURCES.iterdir() if path.suffix in (".go", ".mod", ".sum"))


def build_into(target: Path) -> None:
    go = go_command()
    if go is None:
        raise Unbuildable("needs Go")
    print("building the API server and etcd (a few minutes the first time)", file=sys.stderr)
    with tempfile.TemporaryDirectory(dir=CACHE) as name:
        folder = Path(name)
        for path in sources():
            shutil.copy(path, folder)
        (folder / "openapi").mkdir()
        (folder / "bin").mkdir()
        for command in commands(go):
            done = subprocess.run(command, cwd=folder, stdout=sys.stderr, preexec_fn=lambda: os.nice(10))
            if done.returncode:
                raise Unbuildable(f"{' '.join(command[:3])} ended with status {done.returncode}; it needs Go's module proxy")
        (folder / "bin").rename(target)


def commands(go: str) -> list[list[str]]:
    found = re.search(r"k8s.io/apiserver v0\.(\d+)\.(\d+)", (SOURCES / "go.mod").read_text(encoding="utf-8"))
    assert found is not None
    minor, patch = found.groups()
    version = "-X k8s.io/component-base/version."
    flags = f"-s -w {version}gitVersion=v1.{minor}.{patch} {version}gitMajor=1 {version}gitMinor={minor}"
    generated = ["--output-dir", "openapi", "--output-pkg", "apiserver/openapi", "--output-file", "generated.go", "--report-filename", os.devnull]
    return [
        [go, "tool", "openapi-gen", *generated, *OPENAPI_INPUTS],
        [go, "build", "-trimpath", "-o", "bin/apiserver", "-ldflags", flags, "."],
        [go, "build", "-trimpath", "-o", "bin/etcd", "-ldflags", "-s -w", "go.etcd.io/etcd/server/v3"],
    ]
