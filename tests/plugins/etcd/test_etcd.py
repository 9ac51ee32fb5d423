"""The directive, messages, and how etcd is followed: changes, leases, outages, users."""

from __future__ import annotations

import subprocess
from asyncio import run
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dns.message
import dns.rcode
import pytest

from fastdns.corefile import CorefileError
from fastdns.plugins.etcd import Settings, context, parse
from fastdns.plugins.etcd._snapshot import HOST_4, HOST_6, HOST_BROKEN, HOST_NAME, HOST_NONE, HOST_TEXT
from fastdns.plugins.etcd.gateway import EtcdError, Gateway
from fastdns.plugins.etcd.message import domain, path_of, row
from fastdns.setup import Controller
from tests.etcd import Etcd, coded
from tests.programs import program
from tests.server import Server
from tests.waiting import until

LOCAL = ["http://localhost:2379"]

# ---- the directive ----


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("etcd", Settings(["example.org."])),
        ("etcd Skydns.Test 10.0.0.0/8 {\n path /x/y\n endpoint http://a:1 b\n}", Settings(["skydns.test.", "10.in-addr.arpa."], "/x/y", ["http://a:1", "b"])),
        ("etcd {\n credentials me secret\n fallthrough\n}", Settings(["example.org."], user="me", password="secret", fallthrough=["."])),
        ("etcd {\n tls\n}", Settings(["example.org."], tls=[])),
        ("etcd {\n tls cert key ca\n}", Settings(["example.org."], tls=["cert", "key", "ca"])),
        ("etcd {\n min-lease-ttl 7\n max-lease-ttl 2h30m\n}", Settings(["example.org."], least=7, most=9000)),
        ("etcd {\n min-lease-ttl 0\n max-lease-ttl 0s\n}", Settings(["example.org."])),
        ("etcd {\n no_apex_fallback\n}", Settings(["example.org."], no_apex_fallback=True)),
        ("etcd {\n stubzones\n debug\n upstream 192.0.2.1\n}", Settings(["example.org."])),
        ("etcd a.test {\n path one\n}\netcd b.test {\n path two\n}", Settings(["a.test."], "one")),
    ],
)
def test_properties(text: str, wanted: Settings) -> None:
    assert parse(Controller.of(text, ["example.org"])) == wanted


FORMAT = "invalid TTL format, use format like '30', '30s', '5m', '1h', or '2h30m'"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("path", "Wrong argument count or unexpected line ending after 'path'"),
        ("endpoint", "Wrong argument count or unexpected line ending after 'endpoint'"),
        ("credentials", "Wrong argument count or unexpected line ending after 'credentials'"),
        ("credentials me", "credentials requires 2 arguments, username and password"),
        ("tls a b c d", "maximum of three arguments allowed for TLS config, found 4"),
        ("min-lease-ttl", "Wrong argument count or unexpected line ending after 'min-lease-ttl'"),
        ("min-lease-ttl soon", f"invalid min-lease-ttl value: {FORMAT}"),
        ("max-lease-ttl -5s", "invalid max-lease-ttl value: TTL must be non-negative"),
        ("max-lease-ttl 1200000h", "invalid max-lease-ttl value: TTL too large, maximum is 4294967295 seconds"),
        ("no_apex_fallback x", "Wrong argument count or unexpected line ending after 'x'"),
        ("foo", "unknown property 'foo'"),
    ],
)
def test_errors(text: str, message: str) -> None:
    with pytest.raises(CorefileError) as caught:
        parse(Controller.of(f"etcd {{\n {text}\n}}", ["example.org"]))
    assert str(caught.value).endswith(message)


def test_certificates_that_are_not_there(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no certificate")
    for files, message in (
        (["nosuch"], "error reading nosuch: open nosuch: no such file or directory"),
        ([str(tmp_path / "text")], "could not read root certs"),
        (["cert", "key"], "could not load TLS cert: open cert: no such file or directory"),
    ):
        with pytest.raises(CorefileError) as caught:
            context(files)
        assert str(caught.value) == message


# ---- messages ----


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ('{"host": "192.0.2.1"}', HOST_4),
        ('{"host": "::ffff:192.0.2.1"}', HOST_4),
        ('{"host": "2001:db8::1", "text": "x"}', HOST_6),
        ('{"host": "a.test"}', HOST_NAME),
        ('{"host": "192.0.2"}', HOST_NAME),
        ('{"host": "a.test", "text": "x"}', HOST_TEXT),
        ('{"text": "x"}', HOST_TEXT),
        ("{}", HOST_NONE),
        ('{"host": null, "TTL": 5, "other": {}}', HOST_NONE),
        ('{"text": "\\ud800", "group": "\\udfff"}', HOST_TEXT),
        ('{"host": "\\ud800"}', HOST_NAME),
        *((text, HOST_BROKEN) for text in ("", "x", "[]", "5", "null", '{"host": 5}', '{"port": "80"}', '{"ttl": -1}', '{"ttl": 4294967296}', '{"mail": 1}')),
        ('{"port": 1.5}', HOST_BROKEN),
        ("[" * 100_000, HOST_BROKEN),
    ],
)
def test_messages(value: str, kind: int) -> None:
    made = row("/skydns/", b"/skydns/test/a", value.encode(), 3)
    assert made is not None
    assert made[:2] == (b"test/a", kind)
    if kind == HOST_BROKEN:
        assert made[2].startswith(b"/skydns/test/a: ")
        assert made[2].endswith(b"\0")


def test_numbers_of_messages() -> None:
    made = row("/p/", b"/p/test/a", b'{"host":"b.test","port":-1,"weight":99999999999,"targetstrip":999,"ttl":4294967295,"group":"g","mail":true}', 3)
    assert made == (b"test/a", HOST_NAME, b"\1b\4test\0", b"", b"\1a\4test\0", b"", b"g", True, 4294967295, 3, -1, 10, 2**31 - 1, 255, True)


def test_keys_and_names() -> None:
    assert [path_of(path) for path in ("skydns", "/skydns", "skydns/", "//a//b/", "/")] == ["/skydns/"] * 3 + ["/a/b/", "/"]
    assert [domain(key) for key in ("/skydns/test/a", "/skydns/test/a/", "/p/q/test")] == ["a.test.", "a.test.", "test.q."]
    assert row("/p/", b"/p/", b"{}", -1) is None
    assert row("/p/", b"/p/" + b"x" * 255, b"{}", -1) is None
    long = row("/p/", b"/p/test/" + b"x" * 64, b'{"host": "192.0.2.1"}', -1)
    assert long is not None
    assert long[4] == b""  # a label that no name has: no record can point to it


# ---- following ----


def block(url: str, *properties: str) -> str:
    return f"zone.test:{{port}} {{\n bind 127.0.0.1\n etcd {{\n endpoint {url}\n {chr(10).join(properties)}\n }}\n}}"


def test_changes_are_followed(serve: Callable[..., Server], etcd: Etcd) -> None:
    etcd.clear()
    server = serve(block(etcd.url))
    assert server.answers("a.zone.test") == ["NXDOMAIN"]
    etcd.put("/skydns/test/zone/a", {"host": "192.0.2.1"})
    server.until("a.zone.test", "A", ["192.0.2.1"])
    etcd.put("/skydns/test/zone/a", {"host": "192.0.2.2"})
    server.until("a.zone.test", "A", ["192.0.2.2"])
    etcd.put("/skydns/test/zone/a/b", {"host": "192.0.2.3"})
    server.until("a.zone.test", "A", ["192.0.2.3"])
    etcd.put("/skydns/test/zone/a", "broken")
    etcd.delete("/skydns/test/zone/a/b")
    server.until("a.zone.test", "A", ["SERVFAIL"])
    etcd.delete("/skydns/test/zone/a")
    server.until("a.zone.test", "A", ["NXDOMAIN"])


def test_a_burst_of_changes_ends_in_the_last(serve: Callable[..., Server], etcd: Etcd) -> None:
    etcd.clear()
    server = serve(block(etcd.url))
    for number in range(300):
        etcd.put("/skydns/test/zone/a", {"host": f"192.0.2.{number % 250}"})
    server.until("a.zone.test", "A", ["192.0.2.49"])


def ttl(server: Server, name: str) -> int:
    answer = server.query(name).answer
    return int(answer[0].ttl) if answer else 0


def test_leases_bound_the_ttl(serve: Callable[..., Server], etcd: Etcd) -> None:
    etcd.clear()
    for name, seconds, own in (("long", 5000, 0), ("own", 5000, 77), ("huge", 500_000, 0)):
        lease = etcd.call("lease/grant", TTL=str(seconds))["ID"]
        etcd.put(f"/skydns/test/zone/{name}", {"host": "192.0.2.1", "ttl": own}, lease=lease)
    server = serve(block(etcd.url))
    assert 4900 < ttl(server, "long.zone.test") <= 5000
    assert ttl(server, "own.zone.test") == 77
    assert ttl(server, "huge.zone.test") == 86400
    bounded = serve(block(etcd.url, "min-lease-ttl 2h", "max-lease-ttl 100h"))
    assert ttl(bounded, "long.zone.test") == 7200
    assert ttl(bounded, "huge.zone.test") == 360_000
    brief = etcd.call("lease/grant", TTL="3")["ID"]
    etcd.put("/skydns/test/zone/brief", {"host": "192.0.2.1"}, lease=brief)
    until(lambda: server.answers("brief.zone.test") == ["192.0.2.1"], "the record of a brief lease")
    until(lambda: server.answers("brief.zone.test") == ["NXDOMAIN"], "the end of the lease")


def test_a_start_without_etcd(serve: Callable[..., Server], new_etcd: Callable[[], Etcd]) -> None:
    etcd = new_etcd()
    server = serve(block(etcd.url))
    reply = server.query("a.zone.test")
    assert reply.rcode() == dns.rcode.SERVFAIL
    assert reply.authority[0].name.to_text() == "zone.test."
    assert len(server.query("zone.test", "SOA").answer) == 1
    server.wait_log(r"\[ERROR\] plugin/etcd: Failed to follow etcd: 127\.0\.0\.1:\d+: .*refused")
    etcd.start()
    server.until("a.zone.test", "A", ["NXDOMAIN"])
    etcd.put("/skydns/test/zone/a", {"host": "192.0.2.1"})
    server.until("a.zone.test", "A", ["192.0.2.1"])


def test_what_is_known_outlives_etcd(serve: Callable[..., Server], new_etcd: Callable[[], Etcd]) -> None:
    """Changes of the time between are found, even if their history was compacted away."""
    etcd = new_etcd()
    etcd.start()
    etcd.put("/skydns/test/zone/a", {"host": "192.0.2.1"})
    etcd.put("/skydns/test/zone/b", {"host": "192.0.2.2"})
    server = serve(block(f"http://127.0.0.1:1 {etcd.url}"))
    assert server.answers("a.zone.test") == ["192.0.2.1"]
    etcd.stop()
    server.wait_log("Failed to follow etcd")
    assert server.answers("a.zone.test") == ["192.0.2.1"]
    etcd.start()
    etcd.delete("/skydns/test/zone/b")
    revision = etcd.put("/skydns/test/zone/a", {"host": "192.0.2.9"})
    etcd.call("kv/compaction", revision=str(revision))
    server.until("a.zone.test", "A", ["192.0.2.9"])
    server.until("b.zone.test", "A", ["NXDOMAIN"])


def test_a_reload_follows_anew_and_leaves_nothing_behind(serve: Callable[..., Server], etcd: Etcd) -> None:
    etcd.clear()
    etcd.put("/skydns/test/zone/a", {"host": "192.0.2.1"})
    etcd.put("/other/test/zone/a", {"host": "192.0.2.2"})
    server = serve(block(etcd.url))
    server.reload(block(etcd.url, "path first"))  # with which the thread that collects former configurations begins
    threads, descriptors = server.threads(), server.descriptors()
    for path, address in (("other", "192.0.2.2"), ("skydns", "192.0.2.1")) * 3:
        server.reload(block(etcd.url, f"path {path}"))
        assert server.answers("a.zone.test") == [address]
    until(lambda: server.threads() <= threads and server.descriptors() <= descriptors + 1, "the end of the old ones")


# ---- users and TLS ----


def test_users(serve: Callable[..., Server], new_etcd: Callable[[], Etcd]) -> None:
    etcd = new_etcd()
    etcd.start()
    etcd.put("/skydns/test/zone/a", {"host": "192.0.2.1"})
    etcd.call("auth/user/add", name="root", password="secret")
    etcd.call("auth/role/add", name="root")
    etcd.call("auth/user/grant", user="root", role="root")
    etcd.call("auth/user/add", name="dns", password="word")
    etcd.call("auth/role/add", name="reader")
    etcd.call("auth/role/grant", name="reader", perm={"permType": "READ", "key": coded("/skydns/"), "range_end": coded("/skydns0")})
    etcd.call("auth/user/grant", user="dns", role="reader")
    etcd.call("auth/enable")
    server = serve(block(etcd.url, "credentials dns word"))
    assert server.answers("a.zone.test") == ["192.0.2.1"]
    token = etcd.call("auth/authenticate", name="root", password="secret")["token"]
    etcd.put("/skydns/test/zone/a", {"host": "192.0.2.2"}, token=token)
    server.until("a.zone.test", "A", ["192.0.2.2"])
    refused = serve(block(etcd.url, "credentials dns wrong"), wait=False)
    refused.wait_log(r"plugin/etcd: 127\.0\.0\.1:\d+: .*authentication failed")
    assert refused.process.wait() == 1
    without = serve(block(etcd.url))
    without.wait_log("Failed to follow etcd")
    assert without.answers("a.zone.test") == ["SERVFAIL"]
    # While etcd is away, the start does not wait for it; the user is known once it is back.
    etcd.stop()
    early = serve(block(etcd.url, "credentials dns word"))
    early.wait_log("Failed to follow etcd")
    assert early.answers("a.zone.test") == ["SERVFAIL"]
    etcd.start()
    early.until("a.zone.test", "A", ["192.0.2.2"])
    # A token that etcd no longer knows is renewed.
    gateway = Gateway([etcd.url], None, "dns", "word")
    run(gateway.authenticate())
    gateway.token = "unknown"
    assert [kv[0] for kv in run(gateway.range("/skydns/"))[0]] == [b"/skydns/test/zone/a"]


def test_tls(serve: Callable[..., Server], etcd_program: str, tmp_path: Path) -> None:
    def openssl(*words: str) -> None:
        subprocess.run([program("openssl"), *words], check=True, capture_output=True, cwd=tmp_path)

    (tmp_path / "names").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "ca.key", "-out", "ca.crt", "-subj", "/CN=ca", "-days", "2")
    for name in ("server", "client"):
        openssl("req", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        openssl(*f"x509 -req -in {name}.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 -extfile names -out {name}.crt".split())
    etcd = SecureEtcd(etcd_program, tmp_path)
    try:
        etcd.start()
        run(etcd.gateway.call("/v3/kv/put", {"key": coded("/skydns/test/zone/a"), "value": coded('{"host": "192.0.2.1"}')}))
        server = serve(block(etcd.url, f"tls {tmp_path}/client.crt {tmp_path}/client.key {tmp_path}/ca.crt"))
        assert server.answers("a.zone.test") == ["192.0.2.1"]
        stranger = serve(block(etcd.url, f"tls {tmp_path}/ca.crt"))
        stranger.wait_log("Failed to follow etcd")
        assert stranger.answers("a.zone.test") == ["SERVFAIL"]
    finally:
        etcd.stop()


class SecureEtcd(Etcd):
    """Takes clients with a certificate of the CA in its folder only."""

    def __init__(self, program: str, folder: Path) -> None:
        super().__init__(program, folder)
        self.url = self.url.replace("http:", "https:")
        files = [str(folder / name) for name in ("client.crt", "client.key", "ca.crt")]
        self.gateway = Gateway([self.url], context(files))
        wrapper = folder / "etcd-with-tls"
        flags = f"--cert-file {folder}/server.crt --key-file {folder}/server.key --client-cert-auth --trusted-ca-file {folder}/ca.crt"
        wrapper.write_text(f'#!/bin/sh\nexec {program} {flags} "$@"\n')
        wrapper.chmod(0o755)
        self.program = str(wrapper)

    def answers(self) -> bool:
        try:
            run(self.gateway.range("/"))
        except EtcdError:
            return False
        return True


def test_a_gateway_says_what_is_wrong(etcd: Etcd) -> None:
    with pytest.raises(EtcdError, match=r"127\.0\.0\.1:1: .*refused; localhost:1: "):
        run(Gateway(["http://127.0.0.1:1", "localhost:1"]).range("/skydns/"))
    gateway = Gateway([etcd.url])
    with pytest.raises(EtcdError, match="404|[Nn]ot [Ff]ound"):
        run(gateway.call("/v3/nothing", {}))


def test_records_say_where_they_end(etcd: Etcd) -> None:
    """The range of a path has no keys of one that begins with the same letters."""
    etcd.clear()
    keys: dict[str, Any] = {"/skydns/a": {}, "/skydnsx/b": {}, "/skydn": {}, "/skydns": {}, "/skydns0": {}, "/skydns/z/z": {}}
    for key, value in keys.items():
        etcd.put(key, value)
    kvs, revision = run(Gateway([etcd.url]).range("/skydns/"))
    assert [key for key, _, _ in kvs] == [b"/skydns/a", b"/skydns/z/z"]
    assert revision > 0
