"""The command line is node-cache's."""

from __future__ import annotations

import pytest

from fastdns.node.flags import Flags, parse
from fastdns.server.flags import FlagError

#: The arguments of Kubernetes's own manifest.
MANIFEST = ["-localip", "169.254.20.10,10.96.0.10", "-conf", "/etc/Corefile", "-upstreamsvc", "kube-dns-upstream", "-pidfile", "/tmp/node-cache.pid"]


def flags(*words: str) -> Flags:
    parsed = parse(list(words))
    parsed.validate()
    return parsed


def test_manifest() -> None:
    parsed = flags(*MANIFEST)
    assert [str(address) for address in parsed.addresses] == ["169.254.20.10", "10.96.0.10"]
    assert (parsed.conf, parsed.upstreamsvc, parsed.pidfile) == ("/etc/Corefile", "kube-dns-upstream", "/tmp/node-cache.pid")
    assert (parsed.setupinterface, parsed.setupiptables, parsed.skipteardown, parsed.reloadwithsignal) == (True, True, False, False)
    assert (parsed.interfacename, parsed.metrics, parsed.health_port, parsed.port) == ("nodelocaldns", "0.0.0.0:9353", "8080", "53")
    assert (parsed.basecorefile, parsed.kubednscm, parsed.interval) == ("/etc/coredns/Corefile.base", "", 60)


@pytest.mark.parametrize(
    ("words", "attribute", "wanted"),
    [
        (["-setupinterface=false"], "setupinterface", False),
        (["--setupiptables=0"], "setupiptables", False),
        (["-skipteardown"], "skipteardown", True),
        (["-setupebtables=false"], "setupebtables", False),
        (["-reloadwithsignal=true"], "reloadwithsignal", True),
        (["-interfacename=dns0"], "interfacename", "dns0"),
        (["-metrics-listen-address", "127.0.0.1:1"], "metrics", "127.0.0.1:1"),
        (["-health-port=8081"], "health_port", "8081"),
        (["-kubednscm", "/x"], "kubednscm", "/x"),
        (["-corefile=/y"], "conf", "/y"),
        (["-p", "1053"], "port", "1053"),
        (["-log-format=json"], "log_format", "json"),
        (["-syncinterval", "30"], "interval", 30),
        (["-syncinterval", "30ns"], "interval", 30),
        (["-syncinterval", "1m30s"], "interval", 90),
    ],
)
def test_flag(words: list[str], attribute: str, wanted: object) -> None:
    assert getattr(flags("-localip", "192.0.2.1", *words), attribute) == wanted


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-localip", "192.0.2.1", "-nonsense"], "flag provided but not defined: -nonsense"),
        (["-localip"], "flag needs an argument: -localip"),
        (["-localip", "192.0.2.1", "-setupinterface=maybe"], 'invalid boolean value "maybe" for -setupinterface: parse error'),
        (["-localip", "192.0.2.1", "more"], "extra command line arguments: [more]"),
        (["-localip", "192.0.2.1", "-log-format", "xml"], 'unknown log format "xml": expected text or json'),
        ([], 'invalid localip specified - ""'),
        (["-localip", "192.0.2.1,x"], 'invalid localip specified - "x"'),
        (["-localip", "192.0.2.1,fd00::1"], 'unexpected IP Family for localIP - "fd00::1", want IPv6=false'),
        (["-localip", "fd00::1,192.0.2.1"], 'unexpected IP Family for localIP - "192.0.2.1", want IPv6=true'),
        (["-localip", "192.0.2.1", "-dns.port", "dns"], 'invalid port specified - "dns"'),
        (["-localip", "192.0.2.1", "-health-port", "65536"], 'invalid healthcheck port specified - "65536"'),
        (["-localip", "192.0.2.1", "-syncinterval", "0"], 'invalid syncinterval specified - "0"'),
        (["-localip", "192.0.2.1", "-syncinterval", "soon"], "soon"),
        (["-hold"], "-hold needs -handover"),
        (["-hold", "-handover", "/run/x", "-localip", "x"], 'invalid localip specified - "x"'),
        (["-hold", "-handover", "/run/x", "-log-format", "xml"], 'unknown log format "xml": expected text or json'),
    ],
)
def test_refused(words: list[str], said: str) -> None:
    with pytest.raises((FlagError, ValueError)) as refused:
        flags(*words)
    assert said in str(refused.value)


def test_who_only_keeps_sockets_needs_no_addresses() -> None:
    assert flags("-hold", "-handover", "/run/x").addresses == []
    assert [str(address) for address in flags("-hold", "-handover", "/run/x", "-localip", "192.0.2.1").addresses] == ["192.0.2.1"]
