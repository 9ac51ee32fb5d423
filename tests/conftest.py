"""What all tests share: a server from a Corefile, the material beside the project, and skips that CI refuses."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest

from tests.server import Server

ROOT = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("FASTDNS_SHARED", ROOT.parent / "shared"))


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """``serve(corefile, *args, env=…)`` starts a server (see :class:`tests.server.Server`); all end with the test.

    ``wait=False`` returns at once, for servers that are meant to refuse their Corefile or that run ``-quiet``. ``prepare`` is called with
    the server's folder before it starts, to put files there.
    """
    servers: list[Server] = []

    def start(corefile: str, *args: str, env: dict[str, str] | None = None, wait: bool = True, prepare: Callable[[Path], object] | None = None) -> Server:
        folder = tmp_path / f"server{len(servers)}"
        folder.mkdir()
        if prepare is not None:
            prepare(folder)
        server = Server(folder, corefile, *args, env=env)
        servers.append(server)
        if wait:
            server.wait_started()
        return server

    yield start
    for server in servers:
        server.stop()


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder ``../shared`` (``$FASTDNS_SHARED``) with the specification, the corpus and the test API server."""
    if not SHARED.is_dir():
        pytest.skip("needs ../shared")
    return SHARED


@pytest.fixture(scope="session")
def go() -> str:
    """The go command."""
    path = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    if path is None:
        pytest.skip("needs Go")
    return path


@pytest.fixture(scope="session")
def cluster_programs(shared: Path, go: str) -> Path:
    """The folder of the test API server and of the etcd behind it, built once for the machine."""
    path = f"{Path(go).parent}:{os.environ['PATH']}"
    built = subprocess.run([str(shared / "apiserver" / "run"), "--build-only"], capture_output=True, text=True, timeout=900, env={**os.environ, "PATH": path})
    if built.returncode:
        pytest.skip(f"needs Go's module proxy to build the API server: {built.stderr.strip()[-200:]}")
    return Path(json.loads(built.stdout.splitlines()[-1])["programs"])


def refuse_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    """With FASTDNS_NO_SKIPS set, as in CI, what would skip fails: nothing may be left out there without a word."""
    if report.skipped and not hasattr(report, "wasxfail") and os.environ.get("FASTDNS_NO_SKIPS"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"skipped, which CI refuses: {reason}"


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Octets, often random ones, are no name for a test: the processes that share the tests must call them alike."""
    return argname if isinstance(val, bytes) else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    refuse_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    refuse_skip(report)
    return report
