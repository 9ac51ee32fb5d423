"""Server-block keys and zone arguments: ``[SCHEME://]ZONE[:PORT]``, and networks that become reverse zones."""

from __future__ import annotations

from socket import AF_INET, AF_INET6, inet_ntop, inet_pton

from fastdns.corefile.duration import DIGITS, parse_int
from fastdns.corefile.errors import quoted

__all__ = [
    "DEFAULT_PORTS",
    "UDP_TRANSPORTS",
    "ZoneAddress",
    "fqdn",
    "is_domain_name",
    "is_reverse",
    "normalize",
    "origins",
    "parse_key",
    "reverse_zones",
    "split_host_port",
    "split_transport",
]

#: Port of a key without one. That of ``dns`` is the flag -dns.port.
DEFAULT_PORTS = {"dns": "53", "tls": "853", "quic": "853", "grpc": "443", "https": "443", "https3": "443", "unix": ""}

#: Transports whose server listens on UDP alone; `dns` listens on both.
UDP_TRANSPORTS = frozenset({"quic", "https3"})


class ZoneAddress:
    """One zone on one port, as a server-block key names it. ``zone`` is lower case and ends in a dot."""

    __slots__ = ("port", "transport", "zone")

    def __init__(self, zone: str, port: str, transport: str) -> None:
        self.zone = zone
        self.port = port
        self.transport = transport

    def __str__(self) -> str:
        return f"{self.transport}://{self.zone}:{self.port}" if self.port else f"{self.transport}://{self.zone}"

    def __repr__(self) -> str:
        return f"ZoneAddress({str(self)!r})"

    def on(self, host: str) -> str:
        """The text for operators, with the bound address if there is one."""
        return f"{self} on {host}" if host else str(self)


def split_transport(text: str) -> tuple[str, str]:
    """The scheme and what follows ``://``. What is no scheme of ours stays part of the text."""
    scheme, separator, rest = text.partition("://")
    return (scheme, rest) if separator and scheme in DEFAULT_PORTS else ("dns", text)


def split_host_port(text: str) -> tuple[list[str], str]:
    """The zones of a key without scheme (several for a network) and its port, "" if there is none. Raises ValueError."""
    colon = text.rfind(":")
    if colon == len(text) - 1:  # also for the empty text, whose last colon is at -1
        raise ValueError(f"expecting data after last colon: {quoted(text)}")
    port = ""
    if colon >= 0:
        try:
            port = str(parse_int(text[colon + 1 :]))
            text = text[:colon]
        except ValueError:
            pass
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > 255:
        raise ValueError(f"specified zone is too long: {size} > 255")
    if not is_domain_name(text):
        raise ValueError(f"zone is not a valid domain name: {text}")
    network = _network(text)
    if network is None:
        return [text], port
    if text[0] == ":" or (text[0] == "0" and ":" in text):
        raise ValueError(f"invalid CIDR {text}")
    return _reverse(*network), port


def parse_key(text: str, dns_port: str) -> list[ZoneAddress]:
    """The zones and ports of a server-block key; ``dns_port`` is the port of plain DNS without one. Raises ValueError."""
    transport, rest = split_transport(text)
    hosts, port = split_host_port(rest)
    if not port:
        port = dns_port if transport == "dns" else DEFAULT_PORTS[transport]
    return [ZoneAddress(normalize(host), port, transport) for host in hosts]


def origins(text: str) -> list[str]:
    """The zones of a plugin's zone argument: scheme and port dropped, networks expanded; empty if it is none."""
    try:
        hosts, _ = split_host_port(split_transport(text)[1])
    except ValueError:
        return []
    return [normalize(host) for host in hosts]


def reverse_zones(network: str) -> list[str]:
    """Reverse zones of a network in CIDR notation, a prefix between labels rounded up; empty if it is none."""
    parsed = _network(network)
    return _reverse(*parsed) if parsed else []


def normalize(name: str) -> str:
    """Lower case, with the final dot."""
    return fqdn(name).lower()


def fqdn(name: str) -> str:
    """The name with its final dot; one that is escaped does not count."""
    if not name.endswith("."):
        return name + "."
    escapes = len(name[:-1]) - len(name[:-1].rstrip("\\"))
    return name + "." if escapes % 2 else name


def is_reverse(zone: str) -> bool:
    """Whether a zone lies below ``in-addr.arpa.`` or ``ip6.arpa.``; these two themselves do not count."""
    return zone.endswith((".in-addr.arpa.", ".ip6.arpa."))


def is_domain_name(text: str) -> bool:
    """Whether a text can be written to the wire (RFC 1035 section 2.3.4): labels of 1 to 63 octets, 255 in all."""
    if text == ".":
        return True
    data = fqdn(text).encode("utf-8", "surrogatepass")
    if not text:
        return False
    total = 1
    length = 0
    position = 0
    while position < len(data):
        octet = data[position]
        if octet == 0x2E:
            if not 1 <= length <= 63:
                return False
            total += length + 1
            length = 0
        else:
            length += 1
            if octet == 0x5C:
                digits = data[position + 1 : position + 4]
                if len(digits) == 3 and digits.isdigit():
                    position += 3
                elif position + 1 < len(data):
                    position += 1
                else:
                    return False
        position += 1
    return length == 0 and total <= 255


def _network(text: str) -> tuple[bytes, int] | None:
    """Address and prefix of a network in CIDR notation, host bits cleared; None if it is none."""
    host, slash, digits = text.partition("/")
    if not slash or not digits or len(digits) > 6 or not DIGITS.issuperset(digits) or "\0" in host:
        return None
    family = AF_INET6 if ":" in host else AF_INET
    try:
        packed = inet_pton(family, host)
    except (OSError, UnicodeEncodeError):
        return None
    bits = len(packed) * 8
    prefix = int(digits)
    if prefix > bits:
        return None
    cleared = int.from_bytes(packed, "big") >> (bits - prefix) << (bits - prefix)
    return cleared.to_bytes(len(packed), "big"), prefix


def _reverse(packed: bytes, prefix: int) -> list[str]:
    bits = len(packed) * 8
    step = 8 if bits == 32 else 4
    rounded = -(-prefix // step) * step
    first = int.from_bytes(packed, "big")
    zones = []
    for number in range(1 << (rounded - prefix)):
        address = (first + (number << (bits - rounded))).to_bytes(len(packed), "big")
        if bits == 32:
            labels = inet_ntop(AF_INET, address).split(".")[: rounded // 8]
            zones.append(".".join([*reversed(labels), "in-addr.arpa."]))
        else:
            labels = list(address.hex()[: rounded // 4])
            zones.append(".".join([*reversed(labels), "ip6.arpa."]))
    return zones
