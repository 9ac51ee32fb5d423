"""Which blocks may share an address, and what listens where: spec/corefile.md sections 5, 6 and 10."""

from __future__ import annotations

import pytest

from fastdns.corefile import CorefileError
from fastdns.corefile.zone import parse_key
from fastdns.server import banner
from fastdns.server.configuration import Configuration
from fastdns.server.servers import Server, group, validate
from fastdns.server.source import Source
from fastdns.setup import Config

Block = tuple[list[str], list[str], bool]  # keys, bound hosts, has a filter


def configs(*blocks: Block) -> list[Config]:
    found = []
    for keys, hosts, filtered in blocks:
        config = Config([address for key in keys for address in parse_key(key, "53")])
        config.listen_hosts = hosts or [""]
        if filtered:
            config.filters = [object()]
        found.append(config)
    return found


OVERLAPS: list[tuple[str, list[Block], str]] = [
    ("different zones", [(["a.org"], [], False), (["b.org"], [], False)], ""),
    ("different ports", [(["a.org:53"], [], False), (["a.org:54"], [], False)], ""),
    ("different transports", [(["a.org:853"], [], False), (["tls://a.org:853"], [], False)], ""),
    ("different addresses", [(["."], ["127.0.0.1"], False), (["."], ["127.0.0.2"], False)], ""),
    ("twice", [(["a.org"], [], False), (["A.org."], [], False)], "cannot serve dns://a.org.:53 - it is already defined"),
    ("twice in one block", [(["a.org", "a.org:53"], [], False)], "cannot serve dns://a.org.:53 - it is already defined"),
    ("twice bound", [(["."], ["127.0.0.1"], False)] * 2, "cannot serve dns://.:53 on 127.0.0.1 - it is already defined"),
    (
        "all after bound",
        [(["."], ["127.0.0.1"], False), (["."], [], False)],
        "cannot serve dns://.:53 - zone overlap listener capacity with dns://.:53 on 127.0.0.1",
    ),
    (
        "bound after all",
        [(["."], [], False), (["."], ["127.0.0.1"], False)],
        "cannot serve dns://.:53 on 127.0.0.1 - zone overlap listener capacity with dns://.:53",
    ),
    ("filters before", [(["."], [], True), (["."], [], True), (["."], [], False)], ""),
    ("filters after", [(["."], [], False), (["."], [], True)], ""),
    (
        "filter on all addresses after bound",
        [(["."], ["127.0.0.1"], False), (["."], [], True)],
        "cannot serve dns://.:53 - zone overlap listener capacity with dns://.:53 on 127.0.0.1",
    ),
]


@pytest.mark.parametrize(("blocks", "message"), [case[1:] for case in OVERLAPS], ids=[case[0] for case in OVERLAPS])
def test_overlap(blocks: list[Block], message: str) -> None:
    if not message:
        validate(configs(*blocks))
        return
    with pytest.raises(CorefileError) as caught:
        validate(configs(*blocks))
    assert str(caught.value) == message


def test_grouping() -> None:
    blocks = configs((["a.org", "b.org:54"], [], False), (["c.org"], ["127.0.0.1", "0:0::1"], False), (["d.org"], ["::1"], False), (["unix:///x"], [], False))
    servers = group(blocks)
    assert [(server.address, [str(address) for address, _ in server.members]) for server in servers] == [
        ("dns://:53", ["dns://a.org.:53"]),
        ("dns://:54", ["dns://b.org.:54"]),
        ("dns://127.0.0.1:53", ["dns://c.org.:53"]),
        ("dns://[::1]:53", ["dns://c.org.:53", "dns://d.org.:53"]),
    ]
    assert blocks[0].servers == ["dns://:53", "dns://:54"]
    assert blocks[1].servers == ["dns://127.0.0.1:53", "dns://[::1]:53"]


@pytest.mark.parametrize("key", ["a.org:65536", "a.org:99999999", "a.org:-1"])
def test_port_out_of_range(key: str) -> None:
    with pytest.raises(CorefileError, match=r"^address -?\d+: invalid port$"):
        group(configs(([key], [], False)))


def test_server_options_of_all_blocks() -> None:
    blocks = configs((["a.org"], [], False), (["b.org"], [], False))
    server = group(blocks)[0]
    assert not server.debug
    blocks[1].debug = True
    assert server.debug


def lines(transport: str, host: str, port: int, *zones: str) -> list[str]:
    server = Server(transport, host, port)
    server.members = [(address, Config([address])) for zone in zones for address in parse_key(zone, "53")]
    return banner.zone_lines(server)


def test_zone_lines() -> None:
    assert lines("dns", "", 53, "b.org", "a.org", ".") == [".:53", "a.org.:53", "b.org.:53"]
    assert lines("tls", "", 853, "a.org") == ["tls://a.org.:853"]
    assert lines("dns", "127.0.0.1", 53, ".") == [".:53 on 127.0.0.1"]


@pytest.mark.parametrize(
    ("zone", "warned"),
    [
        (".", False), ("a.org", False), ("a-1.org", False), ("10.in-addr.arpa", False), ("8.b.d.0.1.0.0.2.ip6.arpa", False),
        ("in-addr.arpa", False), ("1a.org", True), ("a-.org", True), ("-a.org", True), ("a_b.org", True), ("}", True),
        ("xyz://a.org", True), ("10.0.0.0/33", True), ("ä.org", True),
    ],
)  # fmt: skip
def test_preferred_syntax(zone: str, warned: bool) -> None:
    found = lines("dns", "", 53, zone)
    name = parse_key(zone, "53")[0].zone
    assert found == ([f'Warning: Domain "{name}" does not follow RFC1035 preferred syntax'] if warned else []) + [f"{name}:53"]


BAD = [
    ("a.org: {\n}", 'error inspecting server blocks: expecting data after last colon: "a.org:"'),
    (":53 {\n}", "error inspecting server blocks: zone is not a valid domain name: "),
    ("a..b {\n}", "error inspecting server blocks: zone is not a valid domain name: a..b"),
    ("::1/128 {\n}", "error inspecting server blocks: invalid CIDR ::1/128"),
    ("a.org:99999 {\n}", "address 99999: invalid port"),
    (". {\n whoami x\n}", "plugin/whoami: Corefile:2 - Error during parsing: Wrong argument count or unexpected line ending after 'x'"),
    (". {\n nosuch\n}", "Corefile:2 - Error during parsing: Unknown directive 'nosuch'"),
    (". {\n startup\n}", "Corefile:2 - Error during parsing: Unknown directive 'startup'"),
]


@pytest.mark.parametrize(("text", "message"), BAD)
def test_corefile_refused(text: str, message: str) -> None:
    with pytest.raises(CorefileError) as caught:
        Configuration(Source(text.encode(), "Corefile"), "53")
    assert str(caught.value) == message


def test_directives_are_set_up_in_their_order_for_all_blocks() -> None:
    configuration = Configuration(Source(b"a.org:1 b.org:2 {\n debug\n bind 127.0.0.1\n}\nc.org:1 {\n bind 127.0.0.1\n}\n", "Corefile"), "53")
    assert [server.address for server in configuration.servers] == ["dns://127.0.0.1:1", "dns://127.0.0.1:2"]
    assert [(server.debug, server.zones) for server in configuration.servers] == [(True, ["a.org.", "c.org."]), (True, ["b.org."])]
