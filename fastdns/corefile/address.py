"""Addresses in arguments: ``host:port``, bare addresses, and files with name servers."""

from __future__ import annotations

from socket import AF_INET, AF_INET6, inet_ntop, inet_pton

from fastdns.corefile.errors import quoted
from fastdns.corefile.zone import DEFAULT_PORTS, split_transport

__all__ = [
    "canonical",
    "host_port",
    "host_port_or_file",
    "is_address",
    "join_host_port",
    "nameservers",
    "network_of",
    "packed",
    "split_address",
    "split_servername",
    "strip_scope",
]


def is_address(text: str) -> bool:
    """Whether a text is an IPv4 or IPv6 address, without zone or brackets."""
    if "\0" in text:
        return False
    try:
        inet_pton(AF_INET6 if ":" in text else AF_INET, text)
    except (OSError, UnicodeEncodeError):
        return False
    return True


def packed(text: str) -> bytes | None:
    """An address in network order, an IPv4-mapped one as IPv4; None for what is no address (one with a zone is none)."""
    try:
        octets = inet_pton(AF_INET6 if ":" in text else AF_INET, text)
    except (OSError, ValueError):
        return None
    return octets[12:] if octets.startswith(b"\0" * 10 + b"\xff\xff") else octets


def network_of(text: str) -> tuple[bytes, int] | None:
    """Octets and prefix length of ``ADDRESS/LENGTH``; None for what is no network. An IPv4-mapped address is an IPv6 one."""
    address, slash, length = text.partition("/")
    if not slash or not (length.isascii() and length.isdigit()):
        return None
    try:
        octets = inet_pton(AF_INET6 if ":" in address else AF_INET, address)
    except (OSError, ValueError):
        return None
    return (octets, int(length)) if int(length) <= 8 * len(octets) else None


def canonical(host: str) -> str:
    """An IPv6 address in its usual form, so that equal ones are equal texts; anything else as it is."""
    address, percent, scope = host.partition("%")
    if ":" not in address:
        return host
    try:
        return inet_ntop(AF_INET6, inet_pton(AF_INET6, address)) + percent + scope
    except OSError:
        return host


def strip_scope(host: str) -> str:
    """The address without its IPv6 zone (``fe80::1%eth0``)."""
    return host.partition("%")[0]


def join_host_port(host: str, port: str | int) -> str:
    """``host:port``, an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def split_address(text: str) -> tuple[str, str]:
    """Host and port of ``host:port``, ``[v6]:port`` or ``:port``; the port may be a name. Raises ValueError as Go's net.SplitHostPort."""
    colon = text.rfind(":")
    if colon < 0:
        raise ValueError(f"address {text}: missing port in address")
    if text[:1] == "[":
        end = text.find("]")
        if end < 0:
            raise ValueError(f"address {text}: missing ']' in address")
        if end + 1 == len(text):
            raise ValueError(f"address {text}: missing port in address")
        if end + 1 != colon:
            problem = "too many colons in address" if text[end + 1] == ":" else "missing port in address"
            raise ValueError(f"address {text}: {problem}")
        host, inside = text[1:end], text[1:]
    else:
        host = inside = text[:colon]
        if ":" in host:
            raise ValueError(f"address {text}: too many colons in address")
    if "[" in inside:
        raise ValueError(f"address {text}: unexpected '[' in address")
    if "]" in (text[end + 1 :] if text[:1] == "[" else inside):
        raise ValueError(f"address {text}: unexpected ']' in address")
    return host, text[colon + 1 :]


def split_servername(text: str) -> tuple[str, str]:
    """``host%name:port`` -> ``host:port`` and ``name``; the same inside the brackets of an IPv6 address."""
    if text.startswith("["):
        inside, bracket, port = text[1:].partition("]")
        host, _, name = inside.partition("%")
        return (f"[{host}]{port}" if bracket else host), name
    host, _, rest = text.partition("%")
    name, colon, port = rest.rpartition(":")
    if not colon:
        return host, rest
    return f"{host}:{port}", name


def host_port(text: str, default_port: str) -> str:
    """``address:port`` of an address with or without a port. Raises ValueError when it is no address."""
    try:
        host, port = split_address(text)
    except ValueError:
        host, port = text, ""
    if not is_address(strip_scope(host)):
        raise ValueError(f"must specify an IP address: `{host}'")
    return join_host_port(host, port or default_port)


def host_port_or_file(*texts: str) -> list[str]:
    """``[scheme://]address:port`` of each address, and of each name server in files such as ``/etc/resolv.conf``.

    Plain DNS has no scheme. A file without name servers adds nothing. Raises ValueError.
    """
    servers: list[str] = []
    for text in texts:
        transport, host = split_transport(text)
        if not host:
            raise ValueError(f"invalid address: {quoted(text)}")
        if transport == "unix":
            servers.append(text)
            continue
        try:
            address, _ = split_address(host)
            complete = True
        except ValueError:
            address, complete = host, False
        if not is_address(strip_scope(address)):
            listed = nameservers(host)
            if listed is None:
                raise ValueError(f"not an IP address or file: {quoted(host)}")
            servers += listed
        elif complete:
            servers.append(text if transport != "dns" else host)
        else:
            server = join_host_port(host, DEFAULT_PORTS[transport])
            servers.append(server if transport == "dns" else f"{transport}://{server}")
    if not servers:
        raise ValueError("no valid upstream addresses found")
    return servers


def nameservers(path: str) -> list[str] | None:
    """``address:53`` of the name servers in a resolver's configuration, IPv6 zones dropped; None if it cannot be read."""
    try:
        with open(path, "rb") as file:
            lines = file.read(1 << 20).decode("utf-8", "replace").splitlines()
    except (OSError, ValueError):
        return None
    found = []
    for line in lines:
        words = line.split()
        if len(words) > 1 and words[0] == "nameserver":
            found.append(join_host_port(strip_scope(words[1]), DEFAULT_PORTS["dns"]))
    return found
