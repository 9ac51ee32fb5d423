"""The targets of a forward directive: from texts to addresses."""

from __future__ import annotations

import os
import socket
import struct

from fastdns.corefile.address import is_address, join_host_port, nameservers, split_address, split_servername, strip_scope
from fastdns.corefile.errors import quoted
from fastdns.corefile.zone import DEFAULT_PORTS, is_domain_name, split_transport
from fastdns.engine.quic import is_available
from fastdns.plugins.forward.options import TARGETS_MAX, Options

__all__ = ["Target", "pack_address", "targets"]

#: Seconds for each question to a `resolver`.
RESOLVE_TIMEOUT = 2.0


class Target:
    """An upstream: a scheme (dns, tls, https, quic), an address without brackets, a port, and the name its certificate must have."""

    __slots__ = ("host", "port", "scheme", "servername")

    def __init__(self, scheme: str, host: str, port: int, servername: str = "") -> None:
        self.scheme = scheme
        self.host = host
        self.port = port
        self.servername = servername

    @property
    def text(self) -> str:
        """``address:port``, as metrics and metadata have it."""
        return join_host_port(self.host, self.port)

    def sockaddr(self) -> bytes:
        """The address as the kernel wants it."""
        return pack_address(self.host, self.port)

    def __repr__(self) -> str:
        return f"Target({self.scheme}://{self.text}{'%' if self.servername else ''}{self.servername})"


def pack_address(host: str, port: int) -> bytes:
    """A struct sockaddr_in or sockaddr_in6. Raises ValueError for an IPv6 zone that names no interface."""
    address, _, zone = host.partition("%")
    if ":" not in address:
        return struct.pack("=H", socket.AF_INET) + struct.pack(">H", port) + socket.inet_pton(socket.AF_INET, address) + bytes(8)
    scope = 0
    if zone:
        try:
            scope = int(zone) if zone.isdigit() else socket.if_nametoindex(zone)
        except OSError:
            raise ValueError(f"no such network interface: {zone}") from None
    return struct.pack("=H", socket.AF_INET6) + struct.pack(">HI", port, 0) + socket.inet_pton(socket.AF_INET6, address) + struct.pack("=I", scope)


def targets(options: Options) -> list[Target]:
    """The upstreams of an instance, without duplicates. Raises ValueError."""
    if len(options.targets) > TARGETS_MAX:
        raise ValueError(f"more than {TARGETS_MAX} TOs configured: {len(options.targets)}")
    found: dict[tuple[bool, str], Target] = {}
    for text in options.targets:
        for target in _parse(text, options):
            found.setdefault((target.scheme == "quic", target.text), target)  # TLS and QUIC may stand on one number of port
    if not found:
        raise ValueError("no valid upstream addresses found")
    for target in found.values():
        if target.servername and options.tls_servername:
            raise ValueError(
                f"both forward ('{options.tls_servername}') and proxy level ('{target.servername}') "
                f"TLS servernames are set for upstream proxy '{target.scheme}://{target.text}'"
            )
    return list(found.values())


def _parse(text: str, options: Options) -> list[Target]:
    scheme, rest = split_transport(text)
    if scheme not in ("dns", "tls", "https", "quic"):
        raise ValueError(f"'{scheme}' is not supported as a destination protocol in forward: {text}")
    if scheme == "quic" and not is_available():
        raise ValueError(f"quic:// is not in this build: install cargo, then make quic and make: {text}")
    if not rest:
        raise ValueError(f"invalid address: {quoted(text)}")
    if scheme == "https" and "/" in rest:
        raise ValueError(f"paths are not allowed in HTTPS upstream addresses (the /dns-query path is used by default): {text}")
    name = ""
    host, port = _host_and_port(rest, DEFAULT_PORTS[scheme])
    if scheme in ("tls", "quic") and "%" in rest:
        rest, name = split_servername(rest)
        host, port = _host_and_port(rest, DEFAULT_PORTS[scheme])
    if is_address(strip_scope(host)):
        return [Target(scheme, host, _port(port, text), name)]
    listed = nameservers(rest) if os.path.exists(rest) else None
    if listed is not None:
        return [Target("dns", strip_scope(address), int(number)) for address, number in map(split_address, listed) if is_address(strip_scope(address))]
    if "/" in host or not is_domain_name(host) or _numeric(host):
        raise ValueError(f"not an IP address, file, or valid domain: {quoted(text)}")
    number = _port(port, text)
    return [Target(scheme, address, number, name) for address in _resolve(host, options)]


def _numeric(host: str) -> bool:
    """Whether a name ends in a label of digits: an address with a slip of the pen, no domain."""
    return host.rstrip(".").rpartition(".")[2].isdigit()


def _host_and_port(text: str, default: str) -> tuple[str, str]:
    try:
        host, port = split_address(text)
    except ValueError:
        return (text[1:-1] if text.startswith("[") and text.endswith("]") else text), default
    return host, port


def _port(text: str, whole: str) -> int:
    if not text.isdigit() or not 0 < int(text) < 65536:
        raise ValueError(f"not an IP address, file, or valid domain: {quoted(whole)}")
    return int(text)


# ---- names ----


def _resolve(host: str, options: Options) -> list[str]:
    """All addresses of a name, asked once, now. Raises ValueError."""
    try:
        found = _ask(host, options.resolvers) if options.resolvers else _ask_system(host)
    except (OSError, ValueError) as error:
        raise ValueError(f"failed to resolve {quoted(host)}: {error}") from None
    if not found:
        raise ValueError(f"failed to resolve {quoted(host)}: no addresses found")
    return found


def _ask_system(host: str) -> list[str]:
    found = socket.getaddrinfo(host, None, type=socket.SOCK_DGRAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


def _ask(host: str, resolvers: list[str]) -> list[str]:
    """A and AAAA from the first server that gives any."""
    import dns.exception
    import dns.message
    import dns.query
    import dns.rdatatype

    last: Exception = ValueError("no addresses found")
    for resolver in resolvers:
        address, port = split_address(resolver)
        found = []
        for kind in (dns.rdatatype.A, dns.rdatatype.AAAA):
            query = dns.message.make_query(host, kind)
            try:
                reply, _ = dns.query.udp_with_fallback(query, address, timeout=RESOLVE_TIMEOUT, port=int(port))
            except (OSError, dns.exception.DNSException) as error:
                last = ValueError(f"{resolver}: {str(error) or type(error).__name__}")
                break
            found += [record.address for answer in reply.answer if answer.rdtype == kind for record in answer]
        if found:
            return found
    raise last
