"""The command line of ``fastdns-node``: that of node-cache (kubernetes/dns `cmd/node-cache/main.go`), the server's ``-workers`` and
``-log-format``, ``-handover`` and ``-hold``.
"""

from __future__ import annotations

import ipaddress
import re

from fastdns.corefile.duration import parse_duration
from fastdns.node.rights import User, parse_user
from fastdns.server.flags import FALSE, TRUE, FlagError

__all__ = ["USAGE", "Flags", "parse"]

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

#: Flag, attribute, default, description.
TEXTS = (
    ("localip", "localip", "", "addresses to serve on, separated by commas; all of one family"),
    ("conf", "conf", "", "Corefile to write and serve (default /etc/Corefile)"),
    ("corefile", "corefile", "/etc/Corefile", "the same, where there is no -conf"),
    ("basecorefile", "basecorefile", "/etc/coredns/Corefile.base", "template of the Corefile"),
    ("kubednscm", "kubednscm", "", "folder of the ConfigMap kube-dns: stubDomains, upstreamNameservers (default /etc/kube-dns if it exists)"),
    ("upstreamsvc", "upstreamsvc", "kube-dns", "Service whose cluster address is __PILLAR__CLUSTER__DNS__"),
    ("interfacename", "interfacename", "nodelocaldns", "name of the dummy interface, or lo"),
    ("handover", "handover", "", "folder of the node in which pods hand over their sockets"),
    ("metrics-listen-address", "metrics", "0.0.0.0:9353", "address of the page with errors of the set-up"),
    ("health-port", "health_port", "8080", "port of the health plugin, which needs no connection tracking either"),
    ("syncinterval", "syncinterval", "60", "seconds, or a duration, between two looks at interface and rules"),
    ("dns.port", "port", "53", "port of DNS"),
    ("p", "port", "53", "the same"),
    ("pidfile", "pidfile", "", "file for the server's process id, which is there as long as it serves"),
    ("user", "user", "", "UID or UID:GID that the server runs as, with ports below 1024 as its only right (default this command's own)"),
    ("workers", "workers", "", "threads that serve"),
    ("log-format", "log_format", "text", "lines of the log: text or json"),
)
BOOLEANS = (
    ("setupinterface", "setupinterface", True, "make the interface"),
    ("setupiptables", "setupiptables", True, "make the rules"),
    ("setupebtables", "setupebtables", False, "has no effect, as in node-cache today"),
    ("skipteardown", "skipteardown", False, "leave interface and rules behind"),
    ("reloadwithsignal", "reloadwithsignal", False, "SIGUSR1 to the server when its Corefile changed; else its plugin reload sees it"),
    ("hold", "hold", False, "only keep the sockets of the folder -handover; with -localip remove interface and rules when nobody serves"),
    ("quiet", "quiet", False, "the server prints neither zones nor version"),
)


def _usage() -> str:
    lines = [f"  -{name} string\n    \t{text}" + (f' (default "{default}")' if default else "") for name, _, default, text in TEXTS]
    lines += [f"  -{name}\n    \t{text}" + (" (default true)" if default else "") for name, _, default, text in BOOLEANS]
    return "Usage of fastdns-node:\n" + "\n".join(sorted(lines)) + "\n"


USAGE = _usage()


class Flags:
    """The flags of the command line."""

    localip: str
    conf: str
    corefile: str
    basecorefile: str
    kubednscm: str
    upstreamsvc: str
    interfacename: str
    metrics: str
    health_port: str
    syncinterval: str
    port: str
    pidfile: str
    user: str
    workers: str
    log_format: str
    setupinterface: bool
    setupiptables: bool
    setupebtables: bool
    skipteardown: bool
    reloadwithsignal: bool
    handover: str
    hold: bool
    quiet: bool

    def __init__(self) -> None:
        for _, attribute, text, _ in TEXTS:
            setattr(self, attribute, text)
        for _, attribute, wanted, _ in BOOLEANS:
            setattr(self, attribute, wanted)
        self.help = False
        self.addresses: list[Address] = []
        self.server_user: User | None = None
        #: Seconds between two checks of interface and rules.
        self.interval = 60.0

    def validate(self) -> None:
        """Check the values. Raises ValueError with node-cache's text."""
        if self.log_format not in ("text", "json"):
            raise ValueError(f'unknown log format "{self.log_format}": expected text or json')
        if self.hold and not self.handover:
            raise ValueError("-hold needs -handover")
        if self.hold and not self.localip:
            return
        for text in self.localip.split(","):
            try:
                self.addresses.append(ipaddress.ip_address(text))
            except ValueError:
                raise ValueError(f'invalid localip specified - "{text}"') from None
        first = self.addresses[0].version
        for address in self.addresses:
            if address.version != first:
                raise ValueError(f'unexpected IP Family for localIP - "{address}", want IPv6={str(first == 6).lower()}')
        for what, port in (("port", self.port), ("healthcheck port", self.health_port)):
            if not port.isdecimal() or not 0 < int(port) < 65536:
                raise ValueError(f'invalid {what} specified - "{port}"')
        self.server_user = parse_user(self.user)
        self.conf = self.conf or self.corefile
        self.interval = seconds(self.syncinterval)


def seconds(text: str) -> float:
    """A number of seconds, or a duration. node-cache takes nanoseconds for seconds (``60ns``); so does this. Raises ValueError."""
    if match := re.fullmatch(r"(\d+)(ns)?", text):
        value = float(match[1])
    else:
        value = parse_duration(text) / 1e9
    if value <= 0:
        raise ValueError(f'invalid syncinterval specified - "{text}"')
    return value


def parse(words: list[str]) -> Flags:
    """Read the command line without the program's name, in Go's syntax of flags. Raises FlagError."""
    flags = Flags()
    texts = {name: attribute for name, attribute, _, _ in TEXTS}
    booleans = {name: attribute for name, attribute, _, _ in BOOLEANS}
    rest = list(words)
    while rest and len(rest[0]) > 1 and rest[0][0] == "-":
        word = rest.pop(0)
        if word == "--":
            break
        name, separator, value = word.removeprefix("-").removeprefix("-").partition("=")
        if name in booleans:
            if separator and value not in TRUE + FALSE:
                raise FlagError(f'invalid boolean value "{value}" for -{name}: parse error')
            setattr(flags, booleans[name], not separator or value in TRUE)
        elif name in texts:
            if not separator:
                if not rest:
                    raise FlagError(f"flag needs an argument: -{name}")
                value = rest.pop(0)
            setattr(flags, texts[name], value)
        elif name in ("h", "help"):
            flags.help = True
            return flags
        else:
            raise FlagError(f"flag provided but not defined: -{name}")
    if rest:
        raise FlagError(f"extra command line arguments: [{' '.join(rest)}]")
    return flags
