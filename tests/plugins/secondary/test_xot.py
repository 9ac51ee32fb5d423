"""Zone transfers over TLS (RFC 9103), from and to servers of others and of our own."""

from __future__ import annotations

import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import dns.exception
import dns.message
import dns.query
import pytest

from tests.certificates import write_certificate, write_certificates
from tests.plugins.secondary.primary import Primary
from tests.plugins.secondary.test_secondary import zone
from tests.programs import environment, program
from tests.server import Server, free_port
from tests.waiting import REPLY, until

Serve = Callable[..., Server]
Make = Callable[..., Primary]

#: More than a message holds.
MANY = "".join(f"h{number} 60 IN A 192.0.2.{number % 250}\n" for number in range(4000))


@pytest.fixture
def certificates(tmp_path: Path) -> Path:
    folder = tmp_path / "certificates"
    folder.mkdir()
    return write_certificates(folder)


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    started: list[subprocess.Popen[bytes]] = []

    def start(name: str, *args: str, configuration: str) -> subprocess.Popen[bytes]:
        """A program of others with its configuration in the file whose name follows ``args``."""
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        (folder / "config").write_text(configuration)
        with (folder / "log").open("wb") as log:
            command = [program(name), *args, str(folder / "config")]
            started.append(subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment()))
        return started[-1]

    yield start
    for one in started:
        one.terminate()
    for one in started:
        one.wait(20)


def serial_at(port: int) -> int | None:
    try:
        reply = dns.query.udp(dns.message.make_query("example.org.", "SOA"), "127.0.0.1", port=port, timeout=1)
    except (OSError, dns.exception.Timeout):
        return None
    return int(reply.answer[0][0].serial) if reply.answer else None


def secondary(port: int, certificates: Path, more: str = "", name: str = "server.test", files: str = "") -> str:
    files = files or str(certificates / "ca.pem")
    return (
        f"example.org:{{port}} {{\n    secondary {{\n        transfer from tls://127.0.0.1:{port}\n"
        f"        tls {files}\n        tls_servername {name}\n        {more}\n    }}\n}}\n"
    )


def client_files(certificates: Path) -> str:
    return " ".join(str(certificates / name) for name in ("client.pem", "client.key", "ca.pem"))


def primary_of_ours(port: int, certificates: Path, auth: str = "nocert", zones: str = "example.org", more: str = "") -> str:
    """Of the file db, over TLS and, for tests, over UDP."""
    files = " ".join(str(certificates / name) for name in ("server.pem", "server.key", "ca.pem"))
    block = f"    transfer {{\n        to *\n    }}\n    file db {zones} {{\n        reload 1s\n    }}\n    {more}\n"
    return f"tls://.:{port} {{\n    tls {files} {{\n        client_auth {auth}\n    }}\n{block}}}\n.:{{port}} {{\n{block}}}\n"


def put(text: str) -> Callable[[Path], object]:
    return lambda folder: (folder / "db").write_text(text)


# ---- primaries of others ----

NSD = """
server:
    ip-address: 127.0.0.1@{port}
    ip-address: 127.0.0.1@{tls}
    tls-port: {tls}
    tls-service-key: {certificates}/server.key
    tls-service-pem: {certificates}/server.pem
    tls-cert-bundle: {certificates}/ca.pem
    username: ""
    chroot: ""
    zonesdir: .
    pidfile: nsd.pid
    database: ""
    xfrdfile: xfrd.state
    zonelistfile: zone.list
    xfrdir: .
    server-count: 1
remote-control:
    control-enable: no
tls-auth:
    name: xot
    auth-domain-name: server.test
zone:
    name: example.org
    zonefile: db
    provide-xfr: 127.0.0.0/8 NOKEY
    {role}
"""

BIND = """
tls server {{ cert-file "{certificates}/server.pem"; key-file "{certificates}/server.key"; {client} protocols {{ TLSv1.3; }}; }};
tls xot {{ remote-hostname "server.test"; ca-file "{certificates}/ca.pem"; protocols {{ TLSv1.3; }}; {shown} }};
options {{
    directory "{folder}";
    pid-file none;
    session-keyfile "{folder}/session.key";
    managed-keys-directory "{folder}";
    listen-on port {port} {{ 127.0.0.1; }};
    listen-on port {tls} tls server {{ 127.0.0.1; }};
    listen-on-v6 {{ none; }};
    recursion no;
    dnssec-validation no;
    notify no;
    ixfr-from-differences yes;
}};
controls {{ }};
zone "example.org" {{ {role} file "{folder}/db"; }};
"""

KNOT = """
server:
    listen: 127.0.0.1@{port}
    rundir: .
database:
    storage: .
acl:
  - id: anybody
    address: 127.0.0.0/8
    action: transfer
zone:
  - domain: example.org
    file: db
    storage: {folder}
    acl: anybody
"""

HAPROXY = """
defaults
    mode tcp
    timeout connect 5s
    timeout client 30s
    timeout server 30s
frontend xot
    bind 127.0.0.1:{tls} ssl crt {certificates}/both.pem alpn dot ssl-min-ver TLSv1.3
    default_backend knot
backend knot
    server knot 127.0.0.1:{port}
"""


@pytest.mark.parametrize("kind", ["nsd", "bind", "knot"])
def test_from(serve: Serve, run: Callable[..., subprocess.Popen[bytes]], certificates: Path, tmp_path: Path, kind: str) -> None:
    """BIND requires a certificate of the client; Knot has its TLS from haproxy."""
    port, tls = free_port(), free_port()
    program_ = {"nsd": "nsd", "bind": "named", "knot": "knotd"}[kind]
    folder = tmp_path / program_
    folder.mkdir()
    (folder / "db").write_text(zone(1, "a 60 IN A 192.0.2.1\n" + MANY).replace("@ 60 IN SOA", "$TTL 60\n@ 60 IN SOA"))
    values = {"port": port, "tls": tls, "certificates": certificates, "folder": folder, "client": f'ca-file "{certificates}/ca.pem";', "shown": ""}
    role = {"nsd": "", "bind": "type primary; allow-transfer { any; };", "knot": ""}[kind]
    text = {"nsd": NSD, "bind": BIND, "knot": KNOT}[kind].format(role=role, **values)
    run(program_, *{"nsd": ("-d", "-c"), "bind": ("-f", "-n", "1", "-c"), "knot": ("-c",)}[kind], configuration=text)
    if kind == "knot":
        (certificates / "both.pem").write_text((certificates / "server.pem").read_text() + (certificates / "server.key").read_text())
        run("haproxy", "-f", configuration=HAPROXY.format(**values))
    until(lambda: serial_at(port) == 1, "the primary")
    files = client_files(certificates) if kind == "bind" else ""
    server = serve(secondary(tls, certificates, files=files))
    server.until("a.example.org.", "A", ["192.0.2.1"])
    assert server.answers("h3999.example.org.") == ["192.0.2.249"]
    server.wait_log(rf"\[INFO\] plugin/file: Transferred: example\.org\. from tls://127\.0\.0\.1:{tls}")
    if kind == "bind":
        log = secondary(tls, certificates)
        server.reload(log)  # without a certificate of its own: another primary than before, so the zone is asked for anew
        server.wait_log(r"masters failed to transfer, retrying in .*: ")


# ---- secondaries of others ----


@pytest.mark.parametrize("kind", ["nsd", "bind"])
def test_to(serve: Serve, run: Callable[..., subprocess.Popen[bytes]], certificates: Path, tmp_path: Path, kind: str) -> None:
    """Our certificate is verified by its name; BIND shows one of its own."""
    port, tls, ours = free_port(), free_port(), free_port()
    auth = "require_and_verify" if kind == "bind" else "nocert"
    server = serve(primary_of_ours(ours, certificates, auth), prepare=put(zone(1, "a 60 IN A 192.0.2.1\n" + MANY)))
    program_ = {"nsd": "nsd", "bind": "named"}[kind]
    folder = tmp_path / program_
    folder.mkdir()
    role = {
        "nsd": f"request-xfr: 127.0.0.1@{ours} NOKEY xot\n    allow-notify: 127.0.0.0/8 NOKEY",
        "bind": f"type secondary; primaries {{ 127.0.0.1 port {ours} tls xot; }}; masterfile-format text; min-refresh-time 1; max-refresh-time 1;",
    }[kind]
    shown = f'cert-file "{certificates}/client.pem"; key-file "{certificates}/client.key";'
    values = {"port": port, "tls": tls, "certificates": certificates, "folder": folder, "client": "", "shown": shown}
    text = {"nsd": NSD, "bind": BIND}[kind].format(role=role, **values)
    run(program_, *{"nsd": ("-d", "-c"), "bind": ("-f", "-n", "1", "-c")}[kind], configuration=text)
    until(lambda: serial_at(port) == 1, f"the zone: {(folder / 'log').read_text(errors='replace')[-2000:]}")
    server.wait_log(r'Outgoing transfer of 400\d records of zone "example\.org\." to 127\.0\.0\.1 for 1 SOA serial')


# ---- both ours ----


def test_both_ours_with_client_certificates(serve: Serve, certificates: Path) -> None:
    """Several zones, their questions and their transfers, on one connection."""
    tls, metrics = free_port(), free_port()
    names = [f"z{number}.test" for number in range(10)]
    first = serve(
        primary_of_ours(tls, certificates, "require_and_verify", " ".join(names)), prepare=put("@ 60 IN SOA ns.test. host.test. 1 2 2 86400 60\n" + MANY)
    )
    text = (
        f".:{{port}} {{\n    prometheus 127.0.0.1:{metrics}\n    secondary {' '.join(names)} {{\n        transfer from tls://127.0.0.1:{tls}%server.test\n"
        f"        tls {client_files(certificates)}\n    }}\n}}\n"
    )
    server = serve(text)
    for name in names:
        server.until(f"h3999.{name}.", "A", ["192.0.2.249"])
    made = f'fastdns_secondary_connections_total{{primary="tls://127.0.0.1:{tls}",result="made"}}'
    connections = server.metric(metrics, made)
    assert connections < len(names)
    (first.folder / "db").write_text("@ 60 IN SOA ns.test. host.test. 2 2 2 86400 60\nnew 60 IN A 192.0.2.99\n" + MANY)
    for name in names:
        server.until(f"new.{name}.", "A", ["192.0.2.99"])
    assert server.metric(metrics, made) == connections
    assert "ailed" not in server.log()


def test_a_client_without_a_certificate_gets_nothing(serve: Serve, certificates: Path) -> None:
    tls = free_port()
    serve(primary_of_ours(tls, certificates, "require_and_verify"), prepare=put(zone(1)))
    server = serve(secondary(tls, certificates))
    server.wait_log(r"\[WARNING\] plugin/secondary: All 'example\.org\.' masters failed to transfer")
    assert server.answers("ns.example.org.") == ["SERVFAIL"]


@pytest.mark.parametrize(
    ("name", "authority", "text"),
    [
        ("other.test", "ca", r"tls: failed to verify certificate: .*certificate is not valid for 'other\.test'"),
        ("server.test", "stranger", r"tls: failed to verify certificate: "),
    ],
)
def test_a_primary_that_is_another_one(serve: Serve, certificates: Path, tmp_path: Path, name: str, authority: str, text: str) -> None:
    """The last good zone is served on."""
    tls, store = free_port(), tmp_path / "store"
    store.mkdir()
    serve(primary_of_ours(tls, certificates), prepare=put(zone(1, "a 60 IN A 192.0.2.1\n")))
    server = serve(secondary(tls, certificates, f"store {store}"))
    until((store / "db.example.org").exists, "the zone on disk")
    server.stop()
    server = serve(secondary(tls, certificates, f"store {store}", name, str(certificates / f"{authority}.pem")))
    server.wait_log(r"\[WARNING\] plugin/secondary: Failed retry check " + text)
    assert server.answers("a.example.org.") == ["192.0.2.1"]


def test_certificates_are_read_again(serve: Serve, certificates: Path) -> None:
    """The connection that is kept was made with the former ones: the next question is asked on a new one."""
    tls = free_port()
    first = serve(primary_of_ours(tls, certificates, "require_and_verify"), prepare=put(zone(1, "a 60 IN A 192.0.2.1\n", refresh=1, retry=1)))
    for end in ("pem", "key"):
        (certificates / f"own.{end}").write_text((certificates / f"client.{end}").read_text())
    files = f"{certificates}/own.pem {certificates}/own.key {certificates}/ca.pem"
    server = serve(secondary(tls, certificates, files=files))
    server.until("a.example.org.", "A", ["192.0.2.1"])
    for end in ("pem", "key"):
        (certificates / f"own.{end}").write_text((certificates / f"stranger.{end}").read_text())
    server.wait_log(r"plugin/secondary: Read .*own\.pem.* again")
    server.wait_log(r"Failed refresh check ")
    assert server.answers("a.example.org.") == ["192.0.2.1"]
    write_certificate(certificates, "own", "client.test")
    (first.folder / "db").write_text(zone(2, "a 60 IN A 192.0.2.2\n"))
    server.until("a.example.org.", "A", ["192.0.2.2"])


def test_tls_1_2_is_not_enough(serve: Serve, certificates: Path) -> None:
    """RFC 9103 7.2."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(certificates / "server.pem", certificates / "server.key")
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            try:
                while True:
                    one, _ = listener.accept()
                    try:
                        context.wrap_socket(one, server_side=True).close()
                    except OSError:
                        one.close()
            except OSError:
                return

        threading.Thread(target=accept, daemon=True).start()
        server = serve(secondary(listener.getsockname()[1], certificates))
        server.wait_log(r"masters failed to transfer, retrying in .*: tls: .*version")
        listener.shutdown(socket.SHUT_RDWR)


def test_transfers_follow_each_other_on_a_connection(serve: Serve, certificates: Path) -> None:
    """Asked all at once, with another question behind them, by a client that reads late."""
    tls = free_port()
    names = [f"z{number}.test" for number in range(5)]
    serve(primary_of_ours(tls, certificates, zones=" ".join(names)), prepare=put("@ 60 IN SOA ns.test. host.test. 1 2 2 86400 60\n" + MANY))
    context = ssl.create_default_context(cafile=str(certificates / "ca.pem"))
    context.set_alpn_protocols(["dot"])
    with socket.create_connection(("127.0.0.1", tls), timeout=REPLY) as plain, context.wrap_socket(plain, server_hostname="server.test") as one:
        assert one.selected_alpn_protocol() == "dot"
        requests = {number: dns.message.make_query(f"{name}.", "AXFR", id=number) for number, name in enumerate(names, 1)}
        requests[9] = dns.message.make_query("h1.z0.test.", "A", id=9)
        for request in requests.values():
            wire = request.to_wire()
            one.sendall(len(wire).to_bytes(2, "big") + wire)
        records = dict.fromkeys(requests, 0)
        with one.makefile("rb") as file:
            while records[9] < 1 or any(records[number] < 4002 for number in range(1, 6)):
                reply = dns.message.from_wire(file.read(int.from_bytes(file.read(2), "big")), one_rr_per_rrset=True)
                records[reply.id] += len(reply.answer)
    assert records == {1: 4002, 2: 4002, 3: 4002, 4: 4002, 5: 4002, 9: 1}
