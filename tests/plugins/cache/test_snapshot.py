"""cache: what outlasts the process in a file, and which files are refused."""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import dns.message
from dns.flags import CD, RD

from fastdns.testing import Upstream
from tests.plugins.cache.scripted import SOA, Script, texts
from tests.server import STARTED, Server
from tests.waiting import until

Serve = Callable[..., Server]

COREFILE = """
.:{port} {
    bind 127.0.0.1
    prometheus 127.0.0.1:{port2}
    cache {
        snapshot CACHE
        OPTIONS
    }
    forward . UPSTREAM
}
"""


@contextmanager
def running(serve: Serve, tmp_path: Path, options: str = "", corefile: str = COREFILE, *args: str) -> Iterator[tuple[Server, Upstream, Script]]:
    script = Script()
    with Upstream(script) as upstream:
        text = corefile.replace("CACHE", str(tmp_path / "kept")).replace("OPTIONS", options).replace("UPSTREAM", upstream.address)
        yield serve(text, *args), upstream, script


def restart(server: Server) -> None:
    assert server.stop() == 0
    begin(server)


def begin(server: Server, log: str = "") -> None:
    """Start the process again; ``log`` is text that it is to log."""
    start = len(server.log())
    server.start()
    server.wait_log(STARTED, start=start)
    server.wait_log(re.escape(log), start=start)


def total(server: Server, name: str, zones: str = ".") -> float:
    return server.metric(server.ports["port2"], f'fastdns_cache_{name}_total{{view="",zones="{zones}"}}')


def restored(server: Server, count: int) -> None:
    until(lambda: total(server, "restored") == count, f"{count} entries")


def seal(data: bytes) -> bytes:
    """A file's octets with the digest that they should have."""
    return data + hashlib.sha256(data).digest()


def test_a_restart_keeps_answers_with_their_ages(serve: Serve, tmp_path: Path) -> None:
    with running(serve, tmp_path) as (server, upstream, script):
        script.say("www.test.", ["www.test. 300 IN CNAME other.test.", "other.test. 300 IN A 192.0.2.7", "other.test. 300 IN A 192.0.2.8"])
        script.say("none.test.", authority=[SOA], rcode="NXDOMAIN")
        script.say("text.test.", [f'text.test. 300 IN TXT "{"x" * 250}" "{index}"' for index in range(30)])
        script.say("short.test.", ["short.test. 5 IN A 192.0.2.9"])
        first = {name: server.query(name, kind, tcp=True) for name, kind in QUESTIONS}
        asked = len(upstream.seen)
        time.sleep(2.1)
        restart(server)
        restored(server, 4)
        for name, kind in QUESTIONS:
            reply = server.query(name, kind, tcp=True)
            assert reply.rcode() == first[name].rcode()
            for section in ("answer", "authority"):
                for before, after in zip(getattr(first[name], section), getattr(reply, section), strict=True):
                    assert before == after
                    assert before.ttl - 30 < after.ttl <= before.ttl - 2
        assert len(upstream.seen) == asked
        until(lambda: server.query("short.test.").answer[0].ttl == 5, "the next answer", 10)
        assert len(upstream.seen) == asked + 1
        assert stat.S_IMODE(os.stat(tmp_path / "kept").st_mode) == 0o600


QUESTIONS = (("www.test.", "A"), ("none.test.", "A"), ("text.test.", "TXT"), ("short.test.", "A"))


def test_keys_stay_apart(serve: Serve, tmp_path: Path) -> None:
    """By type, DO and CD."""
    with running(serve, tmp_path) as (server, upstream, script):
        script.otherwise = ("NOERROR", "RA AD", ["a.test. 300 IN A 192.0.2.1"], [], [])
        questions = [dns.message.make_query("a.test.", "A", want_dnssec=dnssec, flags=flags) for dnssec in (False, True) for flags in (RD, RD | CD)]
        for query in questions:
            server.send(query)
        restart(server)
        restored(server, 4)
        for query in questions:
            server.send(query)
        assert len(upstream.seen) == 4


def test_many_entries(serve: Serve, tmp_path: Path) -> None:
    """More than a worker puts in a turn, and than the file is read in."""
    with running(serve, tmp_path, "", COREFILE, "-workers", "2") as (server, upstream, _):
        names = [f"a{index}.test." for index in range(3000)]
        for name in names:
            server.query(name)
        asked = len(upstream.seen)
        restart(server)
        restored(server, len(names))
        assert [server.answers(name) for name in names] == [["192.0.2.1"]] * len(names)
        again = {query.question[0].name.to_text() for query in upstream.seen[asked:]}
        assert again.isdisjoint(names)  # forward's own probes are for another name


def test_the_file_is_written_again_and_again(serve: Serve, tmp_path: Path) -> None:
    """What is there after a kill."""
    with running(serve, tmp_path, corefile=COREFILE.replace("snapshot CACHE", "snapshot CACHE 1")) as (server, upstream, _):
        server.query("a.test.")
        until(lambda: (tmp_path / "kept").exists() and b"\1a\4test" in (tmp_path / "kept").read_bytes(), "the file")
        server.process.kill()
        server.process.wait()
        begin(server)
        restored(server, 1)
        assert server.answers("a.test.") == ["192.0.2.1"]
        assert len(upstream.seen) == 1
        assert [path.name for path in tmp_path.glob("*kept*")] == ["kept"]


def test_expired_entries(serve: Serve, tmp_path: Path) -> None:
    """They are kept for as long as serve_stale says."""
    for number, (options, kept) in enumerate((("", 0), ("serve_stale 1h", 1))):
        folder = tmp_path / str(number)
        folder.mkdir()
        with running(serve, folder, options) as (server, _, script):
            script.say("short.test.", ["short.test. 5 IN A 192.0.2.9"])
            script.say("long.test.", ["long.test. 300 IN A 192.0.2.9"])
            server.query("short.test.")
            server.query("long.test.")
            server.stop()
            time.sleep(5.2)
            script.going.clear()
            begin(server)
            restored(server, 1 + kept)
            if kept:
                assert server.query("short.test.").answer[0].ttl == 0
            script.going.set()


def test_the_last_good_answer(serve: Serve, tmp_path: Path) -> None:
    """prefer_positive: an entry that has replaced an answer keeps it."""
    with running(serve, tmp_path, "serve_stale 1h\n serve_stale_policy prefer_positive") as (server, _, script):
        script.say("a.test.", ["a.test. 5 IN A 192.0.2.9"])
        server.query("a.test.")
        time.sleep(5.2)
        script.say("a.test.", authority=[SOA], rcode="NXDOMAIN")
        assert server.answers("a.test.") == ["192.0.2.9"]
        denials = f'coredns_cache_entries{{server="dns://127.0.0.1:{server.port}",type="denial",view="",zones="."}}'
        until(lambda: server.metric(server.ports["port2"], denials) == 1, "a denial")
        restart(server)
        restored(server, 2)
        script.say("a.test.", rcode="SERVFAIL")
        assert server.answers("a.test.") == ["192.0.2.9"]


# ---- what is not used ----


def changed(data: bytes, change: str) -> bytes:
    head = data.index(b"\n{") + 1
    line = data[head : data.index(b"\n", head)]
    body = data[head + len(line) + 1 : -32]
    match change:
        case "cut":
            return data[:-1]
        case "empty":
            return b""
        case "one bit":
            return data[:-40] + bytes([data[-40] ^ 1]) + data[-39:]
        case "another version":
            return seal(data[:-32].replace(b"snapshot 1", b"snapshot 2", 1))
        case "another block":
            return seal(data[:head] + json.dumps({**json.loads(line), "identity": "00"}).encode() + b"\n" + body)
        case "from the future":
            later = {**json.loads(line), "boot": "another", "saved": time.time_ns() + 3600 * 10**9}
            return seal(data[:head] + json.dumps(later).encode() + b"\n" + body)
        case "no head":
            return seal(data[:head] + b"[]\n" + body)
        case "half an entry":
            return seal(data[:-33])
    raise AssertionError(change)


REFUSED = {
    "cut": "its digest is another one",
    "empty": "it is no snapshot of a cache",
    "one bit": "its digest is another one",
    "another version": "it is no snapshot of a cache, or of another version",
    "another block": "it is of a server block with other directives or files",
    "from the future": "it was written later than now",
    "no head": "it has no head",
    "half an entry": "an entry is not whole",
}


def test_files_that_are_refused(serve: Serve, tmp_path: Path) -> None:
    with running(serve, tmp_path) as (server, upstream, _):
        server.query("a.test.")
        server.stop()
        path = tmp_path / "kept"
        good = path.read_bytes()
        for change, reason in REFUSED.items():
            path.write_bytes(changed(good, change))
            begin(server, f"[WARNING] plugin/cache: snapshot {path} is not used: {reason}")
            assert total(server, "restored") == 0
            server.process.kill()
            server.process.wait()
        begin(server)
        server.query("a.test.")
        assert len(upstream.seen) == 2


def test_entries_that_are_no_messages(serve: Serve, tmp_path: Path) -> None:
    """Who can write the file can say what is answered, and no more: each octet of an entry is changed in turn, with a digest that is right."""
    with running(serve, tmp_path) as (server, _, script):
        script.say("a.test.", ["a.test. 300 IN MX 1 b.test.", "a.test. 300 IN MX 2 c.test."])
        server.query("a.test.", "MX")
        server.stop()
        path = tmp_path / "kept"
        data = path.read_bytes()[:-32]
        start = data.index(b"\n", data.index(b"\n{") + 1) + 1
        entry = data[start:]
        count = 0
        others = bytearray()
        for at in range(len(entry)):
            if not 12 <= at < 16 and at != 21:  # how long it and its subnet are
                for value in (0, 0xC0, 0xFF, entry[at] ^ 1):
                    others += entry[:at] + bytes([value]) + entry[at + 1 :]
                    count += 1
        path.write_bytes(seal(data[:start] + others + entry))
        begin(server, f"Taking {count + 1} entries")
        until(lambda: total(server, "restored") > 0, "entries")
        assert server.process.poll() is None
        server.query("a.test.", "MX")


def test_another_block(serve: Serve, tmp_path: Path) -> None:
    with running(serve, tmp_path) as (server, upstream, _):
        server.query("a.test.")
        server.stop()
        server.write(server.corefile.read_text().replace("forward", "minimal\n forward"))
        begin(server, "it is of a server block with other directives or files")
        server.query("a.test.")
        assert len(upstream.seen) == 2


# ---- reloads and upgrades ----


def test_a_reload_for_which_nothing_has_changed_empties_the_file(serve: Serve, tmp_path: Path) -> None:
    with running(serve, tmp_path, corefile=COREFILE.replace("snapshot CACHE", "snapshot CACHE 1")) as (server, upstream, _):
        server.query("a.test.")
        until(lambda: (tmp_path / "kept").exists() and b"\1a\4test" in (tmp_path / "kept").read_bytes(), "the file")
        server.signal(signal.SIGUSR1)
        server.wait_log("Reloading complete")
        until(lambda: not (tmp_path / "kept").exists() or b"\1a\4test" not in (tmp_path / "kept").read_bytes(), "a file without it")
        restart(server)
        server.query("a.test.")
        assert len(upstream.seen) == 2


def test_a_reload_keeps_the_file(serve: Serve, tmp_path: Path) -> None:
    """That of a block that stays as it is."""
    other = "b.test:{port3} {\n bind 127.0.0.1\n OTHER\n}\n"
    with running(serve, tmp_path, corefile=COREFILE + other.replace("OTHER", "whoami")) as (server, upstream, _):
        server.query("a.test.")
        server.reload(server.corefile.read_text().replace("whoami", "erratic"))
        restart(server)
        restored(server, 1)
        server.query("a.test.")
        assert len(upstream.seen) == 1


def test_an_upgrade(serve: Serve, tmp_path: Path) -> None:
    """The new process has what the former one had at that time, and the file is the new one's."""
    with running(serve, tmp_path) as (server, upstream, _):
        server.query("a.test.")
        server.signal(signal.SIGUSR2)
        server.wait_log("Upgrade finished")
        server.process.wait(20)
        server.query("a.test.")
        assert len(upstream.seen) == 1
        server.query("b.test.")
        until(lambda: total(server, "restored") == 1)


# ---- zones whose plugin says which names change ----


def test_zones_of_plugins_that_tell_are_not_kept(serve: Serve, tmp_path: Path) -> None:
    (tmp_path / "db.example.org").write_text("@ 3600 IN SOA ns host 1 3600 600 86400 3600\nwww 3600 IN A 192.0.2.1\n")
    file = f"file {tmp_path}/db.example.org example.org {{\n fallthrough\n }}\n forward"
    with running(serve, tmp_path, corefile=COREFILE.replace("forward", file)) as (server, upstream, _):
        server.query("www.example.org.")
        server.query("a.test.")
        restart(server)
        restored(server, 1)
        server.query("a.test.")
        assert len(upstream.seen) == 1
        assert server.answers("www.example.org.") == ["192.0.2.1"]


def test_a_plugin_from_elsewhere(serve: Serve, tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text("from fastdns.plugin import Plugin\n\nclass Other(Plugin):\n    def serve(self, query):\n        return None\n\n"
                                       "def setup(controller):\n    return Other()\n")  # fmt: skip
    with running(serve, tmp_path, corefile=COREFILE.replace("forward", f"plugin {tmp_path}/other.py\n forward")) as (server, _, _):
        server.wait_log(f"snapshot {tmp_path}/kept keeps nothing")
        server.query("a.test.")
        server.stop()
        assert not (tmp_path / "kept").exists()


def test_a_folder_that_is_not_there(serve: Serve, tmp_path: Path) -> None:
    """It is logged once, and counted."""
    with running(serve, tmp_path / "none", corefile=COREFILE.replace("snapshot CACHE", "snapshot CACHE 1")) as (server, _, _):
        until(lambda: total(server, "snapshot_failures") >= 2, "failures")
        assert server.log().count("cannot be written") == 1
        assert texts(server.query("a.test.").answer) == ["a.test. 300 IN A 192.0.2.1"]
