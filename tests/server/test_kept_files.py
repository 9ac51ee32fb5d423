"""Files that are kept for a restart: none of them decides about a start."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.server import Server
from tests.waiting import until

Serve = Callable[..., Server]

BLOCK = """
.:{{port}} {{
    hosts {{
        192.0.2.1 www.example.org
        fallthrough
    }}
    prometheus 127.0.0.1:{{port2}}
    {directive}
}}
"""
DIRECTIVES = {
    "cache": "cache {{\n snapshot {folder}/file 1s\n }}",
    "kubernetes": "kubernetes cluster.local {{\n endpoint http://127.0.0.1:1\n startup_timeout 0s\n snapshot {folder}/file\n }}",
    "recorder": "recorder 1MiB {{\n to {folder}\n }}",
    "blocklist": "blocklist http://127.0.0.1:1/list {{\n snapshot {folder}\n }}",
    "secondary": "secondary example.net {{\n transfer from 127.0.0.1:1\n store {folder}\n }}",
}
FAULTS: dict[str, Callable[[Path], object]] = {
    "no folder": lambda folder: None,
    "a file instead of the folder": lambda folder: folder.write_text("x"),
    "a pipe instead of the file": lambda folder: (folder.mkdir(), os.mkfifo(folder / "file"), os.mkfifo(folder / "db.example.net")),
    "a folder instead of the file": lambda folder: ((folder / "file" / "x").mkdir(parents=True), (folder / "db.example.net").mkdir()),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("plugin", DIRECTIVES)
def test_no_kept_file_decides_about_a_start(serve: Serve, tmp_path: Path, plugin: str, fault: str) -> None:
    FAULTS[fault](tmp_path / "kept")
    server = serve(BLOCK.format(directive=DIRECTIVES[plugin].format(folder=tmp_path / "kept")))
    assert server.answers("www.example.org.") == ["192.0.2.1"]
    if "the folder" in fault or fault == "no folder":
        server.wait_log(rf"plugin/{plugin}: .*(cannot be (kept|written)|Failed to keep).*: (No such file|Not a directory)")
        assert f'fastdns_kept_file_failing{{file="{tmp_path}/kept' in server.get(server.ports["port2"], "/metrics")


def test_a_failure_to_keep_a_cache_ends(serve: Serve, tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    server = serve(BLOCK.format(directive=DIRECTIVES["cache"].format(folder=folder)))
    server.wait_log(rf"^\[ERROR\] plugin/cache: snapshot {folder}/file cannot be written: No such file or directory$")
    folder.mkdir()
    server.wait_log(rf"^\[ERROR\] plugin/cache: snapshot {folder}/file is written again$")
    assert "fastdns_kept_file_failing{" not in server.get(server.ports["port2"], "/metrics")
    assert server.log().count("cannot be written") == 1


@pytest.mark.parametrize("umask", [0, 0o022], ids=oct)
def test_only_their_owner_may_read_kept_files(serve: Serve, tmp_path: Path, umask: int) -> None:
    folder = tmp_path / "kept"
    folder.mkdir()
    (folder / "seed").write_text("@ 60 IN SOA ns. host. 1 60 60 60 60\n@ 60 IN NS ns.\n")
    dynamic = f"tsig {{\n secret k. c2VjcmV0\n }}\n dynupdate example.net {{\n file {folder}/seed\n database {folder}/database\n allow k. * *\n }}"
    before = os.umask(umask)
    try:
        server = serve(BLOCK.format(directive=DIRECTIVES["cache"].format(folder=folder) + "\n    " + dynamic))
    finally:
        os.umask(before)
    until(lambda: (folder / "file").exists() and (folder / "database").exists(), "both files")
    assert {path.name: oct(stat.S_IMODE(path.stat().st_mode)) for path in folder.iterdir() if path.name != "seed"} == {"file": "0o600", "database": "0o600"}
    assert server.answers("www.example.org.") == ["192.0.2.1"]
