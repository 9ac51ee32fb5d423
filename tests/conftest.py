"""What all tests share: a server from a Corefile, the programs of a test cluster, processes that must not be left, and skips that CI refuses."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest

from tests.apiserver.build import build
from tests.golang import Unbuildable
from tests.processes import no_process_left as no_process_left
from tests.programs import program
from tests.server import Server

ROOT = Path(__file__).resolve().parent.parent


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
def go() -> str:
    """The go command."""
    return program("go")


@pytest.fixture(scope="session")
def cluster_programs() -> Path:
    """The folder of the test API server and of the etcd behind it, built once for the machine."""
    try:
        return build()
    except Unbuildable as error:
        pytest.skip(f"no API server: {error}")


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
