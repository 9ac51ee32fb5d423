"""file: new versions of zones, as files change, under load."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import dns.message
import dns.query
import dns.rcode
import pytest

from tests.server import Server
from tests.waiting import REPLY, until

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


def test_every_answer_under_load_is_of_one_version(serve: Serve) -> None:
    """Address and server name are of the same serial, no query is lost, and the newest version comes."""
    names = 2000
    server, db = start(serve, text=zone(1, names))
    stop = threading.Event()
    asked = [0] * 3
    wrong: list[str] = []

    def ask(number: int) -> None:
        request = dns.message.make_query("n0.example.org", "A")
        while not stop.is_set():
            for name in (number, names - 1):
                request = dns.message.make_query(f"n{name}.example.org", "A")
                reply = dns.query.udp(request, "127.0.0.1", port=server.port, timeout=REPLY)
                if reply.rcode() != dns.rcode.NOERROR or not reply.answer or not reply.authority:
                    wrong.append(reply.to_text())
                    return
                octets = str(reply.answer[0][0]).split(".")
                if str(reply.authority[0][0]) != f"ns{int(octets[2]) * 250 + int(octets[3])}.example.org.":
                    wrong.append(reply.to_text())
                asked[number] += 1

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(len(asked))]
    for thread in threads:
        thread.start()
    try:
        for serial in range(2, 12):
            write(db, zone(serial, names))
            server.wait_log(f"with {serial} SOA serial")
            before = sum(asked)
            until(lambda before=before: wrong or sum(asked) > before + 20)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not wrong
    assert server.answers("n7.example.org") == ["10.0.0.11"]
