"""file: new versions of zones, as files change, under load."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.load import Load
from tests.server import Server
from tests.waiting import until

Serve = Callable[..., Server]

COREFILE = "example.org:{port} {\n bind 127.0.0.1\n file {dir}/db {\n reload 100ms\n MORE\n }\n}"


def zone(serial: int, names: int = 3) -> str:
    text = f"@ 300 IN SOA ns admin {serial} 3600 600 86400 60\n@ 300 IN NS ns{serial}\n"
    return text + "".join(f"n{i} 300 IN A 10.0.{serial // 250}.{serial % 250}\n" for i in range(names))


def write(path: Path, text: str) -> None:
    new = path.with_name(path.name + ".new")
    new.write_text(text)
    new.replace(path)


def start(serve: Serve, more: str = "", text: str = zone(1)) -> tuple[Server, Path]:
    server = serve(COREFILE.replace("MORE", more), prepare=lambda folder: (folder / "db").write_text(text))
    return server, server.folder / "db"


def test_another_serial_loads_and_the_same_does_not(serve: Serve) -> None:
    server, db = start(serve, text=zone(5))
    assert server.answers("n0.example.org") == ["10.0.0.5"]
    write(db, zone(5).replace("10.0.0.5", "10.9.9.9"))
    write(db, zone(4))
    server.until("n0.example.org", "A", ["10.0.0.4"])
    server.wait_log(rf'\[INFO\] plugin/file: Successfully reloaded zone "example.org." in "{db}" with 4 SOA serial')
    assert "10.9.9.9" not in str(server.query("n1.example.org"))


def test_by_the_time_of_change(serve: Serve) -> None:
    server, db = start(serve, "reload_by_mtime")
    write(db, zone(1).replace("10.0.0.1", "10.9.9.9"))
    server.until("n0.example.org", "A", ["10.9.9.9"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (zone(2) + "n1 300 IN A 1.2.3\n", r'Parsing zone "example.org.": failed to parse file .* at line: 6:'),
        (zone(2)[: zone(2).index("n1") + 6], r'Parsing zone "example.org.": failed to parse file'),
        ("n0 300 IN A 10.0.0.2\n", r'Parsing zone "example.org.": file ".*" has no SOA record for origin example.org.'),
        ("", r'Parsing zone "example.org.": file ".*" has no SOA record for origin example.org.'),
        (None, r'Failed to open zone "example.org." in ".*": open .*: no such file or directory'),
    ],
)
def test_what_is_broken_leaves_the_old_version(serve: Serve, text: str | None, message: str) -> None:
    server, db = start(serve)
    if text is None:
        os.unlink(db)
    else:
        write(db, text)
    server.wait_log(r"\[ERROR\] plugin/file: " + message)
    assert server.answers("n2.example.org") == ["10.0.0.1"]
    write(db, zone(3))
    server.until("n2.example.org", "A", ["10.0.0.3"])


#: Queries a second, and how many of them may be unanswered at a time.
RATE, WINDOW = 20_000, 2000


def change_under_load(serve: Serve, names: int, versions: int, each: int) -> None:
    """Address and server name are of one version, none older than what was seen before the question; no query is lost, and the newest version comes."""
    server, db = start(serve, text=zone(1, names))
    load = Load(server.port, RATE, 600, f"n{names - 1}.example.org.", WINDOW, 0)
    started = time.monotonic()
    for serial in range(2, 2 + versions):
        write(db, zone(serial, names))
        until(lambda serial=serial: load.newest == serial, "the next version")  # type: ignore[misc]
        answered = load.answered
        until(lambda answered=answered: load.answered >= answered + each)  # type: ignore[misc]
    took = time.monotonic() - started
    result = load.result()
    print(f"{versions} versions of {names} names in {took:.1f} s: {result}")
    assert (result["lost"], result["wrong"], result["newest"]) == (0, 0, 1 + versions), result


def test_every_answer_under_load_is_of_one_version(serve: Serve) -> None:
    change_under_load(serve, 2000, 10, 2000)


@pytest.mark.slow
def test_every_answer_under_load_is_of_one_version_of_a_large_zone(serve: Serve) -> None:
    change_under_load(serve, 100_000, 30, 20_000)
