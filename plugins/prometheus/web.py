"""The file that `tls` names: the web configuration of Prometheus's exporters, as far as TLS goes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from fastdns.corefile import CorefileError
from fastdns.tls.renewal import Renewal, states_of

if TYPE_CHECKING:
    import ssl

__all__ = ["WebContext", "load"]

VERSIONS = {"TLS10": "TLSv1", "TLS11": "TLSv1_1", "TLS12": "TLSv1_2", "TLS13": "TLSv1_3"}
CLIENT_AUTH = ("NoClientCert", "RequestClientCert", "RequireAnyClientCert", "VerifyClientCertIfGiven", "RequireAndVerifyClientCert")
#: Of tls_server_config; the last two have no switch in Python's TLS: its defaults are as good.
FIELDS = (
    "cert_file", "key_file", "client_auth_type", "client_ca_file", "min_version", "max_version", "cipher_suites", "prefer_server_cipher_suites",
    "curve_preferences",
)  # fmt: skip


class WebContext:
    """What the endpoint shakes hands with."""

    def __init__(self, fields: dict[str, Any], folder: str) -> None:
        """``fields`` are those of tls_server_config. OSError, ValueError."""
        self._fields = fields
        self._folder = folder
        self._files = [os.path.join(folder, fields[name]) for name in ("cert_file", "key_file", "client_ca_file") if fields.get(name)]
        self._states = states_of(self._files)
        self._renewal: Renewal | None = None
        #: Of the files as they were read last.
        self.context = _context(fields, folder)

    def renew(self) -> None:
        """Read the files again. OSError, ValueError: everything stays."""
        self.context = _context(self._fields, self._folder)

    def keep_renewed(self, log: str = "plugin/prometheus") -> None:
        """From now on renew whenever the files change; ``log`` is the source of log lines."""
        self._renewal = Renewal(self, self._files, self._states, log)

    @property
    def mutual(self) -> bool:
        """Whether clients must have a certificate that is verified."""
        return self.context.verify_mode.name == "CERT_REQUIRED"


def load(path: str) -> WebContext | None:
    """A context for the file's certificates; None where it has no TLS, for plain HTTP. Raises CorefileError."""
    import yaml

    try:
        with open(path, encoding="utf-8") as file:
            content = yaml.safe_load(file)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise CorefileError(f"TLS config file {path}: {error}") from error
    if content is None:
        return None
    if not isinstance(content, dict) or not isinstance(content.get("tls_server_config") or {}, dict):
        raise CorefileError(f"TLS config file {path}: not a mapping")
    for key in content:
        if key not in ("tls_server_config", "http_server_config"):
            raise CorefileError(f"TLS config file {path}: field {key} is not supported")
    fields = content.get("tls_server_config")
    if not fields:
        return None
    unknown = [key for key in fields if key not in FIELDS]
    if unknown:
        raise CorefileError(f"TLS config file {path}: field {unknown[0]} not found in tls_server_config")
    try:
        return WebContext(fields, os.path.dirname(path))
    except (OSError, ValueError) as error:
        raise CorefileError(f"TLS config file {path}: {error}") from error


def _context(fields: dict[str, Any], folder: str) -> ssl.SSLContext:
    import ssl

    for key, text in (("cert_file", "missing cert_file"), ("key_file", "missing key_file")):
        if not fields.get(key):
            raise ValueError(text)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _version(fields.get("min_version", "TLS12"))
    if "max_version" in fields:
        context.maximum_version = _version(fields["max_version"])
    if fields.get("cipher_suites"):
        context.set_ciphers(":".join(_openssl_name(name) for name in fields["cipher_suites"]))
    context.load_cert_chain(os.path.join(folder, fields["cert_file"]), os.path.join(folder, fields["key_file"]))
    auth, authority = fields.get("client_auth_type") or "NoClientCert", fields.get("client_ca_file")
    if auth not in CLIENT_AUTH:
        raise ValueError(f"invalid client_auth_type: {auth}")
    if authority:
        if auth == "NoClientCert":
            raise ValueError("client CA's have been configured without a client auth policy")
        context.load_verify_locations(os.path.join(folder, authority))
    elif auth in ("RequireAnyClientCert", "VerifyClientCertIfGiven", "RequireAndVerifyClientCert"):
        raise ValueError(f"client_auth_type {auth} needs a client_ca_file")
    if auth in ("RequireAnyClientCert", "RequireAndVerifyClientCert"):
        context.verify_mode = ssl.CERT_REQUIRED
    elif authority:
        context.verify_mode = ssl.CERT_OPTIONAL
    return context


def _version(name: object) -> ssl.TLSVersion:
    import ssl

    if name not in VERSIONS:
        raise ValueError(f"unknown TLS version: {name}")
    return ssl.TLSVersion[VERSIONS[str(name)]]


def _openssl_name(name: str) -> str:
    """TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 as OpenSSL calls it; suites of TLS 1.3 are always on."""
    words = name.removeprefix("TLS_").replace("_WITH_", "_").split("_")
    return "-".join(words).replace("AES-128", "AES128").replace("AES-256", "AES256").replace("CHACHA20-POLY1305-SHA256", "CHACHA20-POLY1305")
