"""Second questions to another upstream: who is asked, what counts, their budget, and what stays as it was."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import dns.exception
import dns.flags
import dns.message
import dns.rcode
import pytest

from fastdns.testing import Upstream
from tests.certificates import write_certificates
from tests.plugins.dnstap.receiver import receiver
from tests.plugins.forward.test_encrypted import HttpsServer, TlsServer, certificates
from tests.plugins.forward.test_forward import address, metrics, needs_prometheus, questions, reply
from tests.server import Server
from tests.waiting import LIMIT, REPLY, until

__all__ = ["certificates"]

Serve = Callable[..., Server]
Answer = Callable[[dns.message.Message], dns.message.Message | None]

FIRST, SECOND = "192.0.2.1", "192.0.2.2"
#: Each question is a token for a second one, and a reply that does not come is waited for until the client has given up.
HEDGE = "hedge 20ms budget 100%\n read_timeout 1m"
#: On a busy machine an upstream would count as silent, and be asked after the others.
PATIENT = HEDGE + "\n max_fails 0"

pytestmark = needs_prometheus


def silent(query: dns.message.Message) -> None:
    return None


def name_of(query: dns.message.Message) -> str:
    return query.question[0].name.to_text()


def corefile(*upstreams: str, options: str = PATIENT, before: str = "") -> str:
    lines = (
        "bind 127.0.0.1",
        "prometheus 127.0.0.1:{port2}",
        "log . {combined} {/forward/upstream}",
        "metadata",
        before,
        f"forward . {' '.join(upstreams)} {{",
    )
    return ".:{port} {\n" + "\n".join(lines) + f"\n policy sequential\n {options}\n}}\n}}\n"


def start(serve: Serve, *upstreams: Upstream, options: str = PATIENT, before: str = "") -> Server:
    return serve(corefile(*(upstream.address for upstream in upstreams), options=options, before=before), "-workers", "1")


def total(server: Server, name: str) -> float:
    return sum(value for sample, value in metrics(server).items() if sample.partition("{")[0] == name)


def hedged(server: Server) -> tuple[float, float]:
    return total(server, "fastdns_forward_hedged_total"), total(server, "fastdns_forward_hedge_wins_total")


@pytest.fixture
def quick() -> Iterator[Upstream]:
    with Upstream(address(SECOND)) as upstream:
        yield upstream


def test_a_silent_upstream_and_one_that_answers(serve: Serve, quick: Upstream) -> None:
    with Upstream(silent) as slow:
        server = start(serve, slow, quick)
        for number in range(5):
            assert server.answers(f"n{number}.test.") == [SECOND]
        page = metrics(server)
        assert page[f'fastdns_forward_hedged_total{{to="{quick.address}"}}'] == 5
        assert page[f'fastdns_forward_hedge_wins_total{{to="{quick.address}"}}'] == 5
        until(lambda: server.log().count(f" {quick.address}\n") == 5, "metadata name the one that answered")


def test_a_reply_that_comes_in_time_is_the_only_one(serve: Serve, quick: Upstream) -> None:
    with Upstream(address(FIRST)) as first:
        server = start(serve, first, quick, options="hedge 10s budget 100%")
        assert [server.answers(f"n{number}.test.") for number in range(20)] == [[FIRST]] * 20
        assert hedged(server) == (0, 0)
    assert quick.seen == []


def test_one_upstream_alone_is_asked_once(serve: Serve) -> None:
    with Upstream(silent) as only:
        server = start(serve, only, options="hedge 20ms budget 100%\n read_timeout 300ms\n max_connect_attempts 1\n max_fails 0")
        assert server.query("a.test.").rcode() == dns.rcode.SERVFAIL
        assert len(questions(only)) == 1
        assert "fastdns_forward_hedged_total" not in "".join(metrics(server))


def test_the_late_reply_is_passed_over_and_the_winner_cached_once(serve: Serve, quick: Upstream) -> None:
    release = threading.Event()

    def late(query: dns.message.Message) -> dns.message.Message:
        release.wait(LIMIT)
        return reply(query, f"@ 300 A {FIRST}")

    with Upstream(late) as slow:
        server = start(serve, slow, quick, before="cache 300")
        assert server.answers("a.test.") == [SECOND]
        release.set()
        until(lambda: hedged(server) == (1, 1))
        time.sleep(0.1)  # until the late reply is there
        assert server.answers("a.test.") == [SECOND]
        assert len(slow.seen) == len(quick.seen) == 1
        assert sum(value for sample, value in metrics(server).items() if sample.startswith("coredns_cache_entries{") and '"success"' in sample) == 1
        # It is in nobody's way: the next question over the same socket has its own reply.
        assert server.answers("b.test.") in ([FIRST], [SECOND])


def test_both_silent(serve: Serve) -> None:
    """The first one's end does not end the wait for the second one, which then goes on in its place; neither is asked twice."""
    with Upstream(silent) as one, Upstream(silent) as two:
        server = start(serve, one, two, options="hedge 20ms budget 100%\n read_timeout 500ms\n max_connect_attempts 2\n max_fails 0", before="errors")
        assert server.query("a.test.").rcode() == dns.rcode.SERVFAIL
        assert (len(questions(one)), len(questions(two))) == (1, 1)
        assert hedged(server) == (1, 0)
        server.wait_log(rf"a\.test\. A: read udp .*->{two.address}: i/o timeout")
        # The exchange is free again, as are queries that wait for the same.
        assert server.query("a.test.").rcode() == dns.rcode.SERVFAIL


def test_the_second_one_answers_after_the_first_one_has_failed(serve: Serve) -> None:
    """It is the next attempt then: nobody is asked again."""
    asked, failed = threading.Event(), threading.Event()

    def hang_up(query: dns.message.Message) -> None:
        asked.wait(LIMIT)
        threading.Timer(0.2, failed.set).start()
        raise ConnectionResetError

    def late(query: dns.message.Message) -> dns.message.Message:
        asked.set()
        failed.wait(LIMIT)
        return reply(query, f"@ 5 A {SECOND}")

    with Upstream(hang_up) as one, Upstream(late) as two:
        server = start(serve, one, two, options=PATIENT + "\n max_fails 0\n force_tcp")
        assert server.answers("a.test.") == [SECOND]
        assert (len(one.seen), len(two.seen)) == (1, 1)
        assert hedged(server) == (1, 0)


@pytest.mark.parametrize("rcode", ["SERVFAIL", "REFUSED"])
def test_a_second_question_that_fails_ends_nothing(serve: Serve, rcode: str) -> None:
    release = threading.Event()

    def late(query: dns.message.Message) -> dns.message.Message:
        release.wait(LIMIT)
        return reply(query, f"@ 5 A {FIRST}")

    def fail(query: dns.message.Message) -> dns.message.Message:
        threading.Timer(0.2, release.set).start()
        return reply(query, rcode=dns.rcode.from_text(rcode))

    with Upstream(late) as one, Upstream(fail) as two:
        server = start(serve, one, two)
        assert server.answers("a.test.") == [FIRST]
        assert len(questions(two)) == 1
        assert hedged(server) == (1, 0)


def test_an_upstream_that_is_away_ends_nothing(serve: Serve) -> None:
    """ICMP says that nobody is there."""
    release = threading.Event()

    def late(query: dns.message.Message) -> dns.message.Message:
        release.wait(LIMIT)
        return reply(query, f"@ 5 A {FIRST}")

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken, Upstream(late) as one:
        taken.bind(("127.0.0.1", 0))
        away = f"127.0.0.1:{taken.getsockname()[1]}"
        taken.close()
        server = serve(corefile(one.address, away), "-workers", "1")
        threading.Timer(0.5, release.set).start()
        assert server.answers("a.test.") == [FIRST]
        assert hedged(server) == (1, 0)


def test_failover_takes_the_second_question_as_its_next(serve: Serve, quick: Upstream) -> None:
    """The first one answers SERVFAIL while the second question is under way: that one is the next attempt, and is not sent again."""
    asked, release = threading.Event(), threading.Event()

    def fail(query: dns.message.Message) -> dns.message.Message:
        asked.wait(LIMIT)
        threading.Timer(0.2, release.set).start()
        return reply(query, rcode=dns.rcode.SERVFAIL)

    def late(query: dns.message.Message) -> dns.message.Message:
        asked.set()
        release.wait(LIMIT)
        return reply(query, f"@ 5 A {FIRST}")

    with Upstream(fail) as one, Upstream(late) as two:
        server = start(serve, one, two, quick, options=PATIENT + "\n failover SERVFAIL")
        assert server.answers("a.test.") == [FIRST]
        assert (len(questions(one)), len(questions(two)), len(quick.seen)) == (1, 1, 0)


def test_failover_goes_past_a_second_question_that_failed(serve: Serve, quick: Upstream) -> None:
    failed = threading.Event()

    def late(query: dns.message.Message) -> dns.message.Message:
        failed.wait(LIMIT)
        time.sleep(0.1)
        return reply(query, rcode=dns.rcode.SERVFAIL)

    def fail(query: dns.message.Message) -> dns.message.Message:
        failed.set()
        return reply(query, rcode=dns.rcode.SERVFAIL)

    with Upstream(late) as one, Upstream(fail) as two:
        server = start(serve, one, two, quick, options=PATIENT + "\n failover SERVFAIL")
        assert server.answers("a.test.") == [SECOND]
        assert (len(questions(one)), len(questions(two)), len(quick.seen)) == (1, 1, 1)


def test_truncated_second_reply_is_asked_again_over_tcp(serve: Serve) -> None:
    def answer(query: dns.message.Message) -> dns.message.Message:
        return reply(query, flags=dns.flags.TC) if len(two.seen) == 1 else reply(query, f"@ 5 A {SECOND}")

    with Upstream(silent) as one, Upstream(answer) as two:
        server = start(serve, one, two, options=PATIENT + "\n prefer_udp")
        assert server.answers("a.test.") == [SECOND]
        assert len(questions(two)) == 2
        assert hedged(server) == (1, 1)


def test_equal_questions_wait_for_both(serve: Serve) -> None:
    """Queries for the same that come while both are under way are answered with the others, and nobody is asked once more."""
    asked, release = threading.Event(), threading.Event()

    def late(query: dns.message.Message) -> dns.message.Message:
        asked.set()
        release.wait(LIMIT)
        return reply(query, f"@ 5 A {SECOND}")

    with Upstream(silent) as one, Upstream(late) as two:
        server = start(serve, one, two, options=PATIENT + "\n max_concurrent 4\n max_fails 0")
        sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(3)]
        for sock in sockets:
            sock.settimeout(REPLY)
            sock.connect(("127.0.0.1", server.port))
        sockets[0].send(dns.message.make_query("a.test.", "A").to_wire())
        assert asked.wait(LIMIT)
        for sock in sockets[1:]:
            sock.send(dns.message.make_query("A.test.", "A").to_wire())
        # A server's counter tells that they are there: more would be refused.
        until(lambda: server.query("b.test.", "NS", timeout=REPLY) if release.set() else True)
        replies = [dns.message.from_wire(sock.recv(4096)) for sock in sockets]
        for sock in sockets:
            sock.close()
        assert [message.answer[0].to_text() for message in replies] == ["a.test. 5 IN A 192.0.2.2", *["A.test. 5 IN A 192.0.2.2"] * 2]
        assert len([query for query in questions(one) if query[1].lower() == "a.test."]) == 1
        assert len([query for query in questions(two) if query[1].lower() == "a.test."]) == 1
        # All places of max_concurrent are free again.
        assert [server.answers(f"n{number}.test.") for number in range(6)] == [[SECOND]] * 6


def test_an_upstream_whose_question_was_cancelled_is_asked_again(serve: Serve) -> None:
    """It owes no reply to a second question that the first one's reply has ended, so it is neither probed nor passed over."""
    answers = threading.Event()

    def late(query: dns.message.Message) -> dns.message.Message | None:
        if name_of(query) != "a.test.":
            return None
        answers.wait(LIMIT)
        return reply(query, f"@ 5 A {FIRST}")

    def second(query: dns.message.Message) -> dns.message.Message | None:
        answers.set()
        return None if name_of(query) == "a.test." else reply(query, f"@ 5 A {SECOND}")

    with Upstream(late) as one, Upstream(second) as two:
        server = start(serve, one, two, options=HEDGE)
        assert server.answers("a.test.") == [FIRST]
        time.sleep(1.2)  # an upstream that owes a reply for 0.8 seconds counts as silent
        assert server.answers("b.test.") == [SECOND]
        assert [name_of(query) for query in two.seen] == ["a.test.", "b.test."]


# ---- the budget ----


def flood(server: Server, names: list[str], sock: socket.socket, rate: float = 800) -> None:
    """Asks without waiting for replies."""
    begun = time.monotonic()
    for number, name in enumerate(names):
        time.sleep(max(0.0, begun + number / rate - time.monotonic()))
        sock.send(dns.message.make_query(name, "A").to_wire())


@pytest.fixture
def client(serve: Serve) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        yield sock


def test_second_questions_stay_within_the_budget(serve: Serve, client: socket.socket, quick: Upstream) -> None:
    with Upstream(silent) as slow:
        server = start(serve, slow, quick, options="hedge 20ms\n read_timeout 1m\n max_fails 0")
        client.connect(("127.0.0.1", server.port))
        flood(server, [f"n{number}.z{number % 10}.test." for number in range(2000)], client)
        until(lambda: total(server, "fastdns_forward_hedges_withheld_total") + hedged(server)[0] == 2000, "the last question")
        sent = hedged(server)[0]
        assert 40 <= sent <= 100
        until(lambda: hedged(server)[1] == sent)
        assert len(questions(quick)) == sent


def test_a_slow_zone_does_not_take_tokens_of_others(serve: Serve, client: socket.socket, quick: Upstream) -> None:
    """Nine of ten questions are for a zone that is never answered in time. Questions of other zones still get their second ones."""

    def answer(query: dns.message.Message) -> dns.message.Message | None:
        name = name_of(query)
        return None if "bad" in name or "slow" in name else reply(query, f"@ 5 A {FIRST}")

    with Upstream(answer) as one:
        # Answers in time take no tokens, also on a busy machine.
        server = start(serve, one, quick, options="hedge 200ms\n read_timeout 1m\n max_fails 0")
        client.connect(("127.0.0.1", server.port))
        names = [f"n{number}.bad.test." if number % 10 else f"n{number}.good{number // 10 % 6}.test." for number in range(2400)]
        flood(server, names, client)
        until(lambda: total(server, "fastdns_forward_hedges_withheld_total") > 1500)
        assert hedged(server)[0] <= 0.05 * 2400
        # Forty questions of each are two tokens. A zone may share its bucket with the bad one, but not most of them.
        got = []
        for number in range(6):
            try:
                got.append(server.answers(f"slow.good{number}.test.", timeout=2))
            except dns.exception.Timeout:
                got.append([])
        assert got.count([SECOND]) >= 4


def test_a_network_does_not_take_tokens_of_others(serve: Serve, client: socket.socket, quick: Upstream) -> None:
    """Zones have tokens that the questions of one network have brought. Other networks have only those that are of their own questions, too."""

    def answer(query: dns.message.Message) -> dns.message.Message | None:
        return None if "slow" in name_of(query) else reply(query, f"@ 5 A {FIRST}")

    def late() -> float:
        """Questions that were not answered in time."""
        return total(server, "fastdns_forward_hedges_withheld_total") + hedged(server)[0]

    zones = 12
    with Upstream(answer) as one:
        server = start(serve, one, quick, options="hedge 200ms\n read_timeout 1m\n max_fails 0")
        client.connect(("127.0.0.1", server.port))
        client.settimeout(LIMIT)
        # Forty of each zone are two tokens.
        for number in range(40):
            flood(server, [f"n{number}.z{zone}.test." for zone in range(zones)], client)
            for _ in range(zones):
                client.recv(4096)
        sent = []
        # A network may share its bucket with that of the first one, but not all of them.
        for network in range(1, 4):
            late_before, before = late(), hedged(server)[0]
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
                other.bind((f"127.0.{network}.1", 0))
                other.connect(("127.0.0.1", server.port))
                flood(server, [f"slow{network}.z{number}.test." for number in range(zones)], other)
                until(lambda late_before=late_before: late() == late_before + zones, "the last question")
            sent.append(hedged(server)[0] - before)
        assert min(sent) == 0
        before = hedged(server)[0]
        flood(server, [f"slow.z{number}.test." for number in range(zones)], client)
        until(lambda: hedged(server)[0] - before >= zones // 2, "second questions of the first network")


# ---- when ----


def test_after_a_quantile_of_its_replies(serve: Serve, quick: Upstream) -> None:
    """None while too few are known; then the others are not asked at every second reply."""

    def answer(query: dns.message.Message) -> dns.message.Message | None:
        return None if "slow" in name_of(query) else reply(query, f"@ 5 A {FIRST}")

    with Upstream(answer) as one:
        server = start(serve, one, quick, options="hedge p99 budget 100%\n read_timeout 1m\n max_fails 0")
        with pytest.raises(dns.exception.Timeout):
            server.query("slow0.test.", timeout=0.5)
        assert hedged(server) == (0, 0)
        for number in range(200):
            server.query(f"n{number}.test.")
        assert server.answers("slow1.test.") == [SECOND]
        assert hedged(server)[0] < 60


# ---- elsewhere ----


def test_a_reload_while_both_are_under_way(serve: Serve) -> None:
    asked, release = threading.Event(), threading.Event()

    def late(query: dns.message.Message) -> dns.message.Message:
        asked.set()
        release.wait(LIMIT)
        return reply(query, f"@ 5 A {SECOND}")

    with Upstream(silent) as one, Upstream(late) as two:
        server = start(serve, one, two)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.settimeout(REPLY)
            sock.connect(("127.0.0.1", server.port))
            sock.send(dns.message.make_query("a.test.", "A").to_wire())
            assert asked.wait(LIMIT)
            server.reload(corefile(two.address, one.address, options="max_concurrent 100"))
            release.set()
            assert dns.message.from_wire(sock.recv(4096)).answer[0][0].to_text() == SECOND
        assert server.answers("b.test.") == [SECOND]


@pytest.mark.parametrize("transport", ["tcp", "tls", "https"])
def test_over_connections(serve: Serve, certificates: Path, transport: str) -> None:
    if transport == "tcp":
        with Upstream(silent) as one, Upstream(address("192.0.2.1")) as two:
            server = start(serve, one, two, options=PATIENT + "\n force_tcp")
            assert [server.answers(f"n{number}.test.") for number in range(3)] == [["192.0.2.1"]] * 3
            assert (len(one.seen), len(two.seen)) == (3, 3)
        return
    kind = TlsServer if transport == "tls" else HttpsServer
    servers = [kind(certificates) for _ in range(2)]
    servers[0].going.clear()
    try:
        options = f"{PATIENT}\n tls {certificates}/ca.pem\n tls_servername dns.test"
        server = serve(corefile(*(f"{transport}://{each.address}" for each in servers), options=options), "-workers", "1")
        assert [server.answers(f"n{number}.test.") for number in range(3)] == [["192.0.2.1"]] * 3
        assert hedged(server) == (3, 3)
        assert len(servers[1].seen) == 3
    finally:
        for each in servers:
            each.close()


def test_over_quic(serve: Serve, tmp_path: Path) -> None:
    pytest.importorskip("fastdns.engine.quic.library", reason="needs make quic")
    from tests.quic_server import DoqServer

    folder = write_certificates(tmp_path)
    with (
        DoqServer(folder / "server.pem", folder / "server.key", script=lambda session, stream, query: None) as one,
        DoqServer(folder / "server.pem", folder / "server.key") as two,
    ):
        options = f"{PATIENT}\n tls {folder}/ca.pem"
        server = serve(corefile(f"quic://{one.address}", f"quic://{two.address}", options=options), "-workers", "1")
        assert [server.answers(f"n{number}.test.") for number in range(3)] == [["192.0.2.1"]] * 3
        assert (len(one.seen), len(two.seen)) == (3, 3)


def test_a_connection_of_another_worker(serve: Serve) -> None:
    """Both questions may travel over connections that another worker has."""
    with Upstream(silent) as one, Upstream(address(SECOND)) as two:
        server = serve(corefile(one.address, two.address, options=PATIENT + "\n force_tcp"), "-workers", "4")
        for number in range(24):
            assert server.answers(f"n{number}.test.") == [SECOND]
        assert hedged(server) == (24, 24)


def test_dnstap_has_both(serve: Serve, quick: Upstream, tmp_path: Path) -> None:
    with Upstream(silent) as slow, receiver(tmp_path / "tap") as collector:
        server = start(serve, slow, quick, before=f"dnstap {tmp_path}/tap full")
        server.query("a.test.")
        messages = collector.stream().wait(5)
        kinds = sorted((message.kind, message["response_port"]) for message in messages if message.kind.startswith("FORWARDER"))
        assert kinds == sorted([("FORWARDER_QUERY", slow.port), ("FORWARDER_QUERY", quick.port), ("FORWARDER_RESPONSE", quick.port)])
