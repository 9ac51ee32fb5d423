"""route53: its directive, and texts of Route 53."""

from __future__ import annotations

from pathlib import Path

import dns.rdata
import dns.rdataclass
import dns.rdatatype
import pytest

from fastdns.corefile import CorefileError
from fastdns.plugins.route53 import api
from fastdns.plugins.route53.api import rows, unescape
from fastdns.plugins.route53.settings import parse
from fastdns.setup import Controller
from fastdns.telemetry import log_line
from tests.directives import directives

GOOD = """
route53
route53 example.org:12345678
route53 example.org:12345678 { }
route53 example.org:12345678 { aws_access_key ACCESS SECRET }
route53 example.org:12345678 { fallthrough }
route53 example.org:12345678 { credentials default }
route53 example.org:12345678 { credentials default credentials }
route53 example.org:12345678 { refresh 90 }
route53 example.org:12345678 { refresh 5m }
route53 example.org:12345678 { upstream 1.2.3.4 }
route53 example.org:12345678 { aws_endpoint https://localhost }
route53 example.org:12345678 { snapshot . }
route53 example.org:12345678 example.org:87654321
""".strip().splitlines()

BAD = {
    "route53 :": 'invalid zone ":"',
    "route53 example.org": 'invalid zone "example.org"',
    "route53 example.org:": 'invalid zone "example.org:"',
    "route53 example.org:1 example.org:1": 'conflict zone "example.org:1"',
    "route53 example.org:1 { wat }": 'unknown property "wat"',
    "route53 example.org:1 { aws_access_key }": "invalid access key: '[]'",
    "route53 example.org:1 { aws_access_key SECRET }": "invalid access key: '[...]'",
    "route53 example.org:1 { aws_endpoint }": "Wrong argument count or unexpected line ending after 'aws_endpoint'",
    "route53 example.org:1 { credentials }": "Wrong argument count or unexpected line ending after 'credentials'",
    "route53 example.org:1 { refresh }": "Wrong argument count or unexpected line ending after 'refresh'",
    "route53 example.org:1 { refresh foo }": 'Unable to parse duration: time: invalid duration "foo"',
    "route53 example.org:1 { refresh 0 }": 'refresh interval must be greater than 0: "0s"',
    "route53 example.org:1 { refresh -1m }": 'refresh interval must be greater than 0: "-1m"',
    "route53 example.org:1 { snapshot }": "Wrong argument count or unexpected line ending after 'snapshot'",
}


def controller(text: str) -> Controller:
    made = directives(text)
    made.next()
    return made


@pytest.mark.parametrize("text", GOOD)
def test_good(text: str) -> None:
    parse(controller(text))


@pytest.mark.parametrize("text", BAD)
def test_bad(text: str) -> None:
    with pytest.raises(CorefileError) as caught:
        parse(controller(text))
    assert BAD[text] in str(caught.value)


def test_values() -> None:
    settings = parse(controller("route53 Example.ORG:Z1 example.org.:Z2 { refresh 90 }"))
    assert settings.zones == [("example.org.", "Z1"), ("example.org.", "Z2")]
    assert settings.refresh == 90


NAMES = {
    r"\052.example.com.": "*.example.com.",
    r"\052": "*",
    r"\141\055\060\056x.": "a-0.x.",
    "example.com.": "example.com.",
    r"a.\052.example.com.": ValueError("`*' only supported as wildcard (leftmost label)"),
    r"\137.example.com.": ValueError(r"invalid character: \0137"),
    r"\000.example.com.": ValueError(r"invalid character: \000"),
    r"example.com\05": ValueError(r"invalid escape sequence: '\05'"),
    r"\888.example.com.": ValueError(r"invalid escape sequence: '\888'"),
    r"\200.example.com.": ValueError(r"invalid escape sequence: '\200'"),
}


@pytest.mark.parametrize("text", NAMES)
def test_unescape(text: str) -> None:
    wanted = NAMES[text]
    if isinstance(wanted, str):
        assert unescape(text) == wanted
        return
    with pytest.raises(ValueError) as caught:
        unescape(text)
    assert str(caught.value) == str(wanted)


VALUES = [
    ("A", "192.0.2.1", "192.0.2.1"),
    ("AAAA", "2001:db8::1", "2001:db8::1"),
    ("CNAME", "Target.example.org", "Target.example.org."),
    ("MX", "10 mail.example.org.", "10 mail.example.org."),
    ("SRV", "1 2 3 host.example.org.", "1 2 3 host.example.org."),
    ("CAA", '0 issue "ca.example.net"', '0 issue "ca.example.net"'),
    ("TXT", '"one" "two; three"', '"one" "two; three"'),
    ("TXT", r'"a \"word\" \\ \052 \303\251"', r'"a \"word\" \\ * \195\169"'),
    ("SPF", '"v=spf1 -all"', '"v=spf1 -all"'),
    ("HTTPS", "1 . alpn=h2", '1 . alpn="h2"'),
    ("NAPTR", '100 10 "u" "sip+E2U" "!^.*$!sip:x@example.org!" .', '100 10 "u" "sip+E2U" "!^.*$!sip:x@example.org!" .'),
    ("DS", "1 8 2 " + "ab" * 32, "1 8 2 " + "ab" * 32),
]


@pytest.mark.parametrize(("kind", "value", "wanted"), VALUES)
def test_values_of_types(kind: str, value: str, wanted: str) -> None:
    ((owner, number, ttl, rdata),) = rows({"Name": r"\052.Example.org.", "Type": kind, "TTL": 60, "ResourceRecords": [{"Value": value}]})
    assert (owner, ttl) == (b"\1*\7example\3org\0", 60)
    assert dns.rdata.from_wire(dns.rdataclass.IN, dns.rdatatype.RdataType.make(number), rdata, 0, len(rdata)).to_text() == wanted


SKIPPED = {
    ("A", "x"): "failed to parse resource record: dns: bad A A: 'x'",
    ("WHAT", "x"): "failed to parse resource record: dns: no record type: WHAT",
    ("CNAME", r"\137.example.org"): r"failed to unescape `\137.example.org' value: invalid character: \0137",
}


@pytest.mark.parametrize(("kind", "value"), SKIPPED)
def test_the_rest_of_a_set_is_left_out(kind: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    monkeypatch.setattr(log_line, "put", lambda *line: lines.append(log_line.compose(*line).decode()))
    assert list(rows({"Name": "a.example.org.", "Type": kind, "TTL": 60, "ResourceRecords": [{"Value": value}, {"Value": "192.0.2.1"}]})) == []
    assert lines == [f"[WARNING] plugin/route53: Failed to process resource record set: {SKIPPED[kind, value]}"]


def test_an_alias_has_no_records() -> None:
    assert list(rows({"Name": "a.example.org.", "Type": "A", "AliasTarget": {"DNSName": "b.example.org."}})) == []


def test_profiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A profile's keys, from a file of either form."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for section in ("far", "profile far"):
        file = tmp_path / "credentials"
        file.write_text(f"[{section}]\naws_access_key_id = A\naws_secret_access_key = B\n")
        settings = parse(controller(f"route53 example.org:1 {{ credentials far {file} }}"))
        assert api.Api(settings)._client._request_signer._credentials.access_key == "A"
