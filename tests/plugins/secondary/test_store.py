"""secondary: a store that cannot be used costs the copies in it; zones are served on."""

from __future__ import annotations

import os
import resource
import shlex
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import tests.unprivileged
from fastdns.index.zone import Zone
from fastdns.plugins.secondary import kept
from fastdns.telemetry.log import divert
from tests.plugins.secondary.kept import serial_in
from tests.plugins.secondary.primary import Primary
from tests.plugins.secondary.test_kept import follow, version
from tests.server import Server, command
from tests.waiting import until

Serve = Callable[..., Server]
Make = Callable[..., Primary]

FAILING = 'fastdns_kept_file_failing{{file="{path}",plugin="secondary"}}'
AGAIN = r"\[WARNING\] plugin/secondary: example\.org\. is kept in .*db\.example\.org again"


def corefile(primary: str, store: Path) -> str:
    return f"""
.:{{port}} {{
    secondary example.org {{
        transfer from {primary}
        store {store}
    }}
    hosts {{
        192.0.2.1 www.example.net
        fallthrough
    }}
    prometheus 127.0.0.1:{{port2}}
}}
"""


@pytest.fixture
def store(tmp_path: Path) -> Path:
    made = tmp_path / "store"
    made.mkdir()
    return made


@pytest.fixture
def unprivileged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers of the test have no right to open any file, also where root runs it."""
    monkeypatch.setenv("FASTDNS_BIN", shlex.join([sys.executable, str(tests.unprivileged.__file__), *command()]))


@pytest.fixture
def folder(store: Path) -> Iterator[Path]:
    """One that only its owner may write to, who can take that right from itself."""
    yield store
    store.chmod(0o700)


def failing(server: Server, store: Path) -> float:
    return server.metric(server.ports["port2"], FAILING.format(path=store / "db.example.org"))


@pytest.mark.usefixtures("unprivileged")
def test_a_folder_that_cannot_be_written_costs_only_the_copies_in_it(serve: Serve, primary: Make, folder: Path) -> None:
    one = primary(version(1))
    text = corefile(one.address, folder)
    server = serve(text)
    until(lambda: serial_in(folder / "db.example.org") == 1, "the first version on disk")
    server.stop()
    one.close()
    folder.chmod(0o500)
    server = serve(text)
    assert server.answers("current.example.org.") == ["10.0.0.1"]
    assert server.answers("www.example.net.") == ["192.0.2.1"]
    server.wait_log(r"\[WARNING\] plugin/secondary: Failed to keep example\.org\. in .*db\.example\.org: Permission denied")
    assert failing(server, folder) == 1
    one = primary(version(1), port=one.port)
    follow(server, one, 2)
    assert failing(server, folder) == 1
    assert server.log().count("Failed to keep") == 1
    folder.chmod(0o700)
    follow(server, one, 3)
    server.wait_log(AGAIN)
    assert failing(server, folder) == 0
    until(lambda: serial_in(folder / "db.example.org") == 3, "the version on disk")


FAULTS: dict[str, Callable[[Path], object]] = {
    "no folder": lambda store: store.rmdir(),
    "a file instead of the folder": lambda store: (store.rmdir(), store.write_text("x")),
    "a folder instead of the file": lambda store: (store / "db.example.org" / "x").mkdir(parents=True),
    "a pipe instead of the file": lambda store: os.mkfifo(store / "db.example.org"),
    "a device instead of the file": lambda store: (store / "db.example.org").symlink_to("/dev/zero"),
    "pipes instead of what is written": lambda store: os.mkfifo(store / ".db.example.org.new"),
    "a file that nobody may read": lambda store: (store / "db.example.org").touch(0o000),
    "a file of 64 GiB": lambda store: os.truncate(os.open(store / "db.example.org", os.O_CREAT | os.O_WRONLY), 64 << 30),
}


@pytest.mark.usefixtures("unprivileged")
@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_no_kept_copy_decides_about_a_start(serve: Serve, primary: Make, store: Path, fault: Callable[[Path], object]) -> None:
    fault(store)
    one = primary(version(1))
    server = serve(corefile(one.address, store))
    assert server.answers("www.example.net.") == ["192.0.2.1"]
    server.until("current.example.org.", "A", ["10.0.0.1"])
    server.wait_log(r"\[WARNING\] plugin/secondary: (Failed to keep|What was kept of) example\.org\.")


@pytest.mark.parametrize("umask", [0, 0o022], ids=oct)
def test_only_its_owner_may_read_a_kept_zone(serve: Serve, primary: Make, store: Path, umask: int) -> None:
    """Also one that an earlier version has made with mode 0644."""
    one = primary(version(1))
    kept_file = store / "db.example.org"
    before = os.umask(umask)
    try:
        server = serve(corefile(one.address, store))
    finally:
        os.umask(before)
    until(lambda: serial_in(kept_file) == 1, "the first version on disk")
    assert stat.S_IMODE(kept_file.stat().st_mode) == 0o600
    kept_file.chmod(0o644)
    follow(server, one, 2)
    until(lambda: serial_in(kept_file) == 2, "the version on disk")
    assert stat.S_IMODE(kept_file.stat().st_mode) == 0o600


def test_a_full_disk_begins_and_ends(serve: Serve, primary: Make, store: Path) -> None:
    """A limit of the size of files stands for it. The log stays below."""
    one = primary(version(1))
    server = serve(corefile(one.address, store))
    until(lambda: serial_in(store / "db.example.org") == 1, "the first version on disk")
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (4000, resource.RLIM_INFINITY))
    follow(server, one, 2)
    until(lambda: failing(server, store) == 1, "the failure")
    assert (store / "db.example.org").stat().st_size > 4000
    assert serial_in(store / "db.example.org") == 1
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    server.wait_log(r"\[WARNING\] plugin/secondary: Failed to keep example\.org\. in .*: File too large")
    follow(server, one, 3)
    server.wait_log(AGAIN)
    until(lambda: serial_in(store / "db.example.org") == 3, "the version on disk")


def test_a_write_that_has_failed_is_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a new version, and without a write where none is due."""
    monkeypatch.setattr(kept, "REPEAT_SECONDS", 0.05)
    lines: list[str] = []
    former = divert(lambda level, text: lines.append(text))
    store = tmp_path / "store"
    try:
        one = kept.Kept(Zone("example.org."), str(store))
        assert one.restore() is None
        assert lines == [f"plugin/secondary: Failed to keep example.org. in {store}/db.example.org: No such file or directory"]
        store.mkdir()
        until(lambda: len(lines) == 2, "the end of the failure")
        assert lines[1] == f"plugin/secondary: example.org. is kept in {store}/db.example.org again"
    finally:
        divert(former)
