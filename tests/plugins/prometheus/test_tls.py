"""The metrics page over TLS: what the configuration file may say, and which clients get in."""

from __future__ import annotations

import contextlib
import datetime
import shutil
import socket
import ssl
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from fastdns.corefile import CorefileError
from fastdns.plugins.prometheus.web import _openssl_name, load
from tests.server import Server
from tests.waiting import REPLY, until

Serve = Callable[..., Server]

NOW = datetime.datetime.now(datetime.UTC)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """ca.pem; server and client, each .pem and .key; other.pem, which no CA of ours signed."""
    folder = tmp_path_factory.mktemp("certificates")
    authority = make(folder, "ca", None)
    for name in ("server", "client"):
        make(folder, name, authority)
    make(folder, "other", None)
    return folder


Made = tuple[x509.Certificate, ec.EllipticCurvePrivateKey]


def make(folder: Path, name: str, issuer: Made | None) -> Made:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer[0].subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW - datetime.timedelta(1))
        .not_valid_after(NOW + datetime.timedelta(1))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.DNSName(name)]), False)
    )
    certificate = builder.sign(issuer[1] if issuer else key, hashes.SHA256())
    (folder / f"{name}.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / f"{name}.key").write_bytes(private)
    return certificate, key


PAIR = "cert_file: server.pem, key_file: server.key"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("tls_server_config: {cert_file: server.pem}", "missing key_file"),
        ("tls_server_config: {key_file: server.key}", "missing cert_file"),
        ("tls_server_config: {cert_file: none.pem, key_file: server.key}", "No such file"),
        ("tls_server_config: {cert_file: server.pem, key_file: client.key}", "mismatch|MISMATCH"),
        ("junk", "not a mapping"),
        ("{", "TLS config file"),
        ("tls_server_config: [1]", "not a mapping"),
        ("basic_auth_users: {a: b}", "field basic_auth_users is not supported"),
        (f"tls_server_config: {{{PAIR}, oops: 1}}", "field oops not found in tls_server_config"),
        (f"tls_server_config: {{{PAIR}, min_version: TLS9}}", "unknown TLS version: TLS9"),
        (f"tls_server_config: {{{PAIR}, client_auth_type: Sometimes}}", "invalid client_auth_type: Sometimes"),
        (f"tls_server_config: {{{PAIR}, client_auth_type: RequireAndVerifyClientCert}}", "needs a client_ca_file"),
        (f"tls_server_config: {{{PAIR}, client_ca_file: ca.pem}}", "without a client auth policy"),
    ],
)
def test_bad(certificates: Path, text: str, error: str) -> None:
    path = certificates / "web.yml"
    path.write_text(text)
    with pytest.raises(CorefileError, match=error):
        load(str(path))


@pytest.mark.parametrize("text", ["", "tls_server_config:", "tls_server_config: {}", "http_server_config: {http2: false}"])
def test_without_tls_it_is_plain_http(certificates: Path, text: str) -> None:
    path = certificates / "web.yml"
    path.write_text(text)
    assert load(str(path)) is None


def test_versions_and_suites(certificates: Path) -> None:
    path = certificates / "web.yml"
    suites = "[TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256]"
    path.write_text(f"tls_server_config: {{{PAIR}, min_version: TLS12, max_version: TLS13, cipher_suites: {suites}}}")
    loaded = load(str(path))
    assert loaded is not None
    context = loaded.context
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    names = {cipher["name"] for cipher in context.get_ciphers()}
    assert {"ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305"} <= names
    assert "ECDHE-RSA-AES128-GCM-SHA256" not in names
    assert _openssl_name("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384") == "ECDHE-RSA-AES256-GCM-SHA384"


def fetch(server: Server, folder: Path, client: str = "") -> str:
    context = ssl.create_default_context(cafile=str(folder / "ca.pem"))
    if client:
        context.load_cert_chain(folder / f"{client}.pem", folder / f"{client}.key")
    with urllib.request.urlopen(f"https://localhost:{server.ports['port2']}/metrics", context=context, timeout=REPLY) as reply:
        text: bytes = reply.read()
    return text.decode()


COREFILE = ".:{port} {\n bind 127.0.0.1\n prometheus 127.0.0.1:{port2} {\n  tls FILE\n }\n whoami\n}\n"


@pytest.mark.parametrize(
    ("auth", "clients"),
    [
        ("", {"": True, "client": True, "other": True}),
        ("client_auth_type: RequestClientCert", {"": True}),
        ("client_auth_type: VerifyClientCertIfGiven, client_ca_file: ca.pem", {"": True, "client": True, "other": False}),
        ("client_auth_type: RequireAnyClientCert, client_ca_file: ca.pem", {"": False, "client": True}),
        ("client_auth_type: RequireAndVerifyClientCert, client_ca_file: ca.pem", {"": False, "client": True, "other": False}),
    ],
)
def test_clients(serve: Serve, certificates: Path, tmp_path: Path, auth: str, clients: dict[str, bool]) -> None:
    path = certificates / "web.yml"
    path.write_text(f"tls_server_config: {{{PAIR}{', ' + auth if auth else ''}}}")
    server = serve(COREFILE.replace("FILE", str(path)))
    for client, admitted in clients.items():
        if admitted:
            assert "coredns_build_info" in fetch(server, certificates, client)
        else:
            with pytest.raises(OSError, match=r"."):
                fetch(server, certificates, client)
    with pytest.raises((OSError, ValueError)):
        server.get(server.ports["port2"], "/metrics")


def test_from_http_to_tls_and_back(serve: Serve, certificates: Path) -> None:
    path = certificates / "web.yml"
    path.write_text("")
    corefile = COREFILE.replace("FILE", str(path))
    server = serve(corefile)
    assert "coredns_build_info" in server.get(server.ports["port2"], "/metrics")
    path.write_text(f"tls_server_config: {{{PAIR}}}")
    server.reload(corefile + "# changed\n")
    assert "coredns_build_info" in fetch(server, certificates)
    path.write_text("")
    server.reload(corefile)
    assert "coredns_build_info" in server.get(server.ports["port2"], "/metrics")


def test_a_renewed_certificate(serve: Serve, certificates: Path, tmp_path: Path) -> None:
    """Taken up from the disk, unless it does not fit."""
    folder = Path(shutil.copytree(certificates, tmp_path / "certificates"))
    path = folder / "web.yml"
    path.write_text(f"tls_server_config: {{{PAIR}}}")
    server = serve(COREFILE.replace("FILE", str(path)))

    def shown() -> str:
        return ssl.get_server_certificate(("localhost", server.ports["port2"]), timeout=REPLY)

    for suffix in ("pem", "key"):
        (folder / f"server.{suffix}").write_bytes((folder / f"client.{suffix}").read_bytes())
    renewed = (folder / "client.pem").read_text()
    until(lambda: shown() == renewed, "the renewal")
    (folder / "server.key").write_bytes((folder / "ca.key").read_bytes())
    server.wait_log(r"^\[ERROR\] plugin/prometheus: .* have changed and cannot be used: .*(?i:mismatch)")
    assert shown() == renewed


def test_clients_that_say_nothing_keep_nobody_out(serve: Serve, certificates: Path) -> None:
    path = certificates / "web.yml"
    path.write_text(f"tls_server_config: {{{PAIR}}}")
    server = serve(COREFILE.replace("FILE", str(path)))
    with contextlib.ExitStack() as held:
        for _ in range(200):
            connection = held.enter_context(socket.socket())
            connection.bind(("127.0.0.2", 0))
            connection.connect(("127.0.0.1", server.ports["port2"]))
        for _ in range(8):
            assert "coredns_build_info" in fetch(server, certificates)
