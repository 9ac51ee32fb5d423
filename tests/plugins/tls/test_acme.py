"""tls by ACME against Pebble, an ACME server that asks for the challenges over DNS."""

from __future__ import annotations

import datetime
import fcntl
import json
import os
import signal
import socket
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import dns.flags
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from fastdns.plugins.tls.manager import Manager
from fastdns.plugins.tls.options import AcmeOptions
from fastdns.plugins.tls.storage import Storage
from tests.certificates import write_certificate, write_certificates
from tests.golang import Unbuildable
from tests.pebble.process import Pebble, build
from tests.quic import Client, Closed
from tests.server import Server, command, free_port
from tests.waiting import REPLY, until

#: DNS, where Pebble asks, and two encrypted transports with the certificate.
COREFILE = """.:{port} {
    hosts {
        127.0.0.1 server.test
        fallthrough
    }
    prometheus 127.0.0.1:{port3}
}
tls://.:{port2} quic://.:{port4} {
    tls {
        acme DOMAINS
        ca DIRECTORY
        ca_root ROOT
        storage STORAGE
        resolver 127.0.0.1:{port}
    }
    whoami
}
"""
DOMAIN = "dns.example.org"


@pytest.fixture(scope="session")
def pebble_program() -> Path:
    try:
        return build()
    except Unbuildable as error:
        pytest.skip(f"no Pebble: {error}")


@pytest.fixture
def pebble(tmp_path: Path, pebble_program: Path) -> Iterator[Pebble]:
    folder = tmp_path / "pebble"
    folder.mkdir()
    made = Pebble(pebble_program, write_certificates(folder), free_port())
    made.start()
    yield made
    made.stop()


def corefile(pebble: Pebble, storage: Path, domains: str = DOMAIN, dns_port: int = 0, root: str = "ca", ca: str = "") -> str:
    """The server's own port for DNS is where Pebble asks, unless ``dns_port`` is another one."""
    given = {
        "{port}": str(dns_port or pebble.dns_port),
        "DOMAINS": domains,
        "DIRECTORY": ca or pebble.directory,
        "ROOT": str(pebble.folder / f"{root}.pem"),
        "STORAGE": str(storage),
    }
    text = COREFILE
    for name, value in given.items():
        text = text.replace(name, value)
    return text


def handshake(server: Server) -> x509.Certificate:
    """The certificate that DNS over TLS shows. Raises ssl.SSLError where the handshake fails."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with socket.create_connection(("127.0.0.1", server.ports["port2"]), REPLY) as plain, context.wrap_socket(plain) as connection:
        octets = connection.getpeercert(True)
    assert octets is not None
    return x509.load_der_x509_certificate(octets)


def shown(server: Server) -> x509.Certificate | None:
    try:
        return handshake(server)
    except ssl.SSLError:
        return None


def names(certificate: x509.Certificate) -> set[str]:
    return set(certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value.get_values_for_type(x509.DNSName))


def modes(folder: Path) -> set[tuple[bool, int]]:
    return {(path.is_dir(), path.stat().st_mode & 0o777) for path in [folder, *folder.rglob("*")]}


def orders(server: Server) -> int:
    return server.log().count("[INFO] plugin/tls: Ordering a certificate for ")


def restart(server: Server) -> None:
    server.stop()
    server.log_path.write_text("")
    server.start()
    server.wait_started()


def doq_works(server: Server) -> bool:
    try:
        with Client(server.ports["port4"]):
            return True
    except Closed:
        return False


def test_a_certificate_from_first_to_last(serve: Callable[..., Server], pebble: Pebble, tmp_path: Path) -> None:
    """Ordered, taken up, kept over reload, upgrade and restart."""
    storage = tmp_path / "of" / "acme"
    text = corefile(pebble, storage, f"{DOMAIN} *.{DOMAIN}")
    server = serve(text)
    assert shown(server) is None
    assert not doq_works(server)
    until((storage / "challenges.json").exists, "the challenge")
    server.reload(text + "# changed\n")
    found = until(lambda: shown(server), "the certificate")
    assert names(found) == {DOMAIN, f"*.{DOMAIN}"}
    until(lambda: doq_works(server), "the certificate")
    assert (orders(server), pebble.issued()) == (1, 1)
    assert modes(tmp_path / "of") == {(True, 0o700), (False, 0o600)}
    assert not (storage / "challenges.json").exists()
    assert server.answers(f"_acme-challenge.{DOMAIN}", "TXT", port=pebble.dns_port) == ["SERVFAIL"]
    labels = f'{{domains="{DOMAIN} *.{DOMAIN}"}}'
    assert server.metric(server.ports["port3"], f"fastdns_tls_acme_not_after_timestamp_seconds{labels}") == found.not_valid_after_utc.timestamp()
    assert server.metric(server.ports["port3"], f"fastdns_tls_acme_certificates_total{labels}") == 1
    server.signal(signal.SIGUSR2)
    server.wait_log("Upgrade finished")
    assert shown(server) == found
    assert orders(server) == 1
    pebble.stop()
    restart(server)
    assert shown(server) == found
    assert (orders(server), "ERROR" in server.log()) == (0, False)


def test_a_renewal_while_the_ca_is_away(serve: Callable[..., Server], pebble: Pebble, tmp_path: Path) -> None:
    pebble.stop()
    storage = tmp_path / "storage"
    storage.mkdir()
    path = kept(pebble, storage)
    write_certificate(pebble.folder, "old", DOMAIN)  # was valid for a day, and is for thirty more: not yet time
    path.write_bytes((pebble.folder / "old.key").read_bytes() + (pebble.folder / "old.pem").read_bytes())
    server = serve(corefile(pebble, storage))
    old = handshake(server)
    assert orders(server) == 0
    path.write_bytes(aged())
    restart(server)
    assert handshake(server) != old
    server.wait_log(rf"^\[ERROR\] plugin/tls: No certificate for {DOMAIN} from {pebble.directory}: .*Connection refused; next attempt in \ds$")
    assert handshake(server).not_valid_after_utc < old.not_valid_after_utc
    pebble.start()
    until(lambda: handshake(server).not_valid_after_utc > old.not_valid_after_utc, "the renewal")
    assert server.metric(server.ports["port3"], f'fastdns_tls_acme_failures_total{{domains="{DOMAIN}"}}') >= 1


def options(ca: str, storage: Path) -> AcmeOptions:
    return AcmeOptions((DOMAIN,), "", ca, str(storage), "", "")


def kept(pebble: Pebble, storage: Path) -> Path:
    """Where the certificate of the domain is."""
    return Path(Storage(options(pebble.directory, storage)).certificate)


def aged() -> bytes:
    """A key and a certificate with a quarter of its life left."""
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.datetime.now(datetime.UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, DOMAIN)])
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key()).serial_number(1)
    made = made.not_valid_before(now - datetime.timedelta(days=30)).not_valid_after(now + datetime.timedelta(days=10))
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return private + made.sign(key, hashes.SHA256()).public_bytes(pem)


def test_two_processes_with_one_storage(serve: Callable[..., Server], pebble: Pebble, tmp_path: Path) -> None:
    """One of them orders, and a third one answers the challenge: it is where the CA asks, and its own CA is away."""
    storage = tmp_path / "storage"
    asked = serve(corefile(pebble, storage, "other.example.org", ca="http://127.0.0.1:1/"))
    both = [serve(corefile(pebble, storage, dns_port=free_port())) for _ in range(2)]
    serials = [until(lambda server=server: shown(server), "the certificate").serial_number for server in both]
    assert serials[0] == serials[1]
    assert (sum(map(orders, both)), pebble.issued()) == (1, 1)
    assert shown(asked) is None


def test_ca_root_is_needed(serve: Callable[..., Server], pebble: Pebble, tmp_path: Path) -> None:
    server = serve(corefile(pebble, tmp_path / "storage", root="stranger"))
    server.wait_log(r"^\[ERROR\] plugin/tls: No certificate for \S+ from \S+: .*CERTIFICATE_VERIFY_FAILED")
    assert shown(server) is None


def test_wrong_answers(serve: Callable[..., Server], pebble: Pebble, tmp_path: Path) -> None:
    serve(f'.:{pebble.dns_port} {{\n template IN TXT {{\n answer "{{{{ .Name }}}} 0 IN TXT wrong"\n }}\n}}')
    server = serve(corefile(pebble, tmp_path / "storage", dns_port=free_port()))
    server.wait_log(rf"^\[ERROR\] plugin/tls: No certificate for \S+ from \S+: {DOMAIN}: .*; next attempt in [67]\ds$")
    assert shown(server) is None
    assert not (tmp_path / "storage" / "challenges.json").exists()
    restart(server)
    server.wait_log(rf"^\[INFO\] plugin/tls: The last order for {DOMAIN} failed; the next one is in [567]\ds\. To order at once, delete \S+ and restart$")
    assert orders(server) == 0


def test_a_certificate_that_cannot_be_saved(serve: Callable[..., Server], pebble: Pebble, tmp_path: Path) -> None:
    """It is saved later, and no other one is ordered."""
    storage = tmp_path / "storage"
    server = serve(corefile(pebble, storage))
    until((storage / "challenges.json").exists, "the challenge")
    kept(pebble, storage).mkdir()  # nothing can be renamed to it
    server.wait_log(rf"^\[ERROR\] plugin/tls: No certificate for {DOMAIN} from {pebble.directory}: \[Errno 21\]")
    kept(pebble, storage).rmdir()
    until(lambda: shown(server), "the certificate")
    assert (orders(server), pebble.issued()) == (1, 1)


def test_a_certificate_that_is_due_when_it_comes(serve: Callable[..., Server], pebble: Pebble, tmp_path: Path) -> None:
    """As with a clock that is wrong: orders do not follow one another."""
    pebble.stop()
    settings = json.loads((pebble.folder / "pebble.json").read_text())
    settings["pebble"]["profiles"] = {"default": {"description": "of a second", "validityPeriod": 2}}
    (pebble.folder / "pebble.json").write_text(json.dumps(settings))
    pebble.start()
    server = serve(corefile(pebble, tmp_path / "storage"))
    server.wait_log(rf"^\[ERROR\] plugin/tls: No certificate for {DOMAIN} from \S+: .* is the clock right\?; next attempt in [67]\ds$")
    assert (orders(server), pebble.issued()) == (1, 1)
    restart(server)
    server.wait_log(rf"^\[INFO\] plugin/tls: The last order for {DOMAIN} failed; the next one is in ")
    assert orders(server) == 0


def test_a_certificate_that_cannot_be_used(tmp_path: Path) -> None:
    """It does not replace the former one."""

    class Offline(Manager):
        def _converse(self, order: subprocess.Popen[str]) -> str:
            return "-----BEGIN CERTIFICATE-----\n"

    manager = Offline(options("http://127.0.0.1:1/", tmp_path))
    path = Path(manager.storage.certificate)
    path.write_bytes(former := aged())
    assert 60 <= manager._step() <= 75
    assert path.read_bytes() == former
    assert 0 < manager._step() <= 75  # it waits
    assert manager.storage.failed()[0] == 1
    manager.end()


def test_the_clock_of_another_process(serve: Callable[..., Server], tmp_path: Path) -> None:
    """A time that no delay reaches to does not count; the failures do."""
    Path(Storage(options("http://127.0.0.1:1/", tmp_path)).failures).write_text(json.dumps({"count": 3, "again": time.time() + 864000}))
    server = serve(f"tls://.:{{port2}} {{\n tls {{\n acme {DOMAIN}\n ca http://127.0.0.1:1/\n storage {tmp_path}\n }}\n whoami\n}}")
    server.wait_log(rf"^\[INFO\] plugin/tls: The last order for {DOMAIN} failed; the next one is in (2[3-9]\d|300)s")
    assert orders(server) == 0


def test_a_ca_that_was_away_for_long(tmp_path: Path) -> None:
    """It is asked ten minutes after the last attempt."""
    manager = Manager(options("http://127.0.0.1:1/", tmp_path))
    assert 600 <= [manager._failed(OSError("away")) for _ in range(20)][-1] <= 750


def test_answers(serve: Callable[..., Server], tmp_path: Path) -> None:
    """What is in the storage is answered, in front of what the cache has, whatever its clock. Another process has the lock: nothing is ordered."""
    lock = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        tls = f"tls {{\n acme a.test\n ca http://127.0.0.1:1/\n storage {tmp_path}\n }}"
        server = serve(f".:{{port}} {{\n cache\n whoami\n}}\ntls://.:{{port2}} {{\n {tls}\n}}")
        assert server.answers("_acme-challenge.a.test", "TXT") == []
        published = tmp_path / "published"
        published.write_text(json.dumps({"_acme-challenge.A.test": ["two", "one"], "b.test": [7, ""], "c.test": 7, "-..": ["x"]}))
        os.utime(published, (1, 1))
        published.replace(tmp_path / "challenges.json")
        server.until("_acme-challenge.a.test", "TXT", ['"one"', '"two"'])
        reply = server.query("_Acme-Challenge.a.test", "TXT", tcp=True)
        assert [rrset.to_text() for rrset in reply.answer] == ['_Acme-Challenge.a.test. 0 IN TXT "one"\n_Acme-Challenge.a.test. 0 IN TXT "two"']
        assert reply.flags & dns.flags.AA
        for name, rdtype in (("_acme-challenge.a.test", "A"), ("a.test", "TXT"), ("b.test", "TXT"), ("c.test", "TXT")):
            assert server.answers(name, rdtype) == []
        (tmp_path / "challenges.json").unlink()
        server.until("_acme-challenge.a.test", "TXT", [])
        assert orders(server) == 0
    finally:
        os.close(lock)


def test_check_sends_and_writes_nothing(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as ca:
        ca.setblocking(False)
        text = f"tls://. {{\n tls {{\n acme a.test\n ca http://127.0.0.1:{ca.getsockname()[1]}/\n storage {tmp_path}/storage\n }}\n whoami\n}}\n"
        (tmp_path / "Corefile").write_text(text)
        done = subprocess.run([*command(), "check", str(tmp_path / "Corefile")], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        assert os.listdir(tmp_path) == ["Corefile"]
        with pytest.raises(BlockingIOError):
            ca.accept()
