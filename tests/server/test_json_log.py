"""``-log-format json``: an object a line, whatever clients send. The members are CoreDNS 1.15.0's, and what is known of the client's pod."""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dns.flags
import dns.message
import dns.name
import dns.rdataclass
import pytest

from tests.server import Server, command
from tests.waiting import LIMIT, until

Serve = Callable[..., Server]

COREFILE = """
.:{port} {
    bind 127.0.0.1 ::1
    log . "{name} {rcode}"
    errors
    whoami
}
fail.test:{port} {
    bind 127.0.0.1 ::1
    errors
    log
    forward . 127.0.0.1:{port2}
}
alike.test:{port} {
    bind 127.0.0.1
    errors {
        consolidate 1s ".*refused.*" warning
    }
    forward . 127.0.0.1:{port2}
}
some_drop.test:{port} {
    bind 127.0.0.1
    acl {
        drop
    }
    log
    whoami
}
"""
KEYS = ["time", "level", "msg"]
QUERY = ["client_ip", "client_port", "qname", "qtype", "qclass", "protocol", "id", "opcode", "request_size", "dnssec_ok", "bufsize", "rcode", "response_size"]


def records(server: Server) -> list[dict[str, Any]]:
    """The whole log: each line must be an object."""
    return [json.loads(line) for line in server.log().splitlines()]


def queries(server: Server, number: int) -> list[dict[str, Any]]:
    """Records of *log*, once there are so many."""
    until(lambda: len([record for record in records(server) if record.get("plugin") == "log"]) >= number, f"{number} lines of queries")
    return [record for record in records(server) if record.get("plugin") == "log"]


@pytest.fixture
def server(serve: Serve) -> Server:
    return serve(COREFILE, "-log-format", "json")


def test_the_start(server: Server) -> None:
    """A record for the zones of each address, one for the version."""
    until(lambda: len(records(server)) == 3, "the start")
    first, second, version = records(server)
    port = server.port
    assert [list(record) for record in (first, second, version)] == [KEYS] * 3
    assert {record["level"] for record in (first, second, version)} == {"INFO"}
    zones = [f".:{port}", f"alike.test.:{port}", f"fail.test.:{port}"]
    warning = f'Warning: Domain "some_drop.test." does not follow RFC1035 preferred syntax\nsome_drop.test.:{port} on 127.0.0.1'
    assert first["msg"] == "\n".join([*(f"{zone} on 127.0.0.1" for zone in zones), warning])
    assert second["msg"] == f".:{port} on ::1\nfail.test.:{port} on ::1"
    assert version["msg"].startswith("fastdns-")


def test_a_query(server: Server) -> None:
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as client:
        client.connect(("::1", server.port))
        query = dns.message.make_query("WWW.Example.ORG", "TYPE4711", id=4242, want_dnssec=True, payload=1400)
        client.send(query.to_wire())
        client.settimeout(LIMIT)
        reply = dns.message.from_wire(client.recv(4096))
        port = client.getsockname()[1]
    (record,) = queries(server, 1)
    assert list(record) == [*KEYS, "plugin", *QUERY, "duration_seconds"]
    wanted = ["::1", port, "www.example.org.", "TYPE4711", "IN", "udp", 4242, 0, len(query.to_wire()), True, 1400, "NOERROR"]
    assert [record[key] for key in QUERY[:-1]] == wanted
    assert (record["level"], record["msg"]) == ("INFO", "www.example.org. NOERROR")
    assert record["response_size"] >= len(reply.to_wire())
    assert 0 < record["duration_seconds"] < LIMIT


@pytest.mark.parametrize(("topology", "node"), [("", {}), ("topology zone", {"client_node": "node1"})])
def test_pods_of_clients(serve: Serve, tmp_path: Path, topology: str, node: dict[str, str]) -> None:
    """What *top* tells clients apart by stands behind CoreDNS's members; nothing of a client that is no pod."""
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "crawler", "namespace": "batch-jobs"},
        "spec": {"nodeName": "node1"},
        "status": {"podIP": "127.0.0.42", "phase": "Running"},
    }
    (tmp_path / "pods.json").write_text(json.dumps(pod))
    block = f"kubernetes cluster.local {{\n manifests {tmp_path}/pods.json\n pods verified\n {topology}\n }}"
    server = serve(f".:{{port}} {{\n bind 127.0.0.1\n log\n {block}\n whoami\n}}", "-log-format", "json")
    longest = dns.name.Name([b"\x01" * 63, b'"' * 63, b"\\" * 63, b"\n" * 61, b""])
    for source, name in (("127.0.0.42", "example.org"), ("127.0.0.1", "example.org"), ("127.0.0.42", longest)):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.bind((source, 0))
            client.settimeout(LIMIT)
            client.sendto(dns.message.make_query(name, "A").to_wire(), ("127.0.0.1", server.port))
            client.recv(4096)
    known, unknown, long = queries(server, 3)
    members = [*KEYS, "plugin", *QUERY, "duration_seconds"]
    wanted = {"client_namespace": "batch-jobs", "client_pod": "crawler", **node}
    for record in (known, long):
        assert list(record) == [*members, *wanted]
        assert {key: record[key] for key in wanted} == wanted
    assert list(unknown) == members


def test_failures_and_drops(server: Server) -> None:
    """A failure has the reply that the server makes; what is dropped has none."""
    assert server.query("x.fail.test", tcp=True, id=7, flags=dns.flags.CD).rcode() == dns.rcode.SERVFAIL
    with pytest.raises(dns.exception.Timeout):
        server.query("x.some_drop.test", timeout=0.2)
    server.query("x.example.org", rdclass=dns.rdataclass.HS)
    failed, dropped, hesiod = queries(server, 3)
    assert [failed[key] for key in ("client_ip", "qname", "protocol", "id", "bufsize", "rcode")] == ["127.0.0.1", "x.fail.test.", "tcp", 7, 65535, "SERVFAIL"]
    assert failed["msg"].startswith("127.0.0.1:")
    assert '"A IN x.fail.test. tcp ' in failed["msg"]
    assert (dropped["qname"], dropped["rcode"], dropped["response_size"]) == ("x.some_drop.test.", None, 0)
    assert hesiod["qclass"] == "HS"
    (error,) = [record for record in records(server) if record.get("plugin") == "errors"]
    assert list(error) == [*KEYS, "plugin"]
    assert error["level"] == "ERROR"
    assert error["msg"].startswith("2 x.fail.test. A: dial tcp 127.0.0.1:")


def test_consolidated_errors(server: Server) -> None:
    server.query("x.alike.test", tcp=True)
    until(lambda: any("errors like" in record["msg"] for record in records(server)), "the end of the period")
    (warning,) = [record for record in records(server) if record.get("plugin") == "errors"]
    assert (warning["level"], warning["msg"]) == ("WARN", "1 errors like '.*refused.*' occurred in last 1s")


def test_no_name_forges_a_record(server: Server) -> None:
    """Names of all octets, the longest one of them included: a line stays one object, and has the name as zone files do."""
    labels = [bytes([octet, octet]) for octet in range(256)]
    names = [dns.name.Name([label, b"example", b"org", b""]) for label in labels]
    names.append(dns.name.Name([b"\x01" * 63, b'"' * 63, b"\\" * 63, b"\n" * 61, b""]))
    names.append(dns.name.Name([b'","rcode":"x', b"org", b""]))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.connect(("127.0.0.1", server.port))
        client.settimeout(LIMIT)
        for number, name in enumerate(names):
            client.send(struct.pack("!6H", number, 0, 1, 0, 0, 0) + name.to_wire() + struct.pack("!2H", 1, 1))
            client.recv(4096)
    found = queries(server, len(names))
    assert [record["id"] for record in found] == list(range(len(names)))
    for record, name in zip(found, names, strict=True):
        assert dns.name.from_text(record["qname"]) == name
        assert record["qname"].isascii()
        assert record["qname"].isprintable()
        assert record["msg"] == f"{record['qname']} NOERROR"
        assert record["rcode"] == "NOERROR"


def test_reload_and_end(server: Server) -> None:
    server.reload("nowhere.test:{port} {\n    bind 127.0.0.1\n    whoami\n}\n")
    server.write("broken {\n")
    server.signal(signal.SIGUSR1)
    server.wait_log("Restart failed")
    assert server.stop() == 0
    levels = {record["msg"].partition(":")[0]: record["level"] for record in records(server)}
    assert levels["Reloading complete"] == "INFO"
    assert levels["Restart failed"] == "ERROR"
    assert levels["SIGTERM"] == "INFO"


def run(*words: str, folder: Path) -> tuple[int, str, str]:
    done = subprocess.run([*command(), *words], capture_output=True, cwd=folder, timeout=LIMIT, env={**os.environ}, stdin=subprocess.DEVNULL)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def test_a_start_that_fails(tmp_path: Path) -> None:
    (tmp_path / "Corefile").write_text(".:1 {\n    nonsense\n}\n")
    status, out, err = run("-log-format=json", folder=tmp_path)
    record = json.loads(err)
    assert (status, out, list(record), record["level"]) == (1, "", KEYS, "FATAL")
    assert record["msg"].endswith("Corefile:2 - Error during parsing: Unknown directive 'nonsense'")
    status, out, err = run("-log-format=json", "word", folder=tmp_path)
    assert (status, out, json.loads(err)["msg"]) == (1, "", "extra command line arguments: [word]")


@pytest.mark.parametrize("form", ["xml", "", "JSON"])
def test_another_format(form: str, tmp_path: Path) -> None:
    status, out, err = run(f"-log-format={form}", "word", folder=tmp_path)
    assert (status, out) == (1, "")
    assert err.endswith(f'unknown log format "{form}": expected text or json\n')


def test_text_is_the_default(serve: Serve) -> None:
    server = serve(".:{port} {\n    bind 127.0.0.1\n    log\n    whoami\n}\n", "-log-format", "text")
    server.query("example.org")
    server.wait_log(r'^\[INFO\] 127\.0\.0\.1:\d+ - \d+ "A IN example\.org\. ')
