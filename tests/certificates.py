"""Certificates for tests: an authority of our own, a server's, a client's, and a stranger's that nobody signed but himself."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

__all__ = ["client_context", "common_name", "write_certificate", "write_certificates"]

SERVER = "server.test"


def write_certificates(folder: Path, domain: str = "test") -> Path:
    """``ca``, ``server``, ``client`` and ``stranger``, each as ``.pem`` and ``.key``; those of server and client name hosts of the domain."""
    authority = ec.generate_private_key(ec.SECP256R1())
    _write(folder, "ca", authority, _certificate("ca.test", authority, "ca.test", authority, ca=True))
    for name in ("server", "client"):
        key = ec.generate_private_key(ec.SECP256R1())
        _write(folder, name, key, _certificate(f"{name}.{domain}", key, "ca.test", authority))
    key = ec.generate_private_key(ec.SECP256R1())
    _write(folder, "stranger", key, _certificate("stranger.test", key, "stranger.test", key))
    return folder


def write_certificate(folder: Path, name: str, common: str) -> None:
    """Another one, signed by ``ca`` in the folder: a renewal where the name is taken."""
    authority = serialization.load_pem_private_key((folder / "ca.key").read_bytes(), None)
    assert isinstance(authority, ec.EllipticCurvePrivateKey)
    key = ec.generate_private_key(ec.SECP256R1())
    _write(folder, name, key, _certificate(common, key, "ca.test", authority))


def client_context(folder: Path, certificate: str = "", alpn: tuple[str, ...] = ()) -> ssl.SSLContext:
    """A client that trusts ``ca``, and shows a certificate of the folder."""
    context = ssl.create_default_context(cafile=str(folder / "ca.pem"))
    context.check_hostname = False
    if certificate:
        context.load_cert_chain(folder / f"{certificate}.pem", folder / f"{certificate}.key")
    if alpn:
        context.set_alpn_protocols(list(alpn))
    return context


def common_name(octets: bytes | None) -> str:
    """Of a certificate in DER, as ``SSLSocket.getpeercert(True)`` gives it."""
    assert octets is not None
    name = x509.load_der_x509_certificate(octets).subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value
    return name if isinstance(name, str) else name.decode()


def _certificate(name: str, key: ec.EllipticCurvePrivateKey, issuer: str, signer: ec.EllipticCurvePrivateKey, ca: bool = False) -> x509.Certificate:
    now = datetime.datetime.now(datetime.UTC)
    loopback = x509.IPAddress(ipaddress.IPv4Address("127.0.0.1"))
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=30))
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.DNSName(name), loopback]), critical=False)
        .sign(signer, hashes.SHA256())
    )


def _write(folder: Path, name: str, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
    form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    (folder / f"{name}.key").write_bytes(key.private_bytes(*form))
    (folder / f"{name}.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
