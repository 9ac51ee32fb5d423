"""Builds Kubernetes' programs, etcd, helm and CoreDNS through the Go module proxy, once for the machine."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests import golang
from tests.apiserver import build as apiserver

__all__ = ["CACHE", "COREDNS", "PREVIOUS", "VERSION", "build", "module_folder", "previous"]

SOURCES = Path(__file__).with_name("program")
CACHE = golang.cache("cluster")
_MODULE = "k8s.io/kubernetes"
_found = re.search(rf"{_MODULE} (v1\.(\d+)\.\d+)", (SOURCES / "go.mod").read_text(encoding="utf-8"))
assert _found is not None
#: Of Kubernetes, as go.mod has it, and the number that changes with each minor release.
VERSION, MINOR = _found.groups()
#: The patch release before it.
PREVIOUS = re.sub(r"\d+$", lambda number: str(int(number[0]) - 1), VERSION)
#: The version of CoreDNS that is the baseline: the one that this project matches.
COREDNS = "v1.14.7"
HELM = "v3.22.0"
KWOK = "v0.7.0"

PACKAGES = [f"{_MODULE}/cmd/{name}" for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy", "kubelet", "kubectl", "kubeadm")]
PACKAGES.append(f"{_MODULE}/test/images/agnhost")


def build(*names: str) -> Path:
    """The folder of the programs: of all, or of those named, the ones that are missing there are built. Raises golang.Unbuildable."""
    target = CACHE / f"programs-{golang.digest(SOURCES, commands())}"
    target.mkdir(parents=True, exist_ok=True)
    with golang.locked(CACHE):
        if not (target / "etcd").exists():
            shutil.copy(apiserver.build() / "etcd", target)
        missing = {name: words for name, words in commands().items() if name in (names or commands()) and not (target / name).exists()}
        if missing:
            build_into(target, missing)
    return target


def previous(built: Path) -> Path:
    """A folder of copies of Kubernetes' programs that tell :data:`PREVIOUS` as their version; they are the same otherwise. Raises RuntimeError."""
    if len(PREVIOUS) != len(VERSION) or PREVIOUS.endswith("-1"):
        raise RuntimeError(f"{PREVIOUS} cannot be written over {VERSION} in a program")
    target = built / PREVIOUS
    target.mkdir(exist_ok=True)
    for name in (package.rpartition("/")[2] for package in PACKAGES if "/cmd/" in package):
        if not (target / name).exists():
            copy = target / f"{name}.part"
            copy.write_bytes((built / name).read_bytes().replace(VERSION.encode(), PREVIOUS.encode()))
            copy.chmod(0o755)
            copy.rename(target / name)
    return target


def build_into(target: Path, missing: Mapping[str, Sequence[str]]) -> None:
    """One after the other, so that one that was built is not built again after an interruption."""
    go = golang.go_command()
    print(f"building {', '.join(missing)} (an hour the first time)", file=sys.stderr, flush=True)
    with golang.copied(SOURCES, CACHE) as folder:
        environment = {**os.environ, "CGO_ENABLED": "0", "GOBIN": str(folder / "bin"), "PATH": f"{Path(go).parent}:{os.environ['PATH']}"}
        for program, words in missing.items():
            began = time.monotonic()
            golang.run([go, *words], folder, environment)
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
        "helm": ["install", "-trimpath", "-ldflags", "-s -w", f"helm.sh/helm/v3/cmd/helm@{HELM}"],
        "coredns": ["install", "-trimpath", "-ldflags", "-s -w", f"github.com/coredns/coredns@{COREDNS}"],
        "kwok": ["install", "-trimpath", "-ldflags", "-s -w", f"sigs.k8s.io/kwok/cmd/kwok@{KWOK}"],
        "e2e.test": ["test", "-c", "-vet=off", *flags, "-o", "bin/e2e.test", f"{_MODULE}/test/e2e"],
    }


def module_folder() -> Path:
    """Where Go keeps the sources of Kubernetes. Raises golang.Unbuildable."""
    done = subprocess.run([golang.go_command(), "list", "-m", "-f", "{{.Dir}}", _MODULE], cwd=SOURCES, capture_output=True, text=True)
    if done.returncode or not done.stdout.strip():
        raise golang.Unbuildable(f"the sources of {_MODULE} are not there: {done.stderr.strip()}")
    return Path(done.stdout.strip())
