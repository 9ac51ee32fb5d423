"""grpc: what the Corefile may say."""

from __future__ import annotations

import pytest

from fastdns.corefile import CorefileError
from fastdns.plugins.grpc import parse
from fastdns.setup import Controller


@pytest.mark.parametrize(
    ("text", "zone", "places"),
    [
        ("grpc . 127.0.0.1", ".", ["127.0.0.1:53"]),
        ("grpc Example.ORG 127.0.0.1:9005 [::1]:53 ::1", "example.org.", ["127.0.0.1:9005", "[::1]:53", "[::1]:53"]),
        ("grpc . grpc://192.0.2.1", ".", ["192.0.2.1:443"]),
        ("grpc 10.9.0.0/15 192.0.2.1", "8.10.in-addr.arpa.", ["192.0.2.1:53"]),
        ("grpc . unix:///tmp/s", ".", ["unix:///tmp/s"]),
        ("grpc . 127.0.0.1 {\n except a.test b.test\n except c.test\n}", ".", ["127.0.0.1:53"]),
        ("grpc . 127.0.0.1 {\n tls\n}", ".", ["127.0.0.1:53"]),
        ("grpc . 127.0.0.1 {\n tls_servername dns.test\n policy round_robin\n fallthrough\n}", ".", ["127.0.0.1:53"]),
        ("grpc . " + "127.0.0.1 " * 15, ".", ["127.0.0.1:53"] * 15),
    ],
)
def test_good(text: str, zone: str, places: list[str]) -> None:
    options = parse(Controller.of(text))
    assert options.zone == zone
    assert [target.text for target in options.targets] == places


def test_properties() -> None:
    text = "grpc . 127.0.0.1 {\n except A.test\n tls a b c\n tls_servername n\n policy sequential\n fallthrough x.test Y.test\n}"
    options = parse(Controller.of(text))
    assert (options.excepted, options.tls, options.servername, options.policy) == (["a.test."], ["a", "b", "c"], "n", "sequential")
    assert options.fall == ["x.test.", "y.test."]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("grpc", "Testfile:1 - Error during parsing: Wrong argument count or unexpected line ending after 'grpc'"),
        ("grpc .", "Testfile:1 - Error during parsing: Wrong argument count or unexpected line ending after '.'"),
        ("grpc . example.org", 'not an IP address or file: "example.org"'),
        ("grpc . 127.0.0.1 {\n except\n}", "Wrong argument count"),
        ("grpc . 127.0.0.1 {\n tls a b c d\n}", "Wrong argument count"),
        ("grpc . 127.0.0.1 {\n tls_servername\n}", "Wrong argument count"),
        ("grpc . 127.0.0.1 {\n policy\n}", "Wrong argument count"),
        ("grpc . 127.0.0.1 {\n policy best\n}", "Testfile:2 - Error during parsing: unknown policy 'best'"),
        ("grpc . 127.0.0.1 {\n health_check 1s\n}", "Testfile:2 - Error during parsing: unknown property 'health_check'"),
        ("grpc . " + "127.0.0.1 " * 16, "more than 15 TOs configured: 16"),
        ("grpc . 127.0.0.1\ngrpc . 127.0.0.1", "this plugin can only be used once per Server Block"),
    ],
)
def test_bad(text: str, error: str) -> None:
    with pytest.raises((CorefileError, ValueError)) as caught:
        parse(Controller.of(text))
    assert error in str(caught.value)
