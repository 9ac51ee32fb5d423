"""tls: what the directive takes and refuses."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from fastdns.corefile import CorefileError
from fastdns.plugins.tls import setup
from fastdns.plugins.tls.options import LETS_ENCRYPT, AcmeOptions, parse
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
        ("tls {\n acme\n}", "Testfile:2 - Error during parsing: Wrong argument count or unexpected line ending after 'acme'"),
        ("tls {\n acme a.test\n email\n}", "Testfile:3 - Error during parsing: Wrong argument count or unexpected line ending after 'email'"),
        ("tls {\n acme a.test\n email a b\n}", "Testfile:3 - Error during parsing: Wrong argument count or unexpected line ending after 'b'"),
        ("tls {\n acme a.test\n acme b.test\n}", 'Testfile:3 - Error during parsing: ACME option "acme" can only be specified once'),
        ("tls {\n acme a.test\n client_auth request\n}", 'Testfile:3 - Error during parsing: unknown ACME option "client_auth"'),
        ("tls {\n acme 192.0.2.1\n}", 'invalid ACME domain "192.0.2.1"'),
        ("tls {\n acme ::1\n}", 'invalid ACME domain "::1"'),
        ("tls {\n acme a.*.test\n}", 'invalid ACME domain "a.*.test"'),
        ("tls {\n acme *.\n}", 'invalid ACME domain "*"'),
        ("tls {\n acme a..test\n}", 'invalid ACME domain "a..test"'),
        ("tls {\n acme -a.test\n}", 'invalid ACME domain "-a.test"'),
        ("tls {\n acme a.test\n ca ftp://a.test/\n}", 'invalid ACME CA URL "ftp://a.test/"'),
        ("tls {\n acme a.test\n ca https://\n}", 'invalid ACME CA URL "https://"'),
        ("tls {\n acme a.test\n ca https://a:b/\n}", 'invalid ACME CA URL "https://a:b/"'),
        ("tls {\n acme a.test\n resolver 192.0.2.1\n}", 'invalid ACME resolver "192.0.2.1": address 192.0.2.1: missing port in address'),
        ("tls {\n acme a.test\n resolver :53\n}", 'invalid ACME resolver ":53": host is empty'),
        ("tls {\n acme a.test\n resolver 192.0.2.1:0\n}", 'invalid ACME resolver port "0"'),
        ("tls {\n acme a.test\n ca_root /nowhere/ca\n}", 'reading ACME CA root "/nowhere/ca": open /nowhere/ca: no such file or directory'),
        ("tls {\n acme a.test\n}\ntls {\n acme a.test b.test\n}", 'ACME domain "a.test" is configured with conflicting options'),
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


def test_a_ca_root_without_certificates(certificates: Path) -> None:
    with pytest.raises(CorefileError, match=r'ACME CA root "\S+/text" contains no certificates'):
        parsed("tls {\n acme a.test\n ca_root text\n}", certificates)


def test_acme(certificates: Path) -> None:
    """What is left out has CoreDNS's defaults; the same certificate is meant in whatever order its domains are."""
    found = options("tls {\n acme B.test. *.a.test b.test bücher.test\n}", certificates)
    assert found == AcmeOptions(("b.test", "*.a.test", "xn--bcher-kva.test"), "", LETS_ENCRYPT, str(certificates / ".coredns" / "acme"), "", "")
    given = "email a@b.test\n ca https://ca.test/dir\n storage /var/acme\n ca_root ca.pem\n resolver [::1]:53\n"
    found = options(f"tls {{\n acme a.test b.test\n {given}}}", certificates)
    assert found[1:] == ("a@b.test", "https://ca.test/dir", "/var/acme", str(certificates / "ca.pem"), "[::1]:53")
    controller = parsed(f"tls {{\n acme a.test b.test\n {given}}}\ntls {{\n acme b.test a.test\n {given}}}", certificates)
    assert [handler.name for handler in controller.config.handlers] == ["tls"]


def options(text: str, root: Path) -> AcmeOptions:
    controller = Controller.of(text)
    controller.config.root = str(root)
    controller.next()
    assert controller.remaining_args() == []
    return parse(controller)


def test_without_the_library(certificates: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(CorefileError, match=r"^certificates by ACME need the Python package acme: pip installs it with fastdns\[acme\]$"):
        parsed("tls {\n acme a.test\n}", certificates)


def test_the_key_log_is_for_its_owner_only(certificates: Path) -> None:
    parsed("tls server.pem server.key {\n keylog secrets\n}", certificates)
    assert (certificates / "secrets").stat().st_mode & 0o777 == 0o600
