"""Questions in mixed case (0x20): to which upstreams they go, and what clients get."""

from __future__ import annotations

import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import dns.flags
import dns.message
import dns.name
import dns.rcode
import dns.tsig
import pytest

from tests.plugins.forward.test_attacks import PATIENT, changed, raw_upstream, right
from tests.plugins.forward.test_forward import burst, corefile
from tests.server import Server

Serve = Callable[..., Server]
Send = Callable[[bytes], None]
#: Replies after which a worker has learned whatever there is to learn: a thousand, then sixteen from one trial to the next of sixteen.
LEARNED = 1500

#: Of the name in the questions of `ask`.
END = 12 + 1 + 8 + 1 + 4 + 1


def name_of(octets: bytes) -> bytes:
    return octets[12 : octets.index(b"\0", 12) + 1]


def ask(server: Server, first: int, count: int) -> None:
    """Distinct names of eight letters; all must be answered."""
    for start in range(first, first + count, 100):
        names = ["".join(chr(ord("a") + int(digit)) for digit in f"{i:08}") + ".test." for i in range(start, start + 100)]
        assert burst(server, names) == ["NOERROR"] * 100


def keeps(octets: bytes) -> bytes | None:
    return right(octets)


def lowers(octets: bytes) -> bytes | None:
    return right(octets[:12] + octets[12:END].lower() + octets[END:])


def tells_case_apart(octets: bytes) -> bytes | None:
    if name_of(octets) == name_of(octets).lower():
        return right(octets)
    reply = dns.message.make_response(dns.message.from_wire(octets))
    reply.set_rcode(dns.rcode.NXDOMAIN)
    return reply.to_wire()


def drops_mixed(octets: bytes) -> bytes | None:
    return right(octets) if name_of(octets) == name_of(octets).lower() else None


@pytest.mark.parametrize(
    ("kind", "options", "mixed"),
    [(keeps, "", True), (keeps, "mixed_case off", False), (lowers, "", False), (tells_case_apart, "", False), (drops_mixed, "read_timeout 2s", False)],
)
def test_mixed_case_is_for_upstreams_that_keep_it(serve: Serve, kind: Callable[[bytes], bytes | None], options: str, mixed: bool) -> None:
    """No query is lost to an upstream of another kind, and after a trial it gets the letters of clients."""
    seen: dict[bytes, None] = {}

    def answer(octets: bytes, send: Send, client: object) -> None:
        seen[octets] = None
        reply = kind(octets)
        if reply is not None:
            send(reply)

    with raw_upstream(answer) as up:
        server = serve(corefile(f"max_connect_attempts 1\n {options or PATIENT}", up), "-workers", "1")
        ask(server, 0, 900)
        assert all(name_of(octets).islower() for octets in seen), "nothing is tried at first"
        ask(server, 900, LEARNED - 900)
        tried = [octets for octets in seen if not name_of(octets).islower()]
        assert len(tried) <= (300 if mixed else 8), "one in 16 of the hundred that are under way, until the first is there"
        assert bool(tried) == (options != "mixed_case off")
        seen.clear()
        ask(server, 5000, 300)
        names = [name_of(octets) for octets in seen]
        assert sum(not name.islower() for name in names) >= (290 if mixed else 0)
        assert mixed or all(name.islower() for name in names)
        if mixed:
            upper = sum(65 <= octet <= 90 for name in names for octet in name)
            letters = sum(65 <= octet & 0xDF <= 90 for name in names for octet in name)
            assert abs(upper / letters - 0.5) < 0.05


def test_trials_without_answers_become_rare(serve: Serve) -> None:
    seen: set[bytes] = set()

    def answer(octets: bytes, send: Send, client: object) -> None:
        seen.add(octets)
        send(changed(octets, 2, octets[2] | 0x80))

    with raw_upstream(answer) as up:
        server = serve(corefile(PATIENT, up), "-workers", "1")
        ask(server, 0, 4000)
    assert 4002 <= len(seen) <= 4000 + 16, "7 in the hundred that are under way at first, then after 32, 64 and so on"


def test_clients_get_their_letters(serve: Serve) -> None:
    """Also in names that are compressed with the question, and where the upstream writes it out."""
    seen: list[bytes] = []

    def answer(octets: bytes, send: Send, client: object) -> None:
        seen.append(octets)
        name = name_of(octets)
        record = b"\0\5\0\1\0\0\0\5"
        # QNAME CNAME www.QNAME: compressed, then the owner written out.
        records = b"\xc0\x0c" + record + b"\0\6\3wWw\xc0\x0c" + name + b"\0\1\0\1\0\0\0\5\0\4\xc0\0\2\1"
        head = octets[:2] + b"\x81\x80\0\1\0\2\0\0\0\0"
        send(head + name + octets[12 + len(name) :][:4] + records)

    with raw_upstream(answer) as up:
        server = serve(corefile(PATIENT, up), "-workers", "1")
        ask(server, 0, LEARNED)
        del seen[:]
        for name in ("client.letters.test.", "CLIENT.letters.TEST."):
            got = server.query(name)
            assert [got.question[0].name.to_text(), got.answer[0].name.to_text(), got.answer[1].name.to_text()] == [name] * 3
            assert got.answer[0][0].target.to_text() == "wWw." + name
        assert {name_of(octets) for octets in seen}.isdisjoint({b"\6client\7letters\4test\0", b"\6CLIENT\7letters\4TEST\0"})


def test_merged_questions_keep_their_letters_in_mixed_case(serve: Serve) -> None:
    held: list[Callable[[], None]] = []
    learning = True

    def answer(octets: bytes, send: Send, client: object) -> None:
        if learning:
            send(right(octets))
        else:
            held.append(lambda: send(right(octets)))

    with raw_upstream(answer) as up:
        server = serve(corefile(PATIENT, up), "-workers", "1")
        ask(server, 0, LEARNED)
        learning = False
        names = ["one.two.three.TEST.", "ONE.two.three.test.", "one.two.three.test."]
        with ThreadPoolExecutor(3) as pool:
            asking = [pool.submit(server.query, name) for name in names]
            while not all(future.done() for future in asking):
                for send in held:
                    send()
            got = [future.result() for future in asking]
    assert [message.answer[0].name.to_text() for message in got] == names
    assert [message.question[0].name.to_text() for message in got] == names


def test_a_reply_in_other_letters_does_not_count(serve: Serve) -> None:
    """Right port and id, question in lower case: the query is sent anew, under another id."""
    forging = False
    ids: list[bytes] = []

    def answer(octets: bytes, send: Send, client: object) -> None:
        if forging:
            ids.append(octets[:2])
            if len(ids) == 1:
                send(right(octets[:12] + octets[12:END].lower() + octets[END:], "203.0.113.6"))
                return
        send(right(octets))

    with raw_upstream(answer) as up:
        server = serve(corefile(f"max_connect_attempts 1\n {PATIENT}", up), "-workers", "1")
        ask(server, 0, LEARNED)
        forging = True
        assert server.answers("abcdefgh.test.") == ["192.0.2.1"]
    assert len(ids) == 2
    assert ids[0] != ids[1]


def test_an_upstream_that_no_longer_keeps_letters(serve: Serve) -> None:
    kind = keeps
    with raw_upstream(lambda octets, send, client: send(kind(octets) or b"")) as up:
        server = serve(corefile(f"max_connect_attempts 1\n {PATIENT}", up), "-workers", "1")
        ask(server, 0, LEARNED)
        kind = lowers
        ask(server, 5000, 200)


def test_a_signed_query_stays_as_it_is(serve: Serve) -> None:
    seen: list[bytes] = []

    def answer(octets: bytes, send: Send, client: object) -> None:
        seen.append(octets)
        send(changed(octets, 2, octets[2] | 0x80) if b"hmac" in octets else right(octets))

    with raw_upstream(answer) as up:
        server = serve(corefile(PATIENT, up), "-workers", "1")
        ask(server, 0, LEARNED)
        query = dns.message.make_query("signed.letters.test.", "A")
        query.use_tsig(dns.tsig.Key(dns.name.from_text("key."), "c2VjcmV0", "hmac-sha256."))
        server.send(dns.message.make_query("plain.letters.test.", "A"))
        octets = query.to_wire()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.settimeout(10)
            client.sendto(octets, ("127.0.0.1", server.port))
            client.recv(4096)
    assert seen[-1][2:] == octets[2:]
