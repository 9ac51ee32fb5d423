"""log through a socket: what lines say, which there are, and that nothing forges one."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import dns.edns
import dns.message
import dns.name
import dns.rdataclass
import pytest

from tests.server import Server, command, free_port
from tests.waiting import LIMIT

Serve = Callable[..., Server]

TIME = r"\d+(\.\d+)?s"


def lines(server: Server) -> list[str]:
    return [line for line in server.log().splitlines() if line.startswith("[INFO] ") and ": " not in line]


@pytest.fixture
def formats(serve: Serve) -> Server:
    return serve(
        """.:{port} {
            bind 127.0.0.1 ::1
            log
            whoami
        }
        fail.test:{port} {
            bind 127.0.0.1 ::1
            errors
            log fail.test "F {name} {rcode} {>rflags} {rsize} {type} {class} {proto} {local}"
        }
        two.test:{port} {
            bind 127.0.0.1 ::1
            log a.two.test "A {name}"
            log b.two.test "B {name}" {
                class denial
            }
            log two.test "rest {name} {>do} {>bufsize} {size}"
            whoami
        }
        class.test:{port} {
            bind 127.0.0.1 ::1
            log . "C {name}" {
                class denial error
            }
            whoami
        }"""
    )


def test_lines(formats: Server) -> None:
    number = formats.query("WWW.Example.org", id=29008).id
    formats.wait_log(rf'^\[INFO\] 127\.0\.0\.1:\d+ - {number} "A IN www\.example\.org\. udp 33 false 512" NOERROR qr,aa,rd \d+ {TIME}$')
    formats.query("www.example.org", "AAAA", tcp=True, want_dnssec=True, payload=4096)
    formats.wait_log(r'"AAAA IN www\.example\.org\. tcp 44 true 65535" NOERROR qr,aa,rd ')
    formats.query("www.example.org", "TYPE65280", host="::1", flags=dns.flags.CD, use_edns=0, payload=300)
    formats.wait_log(r'^\[INFO\] \[::1\]:\d+ - \d+ "TYPE65280 IN www\.example\.org\. udp 44 false 512" NOERROR qr,aa,cd ')


def test_sizes_are_those_of_what_rewrite_made(serve: Serve) -> None:
    """The sizes are CoreDNS 1.14.7's for the same queries: with the options that *rewrite* added, and the name as it came. Metrics have the same."""
    server = serve(
        """.:{port} {
            bind 127.0.0.1
            prometheus 127.0.0.1:{port2}
            log . "{name} {size} {rsize} {>bufsize}"
            rewrite edns0 local set 0xffee abcdef0123
            rewrite name exact short.test a.very.much.longer.name.test
            template IN A {
                answer "{{ .Name }} 60 IN A 1.2.3.4"
            }
        }"""
    )
    server.query("x.test", use_edns=0, payload=1232, options=[dns.edns.GenericOption(10, b"12345678")])
    server.query("short.test")
    server.query("short.test", use_edns=0, payload=1232, options=[dns.edns.GenericOption(10, b"12345678")], tcp=True)
    server.wait_log(r"short.test. 65 \d+ 65535$")
    assert lines(server) == ["[INFO] x.test. 61 46 1232", "[INFO] short.test. 53 54 4096", "[INFO] short.test. 65 54 65535"]
    page = server.get(server.ports["port2"], "/metrics")
    assert re.search(r'^coredns_dns_request_size_bytes_sum\{.*proto="udp".*\} 114$', page, re.M)


def test_failures_show(formats: Server) -> None:
    formats.query("X.fail.test", "MX", host="::1", tcp=True)
    formats.wait_log(r"^\[INFO\] F x\.fail\.test\. SERVFAIL qr,rd 29 MX IN tcp \[::1\]$")
    log = formats.wait_log(r"plugin/errors: .*").string
    assert log.index("F x.fail.test.") < log.index("plugin/errors: 2 x.fail.test. MX: plugin/log: no next plugin found")


def test_the_first_rule_with_the_name_is_the_only_one(formats: Server) -> None:
    for name in ("x.a.two.test", "b.two.test", "c.two.test", "xa.two.test", "end.test"):
        formats.query(name, use_edns=0, payload=1232)
    formats.wait_log(r"end\.test")
    got = [line for line in lines(formats) if "two.test" in line]
    assert sorted(got) == [
        "[INFO] A x.a.two.test.",
        "[INFO] rest c.two.test. false 1232 39",
        "[INFO] rest xa.two.test. false 1232 40",
    ]


def test_classes(formats: Server) -> None:
    formats.query("x.class.test")
    formats.query("end.test")
    formats.wait_log(r"end\.test")
    assert "x.class.test" not in formats.log()


def test_lines_of_several_workers_are_in_order(serve: Serve) -> None:
    server = serve('.:{port} {\n bind 127.0.0.1\n log . "{name}"\n whoami\n}', "-workers", "4")
    for number in range(300):
        server.query(f"x{number}.test", tcp=number % 3 == 0)
    server.wait_log(r"x299\.test")
    assert lines(server) == [f"[INFO] x{number}.test." for number in range(300)]


HOSTILE = [b"new\nline", b"esc\x1b[31m", b"nul\0", b"per%s%n", b'quo"te', b"back\\slash", b"\xff\xfe", b"do.t", b"tab\t", b"\x7f\x9b"]


def test_names_never_forge_a_line(formats: Server) -> None:
    """Log injection: one line for each query, valid UTF-8, control octets escaped."""
    for label in HOSTILE:
        for host, zone in (("127.0.0.1", "test"), ("::1", "fail.test")):
            name = dns.name.Name([label, *dns.name.from_text(zone).labels])
            formats.send(dns.message.make_query(name, "A"), host=host)
    formats.query("end.test")
    formats.wait_log(r"end\.test")
    formats.wait_log("(?s)" + "plugin/errors.*" * len(HOSTILE))
    raw = formats.log_path.read_bytes()
    raw.decode()
    assert not re.search(rb"[\x00-\x09\x0b-\x1f\x7f]", raw)
    text = raw.decode()
    assert text.count("[INFO] ") == 2 * len(HOSTILE) + 1
    assert text.count("[ERROR] ") == len(HOSTILE)
    assert "new\\010line.test." in text
    assert "esc\\027[31m.fail.test." in text


def test_a_name_of_255_octets_is_logged_whole(formats: Server) -> None:
    name = dns.name.Name([b"\1" * 63, b"\2" * 63, b"\3" * 63, b"\4" * 61, b""])
    formats.send(dns.message.make_query(name, "A"))
    formats.wait_log(r"\\001" * 10)
    [line] = [line for line in lines(formats) if "\\001" in line]
    assert line.count("\\00") == 250
    assert line.endswith("s")


def test_a_log_pipe_that_is_stuck_costs_lines_and_no_answers(tmp_path: Path) -> None:
    """R13: nobody reads standard output."""
    port, metrics = free_port(), free_port()
    corefile = tmp_path / "Corefile"
    corefile.write_text(f".:{port} {{\n bind 127.0.0.1\n prometheus 127.0.0.1:{metrics}\n log\n whoami\n}}\n")
    read, write = os.pipe()
    process = subprocess.Popen([*command(), "-conf", str(corefile)], stdin=subprocess.DEVNULL, stdout=write, stderr=subprocess.STDOUT)
    os.close(write)
    try:
        head = b""
        while b"linux/" not in head:
            head += os.read(read, 4096)
        server = Server.__new__(Server)
        server.ports = {"port": port}
        request = dns.message.make_query("x" * 60 + ".example.org", "A").to_wire()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.connect(("127.0.0.1", port))
            client.settimeout(LIMIT)
            took = []
            for _ in range(12000):  # over a megabyte of lines: the pipe and every ring fill up
                start = time.monotonic()
                client.send(request)
                client.recv(512)
                took.append(time.monotonic() - start)
        # All would be slow if lines were waited for; one or the other is anyway where much else runs.
        assert sorted(took)[-100] < 0.5
        assert server.metric(metrics, "fastdns_log_lines_dropped_total") > 0
    finally:
        process.terminate()
        assert process.wait(LIMIT) == 0, "the end waits for a pipe that nobody reads"
        os.close(read)


def test_without_arguments_python_needs_nothing_else() -> None:
    """Importing the plugin costs no third-party package."""
    code = "import sys, fastdns.plugins.log; print(sorted({'prometheus_client', 'dns', 'yaml', 'asyncio'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "[]\n"
