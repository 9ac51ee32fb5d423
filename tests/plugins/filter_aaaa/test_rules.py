"""filter_aaaa and filter_a: what the Corefile says."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fastdns.corefile import CorefileError
from fastdns.plugins.acl.rules import EVERYWHERE
from fastdns.plugins.filter_aaaa.rules import Rule, parse
from fastdns.setup import Controller
from tests.server import Server

PLAIN = Rule(("a.test.",), (), 0, EVERYWHERE, (), False, False, False, Controller.of("x y").place())


def facts(rule: Rule) -> Rule:
    """Without the place where it stands."""
    return rule._replace(place=PLAIN.place)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("filter_aaaa", PLAIN),
        ("filter_a", PLAIN),
        ("filter_aaaa b.test C.test", PLAIN._replace(zones=("b.test.", "c.test."))),
        ("filter_aaaa {\n family 4\n}", PLAIN._replace(family=4)),
        (
            "filter_aaaa {\n net 192.0.2.0/24 192.0.2.7\n net 2001:db8::/32\n}",
            PLAIN._replace(networks=((b"\xc0\0\2\0", 24), (b"\xc0\0\2\7", 32), (bytes.fromhex("20010db8") + bytes(12), 32))),
        ),
        ("filter_aaaa {\n namespace a b\n namespace c\n}", PLAIN._replace(namespaces=("a", "b", "c"))),
        ("filter_aaaa {\n always no_lookup\n}", PLAIN._replace(always=True, no_lookup=True)),
        ("filter_aaaa {\n except six.test\n always\n break_dnssec\n}", PLAIN._replace(excluded=("six.test.",), always=True, break_dnssec=True)),
    ],
)
def test_rules(text: str, wanted: Rule) -> None:
    assert [facts(rule) for rule in parse(Controller.of(text, ["a.test"]))] == [wanted]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("family 5", "unexpected token \"5\"; expect '4' or '6'"),
        ("family", "Wrong argument count or unexpected line ending after 'family'"),
        ("family 4 6", "Wrong argument count or unexpected line ending after '6'"),
        ("net", "Wrong argument count or unexpected line ending after 'net'"),
        ("net 192.0.2.0/33", 'illegal CIDR notation "192.0.2.0/33"'),
        ("namespace", "Wrong argument count or unexpected line ending after 'namespace'"),
        (f"namespace {'x' * 64}", f'"{"x" * 64}" is longer than 63 octets'),
        ("except", "Wrong argument count or unexpected line ending after 'except'"),
        ("always on", "unexpected token \"on\"; expect 'no_lookup'"),
        ("always no_lookup on", "Wrong argument count or unexpected line ending after 'on'"),
        ("break_dnssec on", "Wrong argument count or unexpected line ending after 'on'"),
        ("break-dnssec", "unknown property 'break-dnssec'"),
    ],
)
def test_errors(line: str, message: str) -> None:
    with pytest.raises(CorefileError) as caught:
        parse(Controller.of(f"filter_aaaa {{\n {line}\n}}"))
    assert str(caught.value) == f"Testfile:2 - Error during parsing: {message}"


def test_pods_must_be_known(serve: Callable[..., Server]) -> None:
    for pods in ("", "    kubernetes cluster.local {\n manifests {dir}\n pods insecure\n }\n"):
        server = serve(f".:{{port}} {{\n filter_aaaa {{\n  namespace a\n }}\n{pods} whoami\n}}\n", wait=False)
        assert server.exit_status() == 1
        assert (
            f"plugin/filter_aaaa: {server.folder}/Corefile:2 - Error during parsing: namespace needs a plugin in the server block that knows which pod asks: "
            "kubernetes with 'pods verified'"
        ) in server.log()
