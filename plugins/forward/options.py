"""What a forward directive says, with CoreDNS's defaults and error texts."""

from __future__ import annotations

import re

from fastdns.corefile.address import host_port, is_address
from fastdns.corefile.duration import format_duration
from fastdns.corefile.zone import fqdn, is_domain_name, origins
from fastdns.setup import Controller
from fastdns.telemetry.log import Log

__all__ = ["RCODES", "TARGETS_MAX", "Options", "parse"]

TARGETS_MAX = 15
SECOND = 1_000_000_000

#: Codes by name (IANA, "DNS RCODEs").
RCODES = {
    "NOERROR": 0,
    "FORMERR": 1,
    "SERVFAIL": 2,
    "NXDOMAIN": 3,
    "NOTIMP": 4,
    "REFUSED": 5,
    "YXDOMAIN": 6,
    "YXRRSET": 7,
    "NXRRSET": 8,
    "NOTAUTH": 9,
    "NOTZONE": 10,
    "BADSIG": 16,
    "BADVERS": 16,
    "BADKEY": 17,
    "BADTIME": 18,
    "BADMODE": 19,
    "BADNAME": 20,
    "BADALG": 21,
    "BADTRUNC": 22,
    "BADCOOKIE": 23,
}

_log = Log("plugin/forward")


class Options:
    """One instance's properties; times in nanoseconds."""

    def __init__(self) -> None:
        self.zone = "."
        #: What stands behind the zone, as written.
        self.targets: list[str] = []
        self.excepted: list[str] = []
        self.policy = "random"
        self.force_tcp = False
        self.prefer_udp = False
        self.failfast = False
        self.next_on_nodata = False
        self.expire = 10 * SECOND
        self.max_age = 0
        self.max_idle = 0
        self.read_timeout = 2 * SECOND
        self.max_fails = 2
        #: None: twice the number of upstreams.
        self.max_attempts: int | None = None
        self.max_concurrent = 0
        self.next: list[int] = []
        self.failover: list[int] = []
        self.interval = SECOND // 2
        self.probe_recursion = True
        self.probe_name = "."
        self.doh_method = "POST"
        #: Certificate, key and CA of the directive `tls`, paths.
        self.tls: list[str] = []
        self.tls_servername = ""
        #: A packed socket address, b"" for none; see fastdns.plugins.forward.upstreams.
        self.source = b""
        self.source_address = ""
        #: Toward upstreams, RFC 7873.
        self.cookies = False
        #: Of the letters in questions over UDP, to upstreams that keep them.
        self.mixed_case = True
        #: After this time a second upstream is asked; 0: none is, or `hedge_quantile` says when.
        self.hedge_delay = 0
        #: Percent of an upstream's replies that come before a second question leaves; 0: `hedge_delay` says.
        self.hedge_quantile = 0
        #: Second questions in a hundred questions.
        self.hedge_percent = 5
        #: A UDP socket for each query.
        self.port_per_query = False
        #: address:port of the servers that resolve names among the targets; empty: the system's.
        self.resolvers: list[str] = []


def parse(c: Controller) -> Options:
    """Reads one ``forward`` with its block; the cursor stands on the directive. Raises CorefileError."""
    options = Options()
    arguments = c.remaining_args()
    if not arguments:
        raise c.arg_err()
    zones = origins(arguments[0])
    if not zones:
        raise c.err(f"unable to normalize '{arguments[0]}'")
    if len(zones) > 1:
        _log.warning(f"Unsupported CIDR notation: '{arguments[0]}' expands to multiple zones. Using only '{zones[0]}'.")
    options.zone = zones[0]
    options.targets = arguments[1:]
    if not options.targets:
        raise c.arg_err()
    while c.next_block():
        _property(c, options)
    if 0 < options.max_age < options.expire:
        raise c.err(f"max_age ({format_duration(options.max_age)}) must not be less than expire ({format_duration(options.expire)})")
    return options


def _property(c: Controller, o: Options) -> None:
    match c.val():
        case "except":
            for name in c.args(1):
                found = origins(name)
                if not found:
                    raise c.err(f"unable to normalize '{name}'")
                o.excepted += found
        case "max_fails":
            o.max_fails = c.unsigned(c.arg(), 32)
        case "max_connect_attempts":
            o.max_attempts = c.unsigned(c.arg(), 32)
        case "health_check":
            _health_check(c, o)
        case "force_tcp":
            c.no_args()
            o.force_tcp = True
        case "prefer_udp":
            c.no_args()
            o.prefer_udp = True
        case "tls":
            o.tls = [c.path(path) for path in c.args(0, 3)]
        case "tls_servername":
            o.tls_servername = c.arg()
        case "doh_method":
            o.doh_method = c.one_arg()
            if o.doh_method not in ("POST", "GET"):
                raise c.err("doh_method must be either POST or GET")
        case "expire":
            o.expire = _duration(c, "expire")
        case "max_age":
            o.max_age = _duration(c, "max_age")
        case "read_timeout":
            o.read_timeout = c.duration(c.arg())
            if o.read_timeout <= 0:
                raise c.err(f"read_timeout must be positive: {format_duration(o.read_timeout)}")
        case "max_idle_conns":
            o.max_idle = _count(c, "max_idle_conns")
        case "policy":
            o.policy = c.arg()
            if o.policy not in ("random", "round_robin", "sequential"):
                raise c.err(f"unknown policy '{o.policy}'")
        case "max_concurrent":
            o.max_concurrent = _count(c, "max_concurrent")
        case "next":
            o.next += _rcodes(c)
        case "failover":
            codes = _rcodes(c)
            if 0 in codes:
                raise c.err("NoError cannot be used in failover")
            o.failover += codes
        case "next_on_nodata":
            c.no_args()
            o.next_on_nodata = True
        case "failfast_all_unhealthy_upstreams":
            c.no_args()
            o.failfast = True
        case "source_address":
            o.source_address = c.one_arg()
            if not is_address(o.source_address):
                raise c.err(f"invalid IP address: {o.source_address}")
        case "hedge":
            _hedge(c, o)
        case "cookies":
            c.no_args()
            o.cookies = True
        case "mixed_case":
            mode = c.one_arg()
            if mode != "off":
                raise c.err(f"mixed_case must be off: {mode}")
            o.mixed_case = False
        case "source_ports":
            mode = c.one_arg()
            if mode != "per-query":
                raise c.err(f"source_ports must be per-query: {mode}")
            o.port_per_query = True
        case "resolver":
            for text in c.args(1):
                try:
                    o.resolvers.append(host_port(text, "53"))
                except ValueError:
                    raise c.err(f'resolver must be an IP address or IP:port: "{text}"') from None
        case other:
            raise c.err(f"unknown property '{other}'")


def _duration(c: Controller, what: str) -> int:
    value = c.duration(c.arg())
    if value < 0:
        raise c.err(f"{what} can't be negative: {format_duration(value)}")
    return value


def _count(c: Controller, what: str) -> int:
    value = c.integer(c.arg())
    if value < 0:
        raise c.err(f"{what} can't be negative: {value}")
    return value


def _rcodes(c: Controller) -> list[int]:
    codes = []
    for name in c.args(1):
        if name.upper() not in RCODES:
            raise c.err(f"{name} is not a valid rcode")
        codes.append(RCODES[name.upper()])
    return codes


def _health_check(c: Controller, o: Options) -> None:
    o.interval = c.duration(c.arg())
    if o.interval < 0:
        raise c.err(f"health_check can't be negative: {o.interval}")
    while c.next_arg():
        match c.val():
            case "no_rec":
                o.probe_recursion = False
            case "domain":
                name = c.arg()
                if not is_domain_name(name):
                    raise c.err(f"health_check: invalid domain name {name}")
                o.probe_name = fqdn(name)
            case other:
                raise c.err(f"health_check: unknown option {other}")


def _hedge(c: Controller, o: Options) -> None:
    """``hedge DURATION|pNN [budget PERCENT%]``."""
    after, *budget = c.args(1, 3)
    o.hedge_delay = o.hedge_quantile = 0
    if re.fullmatch(r"p[5-9][0-9]", after):
        o.hedge_quantile = int(after[1:])
    else:
        o.hedge_delay = c.duration(after)
        if o.hedge_delay <= 0:
            raise c.err(f"hedge must be positive: {format_duration(o.hedge_delay)}")
    if not budget:
        return
    if budget[0] != "budget" or len(budget) != 2:
        raise c.err(f"hedge: unknown option {budget[0]}") if budget[0] != "budget" else c.arg_err()
    percent = budget[1].removesuffix("%")
    if percent == budget[1] or not percent.isascii() or not percent.isdigit() or not 1 <= int(percent[:4]) <= 100:
        raise c.err(f"hedge: budget must be from 1% to 100%: {budget[1]}")
    o.hedge_percent = int(percent)
