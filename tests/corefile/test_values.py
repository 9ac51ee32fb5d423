"""Durations, numbers, zones and addresses: spec sections 5 and 8, with Go's words in errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from fastdns.corefile import address, duration, zone

MS, S = 10**6, 10**9

DURATIONS = [
    ("0", 0), ("+0", 0), ("5s", 5 * S), ("-1.5s", -1500 * MS), ("1h30m", 5400 * S), ("250ms", 250 * MS), (".5s", 500 * MS), ("1.s", S),
    ("3us", 3000), ("3µs", 3000), ("3μs", 3000), ("7ns", 7), ("0.000000001s", 1), ("9223372036854775807ns", 2**63 - 1),
    ("-9223372036854775808ns", -(2**63)),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), DURATIONS)
def test_duration(text: str, expected: int) -> None:
    assert duration.parse_duration(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", 'time: invalid duration ""'), ("x", 'time: invalid duration "x"'), ("5", 'time: missing unit in duration "5"'),
        ("5x", 'time: unknown unit "x" in duration "5x"'), (".s", 'time: invalid duration ".s"'), ("--1s", 'time: invalid duration "--1s"'),
        ("5 s", 'time: unknown unit " s" in duration "5 s"'), ("9223372036854775808ns", 'time: invalid duration "9223372036854775808ns"'),
        ("1" * 50 + "s", f'time: invalid duration "{"1" * 50}s"'), ('5"', 'time: unknown unit "\\"" in duration "5\\""'),
    ],
)  # fmt: skip
def test_duration_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        duration.parse_duration(text)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0s"), (1, "1ns"), (1500, "1.5µs"), (250 * MS, "250ms"), (1500 * MS, "1.5s"), (60 * S, "1m0s"), (3600 * S, "1h0m0s"),
        (-S, "-1s"), (5400 * S + 1, "1h30m0.000000001s"), (2 * S, "2s"), (100 * S, "1m40s"), (10 * S, "10s"), (100 * MS, "100ms"),
    ],
)  # fmt: skip
def test_duration_printed(value: int, text: str) -> None:
    assert duration.format_duration(value) == text


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("12", 12), ("-3", -3), ("+3", 3), ("007", 7), ("x", 'strconv.Atoi: parsing "x": invalid syntax'),
        ("", 'strconv.Atoi: parsing "": invalid syntax'), ("1_0", 'strconv.Atoi: parsing "1_0": invalid syntax'),
        ("٣", 'strconv.Atoi: parsing "٣": invalid syntax'), (" 1", 'strconv.Atoi: parsing " 1": invalid syntax'),
        ("9" * 30, f'strconv.Atoi: parsing "{"9" * 30}": value out of range'),
        ("9" * 9000, f'strconv.Atoi: parsing "{"9" * 9000}": value out of range'),
    ],
)  # fmt: skip
def test_integer(text: str, outcome: int | str) -> None:
    if isinstance(outcome, int):
        assert duration.parse_int(text) == outcome
        return
    with pytest.raises(ValueError) as caught:
        duration.parse_int(text)
    assert str(caught.value) == outcome


def test_unsigned() -> None:
    assert duration.parse_uint("4294967295", 32) == 2**32 - 1
    for text, problem in (("4294967296", "value out of range"), ("-1", "invalid syntax"), ("", "invalid syntax")):
        with pytest.raises(ValueError) as caught:
            duration.parse_uint(text, 32)
        assert str(caught.value) == f'strconv.ParseUint: parsing "{text}": {problem}'


KEYS = [
    ("a.org", ["dns://a.org.:5300"]),
    ("A.Org.:053", ["dns://a.org.:53"]),
    (".", ["dns://.:5300"]),
    (".:53", ["dns://.:53"]),
    ("dns://a.org", ["dns://a.org.:5300"]),
    ("tls://a.org", ["tls://a.org.:853"]),
    ("quic://a.org", ["quic://a.org.:853"]),
    ("grpc://a.org", ["grpc://a.org.:443"]),
    ("https://a.org:8443", ["https://a.org.:8443"]),
    ("https3://.", ["https3://.:443"]),
    ("xyz://a.org", ["dns://xyz://a.org.:5300"]),
    ("TLS://a.org", ["dns://tls://a.org.:5300"]),
    ("a.org:99999", ["dns://a.org.:99999"]),
    ("a.org:53{", ["dns://a.org:53{.:5300"]),
    ("10.0.0.0/15", ["dns://0.10.in-addr.arpa.:5300", "dns://1.10.in-addr.arpa.:5300"]),
    ("10.0.0.0/24:53", ["dns://0.0.10.in-addr.arpa.:53"]),
    ("192.168.1.1/23", ["dns://0.168.192.in-addr.arpa.:5300", "dns://1.168.192.in-addr.arpa.:5300"]),
    ("10.129.60.0/22", [f"dns://{n}.129.10.in-addr.arpa.:5300" for n in (60, 61, 62, 63)]),
    ("0.0.0.0/0", ["dns://in-addr.arpa.:5300"]),
    ("10.0.0.1/32", ["dns://1.0.0.10.in-addr.arpa.:5300"]),
    ("2001:db8::/31", ["dns://8.b.d.0.1.0.0.2.ip6.arpa.:5300", "dns://9.b.d.0.1.0.0.2.ip6.arpa.:5300"]),
    ("2001:DB8::/32", ["dns://8.b.d.0.1.0.0.2.ip6.arpa.:5300"]),
    ("10.0.0.0/33", ["dns://10.0.0.0/33.:5300"]),
    ("10.0.0/24", ["dns://10.0.0/24.:5300"]),
    ("}", ["dns://}.:5300"]),
    ("ȶ", ["dns://ȶ.:5300"]),
]


@pytest.mark.parametrize(("text", "expected"), KEYS)
def test_key(text: str, expected: list[str]) -> None:
    assert [str(address) for address in zone.parse_key(text, "5300")] == expected


def test_classless_network_is_128_zones() -> None:
    zones = zone.reverse_zones("10.0.0.0/17")
    assert len(zones) == 128
    assert (zones[0], zones[-1]) == ("0.0.10.in-addr.arpa.", "127.0.10.in-addr.arpa.")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a.org:", 'expecting data after last colon: "a.org:"'),
        ("dns://", 'expecting data after last colon: ""'),
        (":53", "zone is not a valid domain name: "),
        ("a..b", "zone is not a valid domain name: a..b"),
        (".a", "zone is not a valid domain name: .a"),
        ("a" * 64, f"zone is not a valid domain name: {'a' * 64}"),
        ("a." * 140, "specified zone is too long: 280 > 255"),
        ("é" * 128, "specified zone is too long: 256 > 255"),
        ("::1/128", "invalid CIDR ::1/128"),
        ("0::/8", "invalid CIDR 0::/8"),
    ],
)
def test_key_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        zone.parse_key(text, "53")
    assert str(caught.value) == message


def test_domain_names() -> None:
    for text in ("a", "a.", "a\\.b.", "a\\046b", "x" * 63, ".".join(["x" * 63] * 3 + ["x" * 61]), "a\\\\."):
        assert zone.is_domain_name(text), text
    for text in ("", "..", "a..", "\\", ".".join(["x" * 63] * 3 + ["x" * 62]), ".a."):
        assert not zone.is_domain_name(text), text
    assert zone.fqdn("a\\.") == "a\\.."
    assert zone.fqdn("a\\\\.") == "a\\\\."


def test_origins() -> None:
    assert zone.origins("tls://A.org:853") == ["a.org."]
    assert zone.origins("10.0.0.0/16") == ["0.10.in-addr.arpa."]
    assert zone.origins("a..b") == []


ADDRESSES = [
    ("127.0.0.1", "127.0.0.1:53"), ("127.0.0.1:54", "127.0.0.1:54"), ("::1", "[::1]:53"), ("[::1]:54", "[::1]:54"),
    ("[fe80::1%lo]:54", "[fe80::1%lo]:54"), ("fe80::1%lo", "[fe80::1%lo]:53"), ("dns://127.0.0.1", "127.0.0.1:53"),
    ("tls://127.0.0.1", "tls://127.0.0.1:853"), ("tls://127.0.0.1:1", "tls://127.0.0.1:1"), ("grpc://::1", "grpc://[::1]:443"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), ADDRESSES)
def test_upstream_address(text: str, expected: str) -> None:
    assert address.host_port_or_file(text) == [expected]


def test_upstream_file(tmp_path: Path) -> None:
    path = tmp_path / "resolv.conf"
    path.write_text("# x\nsearch a.org\nnameserver 192.0.2.1\nnameserver fe80::1%eth0\n")
    assert address.host_port_or_file(str(path), "192.0.2.2") == ["192.0.2.1:53", "[fe80::1]:53", "192.0.2.2:53"]
    path.write_text("")
    with pytest.raises(ValueError, match="no valid upstream addresses found"):
        address.host_port_or_file(str(path))


@pytest.mark.parametrize("text", ["300.1.1.1:xx", "a.org", "dns://", "127.0.0.01", "[::1", "a\0b"])
def test_upstream_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"not an IP address or file|invalid address"):
        address.host_port_or_file(text)


def test_host_port() -> None:
    assert address.host_port("127.0.0.1", "53") == "127.0.0.1:53"
    assert address.host_port("127.0.0.1:9", "53") == "127.0.0.1:9"
    assert address.host_port("::1", "53") == "[::1]:53"
    with pytest.raises(ValueError, match="must specify an IP address: `x'"):
        address.host_port("x", "53")


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        (":53", ("", "53")), ("[::1]:53", ("::1", "53")), ("a:b", ("a", "b")), ("a", "missing port in address"),
        ("::1", "too many colons in address"), ("[::1]", "missing port in address"), ("[::1", "missing ']' in address"),
        ("[::1]x:1", "missing port in address"), ("a[b:1", "unexpected '[' in address"), ("a]b:1", "unexpected ']' in address"),
    ],
)  # fmt: skip
def test_split_address(text: str, outcome: tuple[str, str] | str) -> None:
    if isinstance(outcome, tuple):
        assert address.split_address(text) == outcome
        return
    with pytest.raises(ValueError) as caught:
        address.split_address(text)
    assert str(caught.value) == f"address {text}: {outcome}"
