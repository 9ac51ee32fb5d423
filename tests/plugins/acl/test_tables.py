"""acl: which of many policies decides, compared with a search from the first one on."""

from __future__ import annotations

import random
from collections.abc import Callable
from ipaddress import ip_address, ip_network

import dns.flags
import dns.message
import dns.rcode
import pytest

from fastdns.plugins.acl._table import PolicyTable
from fastdns.plugins.acl.rules import NAMES_MAX, TABLE_MAX, Policy
from tests.server import Server

ACTIONS = ("allow", "block", "filter", "nxdomain")
TYPES = ("A", "MX", "TXT", "AAAA", "CAA", "TA")
ZONES = ("test", "a.test", "b.a.test", "c.test", *(f"z{number}.test" for number in range(20)))

#: Zones, then action, types and networks of each policy.
Rules = list[tuple[list[str], list[tuple[str, list[str], list[str]]]]]


def network(choice: random.Random) -> str:
    bits = choice.choice((8, 24, 28, 30, 31, 32, 32, 32, 32))
    return str(ip_network((0x7F000000 + choice.randrange(256 if bits > 8 else 1), bits), strict=False))


def policy(choice: random.Random) -> tuple[str, list[str], list[str]]:
    types = choice.sample(TYPES, choice.choice((0, 1, 1, 2)))
    networks = [network(choice) for _ in range(choice.choice((1, 1, 2, 3)))]
    # Few policies hold for all clients, so that the ones far behind are reached.
    if any(text.endswith("/8") for text in networks) and choice.random() < 0.99:
        networks = ["127.9.9.9/32"]
    return choice.choice(ACTIONS), types, networks


def wanted(rules: Rules, name: str, rdtype: str, client: str) -> str:
    for zones, policies in rules:
        if any(name == f"{zone}." or name.endswith(f".{zone}.") for zone in zones):
            for action, types, networks in policies:
                if (not types or rdtype in types) and any(ip_address(client) in ip_network(text) for text in networks):
                    return action
    return "allow"


def outcome(reply: dns.message.Message) -> str:
    if reply.rcode() == dns.rcode.NOERROR:
        return "allow" if reply.flags & dns.flags.AA else "filter"
    return {"REFUSED": "block", "NXDOMAIN": "nxdomain"}[dns.rcode.to_text(reply.rcode())]


@pytest.mark.parametrize(("seed", "directives", "each"), [(1, 1, 40), (2, 60, 3), (3, 4, 1500), (4, 200, 30), (5, 4, 16), (6, 5, 13)])
def test_the_first_policy_decides(serve: Callable[..., Server], seed: int, directives: int, each: int) -> None:
    choice = random.Random(seed)
    rules: Rules = [(choice.sample(ZONES, choice.choice((1, 1, 2))), [policy(choice) for _ in range(each)]) for _ in range(directives)]
    text = "".join(
        f" acl {' '.join(zones)} {{\n"
        + "".join(f"  {action}{''.join(f' type {name}' for name in types)} net {' '.join(networks)}\n" for action, types, networks in policies)
        + " }\n"
        for zones, policies in rules
    )
    server = serve(f".:{{port}} {{\n bind 127.0.0.1\n{text} whoami\n}}\n")
    found = set()
    for _ in range(300):
        name = choice.choice(("", "x.", "x.y.")) + choice.choice(ZONES) + "."
        rdtype, client = choice.choice((*TYPES, "SRV")), f"127.0.0.{choice.randrange(1, 255)}"
        action = outcome(server.query(name, rdtype, source=client))
        assert action == wanted(rules, name, rdtype, client), (name, rdtype, client)
        found.add(action)
    assert len(found) > 1


def test_bounds() -> None:
    with pytest.raises(ValueError, match=f"{TABLE_MAX} policies and {NAMES_MAX} names at most"):
        PolicyTable([(place, 0, Policy("block")) for place in range(TABLE_MAX + 1)], [{0}], [])
    with pytest.raises(ValueError, match="63 octets at most"):
        PolicyTable([(0, 0, Policy("block", targets=("x" * 64,)))], [{0}], [])
