"""secondary: zones on disk. What is there after differences, kills, damage and a full stop."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import dns.message
import pytest

from fastdns.index.zone import Zone
from fastdns.plugins.kubernetes.watch.replica import Replica
from fastdns.plugins.secondary.kept import WRITE_PAUSE, Kept
from tests.plugins.secondary.kept import read, serial_in
from tests.plugins.secondary.primary import Messages, Primary
from tests.plugins.secondary.test_secondary import corefile, zone
from tests.server import Server
from tests.waiting import until

Serve = Callable[..., Server]
Make = Callable[..., Primary]

MANY = "".join(f"n{number} 60 IN A 10.1.0.{number}\n" for number in range(250))


@pytest.fixture
def store(tmp_path: Path) -> Path:
    made = tmp_path / "store"
    made.mkdir()
    return made


def version(serial: int, more: str = "") -> str:
    return zone(serial, MANY + f"current 60 IN A 10.0.0.{serial}\n" + more)


def follow(server: Server, one: Primary, serial: int) -> None:
    """The primary has the next version, and so has the server."""
    one.add(version(serial))
    one.notify(server.port)
    server.until("current.example.org.", "A", [f"10.0.0.{serial}"])


def test_differences_are_appended_and_survive_a_kill(serve: Serve, primary: Make, store: Path) -> None:
    one = primary(version(1))
    text = corefile(one.address, f"store {store}")
    server = serve(text)
    kept = store / "db.example.org"
    until(lambda: serial_in(kept) == 1, "the first version on disk")
    inode, size = kept.stat().st_ino, kept.stat().st_size
    for serial in (2, 3):
        follow(server, one, serial)
        until(lambda serial=serial: serial_in(kept) == serial, "the version on disk")  # type: ignore[misc]
    assert kept.stat().st_ino == inode
    assert size < kept.stat().st_size < 2 * size
    assert read(kept)[1].changes >= 2
    server.process.kill()
    server.process.wait()
    one.close()
    server = serve(text)
    assert server.answers("current.example.org.") == ["10.0.0.3"]
    assert server.answers("n249.example.org.") == ["10.1.0.249"]
    assert server.answers("n250.example.org.") == ["NXDOMAIN"]
    # What is there is gone on with.
    one = primary(version(3), port=one.port)
    follow(server, one, 4)
    assert "AXFR" not in one.asked
    until(lambda: serial_in(kept) == 4, "the version on disk")
    assert kept.stat().st_ino == inode


def test_versions_in_quick_succession_are_written_together_and_at_the_end(serve: Serve, primary: Make, store: Path) -> None:
    one = primary(version(1))
    server = serve(corefile(one.address, f"store {store}"))
    kept = store / "db.example.org"
    until(lambda: serial_in(kept) == 1, "the first version on disk")
    began, written = time.monotonic(), kept.stat().st_size
    for serial in range(2, 8):
        follow(server, one, serial)
    if time.monotonic() - began < WRITE_PAUSE - 1:
        assert kept.stat().st_size == written
    server.stop()
    assert serial_in(kept) == 7


def test_many_changes_become_a_whole_version(serve: Serve, primary: Make, store: Path) -> None:
    one = primary(version(1))
    server = serve(corefile(one.address, f"store {store}"))
    kept = store / "db.example.org"
    until(lambda: serial_in(kept) == 1, "the first version on disk")
    inode = kept.stat().st_ino
    one.add(version(2, "".join(f'x{number} 60 IN TXT "{"x" * 200}"\n' for number in range(400))))
    one.notify(server.port)
    server.until("current.example.org.", "A", ["10.0.0.2"])
    until(lambda: serial_in(kept) == 2, "the version on disk")
    assert kept.stat().st_ino != inode
    assert read(kept)[1].changes == 0


def test_a_change_that_is_cut_leaves_the_version_before(serve: Serve, primary: Make, store: Path) -> None:
    one = primary(version(1))
    text = corefile(one.address, f"store {store}")
    server = serve(text)
    kept = store / "db.example.org"
    until(lambda: serial_in(kept) == 1, "the first version on disk")
    follow(server, one, 2)
    server.stop()
    one.close()
    assert serial_in(kept) == 2
    os.truncate(kept, kept.stat().st_size - 3)
    server = serve(text)
    server.wait_log(r"\[WARNING\] plugin/secondary: Of what was kept of example\.org\. an older version is used: .*db\.example\.org ends with a change")
    assert server.answers("current.example.org.") == ["10.0.0.1"]
    one = primary(version(1), version(2), port=one.port)
    one.notify(server.port)
    server.until("current.example.org.", "A", ["10.0.0.2"])
    until(lambda: serial_in(kept) == 2, "the version on disk")
    assert read(kept)[1].end == kept.stat().st_size


@pytest.mark.parametrize(
    ("damage", "text"),
    [
        (lambda octets: octets[:-1], "is cut short, or damaged"),
        (lambda octets: octets[:300] + bytes([octets[300] ^ 1]) + octets[301:], "is cut short, or damaged"),
        (lambda octets: zone(7, "a 60 IN A 192.0.2.1\n").encode(), "is no zone that this version has written"),
        (lambda octets: b"", "is no zone that this version has written|is cut short"),
    ],
)
def test_what_is_damaged_is_transferred_again(serve: Serve, primary: Make, store: Path, damage: Callable[[bytes], bytes], text: str) -> None:
    one = primary(version(1))
    server = serve(corefile(one.address, f"store {store}"))
    kept = store / "db.example.org"
    until(lambda: serial_in(kept) == 1, "the first version on disk")
    server.stop()
    one.close()
    kept.write_bytes(damage(kept.read_bytes()))
    server = serve(corefile(one.address, f"store {store}"))
    server.wait_log(rf"\[WARNING\] plugin/secondary: What was kept of example\.org\. is not used: .*db\.example\.org ({text})")
    assert server.answers("current.example.org.") == ["SERVFAIL"]
    one = primary(version(2), port=one.port)
    server.until("current.example.org.", "A", ["10.0.0.2"])
    until(lambda: serial_in(kept) == 2, "the version on disk")


def test_a_file_that_somebody_else_has_written_is_replaced(serve: Serve, primary: Make, store: Path) -> None:
    """Nothing is appended to what it has not read: two servers with one folder do not spoil each other's file."""
    one = primary(version(1))
    server = serve(corefile(one.address, f"store {store}"))
    kept = store / "db.example.org"
    until(lambda: serial_in(kept) == 1, "the first version on disk")
    with kept.open("ab") as file:
        file.write(b"x")
    follow(server, one, 2)
    until(lambda: serial_in(kept) == 2, "the version on disk")
    assert read(kept)[1].end == kept.stat().st_size
    kept.unlink()
    follow(server, one, 3)
    until(lambda: serial_in(kept) == 3, "the version on disk")


def test_a_zone_expires_when_it_would_have_without_the_restart(serve: Serve, primary: Make, store: Path) -> None:
    """Changes do not make the zone younger than the last answer of a primary."""
    one = primary(zone(1, expire=4))
    text = corefile(one.address, f"store {store}")
    server = serve(text)
    kept = store / "db.example.org"
    until(lambda: serial_in(kept) == 1, "the first version on disk")
    one.add(zone(2, expire=4))
    one.notify(server.port)
    until(lambda: server.query("example.org.", "SOA").answer[0][0].serial == 2, "the next version")
    confirmed = time.time()
    one.close()
    time.sleep(2)
    server.stop()
    assert kept.stat().st_mtime < confirmed + 0.5
    server = serve(text)
    until(lambda: server.answers("ns.example.org.") == ["SERVFAIL"], "the end")
    assert time.time() > confirmed + 3.5


def test_the_members_of_a_catalog_are_there_after_a_restart(serve: Serve, primary: Make, store: Path) -> None:
    """From disk, the catalog and its members, while no primary answers."""
    catalog = 'version 60 IN TXT "2"\none.zones 60 IN PTR member.example.\n'
    both = primary(zone(1, catalog), origin="example.org.")
    member = primary(zone(5, "a 60 IN A 192.0.2.5\n"), origin="member.example.")
    both.script = lambda one, request: member.answer(request) if str(request.question[0].name) == "member.example." else None
    text = f".:{{port}} {{\n    secondary example.org {{\n        transfer from {both.address}\n        catalog\n        store {store}\n    }}\n}}\n"
    server = serve(text)
    server.until("a.member.example.", "A", ["192.0.2.5"])
    until(lambda: (store / "db.example.org").exists() and (store / "db.member.example").exists(), "both zones on disk")
    server.stop()
    both.close()
    member.close()
    server = serve(text)
    assert server.answers("a.member.example.") == ["192.0.2.5"]


def test_what_is_kept_of_a_member_goes_with_it(serve: Serve, primary: Make, store: Path) -> None:
    """When the catalog that serves does not list it, not when no catalog comes or one that is none; a member with another ID begins anew."""
    listed = 'version 60 IN TXT "2"\n'
    both = primary(zone(1, listed + "one.zones 60 IN PTR a.example.\ntwo.zones 60 IN PTR b.example.\n"), origin="example.org.")
    members = {f"{name}.example.": primary(zone(5, "www 60 IN A 192.0.2.5\n"), origin=f"{name}.example.") for name in ("a", "b")}

    def script(one: Primary, request: dns.message.Message) -> Messages | None:
        name = str(request.question[0].name)
        return members[name].answer(request) if name in members else None

    both.script = script
    text = f".:{{port}} {{\n    secondary example.org {{\n        transfer from {both.address}\n        catalog\n        store {store}\n    }}\n}}\n"
    server = serve(text)
    kept = {name: store / f"db.{name}.example" for name in ("a", "b")}
    until(lambda: kept["a"].exists() and kept["b"].exists(), "both members on disk")
    both.add(zone(2, 'version 60 IN TXT "3"\n'))  # no catalog
    both.notify(server.port)
    server.wait_log("unsupported version")
    assert server.answers("www.a.example.") == ["192.0.2.5"]
    assert kept["a"].exists()
    both.add(zone(3, listed + "two.zones 60 IN PTR b.example.\n"))
    both.notify(server.port)
    server.wait_log("Removed catalog member zone a.example. from catalog example.org.")
    until(lambda: not kept["a"].exists(), "its file is gone")
    assert kept["b"].exists()
    assert server.answers("www.b.example.") == ["192.0.2.5"]
    both.script = lambda one, request: iter([None]) if str(request.question[0].name) in members else None
    both.add(zone(4, listed + "other.zones 60 IN PTR b.example.\n"))
    both.notify(server.port)
    server.wait_log("Reset catalog member zone b.example.")
    until(lambda: not kept["b"].exists(), "the file of the former member is gone")
    until(lambda: server.answers("www.b.example.") == ["SERVFAIL"], "it has no zone yet")
    server.stop()
    assert sorted(path.name for path in store.iterdir()) == ["db.example.org"]


def test_records_are_on_disk_as_long_as_their_reader_is_there(tmp_path: Path) -> None:
    """A zone that no replica follows any more, after a reload, is in memory when it is read anew: clients may ask for it."""
    reader = Replica("objects.test.")
    zones = [Zone("Objects.Test."), Zone("objects.test.")]
    assert Kept(zones[0], str(tmp_path)).restore() is None
    assert zones[0].folder == str(tmp_path)
    del reader
    assert Kept(zones[1], str(tmp_path)).restore() is None
    assert zones[1].folder is None
