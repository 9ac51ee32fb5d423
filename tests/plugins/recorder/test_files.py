"""recorder: files, read by tshark and dnstap-read."""

from __future__ import annotations

import os
import re
import resource
import socket
import stat
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dns.message
import dns.query
import pytest

from fastdns.server import control
from fastdns.testing import Upstream
from tests.comparison.test_command import shadow
from tests.plugins.forward.test_forward import reply
from tests.programs import program
from tests.server import Server
from tests.waiting import until

Serve = Callable[..., Server]

FIELDS = (
    *("frame.comment", "ip.src", "ip.dst", "ipv6.src", "dns.flags.response", "dns.id", "dns.qry.name", "dns.qry.type", "dns.flags.rcode", "dns.a"),
    *("dns.rr.udp_payload_size", "frame.time_epoch", "ip.checksum.status", "udp.checksum.status", "tcp.checksum.status", "_ws.malformed", "frame.protocols"),
)


def corefile(rest: str = "whoami", options: str = "", above: str = "") -> str:
    return f".:{{port}} {{\n    bind 127.0.0.1 ::1\n    {above}\n    recorder 2MiB {{\n        to {{dir}}/r\n{options}\n}}\n    {rest}\n}}\n"


def prepare(folder: Path) -> None:
    (folder / "r").mkdir()


def dump(server: Server) -> dict[str, Any]:
    found: dict[str, Any] = control.ask({"command": "recorder", "action": "dump"}, server.pid)
    return found


def packets(server: Server, path: str) -> list[dict[str, str]]:
    """What tshark reads, checksums included."""
    ports = ("-d", f"udp.port=={server.port},dns", "-d", f"tcp.port=={server.port},dns")
    checks = ("-o", "ip.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE", "-o", "tcp.check_checksum:TRUE")
    command = [program("tshark"), "-n", "-r", path, *ports, *checks, "-T", "fields", "-E", "separator=|"]
    done = subprocess.run([*command, *(word for field in FIELDS for word in ("-e", field))], capture_output=True, text=True, check=True)
    return [dict(zip(FIELDS, line.split("|"), strict=True)) for line in done.stdout.splitlines()]


def taps(path: str) -> list[str]:
    return subprocess.run([program("dnstap-read"), path], capture_output=True, text=True, check=True).stdout.splitlines()


def test_tshark_and_dnstap_read_open_what_is_written(serve: Serve) -> None:
    """One query is kept whole, and its messages are the ones that were sent; the others are rebuilt, and say so."""
    with Upstream(lambda request: reply(request, "@ 5 A 192.0.2.1")) as upstream:
        server = serve(corefile(f"acl {{\n block type TXT\n }}\n forward . {upstream.address}"), prepare=prepare)
        sent = [
            server.query("a.test", use_edns=0, payload=1400),
            server.query("b.test", "TXT"),
            server.query("c.test", tcp=True),
            server.query("d.test", host="::1", tcp=True),
        ]
        written = dump(server)
    assert written["queries"] == 4
    capture, tap = sorted(written["files"], reverse=True)
    assert [Path(path).suffix for path in (capture, tap)] == [".pcapng", ".dnstap"]
    found = packets(server, capture)
    assert all(packet["frame.protocols"].endswith(":dns") and not packet["_ws.malformed"] for packet in found)
    assert [(packet["dns.qry.name"], packet["dns.flags.response"]) for packet in found] == [(f"{name}.test", is_reply) for name in "abcd" for is_reply in "01"]
    assert [int(packet["dns.id"], 16) for packet in found] == [number for message in sent for number in (message.id, message.id)]
    assert [packet["dns.flags.rcode"] for packet in found] == ["", "0", "", "5", "", "0", "", "0"]
    for packet in found:
        rebuilt = packet["dns.qry.name"] != "b.test"
        assert ("rebuilt by fastdns: not the octets that were sent" in packet["frame.comment"]) is rebuilt
        bad = {packet[name] for name in ("ip.checksum.status", "udp.checksum.status", "tcp.checksum.status")}
        assert bad <= {"", "1"}, "1 is good"
    assert [packet["dns.rr.udp_payload_size"] for packet in found[:2]] == ["1400", "1232"]
    assert "whose records were not kept" in found[1]["frame.comment"]
    assert (found[0]["ip.src"], found[6]["ipv6.src"], found[0]["dns.a"]) == ("127.0.0.1", "::1", "")
    times = [float(packet["frame.time_epoch"]) for packet in found]
    assert times == sorted(times)

    lines = taps(tap)
    assert [line.split()[2] for line in lines] == ["CQ", "CR"] * 4
    asked = [line.rpartition(" ")[2] for line in lines]
    assert asked == [f"{name}.test/IN/{kind}" for name, kind in zip("abcd", ("A", "TXT", "A", "A"), strict=True) for _ in "qr"]
    assert ["UDP" in line for line in lines] == [True] * 4 + [False] * 4


def test_a_kept_reply_is_there_whole(serve: Serve) -> None:
    with Upstream(lambda request: reply(request, *(f"@ 5 A 192.0.2.{number}" for number in range(1, 60)))) as upstream:
        server = serve(corefile(f"forward . {upstream.address}", options="slow 1ns"), prepare=prepare)
        server.query("a.test", tcp=True)
        capture = next(path for path in dump(server)["files"] if path.endswith("pcapng"))
    question, answer = packets(server, capture)
    assert (question["frame.comment"], answer["frame.comment"]) == ("", "")
    assert answer["dns.a"].split(",") == [f"192.0.2.{number}" for number in range(1, 60)]


def test_several_messages_of_a_connection(serve: Serve) -> None:
    """Wireshark reads none of them as a repetition."""
    server = serve(corefile(), prepare=prepare)
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        for name in ("a.test", "b.test", "c.test"):
            dns.query.send_tcp(connection, dns.message.make_query(name, "A"))
            dns.query.receive_tcp(connection)
    capture = next(path for path in dump(server)["files"] if path.endswith("pcapng"))
    assert [packet["dns.qry.name"] for packet in packets(server, capture)] == ["a.test", "a.test", "b.test", "b.test", "c.test", "c.test"]


def test_the_bench_reads_the_questions(serve: Serve) -> None:
    from fastdns.bench.workloads.recorded import read_recorded

    server = serve(corefile(), prepare=prepare)
    server.query("a.test")
    server.query("b.test", "AAAA", tcp=True)
    for path in dump(server)["files"]:
        assert [(question.name, question.type) for question in read_recorded(path, server.port)] == [("a.test.", 1), ("b.test.", 28)]


def test_shadow_compares_the_replies_that_were_kept(serve: Serve) -> None:
    """And no rebuilt ones, also where both are of one connection; the planted wrong answer is found."""
    names = [f"n{number}.test" for number in range(20)]
    with Upstream(lambda request: reply(request, "@ 5 A 192.0.2.1")) as upstream:
        server = serve(corefile(f"acl {{\n block net 127.0.0.2\n block type TXT\n }}\n forward . {upstream.address}"), prepare=prepare)
        for name in names:
            server.query(name)
        with socket.create_connection(("127.0.0.1", server.port)) as connection:
            for name, kind in (("a.test", "A"), ("b.test", "TXT"), ("c.test", "A"), ("d.test", "TXT")):
                dns.query.send_tcp(connection, dns.message.make_query(name, kind))
                dns.query.receive_tcp(connection)
        files = dump(server)["files"]
        for path in files:
            status, report = shadow("-against", f"127.0.0.1:{server.port}", "-port", server.port, path)
            assert (status, report["questions"], report["same"], report["differences"]) == (0, 2, 2, {}), path
    with Upstream(lambda request: reply(request, rcode=5 if request.question[0].name.to_text() == "b.test." else 0)) as wrong:
        for path in files:
            status, report = shadow("-against", wrong.address, "-port", server.port, path)
            assert (status, report["same"], report["differences"], report["kept"][0]["name"]) == (1, 1, {"rcode": 1}, "d.test."), path


def test_permissions_and_bounds(serve: Serve) -> None:
    def begin(folder: Path) -> None:
        prepare(folder)
        (folder / "r" / ".recorder-old").touch()

    server = serve(corefile(options="").replace("{dir}/r", "{dir}/r 4 1MiB"), prepare=begin)
    folder = server.folder / "r"
    server.query("a.test")
    assert not (folder / ".recorder-old").exists(), "a process that ended while it wrote has left it"
    (folder / "mine.txt").touch()
    written = [path for _ in range(4) for path in dump(server)["files"]]
    assert len(set(written)) == 8
    assert sorted(entry.name for entry in os.scandir(folder)) == sorted([*(Path(path).name for path in written[-4:]), "mine.txt"])
    for path in written[-4:]:
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    listed = control.ask({"command": "recorder", "action": "list"}, server.pid)["files"]
    assert [(file["path"], file["octets"]) for file in listed] == [(path, os.path.getsize(path)) for path in sorted(written[-4:])]


def test_octets_of_the_folder_are_bounded(serve: Serve) -> None:
    server = serve(corefile(options="").replace("{dir}/r", "{dir}/r 100 1MiB"), "-workers", "1", prepare=prepare)
    for number in range(3000):
        server.query(f"n{number}.test")
    for _ in range(3):
        written = dump(server)
    assert 500 < written["queries"] < 3000, "one file may take half of it"
    total = sum(entry.stat().st_size for entry in os.scandir(server.folder / "r"))
    assert 100_000 < total <= 1 << 20
    capture = next(path for path in written["files"] if path.endswith("pcapng"))
    assert packets(server, capture)[-1]["dns.qry.name"] == "n2999.test"


def test_a_folder_that_cannot_be_written_harms_nobody(serve: Serve) -> None:
    """It is not there: as on a root file system that is read only."""
    server = serve(corefile(above="prometheus 127.0.0.1:{port2}"))
    server.wait_log(r"\[ERROR\] plugin/recorder: recordings cannot be written to .*/r: No such file or directory")
    server.query("a.test")
    with pytest.raises(ValueError, match="the files could not be written: the server's log says why"):
        dump(server)
    server.wait_log(r"\[ERROR\] plugin/recorder: cannot write .*/r/recorder-\S+-command\.pcapng: No such file or directory")
    assert server.metric(server.ports["port2"], "fastdns_recorder_file_errors_total") == 2
    server.query("b.test")


def test_a_full_disk_leaves_no_part_of_a_file(serve: Serve) -> None:
    """A limit of the size of files stands for it: the write fails in the middle of the file. The log stays below."""
    server = serve(corefile(), prepare=prepare)
    for number in range(400):
        server.query(f"n{number}.test")
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (40_000, resource.RLIM_INFINITY))
    with pytest.raises(ValueError, match="could not be written"):
        dump(server)
    server.wait_log(r"cannot write .*pcapng: File too large")
    assert list((server.folder / "r").iterdir()) == []
    server.query("b.test")


# ---- rules ----


def written_by_rule(server: Server) -> list[str]:
    return sorted(entry.name for entry in os.scandir(server.folder / "r") if entry.name.endswith("pcapng"))


def test_failures_have_it_written_once(serve: Serve) -> None:
    with Upstream(lambda request: reply(request, rcode=2)) as upstream:
        rules = "        when servfail > 20% over 2s\n        when p99 > 8s"
        server = serve(corefile(f"forward . {upstream.address}", rules, above="prometheus 127.0.0.1:{port2}"), prepare=prepare)

        def ask() -> list[str]:
            for number in range(40):
                server.query(f"n{number}.test")
            return written_by_rule(server)

        [name] = until(ask, "the recording")
        ask()
        assert written_by_rule(server) == [name]
    assert name.endswith("-servfail.pcapng")
    server.wait_log(r"\[INFO\] plugin/recorder: \d+ queries written to .*: servfail > 20% over 2s: 1")
    assert server.metric(server.ports["port2"], 'fastdns_events_total{kind="recording"}') == 1
    assert packets(server, str(server.folder / "r" / name))[0]["dns.qry.name"] == "n0.test"


def test_slow_answers_have_it_written(serve: Serve) -> None:
    def late(request: dns.message.Message) -> dns.message.Message:
        time.sleep(0.02)
        return reply(request, "@ 5 A 192.0.2.1")

    with Upstream(late) as upstream:
        server = serve(corefile(f"forward . {upstream.address}", "        when p99 > 10ms", above="prometheus 127.0.0.1:{port2}"), prepare=prepare)

        def ask() -> list[str]:
            for number in range(10):
                server.query(f"n{number}.test")
            return written_by_rule(server)

        [name] = until(ask, "the recording")
    assert name.endswith("-p99.pcapng")


def test_a_metric_has_it_written(serve: Serve) -> None:
    rule = '        when "coredns_dns_requests_total{type=\\"TXT\\",proto=\\"udp\\"}" > 3 over 1s'
    server = serve(corefile(options=rule, above="prometheus 127.0.0.1:{port2}"), prepare=prepare)

    def ask(rdtype: str) -> list[str]:
        for number in range(20):
            server.query(f"n{number}.test", rdtype)
        return written_by_rule(server)

    assert ask("A") == []
    [name] = until(lambda: ask("TXT"), "the recording")
    assert name.endswith("-coredns-dns-requests-total.pcapng")


def test_a_rule_needs_the_metrics_that_it_reads(serve: Serve) -> None:
    server = serve(corefile(options="        when p99 > 10ms"), wait=False)
    assert server.exit_status() == 1
    assert "plugin/recorder: 'when p99' needs prometheus in the server block" in server.log()


# ---- the command ----


def command(server: Server, *words: str) -> str:
    from tests.server import command as fastdns

    done = subprocess.run([*fastdns(), "recorder", *words, "-pid", str(server.pid)], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def test_the_command(serve: Serve) -> None:
    server = serve(corefile("acl {\n block type TXT\n }\n whoami"), prepare=prepare)
    server.query("a.test")
    server.query("b.test", "TXT")
    shown = command(server).splitlines()
    assert [line.split()[3:6] for line in shown[:2]] == [["a.test.", "A", "NOERROR"], ["b.test.", "TXT", "REFUSED"]]
    assert shown[2].startswith("2 of 2 queries, which take ")
    kept = command(server, "show", "-which", "failed")
    assert re.search(r"^    acl +answered +.*block", kept, re.M)
    assert "a.test" not in kept
    assert command(server, "dump").startswith("2 queries\n")
    assert len(command(server, "list").splitlines()) == 2
    assert "recorder does one of show, dump, list" in command(server, "play")
    assert "which is one of recent" in command(server, "-which", "x")
