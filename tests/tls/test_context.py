"""Contexts: what files they take, and what clients and servers of them agree on."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, NoEncryption, PrivateFormat
from cryptography.x509 import load_pem_x509_certificate

from fastdns.tls.context import AuthorityError, ClientContext, MismatchError, ServerContext, TlsError
from fastdns.tls.stores import system_store
from tests.certificates import write_certificates
from tests.native.tls import Pair


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_certificates(tmp_path)


@contextmanager
def pair(folder: Path, client: ClientContext, name: str = "server.test", client_auth: str = "nocert", alpn: tuple[str, ...] = ()) -> Iterator[Pair]:
    paths = [str(folder / file) for file in ("server.pem", "server.key", "ca.pem")]
    made = Pair(ServerContext(*paths, client_auth, alpn), client, name)
    yield made
    made.close()


def client(folder: Path, certificate: str = "", authority: str = "ca", alpn: tuple[str, ...] = (), verify: bool = True) -> ClientContext:
    files = [str(folder / f"{certificate}.{suffix}") if certificate else "" for suffix in ("pem", "key")]
    return ClientContext(*files, str(folder / f"{authority}.pem") if authority else "", alpn, verify)


@pytest.mark.parametrize("name", ["server.test", "SERVER.test", "localhost", "127.0.0.1"])
def test_a_connection(folder: Path, name: str) -> None:
    with pair(folder, client(folder), name) as ends:
        assert ends.shake() == (True, True)
        assert ends.protocol() == ""
        for octets in (b"a", b"ab" * 700, bytes(16000)):
            assert ends.carry(octets, 0) == octets
            assert ends.carry(octets, 1) == octets


def test_messages_that_follow_at_once(folder: Path) -> None:
    """Each is a record; together they leave in one segment, and none is lost where the socket is full in the middle of one."""
    numbers = random.Random(12)
    with pair(folder, client(folder)) as ends:
        assert ends.shake() == (True, True)
        ends.carry(b"x", 1)  # tickets
        few = [numbers.randbytes(numbers.randrange(1, 60)) for _ in range(16)]
        found, receptions = ends.stream(few)
        assert (found, receptions) == (b"".join(few), 1)
        for most in (100, 3000, 20000, 60000):
            for _ in range(20):
                messages = [numbers.randbytes(numbers.randrange(1, most)) for _ in range(numbers.randrange(1, 60))]
                assert ends.stream(messages)[0] == b"".join(messages)


@pytest.mark.parametrize("name", ["other.test", "sub.server.test", "127.0.0.2", "ca.test"])
def test_another_name_than_the_certificate_s(folder: Path, name: str) -> None:
    with pair(folder, client(folder), name) as ends:
        assert not ends.shake()[0]
    with pair(folder, client(folder, verify=False), name) as ends:
        assert ends.shake() == (True, True)


def test_an_authority_that_nobody_trusts(folder: Path) -> None:
    with pair(folder, client(folder, authority="stranger")) as ends:
        assert not ends.shake()[0]


@pytest.mark.parametrize(("certificate", "accepted"), [("client", True), ("stranger", False), ("", False)])
def test_a_client_s_certificate(folder: Path, certificate: str, accepted: bool) -> None:
    with pair(folder, client(folder, certificate), client_auth="require_and_verify") as ends:
        assert ends.shake()[1] == accepted


@pytest.mark.parametrize(("offered", "agreed"), [(("h2", "dot"), "dot"), (("dot",), "dot"), ((), "")])
def test_protocols(folder: Path, offered: tuple[str, ...], agreed: str) -> None:
    with pair(folder, client(folder, alpn=offered), alpn=("dot", "other")) as ends:
        assert ends.shake() == (True, True)
        assert ends.protocol() == agreed


# ---- files ----


def key_pem(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey, password: bytes = b"") -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(password) if password else NoEncryption())


def refused(folder: Path, authority: str = "") -> TlsError:
    with pytest.raises(TlsError) as error:
        ServerContext(str(folder / "server.pem"), str(folder / "server.key"), authority and str(folder / authority))
    return error.value


def test_a_key_that_does_not_fit(folder: Path) -> None:
    (folder / "server.key").write_bytes((folder / "ca.key").read_bytes())
    assert isinstance(refused(folder), MismatchError)
    (folder / "server.key").write_bytes(key_pem(rsa.generate_private_key(65537, 2048)))
    assert str(refused(folder)) == "private key type does not match public key type"


def test_a_key_with_a_password(folder: Path) -> None:
    (folder / "server.key").write_bytes(key_pem(ec.generate_private_key(ec.SECP256R1()), b"secret"))
    assert str(refused(folder)) == "the key is encrypted"


@pytest.mark.parametrize("file", ["server.pem", "server.key"])
@pytest.mark.parametrize("content", [b"", b"nothing", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"])
def test_files_that_hold_something_else(folder: Path, file: str, content: bytes) -> None:
    (folder / file).write_bytes(content)
    refused(folder)


def test_a_chain_that_is_cut_off(folder: Path) -> None:
    whole = (folder / "server.pem").read_bytes()
    (folder / "server.pem").write_bytes(whole + whole[: len(whole) // 2])
    refused(folder)


def test_files_of_authorities(folder: Path) -> None:
    """What cannot be read among certificates is passed over, as in Go."""
    (folder / "none.pem").write_bytes(b"nothing\n")
    assert isinstance(refused(folder, "none.pem"), AuthorityError)
    spoilt = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
    (folder / "ca.pem").write_bytes(spoilt + (folder / "ca.pem").read_bytes())
    with pair(folder, client(folder, "client"), client_auth="require_and_verify") as ends:
        assert ends.shake() == (True, True)


def test_files_that_are_not_there(folder: Path) -> None:
    with pytest.raises(FileNotFoundError):
        ServerContext(str(folder / "none.pem"), str(folder / "server.key"))
    with pytest.raises(KeyError):
        ServerContext(str(folder / "server.pem"), str(folder / "server.key"), client_auth="sometimes")


def test_where_the_system_s_authorities_are(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "a")
    monkeypatch.setenv("SSL_CERT_DIR", "b")
    assert system_store() == ("a", "b")
    monkeypatch.delenv("SSL_CERT_DIR")
    assert system_store() == ("a", "")
    monkeypatch.setenv("SSL_CERT_FILE", str(folder / "ca.pem"))
    with pair(folder, client(folder, authority="")) as ends:
        assert ends.shake() == (True, True)
    monkeypatch.delenv("SSL_CERT_FILE")
    monkeypatch.setattr("fastdns.tls.stores.FILES", ("/none", str(folder / "ca.pem")))
    assert system_store() == (str(folder / "ca.pem"), "")
    monkeypatch.setattr("fastdns.tls.stores.FILES", ())
    monkeypatch.setattr("fastdns.tls.stores.FOLDERS", (str(folder),))
    assert system_store() == ("", str(folder))


def test_files_that_are_still_to_come(folder: Path) -> None:
    """Until there are some that can be used, no handshake is completed."""
    paths = [str(folder / file) for file in ("later.pem", "later.key")]
    with pytest.raises(FileNotFoundError):
        ServerContext(*paths)
    server = ServerContext(*paths, awaited=True)
    assert server.validity is None
    with pytest.raises(FileNotFoundError):
        server.renew()
    for path, made in zip(paths, ("server.pem", "server.key"), strict=True):
        Path(path).write_bytes((folder / made).read_bytes())
    server.renew()
    certificate = load_pem_x509_certificate((folder / "server.pem").read_bytes())
    assert server.validity == (certificate.not_valid_before_utc.timestamp(), certificate.not_valid_after_utc.timestamp())
    Path(paths[0]).write_text("no certificate\n")
    with pytest.raises(TlsError):
        server.renew()
    assert server.validity is not None
