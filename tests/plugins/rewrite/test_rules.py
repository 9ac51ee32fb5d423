"""The words of rewrite, good and bad, as CoreDNS takes them."""

from __future__ import annotations

import pytest

from fastdns.corefile import CorefileError
from fastdns.plugins.rewrite import parse
from fastdns.plugins.rewrite.rules import parse_rule
from fastdns.setup import Controller

GOOD = [
    "name a.com b.com",
    "NAME EXACT a.com b.com",
    "continue name prefix a.com b.com",
    "stop name suffix a.com b.com",
    "name substring a.com b.com",
    "name regex (core).* {1}.dns",
    "name regex (core).* {0}.dns",
    "name regex (core).* {2}.dns",
    "name suffix a.com b.com answer auto",
    "name regex (a)(b) {1}{2} answer name a b answer value a b",
    "name regex (a)(b) {1}{2} answer name a b value a b",
    "name prefix a b answer auto answer value a b",
    "name regex (a)(b) {0}{1}.{02}.{geoip/country/code} metadata",
    "name regex a {geoip/city/name}.b metadata answer auto",
    "type any hinfo",
    "class hs ch",
    "ttl example.com 5",
    "ttl exact example.com 5-10",
    "ttl suffix example.com -10",
    "ttl regex (.*) 10-",
    "rcode example.com SERVFAIL NOERROR",
    "rcode regex (.*) nxdomain 0",
    "cname a.com b.com",
    "cname regex (.*) {1}.b.",
    "edns0 local set 0xffee 0x01",
    "edns0 local set 65518 abc",
    "edns0 local append 0o17 abc revert",
    "edns0 local replace 010 {qname}",
    "edns0 local set 0xffee {plugin/label/more}",
    "edns0 local unset 0xffee",
    "edns0 nsid set",
    "edns0 nsid append revert",
    "edns0 nsid unset",
    "edns0 subnet set 24 56",
    "edns0 subnet replace 32 128 revert",
    "edns0 subnet unset",
]

BAD = [
    ("", "no rule type specified for rewrite"),
    ("stop", "stop rule must begin with a rule type"),
    ("continue", "continue rule must begin with a rule type"),
    ("foo a b", 'invalid rule type "foo"'),
    ("continue foo a b", 'invalid rule type "continue"'),
    ("answer name a b", "response rewrites must begin with a name rule"),
    ("name a", "too few arguments for a name rule"),
    ("name foo a b", "name rule supports only exact, prefix, suffix, substring, and regex name matching, received: foo"),
    ("name exact a b c", "invalid arguments for exact rule"),
    ("name exact a b c d", "exceeded the number of arguments for a non-answer rule argument for exact rule"),
    ("name exact a b answer name", "name answer rule for exact rule: 2 arguments required"),
    ("name exact a b answer value x", "value answer rule for exact rule: 2 arguments required"),
    ("name exact a b answer foo x y", 'invalid type "foo" for answer rule for exact rule'),
    ("name exact a b answer auto answer", "type missing for answer rule for exact rule"),
    ("name prefix a b answer auto name x y", "auto name answer rule cannot be combined with explicit name anwer rules"),
    ("name exact a *.example", "invalid regex matching pattern: *.example."),
    ("name regex ( b", "invalid regex matching pattern: ("),
    (
        "name regex (a) {0}{1}",
        "the rewrite regex pattern ({0}{1}) uses more subexpressions than its corresponding matching regex pattern ((a))",
    ),
    ("name regex " + "a" * 10001 + " b", "regex pattern too long: 10001 > 10000"),
    ("name exact a b answer value ( x", "value answer rule for exact rule: invalid regex matching pattern: ("),
    ("name regex a {missing} metadata", 'invalid metadata label "missing" in name replacement'),
    ("name regex a {test/} metadata", 'invalid metadata label "test/" in name replacement'),
    ("name regex a {/value} metadata", 'invalid metadata label "/value" in name replacement'),
    ("name regex a {{test/value}} metadata", 'invalid metadata label "{test/value" in name replacement'),
    ("name regex a {} metadata", 'invalid metadata label "" in name replacement'),
    ("name regex a {test/value metadata", "unclosed placeholder in metadata name replacement"),
    ("name regex a test/value} metadata", "unmatched closing brace in metadata name replacement"),
    ("name regex (a) {2}.{test/value} metadata", "capture group 2 does not exist in name matching pattern"),
    ("name regex (a) {-1}.{test/value} metadata", "capture group -1 does not exist in name matching pattern"),
    ("name exact a {test/value} metadata", "metadata is only supported for regex name rules"),
    ("name suffix a {test/value} metadata answer auto", "metadata is only supported for regex name rules"),
    ("name regex ( {test/value} metadata", "invalid regex matching pattern: ("),
    ("name regex a {test/value} metadata answer", "invalid arguments for regex rule"),
    ("name regex a {test/value} answer auto metadata", 'invalid type "metadata" for answer rule for regex rule'),
    ("class in", "class rules must have exactly two arguments"),
    ("continue type a b c", "type rules must have exactly two arguments"),
    ("class XX in", 'invalid class "XX"'),
    ("type any xx", 'invalid type "XX"'),
    ("ttl a", "too few (1) arguments for a ttl rule"),
    ("ttl a x", "invalid TTL 'x' for a ttl rule"),
    ("ttl a -", "invalid TTL '-' for a ttl rule"),
    ("ttl a 5-4", "invalid TTL '5-4' for a ttl rule"),
    ("ttl a 1-2-3", "invalid TTL '1-2-3' for a ttl rule"),
    ("ttl a 4294967296", "invalid TTL '4294967296' for a ttl rule"),
    ("ttl exact a b c", "invalid TTL '' for a ttl rule"),
    ("ttl foo a 5", "ttl rule supports only exact, prefix, suffix, substring, and regex name matching"),
    ("ttl regex ( 5", "invalid regex pattern in a ttl rule: ("),
    ("ttl regex " + "a" * 10001 + " 5", "regex pattern too long in a ttl rule: 10001 > 10000"),
    ("rcode a SERVFAIL", "too few (2) arguments for a rcode rule"),
    ("rcode a x NOERROR", "invalid matching RCODE 'x' for a rcode rule"),
    ("rcode a NOERROR BADVERS", "invalid replacement RCODE 'BADVERS' for a rcode rule"),
    ("rcode a NOERROR 24", "invalid replacement RCODE '24' for a rcode rule"),
    ("rcode foo a 0 1", "rcode rule supports only exact, prefix, suffix, substring, and regex name matching"),
    ("cname a", "too few (1) arguments for a cname rule"),
    ("cname exact a b c", "too few (4) arguments for a cname rule"),
    ("cname foo a b", "unknown cname rewrite type: foo"),
    ("cname regex ( b", "invalid cname rewrite regex pattern: error parsing regexp: missing closing ): `(`"),
    ("edns0 local", "too few arguments for an EDNS0 rule"),
    ("edns0 local foo a b", 'invalid action: "foo"'),
    ("edns0 foo set a", 'invalid rule type "foo"'),
    ("edns0 foo unset", 'invalid rule type "foo"'),
    ("edns0 local set 1", "EDNS0 local rules require three or four args"),
    ("edns0 nsid set x", "EDNS0 NSID rules can accept no more than one arg"),
    ("edns0 subnet set 24", "EDNS0 subnet rules require three or four args"),
    ("edns0 local unset", "local unset action requires exactly two arguments"),
    ("edns0 nsid unset revert", "nsid unset action requires exactly one argument"),
    ("edns0 subnet unset 1", "subnet unset action requires exactly one argument"),
    ("edns0 local set x abc", 'strconv.ParseUint: parsing "x": invalid syntax'),
    ("edns0 local set 65536 abc", 'strconv.ParseUint: parsing "65536": value out of range'),
    ("edns0 local set 1 0xz", "encoding/hex: invalid byte: U+007A 'z'"),
    ("edns0 local set 1 0xabc", "encoding/hex: odd length hex string"),
    ("edns0 local set 1 {dummy}", 'unsupported variable name "{dummy}"'),
    ("edns0 subnet set 33 56", "invalid IPv4 bit mask length 33"),
    ("edns0 subnet set 24 129", "invalid IPv6 bit mask length 129"),
]


@pytest.mark.parametrize("text", GOOD)
def test_good(text: str) -> None:
    parse_rule(text.split())


@pytest.mark.parametrize(("text", "message"), BAD, ids=[text[:40] for text, _ in BAD])
def test_bad(text: str, message: str) -> None:
    with pytest.raises(CorefileError) as caught:
        parse_rule(text.split())
    assert str(caught.value).startswith(message)
    if not message.endswith(": "):
        assert str(caught.value) == message


def test_a_block_is_one_rule() -> None:
    rules = parse(Controller.of("rewrite continue {\n name regex (a) b\n answer name b a\n}\nrewrite type A AAAA"))
    assert [(rule.field, rule.stop, len(rule.answers)) for rule in rules] == [("name", False, 1), ("type", True, 0)]
