"""What ``tls { acme … }`` says."""

from __future__ import annotations

import importlib.util
import os
import re
from typing import NamedTuple
from urllib.parse import urlsplit

from fastdns.corefile import CorefileError
from fastdns.corefile.address import packed, split_address
from fastdns.corefile.errors import quoted, system_error
from fastdns.setup import Controller

__all__ = ["AcmeOptions", "claim", "parse"]

LETS_ENCRYPT = "https://acme-v02.api.letsencrypt.org/directory"
#: Below `root`.
STORAGE = os.path.join(".coredns", "acme")
HOST = re.compile(r"(?=.{1,253}\Z)[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*\Z")


class AcmeOptions(NamedTuple):
    """The options of one directive. Equal ones of several blocks share a certificate."""

    #: Lower-case A-labels without final dot, each once, in the order of the Corefile; ``*.`` may come first.
    domains: tuple[str, ...]
    email: str
    #: URL of the directory (RFC 8555 7.1.1).
    ca: str
    #: Absolute paths.
    storage: str
    ca_root: str
    #: ``host:port``, or "" for the system's.
    resolver: str

    @property
    def identity(self) -> tuple[object, ...]:
        """What makes two directives the same: not the order of their domains."""
        return (tuple(sorted(self.domains)), *self[1:])


def parse(controller: Controller) -> AcmeOptions:
    """Read the block of a `tls` without arguments. Raises CorefileError with the texts of CoreDNS."""
    given: dict[str, list[str]] = {}
    while controller.next_block():
        name = controller.val()
        arguments = controller.remaining_args()
        if name in given:
            raise controller.err(f"ACME option {quoted(name)} can only be specified once")
        if name not in ("acme", "email", "ca", "storage", "ca_root", "resolver"):
            raise controller.err(f"unknown ACME option {quoted(name)}")
        if not arguments or (name != "acme" and len(arguments) > 1):
            raise controller.arg_err()
        given[name] = arguments
    if "acme" not in given:
        raise CorefileError("ACME requires at least one domain")
    domains = tuple(dict.fromkeys(map(_domain, given["acme"])))
    found = AcmeOptions(
        domains,
        given.get("email", [""])[0],
        _directory(given.get("ca", [LETS_ENCRYPT])[0]),
        os.path.abspath(controller.path(given.get("storage", [STORAGE])[0], reads=False)),
        os.path.abspath(controller.path(given["ca_root"][0])) if "ca_root" in given else "",
        _resolver(given.get("resolver", [""])[0]),
    )
    if found.ca_root:
        _look_at_root(found.ca_root)
    if importlib.util.find_spec("acme") is None:
        raise CorefileError("certificates by ACME need the Python package acme: pip installs it with fastdns[acme]")
    return found


def claim(options: AcmeOptions, owners: dict[str, AcmeOptions]) -> AcmeOptions:
    """The first options of a Corefile that are the same. Raises CorefileError for a domain that other options have; ``owners`` are those so far, by domain."""
    owner = owners.get(options.domains[0])
    if owner is not None and owner.identity == options.identity:
        return owner
    for domain in options.domains:
        if domain in owners:
            raise CorefileError(f"ACME domain {quoted(domain)} is configured with conflicting options")
    owners.update(dict.fromkeys(options.domains, options))
    return options


def _domain(text: str) -> str:
    domain = text.removesuffix(".").lower()
    wildcard = "*." if domain.startswith("*.") else ""
    host = domain.removeprefix("*.")
    if not host.isascii():
        host = _a_labels(host, text)
    if packed(host) is not None or not HOST.match(host):
        raise CorefileError(f"invalid ACME domain {quoted(domain)}")
    return wildcard + host


def _a_labels(host: str, text: str) -> str:
    """Raises CorefileError."""
    try:
        import idna  # acme's own HTTP client requires it

        return idna.encode(host, uts46=True).decode("ascii")
    except ImportError:
        raise CorefileError(f"the ACME domain {quoted(text)} needs the Python package idna: pip installs it with fastdns[acme]") from None
    except UnicodeError as error:
        raise CorefileError(f"invalid ACME domain {quoted(text)}: {error}") from None


def _directory(text: str) -> str:
    try:
        url = urlsplit(text)
        good = url.scheme in ("http", "https") and bool(url.netloc) and url.port != 0
    except ValueError:
        good = False
    if not good:
        raise CorefileError(f"invalid ACME CA URL {quoted(text)}")
    return text


def _resolver(text: str) -> str:
    if not text:
        return ""
    try:
        host, port = split_address(text)
    except ValueError as error:
        raise CorefileError(f"invalid ACME resolver {quoted(text)}: {error}") from None
    if not host:
        raise CorefileError(f"invalid ACME resolver {quoted(text)}: host is empty")
    if not re.fullmatch(r"\d{1,5}", port, re.ASCII) or not 1 <= int(port) <= 65535:
        raise CorefileError(f"invalid ACME resolver port {quoted(port)}")
    return text


def _look_at_root(path: str) -> None:
    try:
        with open(path, "rb") as file:
            text = file.read()
    except OSError as error:
        raise CorefileError(f"reading ACME CA root {quoted(path)}: {system_error(error, path=path)}") from None
    if b"-----BEGIN CERTIFICATE-----" not in text:
        raise CorefileError(f"ACME CA root {quoted(path)} contains no certificates")
