"""secondary: zones from primaries that behave, and from others."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import dns.flags
import dns.message
import dns.opcode
import dns.query
import dns.rcode
import dns.rdata
import dns.rdataclass
import dns.rdatatype
import dns.rrset
import dns.tsigkeyring
import pytest

from fastdns.corefile import CorefileError
from fastdns.plugins.secondary.settings import parse
from fastdns.setup import Controller
from tests.plugins.secondary.kept import serial_in
from tests.plugins.secondary.primary import Messages, Primary
from tests.server import Server
from tests.waiting import REPLY, until

Serve = Callable[..., Server]

HEAD = "@ 60 IN SOA ns host {serial} {refresh} {retry} {expire} 60\n@ 60 IN NS ns\nns 60 IN A 192.0.2.53\n"


def zone(serial: int, text: str = "", refresh: int = 3600, retry: int = 600, expire: int = 86400) -> str:
    return HEAD.format(serial=serial, refresh=refresh, retry=retry, expire=expire) + text


def corefile(primaries: str, more: str = "", block: str = "") -> str:
    return f"example.org:{{port}} {{\n    secondary {{\n        transfer from {primaries}\n        {more}\n    }}\n    {block}\n}}\n"


Make = Callable[..., Primary]

GOOD = """
secondary { transfer from 192.0.2.1 }
secondary { transfer from 192.0.2.1:54 [2001:db8::1]:55 2001:db8::1 }
secondary example.net { transfer from 192.0.2.1 ; transfer from 192.0.2.2 ; fallthrough }
secondary { catalog ; transfer from 192.0.2.1 }
secondary { catalog example.net example.com ; transfer from 192.0.2.1 ; catalog example.net }
secondary { transfer from 192.0.2.1 ; key k.example. c2VjcmV0 }
secondary { transfer from 192.0.2.1 ; key k.example. c2VjcmV0 HMAC-SHA512 ; max_records 5 ; max_octets 5 ; max_time 5s ; store . }
secondary { transfer from tls://192.0.2.1 192.0.2.1 tls://[2001:db8::1]:5853 ; tls ; tls_servername ns.example.org }
secondary { transfer from tls://192.0.2.1%ns1.example.org:854 tls://[2001:db8::1%ns2.example.org] }
""".strip().splitlines()

BAD = {
    "secondary": "secondary zones require a transfer from property",
    "secondary { }": "secondary zones require a transfer from property",
    "secondary { transfer }": "Wrong argument count",
    "secondary { transfer from }": "Wrong argument count",
    "secondary { transfer to 192.0.2.1 }": "unknown property to",
    "secondary { transfer from * }": "can't use '*' in transfer from",
    "secondary { transfer from example.org }": "must specify an IP address: `example.org'",
    "secondary { catalog : ; transfer from 192.0.2.1 }": 'invalid catalog member zone ":"',
    "secondary { transfer from 192.0.2.1 ; nonsense }": "unknown property 'nonsense'",
    "secondary { transfer from 192.0.2.1 ; key k }": "Wrong argument count",
    "secondary { transfer from 192.0.2.1 ; key k c2VjcmV0 md4 }": "unknown algorithm 'md4'",
    "secondary { transfer from 192.0.2.1 ; key k =!= }": "bad key",
    "secondary { transfer from https://192.0.2.1 }": "must specify an IP address",
    "secondary { transfer from tls://ns.example.org }": "must specify an IP address: `ns.example.org'",
    "secondary { transfer from 192.0.2.1 ; tls }": "Testfile:4 - Error during parsing: tls and tls_servername need a primary with tls://",
    "secondary { transfer from 192.0.2.1 ; tls_servername x }": "tls and tls_servername need a primary with tls://",
    "secondary { transfer from tls://192.0.2.1 ; tls a b c d }": "Wrong argument count",
    "secondary { transfer from tls://192.0.2.1 ; tls_servername }": "Wrong argument count",
    "secondary { transfer from tls://192.0.2.1%a ; tls_servername b }": "both tls_servername ('b') and an address name the certificate of a primary",
}


def lines(text: str) -> str:
    return text.replace("{ ", "{\n").replace(" ; ", "\n").replace(" }", "\n}")


@pytest.mark.parametrize("text", GOOD)
def test_good_blocks(text: str) -> None:
    block = parse(Controller.of(lines(text), ["example.org."]))
    assert block.settings


@pytest.mark.parametrize("text", BAD)
def test_bad_blocks(text: str) -> None:
    with pytest.raises((CorefileError, ValueError)) as caught:
        parse(Controller.of(lines(text), ["example.org."]))
    assert BAD[text] in str(caught.value)


def test_catalog_restrictions_are_merged() -> None:
    text = "secondary { catalog example.net ; catalog example.com example.net ; transfer from 192.0.2.1 }"
    assert parse(Controller.of(lines(text), ["c."])).catalogs == {"c.": ["example.net.", "example.com."]}
    text = "secondary { catalog example.net ; catalog ; transfer from 192.0.2.1 }"
    assert parse(Controller.of(lines(text), ["c."])).catalogs == {"c.": []}


def test_a_zone_is_transferred_and_answered(serve: Serve, primary: Make) -> None:
    many = "".join(f"h{number} 60 IN A 192.0.2.{number % 250}\n" for number in range(500))
    one = primary(zone(1, many + "WWW 60 IN CNAME h7\n"))
    server = serve(corefile(one.address))
    server.until("www.example.org.", "A", ["192.0.2.7", "h7.example.org."])
    assert server.answers("h499.example.org.") == ["192.0.2.249"]
    assert server.answers("none.example.org.") == ["NXDOMAIN"]
    server.wait_log(rf"\[INFO\] plugin/file: Transferred: example\.org\. from {one.address}")
    assert server.query("h1.example.org.").flags & dns.flags.AA


def test_servfail_until_a_primary_appears(serve: Serve, primary: Make) -> None:
    absent = primary(zone(1))
    absent.close()
    server = serve(corefile(absent.address, block="errors\n    transfer {\n        to *\n    }"))
    assert server.answers("ns.example.org.") == ["SERVFAIL"]
    request = dns.message.make_query("example.org.", "AXFR")
    assert dns.query.tcp(request, "127.0.0.1", REPLY, server.port).rcode() == dns.rcode.SERVFAIL
    server.wait_log(r"\[ERROR\] plugin/errors: 2 example\.org\. AXFR: no SOA")
    assert absent.notify(server.port) is not None
    server.wait_log(r"\[WARNING\] plugin/file: Notify from 127\.0\.0\.1 for example\.org\.: transfer failed: dial tcp .* connection refused")
    server.wait_log(r"\[WARNING\] plugin/secondary: All 'example\.org\.' masters failed to transfer, retrying in 500ms: dial tcp .* connection refused")
    server.wait_log(rf"\[ERROR\] plugin/file: Failed to setup transfer `example\.org\.' with `\"{absent.address}\"': dial tcp")
    primary(zone(1), port=absent.port)
    server.until("ns.example.org.", "A", ["192.0.2.53"])


def test_notify_begins_a_transfer_of_differences(serve: Serve, primary: Make) -> None:
    one = primary(zone(1, "a 60 IN A 192.0.2.1\nb 60 IN TXT x\n"))
    server = serve(corefile(one.address))
    server.until("a.example.org.", "A", ["192.0.2.1"])
    one.add(zone(2, "a 60 IN A 192.0.2.2\na 60 IN A 192.0.2.3\n"))
    one.add(zone(3, "a 60 IN A 192.0.2.2\nc.d 60 IN MX 5 a\n"))
    reply = one.notify(server.port)
    assert reply is not None
    assert reply.opcode() == dns.opcode.NOTIFY
    assert reply.flags & dns.flags.AA
    server.until("a.example.org.", "A", ["192.0.2.2"])
    assert server.answers("c.d.example.org.", "MX") == ["5 a.example.org."]
    assert server.answers("b.example.org.", "TXT") == ["NXDOMAIN"]
    assert server.answers("example.org.", "SOA") == [one.soa()[0].to_text()]
    assert one.asked == ["AXFR", "SOA", "IXFR"]
    server.wait_log(r"\[INFO\] plugin/file: Notify from 127\.0\.0\.1 for example\.org\.: checking transfer")
    assert one.notify(server.port) is not None
    server.wait_log(r"Notify from 127\.0\.0\.1 for example\.org\.: no SOA serial increase seen")


def test_notify_from_others_is_dropped(serve: Serve, primary: Make) -> None:
    one = primary(zone(1))
    server = serve(corefile(one.address))
    server.until("ns.example.org.", "A", ["192.0.2.53"])
    assert one.notify(server.port, source="127.0.0.9") is None
    server.wait_log(r"\[INFO\] plugin/file: Dropping notify from 127\.0\.0\.9 for example\.org\.")
    assert one.asked == ["AXFR"]


def whole_only(one: Primary, request: dns.message.Message) -> Messages | None:
    return one.whole(request) if request.question[0].rdtype == dns.rdatatype.IXFR else None


def no_ixfr(one: Primary, request: dns.message.Message) -> Messages | None:
    return iter([one.reply(request, [], 4)]) if request.question[0].rdtype == dns.rdatatype.IXFR else None


def wrong_differences(one: Primary, request: dns.message.Message) -> Messages | None:
    if request.question[0].rdtype != dns.rdatatype.IXFR:
        return None
    absent = dns.rrset.from_text("absent.example.org.", 60, "IN", "A", "192.0.2.9")
    return iter([one.reply(request, [one.soa(), one.soa(-2), absent, one.soa(), one.soa()])])


def unordered_differences(one: Primary, request: dns.message.Message) -> Messages | None:
    if request.question[0].rdtype != dns.rdatatype.IXFR:
        return None
    return iter([one.reply(request, [one.soa(), one.soa(-2), one.soa(-2), one.soa(), one.soa()])])


def closed_differences(one: Primary, request: dns.message.Message) -> Messages | None:
    if request.question[0].rdtype != dns.rdatatype.IXFR:
        return None
    return iter([one.reply(request, [one.soa(), one.soa(-2)]), None])


@pytest.mark.parametrize("script", [whole_only, no_ixfr, wrong_differences, unordered_differences, closed_differences])
def test_the_whole_zone_where_differences_do_not_do(serve: Serve, primary: Make, script: Callable[..., Messages | None]) -> None:
    one = primary(zone(1, "a 60 IN A 192.0.2.1\n"))
    one.script = script
    server = serve(corefile(one.address))
    server.until("a.example.org.", "A", ["192.0.2.1"])
    one.add(zone(2, "a 60 IN A 192.0.2.2\n"))
    one.notify(server.port)
    server.until("a.example.org.", "A", ["192.0.2.2"])
    assert one.asked == ["AXFR", "SOA", "IXFR"] + ([] if script is whole_only else ["AXFR"])


def endless(one: Primary, request: dns.message.Message) -> Messages:
    yield one.reply(request, [one.soa()])
    for number in itertools.count():
        yield one.reply(request, [dns.rrset.from_text(f"x{number}.example.org.", 60, "IN", "TXT", "x" * 200)])


def vanishing(one: Primary, request: dns.message.Message) -> Messages:
    yield one.reply(request, [one.soa(), *one.records()])
    yield None


def refusing(one: Primary, request: dns.message.Message) -> Messages:
    yield one.reply(request, [], 5)


def headless(one: Primary, request: dns.message.Message) -> Messages:
    yield one.reply(request, one.records())


def other_id(one: Primary, request: dns.message.Message) -> Messages:
    message = one.reply(request, [one.soa(), *one.records(), one.soa()])
    message.id ^= 1
    yield message


def garbage(one: Primary, request: dns.message.Message) -> Messages:
    yield one.reply(request, [one.soa(), *one.records(), one.soa()]).to_wire()[:-7]


def question_type(one: Primary, request: dns.message.Message) -> Messages:
    """A record of a type that only questions have."""
    record = dns.rdata.GenericRdata(dns.rdataclass.IN, dns.rdatatype.MAILB, b"x")
    yield one.reply(request, [one.soa(), *one.records(), dns.rrset.from_rdata("a.example.org.", 60, record), one.soa()])


def pseudo_record(one: Primary, request: dns.message.Message) -> Messages:
    """A TKEY, whose name has no end."""
    record = dns.rdata.GenericRdata(dns.rdataclass.IN, dns.rdatatype.TKEY, b"\xff" * 255)
    yield one.reply(request, [one.soa(), *one.records(), dns.rrset.from_rdata("a.example.org.", 60, record), one.soa()])


def trailing(one: Primary, request: dns.message.Message) -> Messages:
    yield one.reply(request, [one.soa(), *one.records(), one.soa(), *one.records()])


BROKEN = {
    endless: r"too many records: more than 300 \(max_records\)",
    vanishing: "EOF",
    refusing: "dns: bad xfr rcode: 5",
    headless: "dns: no SOA",
    other_id: "dns: id mismatch",
    garbage: "dns: malformed message",
    question_type: "dns: malformed message",
    pseudo_record: "dns: malformed message",
    trailing: "records behind the last SOA",
}


@pytest.mark.parametrize("script", BROKEN)
def test_the_last_good_zone_is_served_while_a_primary_misbehaves(serve: Serve, primary: Make, script: Callable[..., Messages]) -> None:
    one = primary(zone(1, "a 60 IN A 192.0.2.1\n"))
    server = serve(corefile(one.address, "max_records 300"))
    server.until("a.example.org.", "A", ["192.0.2.1"])
    one.add(zone(2, "a 60 IN A 192.0.2.2\n"))
    one.script = lambda primary, request: None if request.question[0].rdtype == dns.rdatatype.SOA else script(primary, request)
    one.notify(server.port)
    server.wait_log(rf"\[ERROR\] plugin/file: Failed to transfer `example\.org\.' from \"{one.address}\": {BROKEN[script]}")
    server.wait_log(r"\[WARNING\] plugin/file: Notify from 127\.0\.0\.1 for example\.org\.: transfer failed: ")
    assert server.answers("a.example.org.") == ["192.0.2.1"]
    one.script = None
    one.notify(server.port)
    server.until("a.example.org.", "A", ["192.0.2.2"])


def test_octets_are_limited_too(serve: Serve, primary: Make) -> None:
    one = primary(zone(1))
    one.script = endless
    server = serve(corefile(one.address, "max_octets 30000"))
    server.wait_log(r"Failed to transfer `example\.org\.' from .*: too many octets: more than 30000 \(max_octets\)")
    assert server.answers("x1.example.org.") == ["SERVFAIL"]


def test_refresh_finds_a_new_serial_and_expire_ends_service(serve: Serve, primary: Make) -> None:
    one = primary(zone(0xFFFFFFF0, "a 60 IN A 192.0.2.1\n", refresh=1, retry=1, expire=2))
    server = serve(corefile(one.address))
    server.until("a.example.org.", "A", ["192.0.2.1"])
    one.add(zone(5, "a 60 IN A 192.0.2.2\n", refresh=1, retry=1, expire=2))  # after the other one: RFC 1982
    server.until("a.example.org.", "A", ["192.0.2.2"])
    one.close()
    server.wait_log(r"\[WARNING\] plugin/secondary: Failed refresh check dial tcp")
    server.until("a.example.org.", "A", ["SERVFAIL"])
    server.wait_log(r"\[ERROR\] plugin/file: Zone example\.org\. is expired")
    again = primary(zone(5, "a 60 IN A 192.0.2.2\n"), port=one.port)
    server.until("a.example.org.", "A", ["192.0.2.2"])
    assert "AXFR" not in again.asked


def test_primaries_are_tried_in_their_order(serve: Serve, primary: Make) -> None:
    first, second = primary(zone(1, "a 60 IN A 192.0.2.1\n")), primary(zone(1, "a 60 IN A 192.0.2.1\n"))
    first.script = lambda one, request: refusing(one, request) if request.question[0].rdtype == dns.rdatatype.AXFR else None
    server = serve(corefile(f"{first.address} {second.address}"))
    server.until("a.example.org.", "A", ["192.0.2.1"])
    assert (first.asked, second.asked) == (["AXFR"], ["AXFR"])
    second.add(zone(2, "a 60 IN A 192.0.2.2\n"))
    first.script = lambda one, request: refusing(one, request)  # its SOA, too: the second one's decides
    second.notify(server.port)
    server.until("a.example.org.", "A", ["192.0.2.2"])


def test_a_primary_that_lags_does_not_turn_the_zone_back(serve: Serve, primary: Make) -> None:
    lagging, ahead = primary(zone(1, "a 60 IN A 192.0.2.1\n")), primary(zone(9, "a 60 IN A 192.0.2.9\n"))
    ahead.script = lambda one, request: refusing(one, request) if "first" not in one.asked else None
    server = serve(corefile(f"{ahead.address} {lagging.address}"))
    server.until("a.example.org.", "A", ["192.0.2.1"])
    ahead.script = None
    ahead.notify(server.port)
    server.until("a.example.org.", "A", ["192.0.2.9"])
    ahead.close()
    lagging.notify(server.port)
    server.wait_log("no SOA serial increase seen")
    assert server.answers("a.example.org.") == ["192.0.2.9"]


def test_signed_transfers(serve: Serve, primary: Make) -> None:
    one = primary(zone(1, "a 60 IN A 192.0.2.1\n" + "".join(f"h{number} 60 IN A 192.0.2.1\n" for number in range(200))))
    one.keyring = dns.tsigkeyring.from_text({"key.example.": ("hmac-sha512", "c2VjcmV0c2VjcmV0")})
    server = serve(corefile(one.address, "key key.example. c2VjcmV0c2VjcmV0 hmac-sha512"))
    server.until("h199.example.org.", "A", ["192.0.2.1"])
    one.add(zone(2, "a 60 IN A 192.0.2.2\n"))
    one.notify(server.port)
    server.until("a.example.org.", "A", ["192.0.2.2"])


def test_unsigned_answers_do_not_do_with_a_key(serve: Serve, primary: Make) -> None:
    one = primary(zone(1))
    one.keyring = dns.tsigkeyring.from_text({"key.example.": ("hmac-sha256", "c2VjcmV0c2VjcmV0")})

    def unsigned(primary: Primary, request: dns.message.Message) -> Messages:
        message = primary.reply(request, [primary.soa(), *primary.records(), primary.soa()])
        message.tsig = None
        yield message.to_wire()

    one.script = unsigned
    server = serve(corefile(one.address, "key key.example. c2VjcmV0c2VjcmV0"))
    server.wait_log(r"Failed to transfer `example\.org\.' from .*: dns: no signature found")
    assert server.answers("ns.example.org.") == ["SERVFAIL"]


def test_what_is_kept_on_disk_is_served_after_a_restart(serve: Serve, primary: Make, tmp_path: Path) -> None:
    store = tmp_path / "store"
    store.mkdir()
    one = primary(zone(7, 'a 60 IN A 192.0.2.1\nT 60 IN TXT "x;\\"y"\n*.w 60 IN SRV 1 2 3 a\n'))
    server = serve(corefile(one.address, f"store {store}"))
    server.until("a.example.org.", "A", ["192.0.2.1"])
    until(lambda: (store / "db.example.org").exists())
    server.stop()
    one.close()
    second = serve(corefile(one.address, f"store {store}"))
    second.until("a.example.org.", "A", ["192.0.2.1"])
    assert second.answers("t.example.org.", "TXT") == ['"x;\\"y"']
    assert second.answers("q.w.example.org.", "SRV") == ["1 2 3 a.example.org."]
    second.wait_log(r"\[INFO\] plugin/secondary: Serving example\.org\. with 7 SOA serial from ")


def test_a_reload_keeps_the_zone(serve: Serve, primary: Make) -> None:
    one = primary(zone(1, "a 60 IN A 192.0.2.1\n"))
    server = serve(corefile(one.address))
    server.until("a.example.org.", "A", ["192.0.2.1"])
    one.close()
    server.reload(corefile(one.address, block="log"))
    assert server.answers("a.example.org.") == ["192.0.2.1"]


def test_names_that_are_not_there_fall_through(serve: Serve, primary: Make) -> None:
    one = primary(zone(1, "a 60 IN A 192.0.2.1\n"))
    server = serve(corefile(one.address, "fallthrough", "whoami"))
    server.until("a.example.org.", "A", ["192.0.2.1"])
    assert server.query("none.example.org.").rcode() == dns.rcode.NOERROR
    assert server.query("none.example.org.").additional


def test_a_kill_while_the_zone_is_kept_leaves_a_whole_one(serve: Serve, primary: Make, tmp_path: Path) -> None:
    """Killed (-9) as soon as the file is begun, again and again: what is served afterwards is the version before or the new one, whole."""
    store = tmp_path / "store"
    store.mkdir()
    many = "".join(f'h{number} 60 IN TXT "{"x" * 200}"\n' for number in range(1500))

    def version(serial: int) -> str:
        return zone(serial, many + f"first 60 IN A 10.0.0.{serial}\nzlast 60 IN A 10.0.0.{serial}\n")

    one = primary(version(1))
    one.differences = False
    text = corefile(one.address, f"store {store}")
    server = serve(text)
    kept, begun = store / "db.example.org", store / ".db.example.org.new"
    until(kept.exists, "the first version on disk")
    whole = 1
    for serial in (2, 3):
        server.until("first.example.org.", "A", [f"10.0.0.{whole}"])
        one.add(version(serial))
        one.notify(server.port)
        before = kept.stat().st_ino
        until(lambda before=before: begun.exists() or kept.stat().st_ino != before, "the next version on disk")  # type: ignore[misc]
        server.process.kill()
        server.process.wait()
        one.close()
        server = serve(text)
        server.wait_log(r"\[INFO\] plugin/secondary: Serving example\.org\. with \d+ SOA serial from ")
        addresses = server.answers("first.example.org.")
        assert addresses in ([f"10.0.0.{whole}"], [f"10.0.0.{serial}"])
        assert server.answers("zlast.example.org.") == addresses
        assert server.answers("h1499.example.org.", "TXT") == [f'"{"x" * 200}"']
        one = primary(version(serial), port=one.port)
        one.differences = False
        one.notify(server.port)
        server.until("first.example.org.", "A", [f"10.0.0.{serial}"])
        until(lambda serial=serial: serial_in(kept) == serial and not begun.exists(), "the version on disk")  # type: ignore[misc]
        whole = serial
    assert [path.name for path in store.iterdir()] == ["db.example.org"]
