"""forward: what a Corefile may say."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from fastdns.corefile import CorefileError
from fastdns.plugins.forward import setup
from fastdns.plugins.forward.options import Options, parse
from fastdns.plugins.forward.upstreams import Target, pack_address, targets
from fastdns.setup import Controller
from fastdns.testing import Upstream

SECOND = 10**9


def read(text: str) -> Options:
    controller = Controller.of(text)
    controller.next()
    return parse(controller)


def test_defaults() -> None:
    options = read("forward . 192.0.2.1")
    assert (options.zone, options.targets, options.policy) == (".", ["192.0.2.1"], "random")
    assert (options.expire, options.max_age, options.max_idle, options.read_timeout) == (10 * SECOND, 0, 0, 2 * SECOND)
    assert (options.max_fails, options.max_attempts, options.max_concurrent) == (2, None, 0)
    assert (options.interval, options.probe_recursion, options.probe_name, options.doh_method) == (SECOND // 2, True, ".", "POST")


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("except a.test B.test.", {"excepted": ["a.test.", "b.test."]}),
        ("force_tcp", {"force_tcp": True}),
        ("prefer_udp", {"prefer_udp": True}),
        ("expire 20s", {"expire": 20 * SECOND}),
        ("expire 0", {"expire": 0}),
        ("max_age 30s", {"max_age": 30 * SECOND}),
        ("max_idle_conns 4", {"max_idle": 4}),
        ("read_timeout 500ms", {"read_timeout": SECOND // 2}),
        ("max_fails 0", {"max_fails": 0}),
        ("max_connect_attempts 0", {"max_attempts": 0}),
        ("doh_method GET", {"doh_method": "GET"}),
        ("tls", {"tls": []}),
        ("tls ca.pem", {"tls": ["ca.pem"]}),
        ("tls cert.pem key.pem /ca.pem", {"tls": ["cert.pem", "key.pem", "/ca.pem"]}),
        ("tls_servername a.test", {"tls_servername": "a.test"}),
        ("policy round_robin", {"policy": "round_robin"}),
        ("health_check 1s no_rec domain a.test", {"interval": SECOND, "probe_recursion": False, "probe_name": "a.test."}),
        ("max_concurrent 5", {"max_concurrent": 5}),
        ("next nxdomain SERVFAIL", {"next": [3, 2]}),
        ("failover refused", {"failover": [5]}),
        ("next_on_nodata", {"next_on_nodata": True}),
        ("failfast_all_unhealthy_upstreams", {"failfast": True}),
        ("source_address 127.0.0.7", {"source_address": "127.0.0.7"}),
        ("cookies", {"cookies": True}),
        ("mixed_case off", {"mixed_case": False}),
        ("hedge 20ms", {"hedge_delay": SECOND // 50, "hedge_quantile": 0, "hedge_percent": 5}),
        ("hedge p95 budget 10%", {"hedge_delay": 0, "hedge_quantile": 95, "hedge_percent": 10}),
        ("source_ports per-query", {"port_per_query": True}),
        ("resolver 192.0.2.1 [2001:db8::1]:5353", {"resolvers": ["192.0.2.1:53", "[2001:db8::1]:5353"]}),
    ],
)
def test_properties(line: str, wanted: dict[str, object]) -> None:
    options = read(f"forward . 192.0.2.1 {{\n {line}\n}}")
    assert {key: getattr(options, key) for key in wanted} == wanted


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("forward", "Wrong argument count"),
        ("forward .", "Wrong argument count"),
        ("forward a..b 192.0.2.1", "unable to normalize 'a..b'"),
        ("forward . 192.0.2.1 {\n nothing\n}", "unknown property 'nothing'"),
        ("forward . 192.0.2.1 {\n except\n}", "Wrong argument count"),
        ("forward . 192.0.2.1 {\n force_tcp yes\n}", "Wrong argument count"),
        ("forward . 192.0.2.1 {\n prefer_udp yes\n}", "Wrong argument count"),
        ("forward . 192.0.2.1 {\n expire -1s\n}", "expire can't be negative: -1s"),
        ("forward . 192.0.2.1 {\n expire soon\n}", "invalid duration"),
        ("forward . 192.0.2.1 {\n max_age -1s\n}", "max_age can't be negative: -1s"),
        ("forward . 192.0.2.1 {\n max_age 5s\n}", "max_age (5s) must not be less than expire (10s)"),
        ("forward . 192.0.2.1 {\n max_idle_conns -1\n}", "max_idle_conns can't be negative: -1"),
        ("forward . 192.0.2.1 {\n read_timeout 0\n}", "read_timeout must be positive: 0s"),
        ("forward . 192.0.2.1 {\n max_fails -1\n}", "invalid syntax"),
        ("forward . 192.0.2.1 {\n max_connect_attempts x\n}", "invalid syntax"),
        ("forward . 192.0.2.1 {\n doh_method post\n}", "doh_method must be either POST or GET"),
        ("forward . 192.0.2.1 {\n tls a b c d\n}", "Wrong argument count"),
        ("forward . 192.0.2.1 {\n tls_servername\n}", "Wrong argument count"),
        ("forward . 192.0.2.1 {\n policy fastest\n}", "unknown policy 'fastest'"),
        ("forward . 192.0.2.1 {\n health_check -1s\n}", "health_check can't be negative: -1000000000"),
        ("forward . 192.0.2.1 {\n health_check 1s rec\n}", "health_check: unknown option rec"),
        ("forward . 192.0.2.1 {\n health_check 1s domain a..b\n}", "health_check: invalid domain name a..b"),
        ("forward . 192.0.2.1 {\n max_concurrent -1\n}", "max_concurrent can't be negative: -1"),
        ("forward . 192.0.2.1 {\n next\n}", "Wrong argument count"),
        ("forward . 192.0.2.1 {\n next MAYBE\n}", "MAYBE is not a valid rcode"),
        ("forward . 192.0.2.1 {\n failover NOERROR\n}", "NoError cannot be used in failover"),
        ("forward . 192.0.2.1 {\n next_on_nodata x\n}", "Wrong argument count"),
        ("forward . 192.0.2.1 {\n source_address localhost\n}", "invalid IP address: localhost"),
        ("forward . 192.0.2.1 {\n cookies on\n}", "Wrong argument count"),
        ("forward . 192.0.2.1 {\n mixed_case on\n}", "mixed_case must be off: on"),
        ("forward . 192.0.2.1 {\n hedge\n}", "Wrong argument count"),
        ("forward . 192.0.2.1 {\n hedge 0s\n}", "hedge must be positive: 0s"),
        ("forward . 192.0.2.1 {\n hedge p100\n}", "invalid duration"),
        ("forward . 192.0.2.1 {\n hedge p49\n}", "invalid duration"),
        ("forward . 192.0.2.1 {\n hedge 20ms budget\n}", "Wrong argument count"),
        ("forward . 192.0.2.1 {\n hedge 20ms most 5%\n}", "hedge: unknown option most"),
        ("forward . 192.0.2.1 {\n hedge 20ms budget 5\n}", "hedge: budget must be from 1% to 100%: 5"),
        ("forward . 192.0.2.1 {\n hedge 20ms budget 0%\n}", "hedge: budget must be from 1% to 100%: 0%"),
        ("forward . 192.0.2.1 {\n hedge 20ms budget 101%\n}", "hedge: budget must be from 1% to 100%: 101%"),
        ("forward . 192.0.2.1 {\n hedge 20ms budget 5% more\n}", "Wrong argument count"),
        ("forward . 192.0.2.1 {\n source_ports\n}", "Wrong argument count"),
        ("forward . 192.0.2.1 {\n source_ports all\n}", "source_ports must be per-query: all"),
        ("forward . 192.0.2.1 {\n resolver here\n}", 'resolver must be an IP address or IP:port: "here"'),
        ("forward . " + " ".join(f"192.0.2.{i}" for i in range(16)), "more than 15 TOs configured: 16"),
        ("forward . grpc://192.0.2.1", "'grpc' is not supported as a destination protocol in forward: grpc://192.0.2.1"),
        ("forward . tls://", 'invalid address: "tls://"'),
        ("forward . https://192.0.2.1/dns", "paths are not allowed in HTTPS upstream addresses"),
        ("forward . 300.1.1.1:xx", 'not an IP address, file, or valid domain: "300.1.1.1:xx"'),
        ("forward . /no/such/file", 'not an IP address, file, or valid domain: "/no/such/file"'),
        ("forward . tls://192.0.2.1%a.test {\n tls_servername b.test\n}", "both forward ('b.test') and proxy level ('a.test')"),
        ("forward . tls://192.0.2.1 {\n tls /no/such/ca.pem\n}", "o such file"),
        ("forward . quic://", 'invalid address: "quic://"'),
        ("forward . quic://192.0.2.1/dns", 'not an IP address, file, or valid domain: "quic://192.0.2.1/dns"'),
        ("forward . quic://192.0.2.1%a.test {\n tls_servername b.test\n}", "both forward ('b.test') and proxy level ('a.test')"),
        ("forward . quic://192.0.2.1 {\n tls /no/such/ca.pem\n}", "o such file"),
    ],
)
def test_refused(text: str, message: str) -> None:
    with pytest.raises((CorefileError, ValueError, OSError)) as error:
        setup(Controller.of(text))
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("192.0.2.1", ["dns://192.0.2.1:53"]),
        ("dns://192.0.2.1:5353", ["dns://192.0.2.1:5353"]),
        ("2001:db8::1", ["dns://[2001:db8::1]:53"]),
        ("[2001:db8::1]:5353", ["dns://[2001:db8::1]:5353"]),
        ("fe80::1%lo", ["dns://[fe80::1%lo]:53"]),
        ("tls://192.0.2.1", ["tls://192.0.2.1:853"]),
        ("tls://192.0.2.1%a.test:8853", ["tls://192.0.2.1:8853%a.test"]),
        ("tls://[2001:db8::1%a.test]:8853", ["tls://[2001:db8::1]:8853%a.test"]),
        ("tls://192.0.2.1%a.test", ["tls://192.0.2.1:853%a.test"]),
        ("https://192.0.2.1", ["https://192.0.2.1:443"]),
        ("https://[2001:db8::1]:8443", ["https://[2001:db8::1]:8443"]),
        ("quic://192.0.2.1", ["quic://192.0.2.1:853"]),
        ("quic://[2001:db8::1%a.test]:8853", ["quic://[2001:db8::1]:8853%a.test"]),
        ("tls://192.0.2.1 quic://192.0.2.1 quic://192.0.2.1:853", ["tls://192.0.2.1:853", "quic://192.0.2.1:853"]),
        ("192.0.2.1 tls://192.0.2.1:53 192.0.2.2", ["dns://192.0.2.1:53", "dns://192.0.2.2:53"]),
        ("localhost:5353 {\n resolver 127.0.0.1\n}", None),
    ],
)
def test_targets(text: str, wanted: list[str] | None) -> None:
    options = read(f"forward . {text}")
    if wanted is None:
        options.resolvers = []
        assert "127.0.0.1:5353" in [target.text for target in targets(options)]
        return
    assert [repr(target)[7:-1] for target in targets(options)] == wanted


def test_resolv_conf(tmp_path: Path) -> None:
    file, empty = tmp_path / "resolv.conf", tmp_path / "empty.conf"
    file.write_text("search test\nnameserver 192.0.2.7\nnameserver fe80::1%eth0\n# nameserver 192.0.2.9\n")
    empty.write_text("search test\n")
    assert [target.text for target in targets(read(f"forward . {file}"))] == ["192.0.2.7:53", "[fe80::1]:53"]
    assert [target.text for target in targets(read(f"forward . {empty} 192.0.2.1"))] == ["192.0.2.1:53"]
    with pytest.raises(ValueError, match="no valid upstream addresses found"):
        targets(read(f"forward . {empty}"))


def test_names_are_asked_of_the_resolver() -> None:
    with Upstream() as upstream:
        options = read(f"forward . tls://dns.example.org:8853 {{\n resolver {upstream.address}\n}}")
        assert [repr(target)[7:-1] for target in targets(options)] == ["tls://192.0.2.53:8853"]
        assert sorted(query.question[0].rdtype for query in upstream.seen) == [1, 28]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        with pytest.raises(ValueError, match=r'failed to resolve "dns\.example\.org"'):
            targets(read(f"forward . dns.example.org {{\n resolver 127.0.0.1:{silent.getsockname()[1]}\n}}"))


def test_several_stand_in_the_order_of_the_file() -> None:
    controller = Controller.of("forward a.test 192.0.2.1\nforward b.test 192.0.2.2\nforward . 192.0.2.3")
    setup(controller)
    assert [handler.options.zone for handler in controller.config.handlers] == ["a.test.", "b.test.", "."]  # type: ignore[attr-defined]


def test_addresses_are_packed_for_the_kernel() -> None:
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as probe:
        if socket.has_ipv6:
            assert len(pack_address("::1", 53)) == 28
        assert probe.family == socket.AF_INET6
    assert pack_address("192.0.2.1", 0x1234)[2:8] == b"\x12\x34\xc0\x00\x02\x01"
    assert Target("dns", "::1", 53).text == "[::1]:53"
    with pytest.raises(ValueError, match="no such network interface"):
        pack_address("fe80::1%nowhere", 53)
