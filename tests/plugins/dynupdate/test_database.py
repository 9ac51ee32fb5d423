"""A zone with a database: what has been confirmed is there after whatever end, and nothing is served that the disk has not."""

from __future__ import annotations

import os
import re
import resource
import shutil
import signal
import sqlite3
import stat
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import dns.exception
import pytest

from tests.plugins.dynupdate.zones import DATABASE, MEMORY, SEED, add, message, seed, send, serial, transferred
from tests.programs import program
from tests.server import Server, command
from tests.waiting import LIMIT, until

Serve = Callable[..., Server]


@pytest.fixture
def server(serve: Serve) -> Server:
    return serve(DATABASE, prepare=seed)


def restart(server: Server, *, kill: bool = False) -> None:
    if kill:
        os.kill(server.pid, signal.SIGKILL)
        server.process.wait(LIMIT)
    else:
        server.stop()
    start = len(server.log())
    server.start()
    server.wait_log("fastdns-", start=start)


def upgrade(server: Server) -> None:
    """Have another process take over, and wait until the former one has ended."""
    former, count = server.pid, server.log().count("Upgrade finished")
    os.kill(former, signal.SIGUSR2)
    until(lambda: server.log().count("Upgrade finished") > count, server.log())
    server.process.poll()
    until(lambda: server.process.poll() is not None and former not in server.successors())
    (server.pid,) = server.successors()


class Stream:
    """A client that adds a name after the other, until it is stopped: `confirmed` are those that the server has said to have."""

    def __init__(self, server: Server, prefix: str = "n") -> None:
        self.confirmed: list[str] = []
        self.rcodes: set[str] = set()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(server, prefix))
        self._thread.start()

    def _run(self, server: Server, prefix: str) -> None:
        number = 0
        while not self._stopped.is_set():
            number += 1
            update = message()
            update.add(f"{prefix}{number}", 60, "A", "192.0.2.1")
            try:
                rcode = send(server, update, tcp=True)
            except (OSError, EOFError, dns.exception.DNSException):
                continue
            self.rcodes.add(rcode)
            if rcode == "NOERROR":
                self.confirmed.append(f"{prefix}{number}")

    def stop(self) -> list[str]:
        self._stopped.set()
        self._thread.join(LIMIT)
        return self.confirmed


def missing(server: Server, names: list[str]) -> list[str]:
    there = {line.split(".")[0] for line in transferred(server.port)}
    return [name for name in names if name not in there]


def test_a_restart_keeps_what_was_updated(server: Server) -> None:
    database = server.folder / "zone.db"
    until(database.exists)
    assert stat.S_IMODE(database.stat().st_mode) == 0o600
    update = message()
    update.add("Host", 300, "A", "192.0.2.10")
    update.add("alias", 60, "CNAME", "NS.example.org.")
    update.delete("www", "TXT")
    assert send(server, update) == "NOERROR"
    zone = transferred(server.port)
    (server.folder / "seed").unlink()
    restart(server)
    assert transferred(server.port) == zone
    assert serial(server) == 2
    assert add(server, "again") == "NOERROR"
    restart(server, kill=True)
    assert server.answers("again.example.org.") == ["192.0.2.9"]
    assert serial(server) == 3


def test_in_memory_updates_end_with_the_process(serve: Serve) -> None:
    server = serve(MEMORY, prepare=seed)
    assert add(server, "host") == "NOERROR"
    server.reload(MEMORY + "# changed\nexample.net:{port} {\n bind 127.0.0.1\n whoami\n}\n")
    assert server.answers("host.example.org.") == ["NXDOMAIN"]
    assert serial(server) == 1


@pytest.mark.parametrize("attempt", range(3))
def test_sigkill_amid_updates(server: Server, attempt: int) -> None:
    streams = [Stream(server, prefix) for prefix in "ab"]
    until(lambda: all(len(stream.confirmed) > 20 + 10 * attempt for stream in streams))
    os.kill(server.pid, signal.SIGKILL)
    server.process.wait(LIMIT)
    confirmed = [name for stream in streams for name in stream.stop()]
    start = len(server.log())
    server.start()
    server.wait_log("fastdns-", start=start)
    assert missing(server, confirmed) == []
    # Each message adds one record and has one serial.
    assert serial(server) - 1 == len(transferred(server.port)) - len(SEED.splitlines()) + 2
    assert add(server, "after") == "NOERROR"


def test_a_transaction_that_was_cut_off_is_undone(server: Server) -> None:
    """As SIGKILL leaves it between the pages and the end of the journal."""
    assert add(server, "host") == "NOERROR"
    zone = transferred(server.port)
    server.stop()
    path = server.folder / "zone.db"
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = DELETE")
    connection.execute("PRAGMA cache_size = 1")
    connection.execute("BEGIN IMMEDIATE")
    for number in range(2000):
        connection.execute("INSERT INTO record VALUES (?, 1, x'c0000201', 60, x'c0000201')", (b"\x05%05d\x07example\x03org\x00" % number,))
    for suffix in ("", "-journal"):
        shutil.copyfile(f"{path}{suffix}", server.folder / f"copy{suffix}")
    connection.close()
    for suffix in ("", "-journal"):
        os.replace(server.folder / f"copy{suffix}", f"{path}{suffix}")
    assert (server.folder / "zone.db-journal").stat().st_size > 0
    start = len(server.log())
    server.start()
    server.wait_log("fastdns-", start=start)
    assert transferred(server.port) == zone
    assert add(server, "more") == "NOERROR"


@pytest.mark.parametrize("how", ["SIGUSR1", "SIGUSR2"])
def test_a_new_configuration_or_process_amid_updates(server: Server, how: str) -> None:
    streams = [Stream(server, prefix) for prefix in "ab"]
    for number in range(3):
        former = [len(stream.confirmed) for stream in streams]
        if how == "SIGUSR1":
            server.reload(DATABASE + f"# version {number}\nn{number}.test:{{port}} {{\n bind 127.0.0.1\n whoami\n}}\n")
        else:
            upgrade(server)
        until(lambda: all(len(stream.confirmed) > before + 10 for stream, before in zip(streams, former, strict=True)))  # noqa: B023
    confirmed = [name for stream in streams for name in stream.stop()]
    assert missing(server, confirmed) == []
    if how == "SIGUSR1":
        assert {code for stream in streams for code in stream.rcodes} == {"NOERROR"}
    # No two updates got one serial, and none was lost.
    assert serial(server) - 1 == len(transferred(server.port)) - len(SEED.splitlines()) + 2


def test_two_processes_follow_each_other(serve: Serve) -> None:
    """For as long as two have the database, an update is decided by what both have done, and each serves it."""
    first = serve(DATABASE, prepare=seed)
    until((first.folder / "zone.db").exists)
    second = serve(DATABASE.replace("database zone.db", f"database {first.folder}/zone.db"), prepare=seed)
    assert add(first, "one") == "NOERROR"
    update = message()
    update.absent("one")
    update.add("one", 60, "A", "192.0.2.77")
    assert send(second, update) == "YXDOMAIN"
    assert second.answers("one.example.org.") == ["192.0.2.9"]
    assert add(second, "two") == "NOERROR"
    assert add(first, "three") == "NOERROR"
    assert first.answers("two.example.org.") == ["192.0.2.9"]
    assert serial(first) == 4


def test_a_process_that_is_upgraded_serves_what_the_other_one_commits(server: Server) -> None:
    assert add(server, "host") == "NOERROR"
    upgrade(server)
    other = sqlite3.connect(server.folder / "zone.db", isolation_level=None, timeout=10)
    other.execute("BEGIN IMMEDIATE")
    owner = b"\x05other\x07example\x03org\x00"
    other.execute("INSERT INTO record VALUES (?, 1, x'c0000263', 60, x'c0000263')", (owner,))
    other.execute("UPDATE zone SET generation = generation + 1")
    other.execute("COMMIT")
    other.close()
    server.until("other.example.org.", "A", ["192.0.2.99"])


def test_validation_makes_nothing(serve: Serve) -> None:
    server = serve(DATABASE, prepare=seed, wait=False)
    server.stop()
    for path in server.folder.glob("zone.db*"):
        path.unlink()
    done = subprocess.run([*command(), "check", str(server.corefile)], capture_output=True, text=True, cwd=server.folder)
    assert done.returncode == 0, done.stdout
    assert list(server.folder.glob("zone.db*")) == []
    server.write(DATABASE + "bad.test:{port} {\n file no.such.file {\n reload 0\n }\n}\n")
    server.start()
    assert server.exit_status() == 1
    assert list(server.folder.glob("zone.db*")) == []
    server.write(DATABASE)
    server.start()
    server.wait_started()
    until((server.folder / "zone.db").exists)
    # A refused reload changes nothing.
    before = (server.folder / "zone.db").read_bytes()
    start = len(server.log())
    server.write(DATABASE.replace("database zone.db", "database other.db") + "bad.test:{port} {\n file no.such.file {\n reload 0\n }\n}\n")
    server.signal(signal.SIGUSR1)
    server.wait_log("SIGUSR1: ", start=start)
    server.wait_log("no.such.file", start=start)
    assert list(server.folder.glob("other.db*")) == []
    assert (server.folder / "zone.db").read_bytes() == before
    assert add(server, "host") == "NOERROR"


def garbage(path: Path) -> None:
    path.write_bytes(b"x" * 5000)


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:5000])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def another(path: Path) -> None:
    path.unlink()
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE zone (origin, generation)")
    connection.commit()
    connection.close()


def without_soa(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("DELETE FROM record WHERE type = 6")
    connection.commit()
    connection.close()


def malformed(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("UPDATE record SET rdata = x'00' WHERE type = 1")
    connection.commit()
    connection.close()


def page(path: Path) -> None:
    octets = bytearray(path.read_bytes())
    octets[4096 * 2 : 4096 * 2 + 64] = b"\xff" * 64
    path.write_bytes(octets)


@pytest.mark.parametrize(
    ("damage", "error"),
    [
        (garbage, "file is not a database"),
        (truncated, "malformed|damaged"),
        (empty, "unrecognized database format"),
        (another, "unrecognized database format"),
        (without_soa, "zone has no SOA"),
        (malformed, "the file is damaged: a record is none"),
        (page, "malformed|damaged"),
    ],
)
def test_a_damaged_database_is_no_reason_to_begin_anew(server: Server, damage: Callable[[Path], object], error: str) -> None:
    assert add(server, "host") == "NOERROR"
    server.stop()
    path = server.folder / "zone.db"
    damage(path)
    octets = path.read_bytes()
    start = len(server.log())
    server.start()
    server.wait_log(rf"\[ERROR\] plugin/dynupdate: example\.org\. is not served: .*({error})", start=start)
    assert server.answers("host.example.org") == ["SERVFAIL"]
    assert path.read_bytes() == octets
    done = subprocess.run([*command(), "check", str(server.corefile)], capture_output=True, text=True, cwd=server.folder, check=False)
    assert done.returncode == 1
    assert re.search(error, done.stdout + done.stderr)


def test_the_database_of_another_zone_and_limits(serve: Serve) -> None:
    server = serve(DATABASE, prepare=seed)
    assert add(server, "host") == "NOERROR"
    server.stop()
    text = DATABASE.replace("example.org", "example.net")
    for changed, error in [
        (text, "database belongs to a different zone"),
        (DATABASE.replace("file seed", "file seed\n max_records 8"), r"stored zone exceeds max_records \(8\)"),
        (DATABASE.replace("file seed", "file seed\n max_bytes 100"), r"invalid stored zone size \(max_bytes 100\)"),
    ]:
        server.write(changed)
        start = len(server.log())
        server.start()
        server.wait_log(rf"is not served: .*{error}", start=start)
        assert server.answers("host.example.org" if changed != text else "host.example.net") == ["SERVFAIL"]
        server.stop()
    server.write(DATABASE.replace("database zone.db", "database seed"))
    server.start()
    assert server.exit_status() == 1
    server.wait_log("database and seed must be different files")


def test_one_database_for_two_zones_is_refused_at_a_reload(server: Server) -> None:
    assert add(server, "host") == "NOERROR"
    (server.folder / "net").write_text(SEED.replace("example.org", "example.net"))
    start = len(server.log())
    server.write(DATABASE + DATABASE.replace("example.org", "example.net").replace("file seed", "file net"))
    server.signal(signal.SIGUSR1)
    server.wait_log('database already serves zone "example.org."', start=start)
    assert add(server, "more") == "NOERROR"


def test_a_full_disk(server: Server) -> None:
    """Files that may not grow: what cannot be written is not served, and goes on when there is space again."""
    assert add(server, "host") == "NOERROR"
    until((server.folder / "zone.db").exists)
    size = (server.folder / "zone.db").stat().st_size
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
    refused = -1
    rcode, last = "NOERROR", serial(server)
    while rcode == "NOERROR":
        refused, last = refused + 1, serial(server)
        rcode = add(server, f"n{refused}", 60, "TXT", "x" * 200)
    assert rcode == "SERVFAIL"
    assert serial(server) == last
    assert server.answers(f"n{refused}.example.org.", "TXT") == ["NXDOMAIN"]
    server.wait_log(r"UPDATE for example\.org\. failed: committing to database")
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert add(server, f"n{refused}", 60, "TXT", "y") == "NOERROR"
    zone = transferred(server.port)
    restart(server, kill=True)
    assert transferred(server.port) == zone


def test_a_database_that_cannot_be_made(serve: Serve) -> None:
    """Nothing is confirmed, and nothing served that a database of another time may contradict."""
    server = serve(DATABASE.replace("database zone.db", "database folder/zone.db"), prepare=seed)
    server.wait_log(r"example\.org\. is not served: creating database")
    assert add(server, "host") == "SERVFAIL"
    assert server.query("www.example.org.").rcode() == 2
    (server.folder / "folder").mkdir()
    assert add(server, "host") == "NOERROR"
    assert server.answers("www.example.org.") == ["192.0.2.1", "192.0.2.2"]


def test_a_database_that_was_replaced_or_locked(server: Server) -> None:
    assert add(server, "host") == "NOERROR"
    path = server.folder / "zone.db"
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    assert add(server, "locked") == "SERVFAIL"
    other.execute("ROLLBACK")
    other.close()
    assert add(server, "locked") == "NOERROR"
    shutil.copyfile(path, server.folder / "copy")
    os.replace(server.folder / "copy", path)
    assert add(server, "lost") == "SERVFAIL"
    server.wait_log("was replaced by another file")
    assert server.answers("lost.example.org.") == ["NXDOMAIN"]


def test_a_read_only_database(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """For a process without root's right to write any file."""
    import tests.server

    assert add(server, "host") == "NOERROR"
    server.stop()
    (server.folder / "zone.db").chmod(0o400)
    words = [program("setpriv"), "--bounding-set=-dac_override", "--inh-caps=-dac_override", *tests.server.command()]
    monkeypatch.setattr(tests.server, "command", lambda: words if os.geteuid() == 0 else words[3:])
    start = len(server.log())
    server.start()
    server.wait_log("fastdns-", start=start)
    assert add(server, "more") == "SERVFAIL"
    server.wait_log("attempt to write a readonly database", start=start)
    assert server.answers("more.example.org.") == ["NXDOMAIN"]
    assert server.answers("host.example.org.") == ["192.0.2.9"]
    (server.folder / "zone.db").chmod(0o600)
    until(lambda: add(server, "more") == "NOERROR")
    assert server.answers("more.example.org.") == ["192.0.2.9"]
