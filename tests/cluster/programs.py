"""Builds Kubernetes' programs, etcd and CoreDNS through the Go module proxy, once for the machine."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.apiserver import build as apiserver_build

__all__ = ["CACHE", "COREDNS", "VERSION", "Unbuildable", "build", "module_folder"]

SOURCES = Path(__file__).with_name("program")
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fastdns-cluster"
_MODULE = "k8s.io/kubernetes"
_found = re.search(rf"{_MODULE} (v1\.(\d+)\.\d+)", (SOURCES / "go.mod").read_text(encoding="utf-8"))
assert _found is not None
#: Of Kubernetes, as go.mod has it, and the number that changes with each minor release.
VERSION, MINOR = _found.groups()
#: The version of CoreDNS that is the baseline: the one that this project matches.
COREDNS = "v1.14.7"

PACKAGES = [f"{_MODULE}/cmd/{name}" for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy", "kubelet", "kubectl", "kubeadm")]
PACKAGES.append(f"{_MODULE}/test/images/agnhost")


class Unbuildable(Exception):
    """No Go, or one of its commands failed; the text says which."""


def build() -> Path:
    """The folder of the programs: those that are missing there are built. Raises Unbuildable."""
    target = CACHE / f"programs-{digest()}"
    target.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (target / "etcd").exists():
            try:
                shutil.copy(apiserver_build.build() / "etcd", target)
            except apiserver_build.Unbuildable as error:
                raise Unbuildable(str(error)) from None
        missing = {name: words for name, words in commands().items() if not (target / name).exists()}
        if missing:
            build_into(target, missing)
    return target


def digest() -> str:
    """Of everything that the programs are made from."""
    made = hashlib.sha256(repr(commands()).encode())
    for path in sources():
        made.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return made.hexdigest()[:16]


def sources() -> list[Path]:
    return sorted(path for path in SOURCES.iterdir() if path.suffix in (".go", ".mod", ".sum"))


def build_into(target: Path, missing: Mapping[str, Sequence[str]]) -> None:
    """One after the other, so that one that was built is not built again after an interruption."""
    go = _go()
    print(f"building {', '.join(missing)} (an hour the first time)", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as name:
        folder = Path(name)
        for path in sources():
            shutil.copy(path, folder)
        environment = {**os.environ, "CGO_ENABLED": "0", "GOBIN": str(folder / "bin"), "PATH": f"{Path(go).parent}:{os.environ['PATH']}"}
        for program, words in missing.items():
            began = time.monotonic()
            done = subprocess.run([go, *words], cwd=folder, env=environment, stdout=sys.stderr)
            if done.returncode:
                raise Unbuildable(f"go {words[0]} {words[-1]} ended with status {done.returncode}; it needs Go's module proxy")
            (folder / "bin" / program).rename(target / program)
            print(f"built {program} in {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)


def commands() -> dict[str, list[str]]:
    """By program the words for Go that build it into the folder ``bin``, with the version that a release's own build writes into it."""
    values = {"gitVersion": VERSION, "gitMajor": "1", "gitMinor": MINOR, "gitTreeState": "clean", "buildDate": "2026-01-01T00:00:00Z"}
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    versions = [f"-X {package}.{name}={value}" for package in packages for name, value in values.items()]
    flags = ["-trimpath", "-ldflags", " ".join(["-s -w", *versions])]
    return {
        **{package.rpartition("/")[2]: ["build", *flags, "-o", "bin/", package] for package in PACKAGES},
        "coredns": ["install", "-trimpath", "-ldflags", "-s -w", f"github.com/coredns/coredns@{COREDNS}"],
        "e2e.test": ["test", "-c", *flags, "-o", "bin/e2e.test", f"{_MODULE}/test/e2e"],
    }


def module_folder() -> Path:
    """Where Go keeps the sources of Kubernetes. Raises Unbuildable."""
    done = subprocess.run([_go(), "list", "-m", "-f", "{{.Dir}}", _MODULE], cwd=SOURCES, capture_output=True, text=True)
    if done.returncode or not done.stdout.strip():
        raise Unbuildable(f"the sources of {_MODULE} are not there: {done.stderr.strip()}")
    return Path(done.stdout.strip())


def _go() -> str:
    go = apiserver_build.go_command()
    if go is None:
        raise Unbuildable("needs Go")
    return go
