"""proxyproto: its arguments, their errors, and whose headers count."""

from __future__ import annotations

from ipaddress import ip_address, ip_network

import pytest

from fastdns.corefile import CorefileError
from fastdns.corefile.zone import parse_key
from fastdns.plugins.proxyproto import setup
from fastdns.proxy.policy import ProxyProtocol
from fastdns.server.servers import group
from fastdns.setup import Config, Controller
from fastdns.setup.config import ProxySettings

SECOND = 10**9


def settings_of(text: str) -> ProxySettings:
    controller = Controller.of(text)
    setup(controller)
    assert controller.config.proxy is not None
    return controller.config.proxy


def network(text: str) -> tuple[bytes, int]:
    found = ip_network(text)
    return found.network_address.packed, found.prefixlen


@pytest.mark.parametrize(
    ("text", "networks", "default", "lifetime", "sessions"),
    [
        ("proxyproto", [], "", 0, 0),
        ("proxyproto {\n}", [], "", 0, 0),
        ("proxyproto {\n allow\n}", [], "", 0, 0),
        ("proxyproto {\n allow 127.0.0.0/8 ::1/128\n}", ["127.0.0.0/8", "::1/128"], "", 0, 0),
        ("proxyproto {\n allow 10.0.0.0/8\n allow 192.0.2.0/24\n}", ["10.0.0.0/8", "192.0.2.0/24"], "", 0, 0),
        ("proxyproto {\n allow ::ffff:10.0.0.0/104\n}", ["10.0.0.0/8"], "", 0, 0),
        ("proxyproto {\n allow 127.0.0.0/8\n default IGNORE\n}", ["127.0.0.0/8"], "ignore", 0, 0),
        ("proxyproto {\n default use\n default Skip\n}", [], "skip", 0, 0),
        ("proxyproto {\n udp_session_tracking 28s\n}", [], "", 28 * SECOND, 0),
        ("proxyproto {\n udp_session_tracking 1m 500\n default reject\n}", [], "reject", 60 * SECOND, 500),
        ("proxyproto {\n udp_session_tracking -1s\n}", [], "", -SECOND, 0),
        ("proxyproto {\n default reject\n}\nproxyproto {\n allow 10.0.0.0/8\n}", ["10.0.0.0/8"], "reject", 0, 0),
    ],
)
def test_values(text: str, networks: list[str], default: str, lifetime: int, sessions: int) -> None:
    found = settings_of(text)
    assert (found.default, found.session_lifetime, found.sessions) == (default, lifetime, sessions)
    assert found.networks == [network(text) for text in networks]


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("proxyproto x", 1, "Testfile:1 - Error during parsing: Wrong argument count or unexpected line ending after 'x'"),
        ("proxyproto {\n unknown\n}", 2, "Testfile:2 - Error during parsing: unknown option 'unknown'"),
        ("proxyproto {\n allow 1.2.3.4\n}", 2, "1.2.3.4: invalid CIDR address: 1.2.3.4"),
        ("proxyproto {\n allow 10.0.0.0/8 1.2.3.4/33\n}", 2, "1.2.3.4/33: invalid CIDR address: 1.2.3.4/33"),
        ("proxyproto {\n allow fe80::%lo/64\n}", 2, "fe80::%lo/64: invalid CIDR address: fe80::%lo/64"),
        ("proxyproto {\n default\n}", 2, "Testfile:2 - Error during parsing: Wrong argument count or unexpected line ending after 'default'"),
        ("proxyproto {\n default use skip\n}", 2, "Testfile:2 - Error during parsing: Wrong argument count or unexpected line ending after 'skip'"),
        ("proxyproto {\n default require\n}", 2, "Testfile:2 - Error during parsing: Wrong argument count or unexpected line ending after 'require'"),
        ("proxyproto {\n tlv_metadata on\n}", 2, "Testfile:2 - Error during parsing: Wrong argument count or unexpected line ending after 'on'"),
        (
            "proxyproto {\n udp_session_tracking\n}",
            2,
            "Testfile:2 - Error during parsing: Wrong argument count or unexpected line ending after 'udp_session_tracking'",
        ),
        (
            "proxyproto {\n udp_session_tracking 28s 100 x\n}",
            2,
            "Testfile:2 - Error during parsing: Wrong argument count or unexpected line ending after 'x'",
        ),
        ("proxyproto {\n udp_session_tracking x\n}", 2, 'udp_session_tracking: invalid duration "x": time: invalid duration "x"'),
        ("proxyproto {\n udp_session_tracking 28s x\n}", 2, 'udp_session_tracking: invalid max sessions "x": must be a positive integer'),
        ("proxyproto {\n udp_session_tracking 28s 0\n}", 2, 'udp_session_tracking: invalid max sessions "0": must be a positive integer'),
        ("proxyproto {\n udp_session_tracking 28s -1\n}", 2, 'udp_session_tracking: invalid max sessions "-1": must be a positive integer'),
    ],
)
def test_errors(text: str, line: int, message: str) -> None:
    with pytest.raises(CorefileError) as caught:
        setup(Controller.of(text))
    assert str(caught.value) == message
    assert (caught.value.file, caught.value.line) == ("Testfile", line)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("proxyproto {\n tlv_metadata\n}", True),
        ("proxyproto {\n allow 10.0.0.0/8\n tlv_metadata\n tlv_metadata\n}", True),
        ("proxyproto {\n allow 10.0.0.0/8\n}", False),
        ("proxyproto", False),
    ],
)
def test_tlvs(text: str, kept: bool) -> None:
    """Without the option the chain has no handler of it."""
    controller = Controller.of(text)
    setup(controller)
    assert controller.config.proxy is not None
    assert controller.config.proxy.tlvs is kept
    assert [handler.name for handler in controller.config.handlers] == ["proxyproto"] * kept


def test_once_for_each_server() -> None:
    controller = Controller.of("proxyproto")
    setup(controller)
    with pytest.raises(CorefileError, match="proxy protocol already configured for this server instance"):
        setup(controller)


ALL = ("192.0.2.1", "198.51.100.1", "2001:db8::1", "fe80::1")


@pytest.mark.parametrize(
    ("networks", "default", "rules"),
    [
        ([], "use", ["use"] * 4),
        ([], "ignore", ["ignore"] * 4),
        ([], "reject", ["reject"] * 4),
        ([], "skip", ["skip"] * 4),
        (["192.0.2.0/24"], "ignore", ["use", "ignore", "ignore", "ignore"]),
        (["192.0.2.1/32", "2001:db8::/32"], "reject", ["use", "reject", "use", "reject"]),
        (["0.0.0.0/0"], "skip", ["use", "use", "skip", "skip"]),
        (["::/0"], "reject", ["reject", "reject", "use", "use"]),
    ],
)
def test_rules(networks: list[str], default: str, rules: list[str]) -> None:
    policy = ProxyProtocol([network(text) for text in networks], default, 0, None)
    assert [policy.rule(ip_address(text).packed) for text in ALL] == rules


def config(keys: str, text: str) -> Config:
    found = Config([address for key in keys.split() for address in parse_key(key, "53")])
    if text:
        controller = Controller.of(text)
        controller.config = found
        setup(controller)
    return found


def test_blocks_that_share_an_address() -> None:
    """The last block decides who is allowed, and what sessions there are, the last one that has them. Settings are for a block's first key."""
    blocks = [
        config("a.org", "proxyproto {\n allow 10.0.0.0/8\n udp_session_tracking 1s 5\n}"),
        config("b.org b.org:54", "proxyproto {\n default reject\n}"),
        config("c.org", ""),
    ]
    first, second = group(blocks)
    assert (first.port, second.port) == (53, 54)
    assert second.proxy is None
    assert first.proxy is not None
    assert (first.proxy.networks, first.proxy.default, first.proxy.session_lifetime, first.proxy.sessions) == ([], "reject", SECOND, 5)
