"""The native master-file parser, with dnspython as the oracle."""

from __future__ import annotations

import dns.name
import dns.rdataclass
import dns.rdatatype
import dns.zonefile
import pytest

from fastdns._wire import name_text
from fastdns.zonefile import parser
from fastdns.zonefile.rdata import lower, valid

ORIGIN = "example.org."

#: Types and rdata that dnspython reads as we do.
RDATA = """
A 192.0.2.1
NS ns
CNAME www.example.net.
PTR @
HINFO "a b" "c"
MX 10 mail
TXT "hello world" foo "\\"quoted\\"" \\065\\; "semi;colon"
RP mbox txt
AFSDB 1 server
X25 311061700956
ISDN 150862028003217 004
RT 10 relay
PX 10 map822 mapx400
GPOS -32.6882 116.8652 10.0
AAAA 2001:db8::1
AAAA ::ffff:192.0.2.1
LOC 52 22 23.000 N 4 53 32.000 E -2.00m 1m 10000m 10m
LOC 42 21 54 S 71 06 18 W 24m 30m
SRV 0 5 5060 sip
NAPTR 100 10 "u" "E2U+sip" "!^.*$!sip:info@example.org!" .
KX 10 kx
CERT PGP 0 0 AQID
DNAME elsewhere.example.
APL 1:192.168.32.0/21 !1:192.168.38.0/28 2:ff00::/8
DS 60485 5 1 2BB183AF5F22588179A53B0A 98631FAD1A292118
SSHFP 2 1 123456789abcdef67890123456789abcdef67890
IPSECKEY 10 1 2 192.0.2.38 AQNRU3mG7TVTO2BkR47usntb102uFJtugbo6BSGvgqt4AQ==
IPSECKEY 10 0 2 . AQNRU3mG7TVTO2BkR47usntb102uFJtugbo6BSGvgqt4AQ==
IPSECKEY 10 3 2 gateway AQNRU3mG7TVTO2BkR47usntb102uFJtugbo6BSGvgqt4AQ==
IPSECKEY 10 2 2 2001:db8::1 AQNRU3mG7TVTO2BkR47usntb102uFJtugbo6BSGvgqt4AQ==
RRSIG A 5 3 86400 20030322173103 20030220173103 2642 @ oJB1W6WNGv+ldvQ3WDG0MQkg5IEhjRip8WTrPYGv07h108dUKGMeDPKijVCHX3DD
NSEC host A MX RRSIG NSEC TYPE1234
NSEC a.example.com. A CAA TYPE65000
DNSKEY 256 3 5 AQPSKmynfzW4kyBv015MUG2DeIQ3Cbl+BBZH4b/0PY1kxkmvHjcZc8nokfzj31GajIQKY+5CptLr3buXA10hWqTk
DHCID AAIBY2/AuCccgoJbsaxcQc9TUapptP69lOjxfNuVAA2kjEA=
NSEC3 1 1 12 aabbccdd 2t7b4g4vsa5smi47k61mv5bv1a22bojr MX DNSKEY NS SOA NSEC3PARAM RRSIG
NSEC3 1 0 0 - 2t7b4g4vsa5smi47k61mv5bv1a22bojr
NSEC3PARAM 1 0 12 aabbccdd
NSEC3PARAM 1 0 0 -
TLSA 3 1 1 8cb0fc6c527506a053f4f14c8464bebb d6dede2738d11468dd953d7d6a3021f1
SMIMEA 3 0 0 30820454
HIP 2 200100107B1A74DF365639CC39F1D578 AwEAAbdxyhNuSutc5EMzxTs9LBPCIkOFH8cIvM4p9+LrV4e19WzK00+CI6zBCQTdtWsuxKbW rvs1.example.com. rvs2
NINFO "zone status"
CDS 60485 5 1 2BB183AF5F22588179A53B0A98631FAD1A292118
CDNSKEY 256 3 5 AQPSKmynfzW4kyBv015MUG2DeIQ3Cbl+BBZH4b/0PY1kxkmvHjcZc8nokfzj31GajIQKY+5CptLr3buXA10hWqTk
OPENPGPKEY AQIDBAUG
CSYNC 66 3 A NS AAAA
ZONEMD 2018031500 1 1 c220b8a6ed5728a971902f7e3d4fd93adeea88b0453c2e8e8c863d465ab06cf34eb95b266398c98b59124fa239cb7eeb
SVCB 0 target
SVCB 1 . port=53 mandatory=port,alpn alpn=h2,h3 ipv4hint=192.0.2.1,192.0.2.2 ipv6hint=2001:db8::1 key667="a\\210b"
HTTPS 16 foo alpn="f\\\\\\\\oo\\\\,bar,h2"
HTTPS 1 . no-default-alpn alpn=h2
SPF "v=spf1 -all"
NID 10 0014:4fff:ff20:ee64
L32 10 10.1.2.0
L64 10 2001:0DB8:1140:1000
LP 10 l64-subnet1
EUI48 00-00-5e-00-53-2a
EUI64 00-00-5e-ef-10-00-00-2a
URI 10 1 "ftp://ftp1.example.com/public"
CAA 0 issue "ca.example.net"
CAA 128 tbs Unknown
AVC "app-name:WOLFGANG|app-class:OAM"
AMTRELAY 10 0 1 203.0.113.15
AMTRELAY 10 1 2 2001:db8::15
AMTRELAY 128 1 3 amtrelays
AMTRELAY 0 0 0 .
RESINFO qnamemin exterr=15
A \\# 4 c0000201
TYPE731 \\# 6 abcd ( ef 01 23 45 )
TYPE62347 \\# 0
""".strip().splitlines()


def oracle(text: str) -> list[tuple[bytes, int, int, int, bytes]]:
    origin = dns.name.from_text(ORIGIN)
    found = []
    for rrset in dns.zonefile.read_rrsets(text, origin=origin, relativize=False, default_ttl=300, rdclass=None):
        for item in rrset:
            found.append((rrset.name.to_wire(), int(item.rdtype), int(item.rdclass), rrset.ttl, item.to_wire(origin=origin)))
    return found


@pytest.mark.parametrize("rdata", RDATA)
def test_rdata_is_as_dnspython_reads_it(rdata: str) -> None:
    line = f"name 300 IN {rdata}\n"
    [(owner, kind, klass, ttl, wire)] = parser.parse(line, ORIGIN)
    assert [(owner, kind, klass, ttl, wire)] == oracle(line)
    assert valid(kind, wire)


#: What CoreDNS's parser says about lines that are none; \t stands for itself.
BAD = {
    "garbage\n": 'not a TTL: "garbage" at line: 1:7',
    "a A 192.0.2.1\n": 'missing TTL with no previous value: "A" at line: 1:4',
    "$TTL 300\na A 192.0.2\n": 'bad A A: "192.0.2" at line: 2:11',
    "a 300 IN A 2001:db8::1\n": 'bad A A: "2001:db8::1" at line: 1:22',
    "a 300 IN AAAA 192.0.2.1\n": 'bad AAAA AAAA: "192.0.2.1" at line: 1:23',
    "a 300 IN AAAA ::1\0x\n": 'bad AAAA AAAA: "::1\\x00x" at line: 1:19',
    "a 300 IN MX ten mail\n": 'bad MX Pref: "ten" at line: 1:16',
    "a 300 IN MX 10 mail more\n": 'garbage after rdata: "more" at line: 1:24',
    "a 300 IN MX 10 a..b\n": 'bad MX Mx: "a..b" at line: 1:19',
    "a 300 IN SOA ns host x 1 1 1 1\n": 'bad SOA zone parameter: "x" at line: 1:23',
    "a 300 IN TYPE1x 1\n": 'unknown RR type: "TYPE1x" at line: 1:16',
    "a 300 CLASSx A 1\n": 'unknown class: "CLASSx" at line: 1:13',
    "a 300 IN TYPE731 abc\n": 'bad RFC3597 Rdata: "abc" at line: 1:20',
    "a..b 300 A 192.0.2.1\n": 'bad owner name: "a..b" at line: 1:5',
    "a 300 300 A 192.0.2.1\n": 'expecting RR type or class, not this...: "300" at line: 1:10',
    "a IN x A 192.0.2.1\n": 'not a TTL: "x" at line: 1:7',
    "a 300 any A 192.0.2.1\n": 'unknown RR type: "A" at line: 1:12',
    "a ANY A 192.0.2.1\n": 'not a TTL: "A" at line: 1:8',
    "a ANY 60 TYPE1 \\# 4 01020304\n": 'unknown RR type: "TYPE1" at line: 1:15',
    "a ANY IN A 192.0.2.1\n": 'not a TTL: "IN" at line: 1:9',
    "$TTL x\n": 'expecting $TTL value, not this...: "x" at line: 1:6',
    "$ORIGIN a..b\n": 'bad origin name: "a..b" at line: 1:12',
    "$GENERATE 1-x a$ A 192.0.2.$\n": 'bad stop in $GENERATE range: "1-x" at line: 1:14',
    "$GENERATE 3-1 a$ A 192.0.2.$\n": 'bad range in $GENERATE range: "3-1" at line: 1:14',
    "$GENERATE 1-100000 a$ A 192.0.2.$\n": 'bad range in $GENERATE range: "1-100000" at line: 1:19',
    'a 300 IN TXT "open\n': "unbalanced quotes",
    "a 300 IN A ( 192.0.2.1\n": "unbalanced brace",
    "a 300 IN A 192.0.2.1 )\n": "extra closing brace",
    "a 300 IN ANY \\# 0\n": "unknown",
    "a 300 IN NS \\# 3 c00c00\n": "bad RFC3597 Rdata",
    "a 300 IN RRSIG A 5 3 86400 20030322173103 20030220173103 2642 @ x=y\n": "bad RRSIG Signature",
    "a 300 IN SVCB 1 . alpn=h2 alpn=h3\n": "bad SVCB values",
    "a 300 IN SVCB 1 . nokey=x\n": "bad SVCB key",
    "a 300 IN SVCB 1 . port=99999\n": "bad svcbport: port out of range",
    "a 300 IN SVCB 1 . ipv4hint=1.2.3\n": "bad svcbipv4hint: bad ip",
    "a 300 IN IPSECKEY 10 0 2 example. AQ==\n": "gateway type none with gateway set",
    "a 300 IN IPSECKEY 10 1 2 example. AQ==\n": "gateway IP invalid",
    "a 300 IN NSEC b A NONSENSE\n": 'bad NSEC TypeBitMap: "NONSENSE"',
    "a 300 IN A\n": "unexpected newline",
    " 300 IN A 192.0.2.1\n": "bad owner name",
}


@pytest.mark.parametrize("text", BAD)
def test_what_is_wrong_is_said_with_its_place(text: str) -> None:
    with pytest.raises(parser.ZoneFileError) as caught:
        parser.parse(text, ORIGIN, "db.example.org")
    assert str(caught.value).startswith("db.example.org: dns: ")
    assert BAD[text] in str(caught.value)


def shown(text: str, **options: int) -> list[str]:
    return [
        f"{name_text(owner)} {ttl} {dns.rdatatype.to_text(dns.rdatatype.RdataType.make(kind))} {rdata.hex()}"
        for owner, kind, _, ttl, rdata in parser.parse(text, ORIGIN, **options)  # type: ignore[arg-type]
    ]


#: What a file says -> its records as owner, TTL, type, rdata.
FILES = {
    "$TTL 1h\n\n; comment\na A 192.0.2.1 ; c\n  A 192.0.2.2\n": ["a.example.org. 3600 A c0000201", "a.example.org. 3600 A c0000202"],
    "$ORIGIN sub\na 5 A 192.0.2.1\n$ORIGIN x.\na A 192.0.2.2\n": ["a.sub.example.org. 5 A c0000201", "a.x. 5 A c0000202"],
    "a 1 A 192.0.2.1\nb A 192.0.2.2\n$TTL 9\nc A 192.0.2.3\nd 7 A 192.0.2.4\ne A 192.0.2.5": [
        "a.example.org. 1 A c0000201",
        "b.example.org. 1 A c0000202",
        "c.example.org. 9 A c0000203",
        "d.example.org. 7 A c0000204",
        "e.example.org. 9 A c0000205",
    ],
    "a IN 1w2d3h4m5s A 192.0.2.1\nb 60 IN A 192.0.2.2\nIN IN A 192.0.2.3\n": [
        "a.example.org. 788645 A c0000201",
        "b.example.org. 60 A c0000202",
        "IN.example.org. 60 A c0000203",
    ],
    "@ IN ( A \n 192.0.2.1 ; c\n )\n": ["example.org. 0 A c0000201"],
    "\\097\\.b 0 A 192.0.2.1\r\n": ["a\\.b.example.org. 0 A c0000201"],
    "$TTL 5\n$GENERATE 2-8/3 h${10,4,x} A 192.0.2.$\n": [
        "h000c.example.org. 3600 A c0000202",
        "h000f.example.org. 3600 A c0000205",
        "h0012.example.org. 3600 A c0000208",
    ],
    '$GENERATE 1-1 \\$$$$ 60 IN TXT "$ ${1}" ; c\n': ["$$1.example.org. 60 TXT 03312032"],
    "@ 5 SOA ns host ( 2024010101 ; serial\n 2h 1h30m\n 2w 300 )\n": [
        "example.org. 5 SOA 026e73076578616d706c65036f72670004686f7374076578616d706c65036f72670078a3f17500001c20000015180012750000" + "00012c"
    ],
    'a 5 SVCB 1 . ech="AQID"\n': ["a.example.org. 5 SVCB 00010000050003010203"],
    "": [],
}


@pytest.mark.parametrize("text", FILES)
def test_files(text: str) -> None:
    assert shown(text) == FILES[text]


def test_long_strings_are_cut_into_several() -> None:
    [(_, _, _, _, rdata)] = parser.parse(f'a 5 TXT "{"x" * 300}"\n', ORIGIN)
    assert rdata == b"\xff" + b"x" * 255 + b"\x2d" + b"x" * 45


def test_a_default_ttl_may_be_given() -> None:
    assert shown("a A 192.0.2.1\n", ttl=77) == ["a.example.org. 77 A c0000201"]


def test_canonical_form_has_names_in_lower_case() -> None:
    assert lower(15, b"\x00\x0a\x04MAIL\x00") == b"\x00\x0a\x04mail\x00"
    assert lower(16, b"\x04MAIL") == b"\x04MAIL"
    with pytest.raises(ValueError, match="not rdata of type MX"):
        lower(15, b"\x00\x0a\xc0\x0c")


def test_records_are_given_one_at_a_time() -> None:
    text = b"$ORIGIN a.test.\n@ SOA . . 1 2 3 4 5\nx 5 A 192.0.2.1\n  A 192.0.2.2\n"
    taken: list[parser.ZoneRecord] = []
    parser.feed(text, lambda *record: taken.append(record), ttl=60)
    assert taken == parser.parse(text, ttl=60)
    assert len(taken) == 3

    def refuse(owner: bytes, *rest: object) -> None:
        if len(owner) > 8:
            raise LookupError(owner)
        taken.append((owner, 0, 0, 0, b""))

    taken.clear()
    with pytest.raises(LookupError, match="x"):
        parser.feed(text, refuse, ttl=60)
    assert len(taken) == 1
    with pytest.raises(parser.ZoneFileError, match="line: 2:"):
        parser.feed(b"a.test. 5 A 192.0.2.1\nb.test. 5 A x\n", lambda *_: None)
