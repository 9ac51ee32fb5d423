"""Builds the API server of ``program/`` and the etcd behind it, once for the machine."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from tests import golang

__all__ = ["build"]

SOURCES = Path(__file__).with_name("program")
CACHE = golang.cache("apiserver")
#: Packages whose types the server describes in its OpenAPI documents.
OPENAPI_INPUTS = (
    "k8s.io/api/core/v1",
    "k8s.io/api/apps/v1",
    "k8s.io/api/coordination/v1",
    "k8s.io/api/discovery/v1",
    "k8s.io/api/networking/v1",
    "k8s.io/apimachinery/pkg/apis/meta/v1",
    "k8s.io/apimachinery/pkg/api/resource",
    "k8s.io/apimachinery/pkg/runtime",
    "k8s.io/apimachinery/pkg/util/intstr",
    "k8s.io/apimachinery/pkg/version",
)


def build() -> Path:
    """The folder of the programs ``apiserver`` and ``etcd``. Raises golang.Unbuildable."""
    target = CACHE / golang.digest(SOURCES, commands("go"))
    with golang.locked(CACHE):
        if not target.is_dir():
            build_into(target)
    return target


def build_into(target: Path) -> None:
    go = golang.go_command()
    print("building the API server and etcd (a few minutes the first time)", file=sys.stderr)
    with golang.copied(SOURCES, CACHE) as folder:
        (folder / "openapi").mkdir()
        (folder / "bin").mkdir()
        for command in commands(go):
            golang.run(command, folder)
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
