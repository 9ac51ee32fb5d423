"""tls: what the directive takes and refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from fastdns.corefile import CorefileError
from fastdns.plugins.tls import setup
from fastdns.setup import Controller
from tests.certificates import write_certificates


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_certificates(tmp_path_factory.mktemp("certificates"))
    (folder / "text").write_text("no certificate\n")
    return folder


def parsed(text: str, root: Path) -> Controller:
    controller = Controller.of(text)
    controller.config.root = str(root)
    setup(controller)
    return controller


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("tls server.pem server.key", ("server.pem", "nocert")),
        ("tls server.pem server.key ca.pem", ("server.pem", "nocert")),
        ("tls server.pem server.key ca.pem {\n client_auth require_and_verify\n}", ("server.pem", "require_and_verify")),
        ("tls server.pem server.key {\n client_auth request\n}", ("server.pem", "request")),
        ("tls server.pem server.key {\n client_auth require\n}", ("server.pem", "require")),
        ("tls server.pem server.key {\n client_auth verify_if_given\n client_auth nocert\n}", ("server.pem", "nocert")),
        ("tls server.pem server.key\ntls client.pem client.key", ("client.pem", "nocert")),
    ],
)
def test_values(certificates: Path, text: str, wanted: tuple[str, str]) -> None:
    credentials = parsed(text, certificates).config.tls
    assert (Path(credentials.certificate).name, credentials.client_auth) == wanted


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tls", "ACME requires at least one domain"),
        ("tls {\n email a@example.org\n}", "ACME requires at least one domain"),
        (
            "tls {\n acme example.org\n}",
            "Testfile:3 - Error during parsing: certificates by ACME are not built yet in this version of fastdns: give a certificate and a key",
        ),
        ("tls a", "plugin/tls: plugin/tls: Testfile:1 - Error during parsing: Wrong argument count or unexpected line ending after 'a'"),
        ("tls a b c d", "plugin/tls: plugin/tls: Testfile:1 - Error during parsing: Wrong argument count or unexpected line ending after 'd'"),
        ("tls server.pem server.key {\n client_auth x\n}", "Testfile:2 - Error during parsing: unknown authentication type 'x'"),
        (
            "tls server.pem server.key {\n client_auth\n}",
            "Testfile:2 - Error during parsing: Wrong argument count or unexpected line ending after 'client_auth'",
        ),
        ("tls server.pem server.key {\n alpn dot\n}", "Testfile:2 - Error during parsing: unknown option 'alpn'"),
        (
            "tls server.pem server.key {\n keylog /nowhere/keys\n}",
            'Testfile:3 - Error during parsing: unable to write TLS Key Log to "/nowhere/keys": open /nowhere/keys: no such file or directory',
        ),
        ("tls /nowhere/a server.key", "could not load TLS cert: open /nowhere/a: no such file or directory"),
        ("tls server.pem /nowhere/a", "could not load TLS cert: open /nowhere/a: no such file or directory"),
        ("tls text server.key", "could not load TLS cert: tls: failed to find any PEM data in certificate input"),
        ("tls server.pem text", "could not load TLS cert: tls: failed to find any PEM data in key input"),
        ("tls server.pem client.key", "could not load TLS cert: tls: private key does not match public key"),
        ("tls server.pem server.key /nowhere/ca", "error reading /nowhere/ca: open /nowhere/ca: no such file or directory"),
        ("tls server.pem server.key text", "could not read root certs"),
    ],
)
def test_errors(certificates: Path, text: str, message: str) -> None:
    with pytest.raises(CorefileError) as caught:
        parsed(text, certificates)
    assert str(caught.value) == message


def test_the_key_log_is_for_its_owner_only(certificates: Path) -> None:
    parsed("tls server.pem server.key {\n keylog secrets\n}", certificates)
    assert (certificates / "secrets").stat().st_mode & 0o777 == 0o600
