"""Two replies to a question: equal or not, and how."""

from __future__ import annotations

import struct

import dns.edns
import dns.flags
import dns.message
import dns.opcode
import dns.rcode
import dns.rrset
import pytest

from fastdns.comparison.canonical import read_reply, same
from fastdns.comparison.known import KNOWN
from fastdns.comparison.question import is_answer, question_of
from fastdns.comparison.replies import Comparison, compare, describe
from fastdns.comparison.tally import Tally, text

SOA = "test. {ttl} IN SOA ns.test. admin.test. {serial} 7200 1800 86400 30"
NSEC = "a.test. 30 IN NSEC c.test. A RRSIG NSEC"
SIGNED = "test. 30 IN RRSIG {covers} 13 1 {ttl} {end} 20260101000000 {tag} {signer} {octets}"


def soa(ttl: int = 30, serial: int = 1) -> str:
    return SOA.format(ttl=ttl, serial=serial)


def rrsig(covers: str = "SOA", ttl: int = 30, end: str = "20260201000000", tag: int = 7, signer: str = "test.", octets: str = "AAAA") -> str:
    return SIGNED.format(covers=covers, ttl=ttl, end=end, tag=tag, signer=signer, octets=octets)


def reply(
    *answer: str, authority: tuple[str, ...] = (), additional: tuple[str, ...] = (), rcode: str = "NOERROR", flags: str = "QR AA RD", edns: int | None = None
) -> bytes:
    message = dns.message.make_query("b.test.", "A", use_edns=edns)
    message.flags = dns.flags.from_text(flags)
    for section, records in ((message.answer, answer), (message.authority, authority), (message.additional, additional)):
        section += [dns.rrset.from_text(*record.split(None, 4)) for record in records]
    message.set_rcode(dns.rcode.from_text(rcode))
    return message.to_wire()


A, B = "b.test. 60 IN A 192.0.2.1", "b.test. 60 IN A 192.0.2.2"
ALIAS = "b.test. 60 IN CNAME c.test."
SRV = "b.test. 60 IN SRV 0 0 53 {target}"
CDS = "b.test. 60 IN CDS 7 13 {kind} {octets}"


@pytest.mark.parametrize(
    ("a", "b", "kind", "known"),
    [
        (reply(A, B), reply(B, A), "same", ""),
        (reply(A), reply("b.test. 5 IN A 192.0.2.1"), "same", ""),
        (reply(A), reply("B.TEST. 60 IN A 192.0.2.1"), "same", ""),
        (reply(ALIAS), reply("b.test. 60 IN CNAME C.test."), "same", ""),
        (reply(SRV.format(target="x.test.")), reply(SRV.format(target="X.TEST.")), "same", ""),
        (reply(A, edns=0), reply(A), "same", ""),
        (reply(A, additional=(B,)), reply(A, additional=(B,), edns=0), "same", ""),
        (reply(A, flags="QR AA RD RA AD"), reply(A), "same", ""),
        (reply(authority=(soa(),)), reply(authority=(soa(ttl=3600),)), "same", ""),
        (reply(authority=(soa(serial=5),)), reply(authority=(soa(serial=9),)), "same", ""),
        (reply(rrsig()), reply(rrsig(ttl=5, end="20260301000000", octets="BBBBBBBB")), "same", ""),
        (reply(A, flags="QR AA TC"), reply(flags="QR AA TC"), "truncated", ""),
        (reply(A, flags="QR AA TC"), reply(A, B), "truncated", ""),
        (reply(A), reply(B), "answer", ""),
        (reply(A), reply(A, B), "answer", ""),
        (reply("b.test. 60 IN TXT x"), reply("b.test. 60 IN TXT X"), "answer", ""),
        (reply(A), reply("c.test. 60 IN A 192.0.2.1"), "answer", ""),
        (reply(A), reply(rcode="NXDOMAIN"), "rcode", ""),
        (reply(rcode="SERVFAIL", flags="QR TC"), reply(A), "rcode", ""),
        (reply(rcode="BADVERS", edns=0), reply(rcode="NOERROR", edns=0), "rcode", ""),
        (reply(A), reply(A, flags="QR RD"), "flags", ""),
        (reply(A, additional=(B,)), reply(A), "additional", ""),
        (reply(authority=(soa(),)), reply(), "authority", ""),
        (reply(authority=("test. 30 IN SOA ns.test. admin.test. 1 7200 1800 86400 31",)), reply(authority=(soa(),)), "authority", ""),
        (reply(rrsig()), reply(rrsig(covers="A")), "answer", ""),
        (reply(rrsig()), reply(rrsig(tag=8)), "answer", ""),
        (reply(rrsig()), reply(rrsig(signer="other.")), "answer", ""),
        (reply(soa(serial=5)), reply(soa(serial=9)), "answer", "serial"),
        (reply(soa(serial=5), A), reply(soa(serial=9)), "answer", ""),
        (reply(ALIAS, authority=("test. 60 IN NS ns.test.",)), reply(ALIAS, authority=(soa(),)), "authority", "alias-end"),
        (reply(ALIAS, authority=(soa(), NSEC, rrsig("NSEC"), rrsig())), reply(ALIAS, authority=("test. 60 IN NS ns.test.",)), "authority", "alias-end"),
        (reply(authority=("test. 60 IN NS ns.test.",)), reply(authority=(soa(),)), "authority", ""),
        (reply(authority=(soa(), NSEC, rrsig("NSEC"))), reply(authority=(soa(),)), "authority", "denial"),
        (reply(authority=(soa(), NSEC), rcode="NXDOMAIN"), reply(authority=(soa(),)), "rcode", ""),
        (reply(authority=(soa(), NSEC, rrsig())), reply(authority=(soa(),)), "authority", ""),
        (reply(CDS.format(kind=2, octets="00" * 32), CDS.format(kind=1, octets="00" * 20)), reply(CDS.format(kind=2, octets="00" * 32)), "answer", "sha1"),
        (reply(CDS.format(kind=2, octets="00" * 32)), reply(CDS.format(kind=2, octets="11" * 32)), "answer", ""),
    ],
)
def test_pairs(a: bytes, b: bytes, kind: str, known: str) -> None:
    for left, right in ((a, b), (b, a)):
        assert compare(left, right) == Comparison(kind, known)
        assert compare(left, right, frozenset()) == Comparison(kind), "a known difference that is not to be left aside is one as any"
        assert same(left, right) == (kind == "same"), "the digests of the hot path say the same"


def test_a_record_twice_is_there_once() -> None:
    """Digests tell such a pair apart, and the sets do not."""
    twice = bytearray(reply(A))
    record = bytes(twice[-14 - 2 :])
    twice[7] = 2
    twice += record
    assert not same(reply(A), bytes(twice))
    assert compare(reply(A), bytes(twice)) == Comparison("same")


@pytest.mark.parametrize("octets", [b"", b"x", reply(A)[:-1], reply(A)[:-6] + b"\x00\xff" + reply(A)[-4:]])
def test_malformed(octets: bytes) -> None:
    assert compare(reply(A), octets) == compare(octets, reply(A)) == Comparison("unreadable")
    assert compare(reply(A), octets).is_difference
    with pytest.raises(ValueError, match="malformed"):
        read_reply(octets)


def test_digests_agree_with_sets() -> None:
    """Over all pairs of a hundred replies."""
    replies = [
        reply(*answer, authority=authority, rcode=rcode, flags=flags)
        for answer in ((), (A,), (A, B), (B, A), (ALIAS, A))
        for authority in ((), (soa(),), (soa(serial=2),), (soa(), NSEC), (NSEC,))
        for rcode in ("NOERROR", "NXDOMAIN")
        for flags in ("QR", "QR AA")
    ]
    parsed = [read_reply(message) for message in replies]
    for a, left in zip(replies, parsed, strict=True):
        for b, right in zip(replies, parsed, strict=True):
            assert same(a, b) == (left == right), (left, right)


# ---- questions ----


def test_what_of_a_client_is_asked_again() -> None:
    options = [dns.edns.ECSOption("192.0.2.0", 24, 24), dns.edns.CookieOption(b"12345678", b"")]
    query = dns.message.make_query("B.test.", "A", want_dnssec=True, payload=4000, options=options)
    query.flags |= dns.flags.CD | dns.flags.AD
    asked = dns.message.from_wire(question_of(query.to_wire()))
    assert (asked.id, str(asked.question[0])) == (0, "B.test. IN A")
    assert dns.flags.to_text(asked.flags) == "RD CD"
    assert asked.ednsflags & dns.flags.DO
    assert asked.payload == 1232
    assert [option.to_text() for option in asked.options] == ["ECS 192.0.2.0/24 scope/0"]
    assert question_of(dns.message.make_query("b.test.", "A").to_wire()) == b"\0\0\x01\0\0\1\0\0\0\0\0\0\1b\4test\0\0\1\0\1"
    assert dns.message.from_wire(question_of(dns.message.make_query("b.test.", "A").to_wire(), True)).payload == 4096
    assert question_of(reply(A, edns=0)) == question_of(reply(edns=0)) != question_of(reply(A))


@pytest.mark.parametrize("change", ["NOTIFY", "AXFR", "IXFR", "CH", "version", "nothing", "short"])
def test_what_is_not_asked_again(change: str) -> None:
    query = dns.message.make_query("test.", change if "XFR" in change else "A", "CH" if change == "CH" else "IN")
    if change == "NOTIFY":
        query.set_opcode(dns.opcode.NOTIFY)
    if change == "version":
        query.use_edns(1)
    octets = query.to_wire()
    octets = struct.pack("!6H", 1, 0x0100, 0, 0, 0, 0) if change == "nothing" else octets[:14] if change == "short" else octets
    assert question_of(octets) == b""


def test_whose_answer_it_is() -> None:
    question = question_of(dns.message.make_query("b.test.", "A").to_wire())
    assert is_answer(reply(A), question)
    assert is_answer(reply(A).replace(b"\1b\4test", b"\1B\4TEST", 1), question), "case may change"
    assert not is_answer(question, question), "it is no reply"
    assert not is_answer(reply(A).replace(b"\1b\4test", b"\1c\4test", 1), question)
    assert not is_answer(b"", question)
    assert not is_answer(reply(A)[:20], question)


# ---- counting ----


def test_a_tally() -> None:
    tally = Tally(keep=2)
    question = question_of(dns.message.make_query("b.test.", "A").to_wire())
    other = question_of(dns.message.make_query("c.test.", "AAAA").to_wire())
    for _ in range(3):
        tally.add(question, b"\x7f\0\0\1", reply(A), reply(A))
    tally.add(question, b"\x7f\0\0\1", reply(A), reply(B), 10)
    tally.add(other, b"", reply(A), b"", 11)
    tally.add(question, b"\x7f\0\0\2", reply(A), reply(B, A), 12)
    tally.add(question, b"", reply(soa(serial=1)), reply(soa(serial=2)))
    tally.add(question, b"", reply(flags="QR TC"), reply(A))
    report = tally.report(("ours", "theirs"))
    assert (report["questions"], report["same"], report["truncated"], report["known"]) == (8, 3, 1, {"serial": 1})
    assert report["differences"] == {"answer": 2, "unanswered": 1}
    assert [(kept["name"], kept["type"], kept["kind"], kept["times"], kept["first"], kept["last"], kept["client"]) for kept in report["kept"]] == [
        ("b.test.", "A", "answer", 2, 10, 12, "127.0.0.2"),
        ("c.test.", "AAAA", "unanswered", 1, 11, 11, ""),
    ]
    assert [side["answer"] for side in report["kept"][0]["replies"]] == [["b.test. A 192.0.2.1"], ["b.test. A 192.0.2.1", "b.test. A 192.0.2.2"]]
    lines = text(report)
    assert lines[0] == "8 questions, 3 differences, here they are:"
    assert lines[1].startswith("b.test. A: answer, 2 times, last ")
    assert [line.strip() for line in lines[2:5]] == ["ours    NOERROR aa", "theirs  NOERROR aa", "answer b.test. A 192.0.2.2"], "what both have is left out"
    assert "    theirs  no answer" in lines
    assert lines[-3:] == ["3 the same", "1 truncated, and not compared", f"1 known: serial, {KNOWN['serial'][0]}"]
    tally.add(question_of(dns.message.make_query("d.test.", "A").to_wire()), b"", reply(A), reply())
    assert [kept["name"] for kept in tally.report(("", ""))["kept"]] == ["d.test.", "b.test."], "the one that was longest not met goes"


def test_a_description_of_what_is_no_message() -> None:
    assert describe(b"nonsense that is long enough")["error"]
    assert describe(b"")["octets"] == 0
