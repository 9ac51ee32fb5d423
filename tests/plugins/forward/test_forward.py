"""forward through the engine: answers, policies, failures, limits."""

from __future__ import annotations

import collections
import contextlib
import selectors
import socket
import threading
import time
import urllib.request
from collections.abc import Callable

import dns.edns
import dns.flags
import dns.message
import dns.query
import dns.rcode
import dns.rrset
import pytest

from fastdns.setup.registry import built
from fastdns.testing import Upstream
from tests.server import Server, free_port
from tests.waiting import LIMIT, until

Serve = Callable[..., Server]

needs_prometheus = pytest.mark.skipif("prometheus" not in built(), reason="needs the plugin prometheus")


def reply(query: dns.message.Message, *answers: str, rcode: int = 0, flags: int = dns.flags.RA) -> dns.message.Message:
    made = dns.message.make_response(query)
    made.flags |= flags
    made.set_rcode(dns.rcode.Rcode(rcode))
    for answer in answers:
        name, ttl, kind, rdata = answer.split(None, 3)
        owner = query.question[0].name if name == "@" else name
        made.answer.append(dns.rrset.from_text(owner, int(ttl), "IN", kind, rdata))
    return made


def questions(upstream: Upstream) -> set[tuple[int, str]]:
    """What an upstream was asked: id and name. A datagram that is repeated, because a slow machine let the upstream wait, is the same question."""
    return {(query.id, query.question[0].name.to_text()) for query in upstream.seen}


def address(text: str) -> Callable[[dns.message.Message], dns.message.Message]:
    return lambda query: reply(query, f"@ 5 A {text}")


#: Seconds from its first attempt that *forward* gives to a query; what fails at once is told from what waits for that.
GIVE_UP = 5


def corefile(options: str = "", to: str = "{up}", before: str = "") -> str:
    return f".:{{port}} {{\n bind 127.0.0.1\n{before}\n forward . {to} {{\n{options}\n}}\n}}\n"


# ---- passing through ----


def test_reply_passes_unchanged(serve: Serve) -> None:
    def answer(query: dns.message.Message) -> dns.message.Message:
        made = reply(query, "@ 300 CNAME a.test.", "a.test. 7 A 192.0.2.1", rcode=3, flags=dns.flags.AA | dns.flags.AD | dns.flags.CD)
        made.authority.append(dns.rrset.from_text("test.", 9, "IN", "SOA", "ns.test. admin.test. 1 2 3 4 5"))
        made.additional.append(dns.rrset.from_text("ns.test.", 9, "IN", "AAAA", "2001:db8::1"))
        return made

    with Upstream(answer) as upstream:
        server = serve(corefile().replace("{up}", upstream.address))
        got = server.query("Www.Example.ORG.", "A")
        assert got.question[0].name.to_text() == "Www.Example.ORG."
        assert got.rcode() == dns.rcode.NXDOMAIN
        assert dns.flags.to_text(got.flags) == "QR AA RD AD CD"
        assert [r.to_text() for r in got.answer] == ["Www.Example.ORG. 300 IN CNAME a.test.", "a.test. 7 IN A 192.0.2.1"]
        assert got.authority[0].to_text() == "test. 9 IN SOA ns.test. admin.test. 1 2 3 4 5"
        assert got.additional[0].to_text() == "ns.test. 9 IN AAAA 2001:db8::1"


def test_request_passes_unchanged(serve: Serve) -> None:
    with Upstream() as upstream:
        server = serve(corefile().replace("{up}", upstream.address))
        asked = dns.message.make_query("MiXed.test.", "A", use_edns=0, payload=1200, want_dnssec=True, options=[dns.edns.GenericOption(65001, b"x")])
        asked.flags |= dns.flags.CD | dns.flags.AD
        server.send(asked)
        seen = upstream.seen[0]
        assert seen.question == asked.question
        assert seen.question[0].name.to_text() == "MiXed.test."
        assert (seen.flags, seen.edns, seen.ednsflags, seen.payload) == (asked.flags, 0, asked.ednsflags, 1200)
        assert seen.options == asked.options
        server.send(dns.message.make_query("chaos.test.", "A", rdclass="CH"))
        assert upstream.seen[-1].question[0].rdclass == 3


@pytest.mark.parametrize(
    ("options", "tcp", "wanted"),
    [("", False, "udp"), ("", True, "tcp"), ("force_tcp", False, "tcp"), ("prefer_udp", True, "udp"), ("prefer_udp\n force_tcp", False, "tcp")],
)
def test_transport(serve: Serve, options: str, tcp: bool, wanted: str) -> None:
    with Upstream() as upstream:
        ways: list[str] = []
        for way, method in (("udp", "_serve_udp"), ("tcp", "_serve_tcp")):
            assert hasattr(upstream, method), way
        connections = accepted(upstream)
        server = serve(corefile(options).replace("{up}", upstream.address))
        assert server.query("a.test.", tcp=tcp).answer
        ways.append("tcp" if connections else "udp")
        assert ways == [wanted]


def accepted(upstream: Upstream) -> list[socket.socket]:
    """The TCP connections that an upstream has accepted, as they come."""
    held: list[socket.socket] = []
    inner = upstream._serve_connection

    def hold(connection: socket.socket) -> None:
        held.append(connection)
        inner(connection)

    upstream._serve_connection = hold  # type: ignore[method-assign]
    return held


def test_truncated_reply_is_asked_again_over_tcp(serve: Serve) -> None:
    def answer(query: dns.message.Message) -> dns.message.Message:
        return reply(query, "@ 5 A 192.0.2.9") if connections else reply(query, flags=dns.flags.TC)

    with Upstream(answer) as upstream:
        connections = accepted(upstream)
        server = serve(corefile("prefer_udp").replace("{up}", upstream.address))
        assert server.answers("a.test.") == ["192.0.2.9"]
        assert len(questions(upstream)) == 2


def test_reply_longer_than_the_client_takes_is_truncated(serve: Serve) -> None:
    def answer(query: dns.message.Message) -> dns.message.Message:
        return reply(query, *(f"@ 5 TXT {str(i) * 200}" for i in range(9)))

    with Upstream(answer) as upstream:
        server = serve(corefile().replace("{up}", upstream.address))
        short = server.query("a.test.", "TXT")
        assert short.flags & dns.flags.TC
        assert not short.answer
        assert len(server.query("a.test.", "TXT", use_edns=0, payload=4096).answer[0]) == 9
        assert len(server.query("a.test.", "TXT", use_edns=0, payload=8000).answer[0]) == 9, "above what is received in batches"
        assert len(server.query("a.test.", "TXT", tcp=True).answer[0]) == 9


def test_source_address(serve: Serve) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as upstream:
        upstream.bind(("127.0.0.1", 0))
        upstream.settimeout(LIMIT)
        server = serve(corefile("source_address 127.0.0.7").replace("{up}", f"127.0.0.1:{upstream.getsockname()[1]}"))
        with pytest.raises(dns.exception.Timeout):
            server.query("a.test.", timeout=0.1)
        assert upstream.recvfrom(512)[1][0] == "127.0.0.7"
        server.process.kill()  # which does not wait for the reply


def test_ipv6_upstream(serve: Serve) -> None:
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as upstream:
        try:
            upstream.bind(("::1", 0))
        except OSError:
            pytest.skip("needs IPv6 on loopback")
        upstream.settimeout(LIMIT)

        def answer() -> None:
            octets, client = upstream.recvfrom(512)
            upstream.sendto(reply(dns.message.from_wire(octets), "@ 5 A 192.0.2.1").to_wire(), client)

        server = serve(corefile(to=f"[::1]:{upstream.getsockname()[1]}", before="errors"))
        threading.Thread(target=answer, daemon=True).start()
        assert server.answers("a.test.") == ["192.0.2.1"]
    assert server.answers("b.test.") == ["SERVFAIL"]
    server.wait_log(r"b\.test\. A: (read|write) udp \[::1\]:\d+->\[::1\]:\d+: (read|write): connection refused")


@pytest.mark.parametrize(
    ("tcp", "wanted"),
    [
        (False, r"2 a\.test\. A: read udp 127\.0\.0\.1:\d+->127\.0\.0\.1:{port}: i/o timeout"),
        (True, r"2 a\.test\. A: read tcp 127\.0\.0\.1:\d+->127\.0\.0\.1:{port}: i/o timeout"),
    ],
)
def test_error_of_a_silent_upstream(serve: Serve, tcp: bool, wanted: str) -> None:
    with Upstream(lambda query: None) as upstream:
        server = serve(corefile("read_timeout 100ms", upstream.address, before="errors"))
        server.query("a.test.", tcp=tcp)
        server.wait_log(wanted.replace("{port}", str(upstream.port)))


@pytest.mark.parametrize(
    ("tcp", "wanted"), [(False, r"read udp \S+: read: connection refused"), (True, r"dial tcp 127\.0\.0\.1:\d+: connect: connection refused")]
)
def test_error_of_a_closed_port(serve: Serve, tcp: bool, wanted: str) -> None:
    server = serve(corefile(to=f"127.0.0.1:{free_port()}", before="errors"))
    server.query("a.test.", tcp=tcp)
    server.wait_log(rf"\[ERROR\] plugin/errors: 2 a\.test\. A: {wanted}")


# ---- which queries ----


def test_zone_and_except(serve: Serve) -> None:
    with Upstream(address("192.0.2.1")) as one, Upstream(address("192.0.2.2")) as two:
        server = serve(
            f""".:{{port}} {{
    bind 127.0.0.1
    forward example.org {one.address} {{
        except no.example.org example.org
    }}
    forward . {two.address}
}}"""
        )
        wanted = {"example.org.": 1, "www.EXAMPLE.org.": 2, "no.example.org.": 2, "x.no.example.org.": 2, "notexample.org.": 2, ".": 2}
        assert {name: int(server.answers(name)[0][-1]) for name in wanted} == wanted


def test_next_and_nodata(serve: Serve) -> None:
    def answer(query: dns.message.Message) -> dns.message.Message:
        name = query.question[0].name.to_text()
        return reply(query, rcode=3 if name.startswith("nx") else 2 if name.startswith("sf") else 0)

    with Upstream(answer) as one, Upstream(address("192.0.2.2")) as two:
        server = serve(
            f""".:{{port}} {{
    bind 127.0.0.1
    forward . {one.address} {{
        next NXDOMAIN
        next_on_nodata
    }}
    forward . {two.address}
}}
last.test:{{port}} {{
    bind 127.0.0.1
    forward . {one.address} {{
        next SERVFAIL
    }}
}}"""
        )
        assert server.answers("nx.test.") == ["192.0.2.2"]
        assert server.answers("nodata.test.") == ["192.0.2.2"]
        assert server.answers("sf.test.") == ["SERVFAIL"]
        assert server.answers("sf.last.test.") == ["SERVFAIL"], "there is no other forward"


def test_failover_asks_each_once(serve: Serve) -> None:
    def refuse(query: dns.message.Message) -> dns.message.Message:
        return reply(query, rcode=5)

    with Upstream(refuse) as one, Upstream(refuse) as two, Upstream(lambda query: reply(query, rcode=2)) as three:
        server = serve(corefile("policy sequential\n failover REFUSED SERVFAIL", f"{one.address} {two.address} {three.address}"))
        got = server.query("a.test.")
        assert got.rcode() == dns.rcode.SERVFAIL
        assert got.flags & dns.flags.RA, "the last reply, not one of ours"
        assert [len(questions(upstream)) for upstream in (one, two, three)] == [1, 1, 1]


@pytest.mark.parametrize("policy", ["random", "round_robin", "sequential"])
def test_policies(serve: Serve, policy: str) -> None:
    with Upstream(address("192.0.2.1")) as one, Upstream(address("192.0.2.2")) as two, Upstream(address("192.0.2.3")) as three:
        server = serve(corefile(f"policy {policy}", f"{one.address} {two.address} {three.address}"))
        got = [server.answers(f"{i}.test.")[0][-1] for i in range(60)]
        count = collections.Counter(got)
        if policy == "sequential":
            assert count == {"1": 60}
        elif policy == "round_robin":
            assert got == list("231" * 20), "the first query goes to the second upstream"
        else:
            assert set(count) == {"1", "2", "3"}
            assert max(count.values()) < 40


# ---- failures ----


def errors(server: Server) -> str:
    return server.log_path.read_text()


@pytest.mark.parametrize(("count", "options", "wanted"), [(1, "", 2), (3, "", 6), (1, "max_connect_attempts 1", 1), (3, "max_connect_attempts 4", 4)])
def test_attempts(serve: Serve, count: int, options: str, wanted: int) -> None:
    ups = [Upstream(lambda query: None) for _ in range(count)]
    for upstream in ups:
        upstream.__enter__()
    try:
        server = serve(corefile(f"read_timeout 100ms\n max_fails 0\n policy sequential\n {options}", " ".join(u.address for u in ups)))
        begun = time.monotonic()
        got = server.query("a.test.")
        assert got.rcode() == dns.rcode.SERVFAIL
        assert not got.flags & dns.flags.RA
        assert wanted * 0.1 <= time.monotonic() - begun < GIVE_UP
        assert sum(len(questions(upstream)) for upstream in ups) == wanted
    finally:
        for upstream in ups:
            upstream.__exit__(None, None, None)


def test_without_a_cap_five_seconds_end_it(serve: Serve) -> None:
    port = free_port()
    server = serve(corefile("max_connect_attempts 0\n max_fails 0", f"127.0.0.1:{port}"))
    begun = time.monotonic()
    assert server.query("a.test.").rcode() == dns.rcode.SERVFAIL
    assert GIVE_UP - 0.1 < time.monotonic() - begun < 2 * GIVE_UP
    assert server.cpu() < 2, "attempts rest between refusals"


@pytest.mark.parametrize("tcp", [False, True])
def test_refused_port_fails_at_once(serve: Serve, tcp: bool) -> None:
    server = serve(corefile(to=f"127.0.0.1:{free_port()}"))
    begun = time.monotonic()
    assert server.query("a.test.", tcp=tcp).rcode() == dns.rcode.SERVFAIL
    assert time.monotonic() - begun < GIVE_UP - 1


def failed_checks(server: Server) -> float:
    return sum(value for name, value in metrics(server).items() if name.startswith("coredns_proxy_healthcheck_failures_total"))


@needs_prometheus
def test_failure_goes_to_the_next_upstream_and_comes_back(serve: Serve) -> None:
    port = free_port()
    with Upstream(address("192.0.2.2")) as two:
        to = f"127.0.0.1:{port} {two.address}"
        server = serve(corefile("policy sequential\n health_check 50ms", to, before="prometheus 127.0.0.1:{port2}"))
        assert server.answers("a.test.") == ["192.0.2.2"]
        assert server.answers("b.test.", tcp=True) == ["192.0.2.2"]
        until(lambda: failed_checks(server) > 2, "that it is down")
        probes: list[dns.message.Message] = []
        over = threading.Event()

        def run(one: socket.socket) -> None:
            """Refuses probes and answers everything else."""
            while not over.is_set():
                with contextlib.suppress(TimeoutError):
                    octets, client = one.recvfrom(512)
                    query = dns.message.from_wire(octets)
                    if query.question[0].name == dns.name.root:
                        probes.append(query)
                        one.sendto(reply(query, rcode=5).to_wire(), client)
                    else:
                        one.sendto(reply(query, "@ 5 A 192.0.2.1").to_wire(), client)

        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
            one.bind(("127.0.0.1", port))
            one.settimeout(0.1)
            thread = threading.Thread(target=run, args=(one,))
            thread.start()
            try:
                server.until("c.test.", "A", ["192.0.2.1"])
            finally:
                over.set()
                thread.join()
        assert probes[0].question[0].to_text() == ". IN NS"
        assert probes[0].flags == dns.flags.RD


@needs_prometheus
def test_failfast_when_all_are_down(serve: Serve) -> None:
    options = "max_fails 1\n health_check 20ms\n failfast_all_unhealthy_upstreams"
    server = serve(corefile(options, f"127.0.0.1:{free_port()}", before="prometheus 127.0.0.1:{port2}"))
    server.query("a.test.")
    until(lambda: failed_checks(server) >= 2)
    assert server.query("b.test.").rcode() == dns.rcode.SERVFAIL
    assert metrics(server)["coredns_forward_healthcheck_broken_total"] == 1


def metrics(server: Server) -> dict[str, float]:
    with urllib.request.urlopen(f"http://127.0.0.1:{server.ports['port2']}/metrics") as page:
        lines = page.read().decode().splitlines()
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if line and line[0] != "#"}


@needs_prometheus
def test_metrics(serve: Serve) -> None:
    with Upstream() as upstream:
        server = serve(corefile("max_concurrent 100", upstream.address, before="prometheus 127.0.0.1:{port2}"))
        for tcp in (False, False, True):
            server.query("a.test.", tcp=tcp)
        page = metrics(server)
        to = upstream.address
        assert page[f'coredns_proxy_request_duration_seconds_count{{proxy_name="forward",rcode="NOERROR",to="{to}"}}'] == 3
        made = [value for name, value in page.items() if name.startswith("coredns_proxy_conn_cache_")]
        assert sum(made) == 3
        assert page["coredns_forward_max_concurrent_rejects_total"] == 0


def test_max_concurrent(serve: Serve) -> None:
    refused = threading.Event()

    def slow(query: dns.message.Message) -> dns.message.Message:
        refused.wait(LIMIT)
        return reply(query, "@ 5 A 192.0.2.1")

    with Upstream(slow) as upstream:
        server = serve(corefile("max_concurrent 2\n read_timeout 10s", upstream.address))

        def count(codes: dict[int, str]) -> None:
            if list(codes.values()).count("REFUSED") == 4:
                refused.set()

        assert sorted(burst(server, ["same.test."] * 6, heard=count)) == ["NOERROR"] * 2 + ["REFUSED"] * 4, "who waits for the same question counts too"
        assert len(questions(upstream)) <= 2
        assert server.answers("a.test.") == ["192.0.2.1"]


#: Queries of one socket in a burst: their replies, all at once, fit into the receive buffer that Linux gives by default.
EACH = 100


def burst(server: Server, names: list[str], timeout: float = LIMIT, heard: Callable[[dict[int, str]], None] | None = None) -> list[str]:
    """The codes that queries sent at once got; "lost" for those without reply. `heard` is told of all so far with each reply."""
    codes: dict[int, str] = {}
    with contextlib.ExitStack() as stack, selectors.DefaultSelector() as selector:
        for first in range(0, len(names), EACH):
            client = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            client.connect(("127.0.0.1", server.port))
            selector.register(client, selectors.EVENT_READ, first)
            for number, name in enumerate(names[first : first + EACH]):
                query = dns.message.make_query(name, "A")
                query.id = number
                client.send(query.to_wire())
        while len(codes) < len(names) and (ready := selector.select(timeout)):
            for key, _ in ready:
                octets = key.fileobj.recv(4096)  # type: ignore[union-attr]
                codes[key.data + int.from_bytes(octets[:2], "big")] = dns.rcode.to_text(dns.rcode.Rcode(octets[3] & 15))
                if heard is not None:
                    heard(codes)
    return [codes.get(number, "lost") for number in range(len(names))]


# ---- TCP ----


def test_connections_are_kept_and_expire(serve: Serve) -> None:
    expire = 1.0
    with Upstream() as upstream:
        connections = accepted(upstream)
        ended = threading.Event()
        inner = upstream._serve_connection

        def serve_connection(connection: socket.socket) -> None:
            inner(connection)
            ended.set()

        upstream._serve_connection = serve_connection  # type: ignore[method-assign]
        server = serve(corefile(f"force_tcp\n expire {expire:g}s", upstream.address), "-workers", "1")
        pauses, before = 0, time.monotonic()
        for i in range(5):
            assert server.query(f"{i}.test.").answer
            now = time.monotonic()
            pauses += now - before > 0.9 * expire  # of this machine's making
            before = now
        assert len(connections) <= 1 + pauses
        ended.clear()
        made = len(connections)
        assert ended.wait(LIMIT)
        assert time.monotonic() - before > 0.9 * expire or pauses
        server.query("later.test.")
        assert len(connections) == made + 1


def test_connections_take_many_questions_at_once(serve: Serve) -> None:
    with Upstream() as upstream:
        connections = accepted(upstream)
        server = serve(corefile("force_tcp", upstream.address), "-workers", "1")
        assert burst(server, [f"{i}.test." for i in range(200)]) == ["NOERROR"] * 200
        assert len(connections) <= 8


def test_workers_share_a_connection_at_everyday_rates(serve: Serve) -> None:
    with Upstream() as upstream:
        connections = accepted(upstream)
        server = serve(corefile("force_tcp", upstream.address), "-workers", "4")
        for i in range(40):
            assert server.answers(f"{i}.test.") == ["192.0.2.53"]
        assert len(connections) == 1
        assert burst(server, [f"many{i}.test." for i in range(300)]) == ["NOERROR"] * 300
        assert len(connections) <= 4 * 8
        big = dns.message.make_query("big.test.", "A", use_edns=0, options=[dns.edns.GenericOption(65001, b"x" * 700)])
        for _ in range(8):
            assert server.send(big).answer


def test_questions_over_another_workers_connection_survive(serve: Serve) -> None:
    """Connections that close, time out or cannot be made: whoever asked through another worker hears of it like everybody."""
    answers = [True]

    def answer(query: dns.message.Message) -> dns.message.Message | None:
        return reply(query, "@ 5 A 192.0.2.1") if answers[0] else None

    with Upstream(answer) as upstream:
        held: list[socket.socket] = []
        inner = upstream._serve_connection

        def hold(connection: socket.socket) -> None:
            held.append(connection)
            inner(connection)

        upstream._serve_connection = hold  # type: ignore[method-assign]
        server = serve(corefile("force_tcp\n read_timeout 2s\n max_fails 0\n max_connect_attempts 1", upstream.address), "-workers", "4")
        for i in range(30):
            assert server.answers(f"{i}.test.") == ["192.0.2.1"]
            if i % 3 == 0:
                held[-1].shutdown(socket.SHUT_RDWR)
        answers[0] = False
        assert burst(server, [f"silent{i}.test." for i in range(6)]) == ["SERVFAIL"] * 6
        answers[0] = True
        assert server.answers("again.test.") == ["192.0.2.1"]
    for connection in held:
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)
    assert [server.answers(f"gone{i}.test.") for i in range(6)] == [["SERVFAIL"]] * 6


def test_closed_connection_is_no_failure(serve: Serve) -> None:
    """The upstream closes what it has kept open: the next question finds out, and is asked again."""
    with Upstream() as upstream:
        held = accepted(upstream)
        server = serve(corefile("force_tcp\n max_connect_attempts 1", upstream.address), "-workers", "1")
        for i in range(5):
            assert server.answers(f"{i}.test.") == ["192.0.2.53"]
            held[-1].shutdown(socket.SHUT_RDWR)
        assert len(held) == 5


def test_idle_sockets_are_closed(serve: Serve) -> None:
    with Upstream() as upstream:
        server = serve(corefile("expire 1s", upstream.address), "-workers", "1")
        before = server.descriptors()
        server.query("a.test.")
        assert server.descriptors() == before + 1
        until(lambda: server.descriptors() <= before, "the end of idle sockets")


# ---- reload ----


def test_reload_lets_queries_under_way_finish(serve: Serve) -> None:
    reloaded = threading.Event()

    def slow(query: dns.message.Message) -> dns.message.Message:
        reloaded.wait(LIMIT)
        return reply(query, "@ 5 A 192.0.2.1")

    with Upstream(slow) as one, Upstream(address("192.0.2.2")) as two:
        server = serve(corefile("read_timeout 10s", one.address))
        codes: list[str] = []
        asker = threading.Thread(target=lambda: codes.extend(server.answers("a.test.")))
        asker.start()
        until(lambda: one.seen)
        server.reload(corefile("", two.address))
        assert server.answers("b.test.") == ["192.0.2.2"]
        reloaded.set()
        asker.join()
        assert codes == ["192.0.2.1"]
        assert server.answers("c.test.") == ["192.0.2.2"]


# ---- OPT (RFC 6891): hop by hop ----

COOKIE, EXPIRE, KEEPALIVE, PADDING, SUBNET = 10, 9, 11, 12, 8


def option(code: int, data: bytes = b"") -> dns.edns.GenericOption:
    return dns.edns.GenericOption(code, data)


def with_options(*options: dns.edns.Option, flags: int = 0) -> Callable[[dns.message.Message], dns.message.Message]:
    def answer(query: dns.message.Message) -> dns.message.Message:
        got = reply(query, "@ 5 A 192.0.2.1")
        got.use_edns(0, flags, 4000, options=list(options))
        return got

    return answer


HOPS = [option(EXPIRE), option(COOKIE, b"12345678"), option(KEEPALIVE), option(PADDING, bytes(20))]


@pytest.mark.parametrize("tcp", [False, True], ids=["udp", "tcp"])
def test_options_for_the_next_server_only_are_not_forwarded(serve: Serve, tcp: bool) -> None:
    kept = [option(3), option(SUBNET, b"\0\1\x18\0\xc0\0\2"), option(65001, b"x")]
    with Upstream() as upstream:
        server = serve(corefile().replace("{up}", upstream.address))
        for number, options in enumerate((HOPS, kept + HOPS, HOPS + kept, [HOPS[1], kept[0], HOPS[3], *kept[1:], HOPS[0]])):
            got = server.query(f"x{number}.test.", use_edns=0, payload=1200, options=options, want_dnssec=True, tcp=tcp)
            assert got.answer
            seen = upstream.seen[-1]
            assert (seen.payload, seen.ednsflags) == (1200, dns.flags.DO)
            wanted = [item for item in options if item not in HOPS]
            assert [(item.otype, item.to_wire()) for item in seen.options] == [(item.otype, item.to_wire()) for item in wanted]
            assert not {int(item.otype) for item in got.options} & {EXPIRE, COOKIE, KEEPALIVE, PADDING}


@pytest.mark.parametrize(("size", "wanted"), [(0, 0), (512, 512), (800, 800), (1232, 1232), (1233, 1232), (4096, 1232), (65535, 1232)])
def test_the_size_that_an_upstream_is_told(serve: Serve, size: int, wanted: int) -> None:
    with Upstream() as upstream:
        server = serve(corefile().replace("{up}", upstream.address))
        for number, options in enumerate(([], [option(65001, b"x")], [HOPS[1]])):
            got = server.query(f"x{number}.test.", use_edns=0, payload=size, options=options)
            assert got.payload == size
            assert (upstream.seen[-1].edns, upstream.seen[-1].payload) == (0, wanted)


def test_what_a_client_sees_of_an_upstreams_opt(serve: Serve) -> None:
    """Extended errors, and replies to the options of the query; nothing that the upstream says to the server alone, and no flag but DO."""
    subnet = option(SUBNET, b"\0\1\x18\x10\xc0\0\2")
    told = [option(COOKIE, b"12345678abcdefgh"), option(3, b"them"), subnet, option(15, b"\0\3"), *HOPS[2:], option(65001, b"x")]
    with Upstream(with_options(*told, flags=0xC001)) as upstream:
        server = serve(corefile().replace("{up}", upstream.address))
        cases: list[tuple[list[dns.edns.GenericOption], list[int]]] = [
            ([], [15]),
            (HOPS, [15]),
            ([option(3)], [3, 15]),
            ([option(SUBNET, b"\0\1\x18\0\xc0\0\2")], [SUBNET, 15]),
            ([option(65001), option(3)], [3, 15, 65001]),
        ]
        for number, (asked, wanted) in enumerate(cases):
            got = server.query(f"x{number}.test.", use_edns=0, payload=1400, options=asked)
            assert [int(item.otype) for item in got.options] == wanted
            assert (got.payload, got.ednsflags) == (1400, 0)
