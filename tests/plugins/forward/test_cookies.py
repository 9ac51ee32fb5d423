"""Cookies toward upstreams (RFC 7873): made-up ones, BIND and Knot DNS, and Unbound, which has none by default."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import dns.edns
import dns.exception
import dns.flags
import dns.message
import dns.query
import dns.rcode
import dns.rrset
import pytest

from fastdns.testing import Upstream
from tests.plugins.forward.test_attacks import PATIENT, raw_upstream
from tests.plugins.forward.test_forward import corefile, reply
from tests.programs import environment, program
from tests.server import Server, free_port
from tests.unbound import SERVER
from tests.waiting import LIMIT, REPLY, until

Serve = Callable[..., Server]
Send = Callable[[bytes], None]

SERVER_COOKIE = b"server-cookie-16"


def cookie_of(query: dns.message.Message) -> tuple[bytes, bytes]:
    """The client's and the server's part; both empty where there is no cookie."""
    for option in query.options:
        if option.otype == dns.edns.OptionType.COOKIE:
            octets = option.to_wire()
            assert octets is not None
            return octets[:8], octets[8:]
    return b"", b""


def with_cookie(message: dns.message.Message, cookie: bytes) -> dns.message.Message:
    message.use_edns(0, payload=1232, options=[dns.edns.GenericOption(dns.edns.OptionType.COOKIE, cookie)] if cookie else [])
    return message


def cooking(query: dns.message.Message) -> dns.message.Message:
    client, _ = cookie_of(query)
    return with_cookie(reply(query, "@ 5 A 192.0.2.1"), client + SERVER_COOKIE)


def ask(server: Server, name: str, edns: bool = False) -> dns.message.Message:
    query = dns.message.make_query(name, "A")
    if edns:
        query.use_edns(0, payload=1000)
    return server.send(query)


def test_by_default_there_are_none(serve: Serve) -> None:
    with Upstream() as upstream:
        server = serve(corefile(to=upstream.address))
        ask(server, "a.test.")
        ask(server, "b.test.", edns=True)
        assert [query.edns for query in upstream.seen] == [-1, 0]
        assert [cookie_of(query) for query in upstream.seen] == [(b"", b"")] * 2


def test_the_server_cookie_comes_back(serve: Serve) -> None:
    with Upstream(cooking) as upstream:
        server = serve(corefile(f"cookies\n {PATIENT}", upstream.address), "-workers", "1")
        plain, own = ask(server, "a.test."), ask(server, "b.test.", edns=True)
        assert (plain.edns, own.edns) == (-1, 0)
        assert not own.options, "cookies are between us and the upstream"
        assert [message.answer[0][0].address for message in (plain, own)] == ["192.0.2.1"] * 2
        (first, none), (second, sent) = map(cookie_of, upstream.seen)
        assert (len(first), none) == (8, b"")
        assert (second, sent) == (first, SERVER_COOKIE)
        assert [query.payload for query in upstream.seen] == [512, 1000], "as much as the client takes"


def test_cookies_differ_between_upstreams(serve: Serve) -> None:
    with Upstream(cooking) as one, Upstream(cooking) as other:
        server = serve(corefile(f"cookies\n policy round_robin\n {PATIENT}", f"{one.address} {other.address}"), "-workers", "1")
        for i in range(4):
            ask(server, f"{i}.test.")
        assert len({cookie_of(query)[0] for query in one.seen}) == 1
        assert len({cookie_of(query)[0] for query in other.seen}) == 1
        assert cookie_of(one.seen[0])[0] != cookie_of(other.seen[0])[0]


def test_a_clients_own_cookie_is_replaced(serve: Serve) -> None:
    with Upstream(cooking) as upstream:
        server = serve(corefile(f"cookies\n {PATIENT}", upstream.address), "-workers", "1")
        query = dns.message.make_query("a.test.", "A", use_edns=0, options=[dns.edns.GenericOption(dns.edns.OptionType.COOKIE, b"client's")])
        server.send(query)
        assert cookie_of(upstream.seen[0])[0] not in (b"", b"client's")


def test_a_reply_with_another_cookie_does_not_count(serve: Serve) -> None:
    def answer(octets: bytes, send: Send, client: object) -> None:
        query = dns.message.from_wire(octets)
        send(with_cookie(reply(query, "@ 5 A 203.0.113.6"), b"forgedby" + SERVER_COOKIE).to_wire())
        time.sleep(0.02)
        send(cooking(query).to_wire())

    with raw_upstream(answer) as up:
        server = serve(corefile(f"cookies\n max_connect_attempts 1\n {PATIENT}", up), "-workers", "1")
        assert [server.answers(f"{i}.test.") for i in range(3)] == [["192.0.2.1"]] * 3


def test_a_reply_without_cookie_goes_over_tcp_once_the_upstream_is_known(serve: Serve) -> None:
    def answer(query: dns.message.Message) -> dns.message.Message:
        client, _ = cookie_of(query)
        if query.question[0].name.to_text() == "forged.test." and client:
            return reply(query, "@ 5 A 203.0.113.6")
        return cooking(query) if client else reply(query, "@ 5 A 192.0.2.1")

    with Upstream(answer) as upstream:
        server = serve(corefile(f"cookies\n max_connect_attempts 1\n {PATIENT}", upstream.address), "-workers", "1")
        assert server.answers("a.test.") == ["192.0.2.1"]
        assert server.answers("forged.test.") == ["192.0.2.1"]
        assert [query.question[0].name.to_text() for query in upstream.seen] == ["a.test.", "forged.test.", "forged.test."]
        assert cookie_of(upstream.seen[-1]) == (b"", b"")


def test_an_upstream_that_forgets_cookies_is_asked_over_udp_again(serve: Serve) -> None:
    knows = True

    def answer(query: dns.message.Message) -> dns.message.Message:
        return cooking(query) if knows and cookie_of(query)[0] else reply(query, "@ 5 A 192.0.2.1")

    with Upstream(answer) as upstream:
        server = serve(corefile(f"cookies\n max_connect_attempts 1\n {PATIENT}", upstream.address), "-workers", "1")
        server.answers("a.test.")
        knows = False
        for i in range(20):
            assert server.answers(f"{i}.test.") == ["192.0.2.1"]
        assert len(upstream.seen) == 1 + 20 + 16


@pytest.mark.parametrize("code", ["FORMERR", "NOTIMP", "BADVERS"])
@pytest.mark.parametrize("edns", [False, True])
def test_an_upstream_that_dislikes_options_gets_none(serve: Serve, code: str, edns: bool) -> None:
    def answer(query: dns.message.Message) -> dns.message.Message:
        if cookie_of(query)[0]:
            made = reply(query)
            if code == "BADVERS":
                made.use_edns(0)
            made.set_rcode(dns.rcode.from_text(code))
            return made
        return reply(query, "@ 5 A 192.0.2.1")

    with Upstream(answer) as upstream:
        server = serve(corefile(f"cookies\n max_connect_attempts 1\n {PATIENT}", upstream.address), "-workers", "1")
        for i in range(3):
            assert ask(server, f"{i}.test.", edns).answer
        assert [bool(cookie_of(query)[0]) for query in upstream.seen] == [True, False, False, False]


def test_an_upstream_that_drops_options_gets_none_with_the_second_attempt(serve: Serve) -> None:
    with Upstream(lambda query: None if cookie_of(query)[0] else reply(query, "@ 5 A 192.0.2.1")) as upstream:
        server = serve(corefile("cookies\n read_timeout 300ms\n max_fails 0", upstream.address), "-workers", "1")
        assert server.answers("a.test.") == ["192.0.2.1"]


def test_badcookie(serve: Serve) -> None:
    """Once more with the cookie that came, and after a second BADCOOKIE over TCP; clients see nothing of it."""
    valid = SERVER_COOKIE

    def answer(query: dns.message.Message) -> dns.message.Message:
        client, sent = cookie_of(query)
        if not client or sent == valid:
            return with_cookie(reply(query, "@ 5 A 192.0.2.1"), client + valid if client else b"")
        made = with_cookie(reply(query), client + SERVER_COOKIE)
        made.set_rcode(dns.rcode.BADCOOKIE)
        return made

    with Upstream(answer) as upstream:
        server = serve(corefile(f"cookies\n max_connect_attempts 1\n {PATIENT}", upstream.address), "-workers", "1")
        assert server.answers("a.test.") == ["192.0.2.1"]
        assert [cookie_of(query)[1] for query in upstream.seen] == [b"", SERVER_COOKIE]
        valid = b"another-cookie-0"
        del upstream.seen[:]
        assert server.answers("b.test.") == ["192.0.2.1"]
        assert [cookie_of(query)[1] for query in upstream.seen] == [SERVER_COOKIE, SERVER_COOKIE, b""]


def test_equal_questions_with_cookies_are_sent_once(serve: Serve) -> None:
    held: dict[bytes, Send] = {}
    with raw_upstream(lambda octets, send, client: held.update({octets: send})) as up, ThreadPoolExecutor(4) as pool:
        server = serve(corefile(f"cookies\n {PATIENT}", up), "-workers", "1")
        asking = [pool.submit(ask, server, "same.test.", edns) for edns in (False, True, False, True)]
        until(lambda: len(held) == 2, "that both are there")
        time.sleep(0.3)
        for octets, send in held.items():
            send(cooking(dns.message.from_wire(octets)).to_wire())
        assert all(future.result().answer for future in asking)
    assert len(held) == 2, "one with the client's OPT, one without"


# ---- other people's servers ----

ZONE = "$TTL 60\n@ SOA ns host 1 2 3 4 5\n@ NS ns\nns A 127.0.0.1\n* A 192.0.2.77\n"

NAMED = """
options {{ directory "{folder}"; listen-on port {port} {{ 127.0.0.1; }}; listen-on-v6 {{ none; }}; pid-file none; session-keyfile none;
    recursion no; require-server-cookie {require}; }};
controls {{ }};
zone "test" {{ type primary; file "test.zone"; }};
"""

KNOTD = """
server:
    listen: 127.0.0.1@{port}
    rundir: {folder}
database:
    storage: {folder}
mod-cookies:
  - id: cookies
    badcookie-slip: 1
template:
  - id: default
    storage: {folder}
    global-module: mod-cookies/cookies
zone:
  - domain: test
    file: test.zone
"""

UNBOUND = (
    SERVER
    + """\
    local-zone: "test." redirect
    local-data: "test. A 192.0.2.77"
"""
)


@contextmanager
def other(folder: Path, command: list[str], config: str, **values: str) -> Iterator[str]:
    """A server of the zone test. Gives its address."""
    port = free_port()
    (folder / "test.zone").write_text(ZONE)
    (folder / "server.conf").write_text(config.format(folder=folder, port=port, **values))
    with (folder / "log").open("w") as log:
        process = subprocess.Popen([program(command[0]), *command[1:], str(folder / "server.conf")], stdout=log, stderr=log, cwd=folder, env=environment())
        try:
            until(lambda: process.poll() is not None or answers(port), "that the server answers", LIMIT)
            assert process.poll() is None, (folder / "log").read_text()
            yield f"127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(LIMIT)


def answers(port: int) -> bool:
    try:
        return bool(dns.query.udp(dns.message.make_query("ns.test.", "A"), "127.0.0.1", timeout=0.5, port=port))
    except (dns.exception.DNSException, OSError):
        return False


@contextmanager
def tapped(upstream: str) -> Iterator[tuple[str, list[tuple[dns.message.Message, dns.message.Message]]]]:
    """Between us and a server: queries and replies over UDP, as they pass."""
    seen: list[tuple[dns.message.Message, dns.message.Message]] = []
    host, port = upstream.split(":")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way:
        way.connect((host, int(port)))
        way.settimeout(REPLY)

        def answer(octets: bytes, send: Send, client: object) -> None:
            way.send(octets)
            back = way.recv(4096)
            seen.append((dns.message.from_wire(octets), dns.message.from_wire(back)))
            send(back)

        with raw_upstream(answer) as address:
            yield address, seen


@pytest.mark.parametrize(
    ("command", "config", "values", "strict"),
    [
        (["named", "-f", "-c"], NAMED, {"require": "no"}, False),
        (["named", "-f", "-c"], NAMED, {"require": "yes"}, True),
        (["knotd", "-c"], KNOTD, {}, True),
    ],
    ids=["named", "named that requires cookies", "knotd"],
)
def test_with_other_servers(serve: Serve, tmp_path: Path, command: list[str], config: str, values: dict[str, str], strict: bool) -> None:
    with other(tmp_path, command, config, **values) as upstream, tapped(upstream) as (address, seen):
        server = serve(corefile(f"cookies\n max_connect_attempts 1\n {PATIENT}", address), "-workers", "1")
        for i in range(4):
            message = ask(server, f"{i}.test.", edns=i % 2 == 0)
            assert [rrset[0].address for rrset in message.answer] == ["192.0.2.77"]
        codes = [back.rcode() for _, back in seen]
        assert codes == [dns.rcode.BADCOOKIE, *[dns.rcode.NOERROR] * 4] if strict else codes == [dns.rcode.NOERROR] * 4
        client = cookie_of(seen[0][0])[0]
        assert len(client) == 8
        for (query, _), (_, before) in zip(seen[1:], seen, strict=False):
            assert cookie_of(query) == cookie_of(before)
            assert len(cookie_of(query)[1]) == 16


def test_with_a_server_that_has_none(serve: Serve, tmp_path: Path) -> None:
    with other(tmp_path, ["unbound", "-d", "-c"], UNBOUND) as upstream, tapped(upstream) as (address, seen):
        server = serve(corefile(f"cookies\n max_connect_attempts 1\n {PATIENT}", address), "-workers", "1")
        assert [server.answers(f"{i}.test.") for i in range(4)] == [["192.0.2.77"]] * 4
        assert [cookie_of(back) for _, back in seen] == [(b"", b"")] * 4
