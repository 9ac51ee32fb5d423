"""shadow: questions of clients asked of a second server, and its answers compared with ours."""

from __future__ import annotations

import json
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import dns.edns
import dns.flags
import dns.message
import dns.opcode
import dns.rcode
import dns.rrset
import pytest

from fastdns.server import control
from fastdns.testing import Upstream
from tests.server import Server, command
from tests.waiting import until

Serve = Callable[..., Server]
Message = dns.message.Message

TEMPLATE = 'template ANY A test {\n        answer "{{ .Name }} 60 IN A 192.0.2.1"\n    }'


def corefile(address: str, options: str = "", share: str = "", rest: str = TEMPLATE) -> str:
    return f".:{{port}} {{\n    bind 127.0.0.1\n    prometheus 127.0.0.1:{{port9}}\n    shadow {address} {share} {{\n{options}\n}}\n    {rest}\n}}\n"


def right(query: Message) -> Message:
    """As the server under test answers, but for order, TTLs and case."""
    reply = dns.message.make_response(query)
    reply.flags |= dns.flags.AA
    reply.answer.append(dns.rrset.from_text(str(query.question[0].name).upper(), 5, "IN", "A", "192.0.2.1"))
    return reply


def wrong(query: Message) -> Message:
    reply = right(query)
    reply.answer = [dns.rrset.from_text(query.question[0].name, 5, "IN", "A", "192.0.2.66")]
    return reply


def report(server: Server) -> dict[str, Any]:
    [target] = control.ask({"sections": ["shadow"]}, server.pid)["shadow"]["targets"]
    return dict(target)


def count(server: Server, result: str) -> float:
    return server.metric(server.ports["port9"], f'fastdns_shadow_results_total{{result="{result}",to="{report(server)["servers"][1]}"}}')


def ask(server: Server, *names: str, **options: Any) -> None:
    """All are answered at once and rightly, whatever the other server does."""
    for name in names:
        before = time.monotonic()
        reply = server.query(name, **options)
        assert [str(record) for rrset in reply.answer for record in rrset] == ["192.0.2.1"], name
        assert time.monotonic() - before < 1


def warm(server: Server) -> None:
    """Until the other server is asked everything: at first one question tries it out."""
    ask(server, "warm.test")
    until(lambda: report(server)["state"] == "answers")


def names(number: int, kind: str = "n") -> list[str]:
    return [f"{kind}{i}.test" for i in range(number)]


# ---- what is found ----


@pytest.mark.parametrize("tcp", [False, True])
def test_a_planted_wrong_answer_is_found(serve: Serve, tcp: bool) -> None:
    """One name of fifty; the report has both answers, and its exit status says that there is something."""
    with Upstream(lambda query: wrong(query) if str(query.question[0].name).lower() == "n7.test." else right(query)) as other:
        server = serve(corefile(other.address), "-workers", "2")
        warm(server)
        ask(server, *names(50), "N7.test", tcp=tcp)
        until(lambda: report(server)["questions"] == 52)
        found = report(server)
        assert (found["same"], found["differences"], found["known"], found["unexamined"]) == (50, {"answer": 2}, {}, 0)
        [kept] = [kept for kept in found["kept"] if kept["name"] == "n7.test."]
        assert (kept["type"], kept["kind"], kept["client"]) == ("A", "answer", "127.0.0.1")
        assert [side["answer"] for side in kept["replies"]] == [["n7.test. A 192.0.2.1"], ["n7.test. A 192.0.2.66"]]
        assert (count(server, "same"), count(server, "answer")) == (50, 2)
        assert server.metric(server.ports["port9"], f'fastdns_shadow_up{{to="{other.address}"}}') == 1
        done = subprocess.run([*command(), "shadow", "report", "-pid", str(server.pid)], capture_output=True, text=True, check=False, timeout=60)
        assert (done.returncode, done.stderr) == (1, "")
        lines = done.stdout.splitlines()
        assert lines[0].startswith(f"{other.address} beside this server since ")
        assert lines[1] == "52 questions, 2 differences, here they are:"
        assert lines[-1] == "50 the same"
        done = subprocess.run([*command(), "shadow", "report", "-json", "-pid", str(server.pid)], capture_output=True, text=True, check=False, timeout=60)
        assert json.loads(done.stdout)["targets"][0]["kept"] == found["kept"]


def test_differences_by_kind(serve: Serve) -> None:
    def answer(query: Message) -> Message | None:
        reply = right(query)
        match query.question[0].name.labels[0].decode():
            case "rcode":
                reply.set_rcode(dns.rcode.NXDOMAIN)
                reply.answer.clear()
            case "flags":
                reply.flags &= ~dns.flags.AA
            case "authority":
                reply.authority.append(dns.rrset.from_text("test.", 5, "IN", "NS", "ns.test."))
            case "additional":
                reply.additional.append(dns.rrset.from_text("ns.test.", 5, "IN", "A", "192.0.2.3"))
            case "truncated":
                reply.flags |= dns.flags.TC
                reply.answer.clear()
            case "unanswered":
                return None
        return reply

    with Upstream(answer) as other:
        server = serve(corefile(other.address, "timeout 300ms"))
        warm(server)
        ask(server, *(f"{kind}.test" for kind in ("rcode", "flags", "authority", "additional", "truncated", "unanswered")))
        time.sleep(0.4)
        ask(server, "last.test")
        until(lambda: report(server)["questions"] == 8)
        found = report(server)
        assert found["differences"] == {"rcode": 1, "authority": 1, "additional": 1, "flags": 1, "unanswered": 1}
        assert (found["same"], found["truncated"], found["state"]) == (2, 1, "answers")
        [kept] = [kept for kept in found["kept"] if kept["kind"] == "unanswered"]
        assert (kept["name"], [side["octets"] > 0 for side in kept["replies"]]) == ("unanswered.test.", [True, False])


def test_known_differences_are_told_apart(serve: Serve) -> None:
    """The serial of a SOA record that is asked for, unless it is to count."""
    soa = "test. 60 IN SOA ns.test. admin.test. {} 7200 1800 86400 30"
    rest = f'template ANY SOA test {{\n        answer "{soa.format(5)}"\n    }}'

    def answer(query: Message) -> Message:
        reply = right(query)
        reply.answer = [dns.rrset.from_text(*soa.format(9).split(None, 4))]
        return reply

    with Upstream(answer) as other:
        for options, known, differences in (("", {"serial": 1}, {}), ("ignore denial sha1", {}, {"answer": 1})):
            server = serve(corefile(other.address, options, rest=rest))
            server.query("test", "SOA")
            until(lambda server=server: report(server)["questions"] == 1)
            assert (report(server)["known"], report(server)["differences"]) == (known, differences)


# ---- what is asked ----


def test_what_a_copy_has_of_the_question(serve: Serve) -> None:
    with Upstream(right) as other:
        server = serve(corefile(other.address))
        warm(server)
        cookie = dns.edns.CookieOption(b"12345678", b"")
        ask(server, "WWW.test", want_dnssec=True, payload=4000, options=[dns.edns.ECSOption("192.0.2.0", 24), cookie])
        query = until(lambda: next((query for query in other.seen if str(query.question[0].name) == "WWW.test."), None))
        assert (query.payload, bool(query.ednsflags & dns.flags.DO), [option.otype for option in query.options]) == (1232, True, [dns.edns.OptionType.ECS])
        assert dns.flags.to_text(query.flags) == "RD"


def test_what_is_not_copied(serve: Serve) -> None:
    """Other opcodes and zone transfers; what `fastdns explain` asks; questions outside of the zones."""
    with Upstream(right) as other:
        server = serve(corefile(other.address, "zones in.test"))
        notify = dns.message.make_query("a.in.test", "SOA")
        notify.set_opcode(dns.opcode.NOTIFY)
        server.send(notify)
        server.query("a.in.test", "AXFR", tcp=True)
        done = subprocess.run([*command(), "explain", "a.in.test", "-pid", str(server.pid)], capture_output=True, text=True, check=False, timeout=60)
        assert "192.0.2.1" in done.stdout
        ask(server, "b.out.test", "b.in.test")
        until(lambda: report(server)["questions"] == 1)
        time.sleep(0.1)
        assert [str(query.question[0]) for query in other.seen] == ["b.in.test. IN A"]


def test_a_share_of_the_questions(serve: Serve) -> None:
    with Upstream(right) as other:
        server = serve(corefile(other.address, share="20%", options="rate 100000\noutstanding 1024"))
        until(lambda: (ask(server, "w.test"), report(server)["state"] == "answers")[1])
        before = len(other.seen)
        ask(server, *names(400))
        time.sleep(0.2)
        assert 40 <= len(other.seen) - before <= 130, "four standard deviations, and more, about 80"
        assert sum(report(server)["skipped"].values()) <= 5, "what the share leaves out is no loss"


def test_a_server_that_is_its_own_shadow(serve: Serve) -> None:
    """Its questions to itself are not copied again."""
    server = serve(corefile("127.0.0.1:{port}"))
    warm(server)
    ask(server, *names(20))
    until(lambda: report(server)["questions"] == 21)
    time.sleep(0.2)
    assert (report(server)["questions"], report(server)["same"]) == (21, 21)


# ---- what it must not cost ----


@pytest.fixture
def flood() -> Iterator[str]:
    """A server that answers a question with as many datagrams as it can send, of which none is an answer."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.bind(("127.0.0.1", 0))
        one.settimeout(0.1)
        stopping = threading.Event()

        def run() -> None:
            while not stopping.is_set():
                try:
                    octets, client = one.recvfrom(4096)
                    for _ in range(20_000):
                        one.sendto(octets[:2] + bytes(100), client)
                except OSError:
                    continue

        thread = threading.Thread(target=run)
        thread.start()
        yield f"127.0.0.1:{one.getsockname()[1]}"
        stopping.set()
        thread.join()


def test_nobody_listens_there(serve: Serve) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    server = serve(corefile(f"127.0.0.1:{port}"))
    ask(server, *names(30))
    until(lambda: report(server)["state"] == "left alone: connection refused")
    ask(server, *names(300))
    found = report(server)
    assert found["questions"] == 0
    assert found["skipped"]["silent"] > 300
    assert server.metric(server.ports["port9"], f'fastdns_shadow_up{{to="127.0.0.1:{port}"}}') == 0


def test_a_silent_server_is_left_alone_and_found_again(serve: Serve) -> None:
    """One question tries it out each time; those that it has not answered say nothing of the answers."""
    silent = threading.Event()
    silent.set()
    with Upstream(lambda query: None if silent.is_set() else right(query)) as other:
        server = serve(corefile(other.address, "timeout 100ms"))
        ask(server, *names(100))
        until(lambda: report(server)["state"] == "left alone: it does not answer")
        assert len(other.seen) == 1
        end = time.monotonic() + 2.5
        while time.monotonic() < end:
            ask(server, *names(10))
        assert len(other.seen) <= 3, "after one second, and two more"
        assert (report(server)["questions"], report(server)["differences"]) == (0, {})
        silent.clear()
        until(lambda: (ask(server, "a.test"), report(server)["state"] == "answers")[1], limit=20)
        ask(server, *names(20))
        until(lambda: report(server)["same"] >= 20)
        silent.set()
        ask(server, *names(50, "m"))
        until(lambda: report(server)["state"] == "left alone: it does not answer")
        assert report(server)["differences"] == {}, "a server that has gone is no difference"
        server.wait_log("is left alone: it does not answer")


def test_a_server_that_answers_too_late(serve: Serve) -> None:
    def late(query: Message) -> Message:
        time.sleep(0.25)
        return right(query)

    with Upstream(late) as other:
        server = serve(corefile(other.address, "timeout 100ms"))
        ask(server, *names(100))
        until(lambda: report(server)["state"] == "left alone: it does not answer")
        ask(server, *names(100))
        assert (report(server)["questions"], report(server)["differences"]) == (0, {})


def test_a_server_that_floods(serve: Serve, flood: str) -> None:
    server = serve(corefile(flood, "timeout 5s"))
    ask(server, *names(100))
    until(lambda: report(server)["state"] == "left alone: it sends what nobody asked for")
    ask(server, *names(100))
    assert report(server)["questions"] == 0


# ---- bounds ----


def test_the_rate(serve: Serve) -> None:
    with Upstream(right) as other:
        server = serve(corefile(other.address, "rate 20"), "-workers", "1")
        warm(server)
        before = time.monotonic()
        ask(server, *names(300))
        took = time.monotonic() - before
        until(lambda: report(server)["questions"] >= 2)
        time.sleep(0.1)
        assert len(other.seen) <= 20 * took + 5
        assert report(server)["skipped"]["rate"] == 301 - len(other.seen)


@pytest.mark.parametrize("outstanding", [1, 4])
def test_questions_that_wait(serve: Serve, outstanding: int) -> None:
    """So many of them; the others wait in the ring, which is soon full. Each question is compared or counted as left out."""
    gate = threading.Event()

    def answer(query: Message) -> Message | None:
        if str(query.question[0].name) != "warm.test.":
            gate.wait(20)
        return right(query)

    with Upstream(answer) as other:
        server = serve(corefile(other.address, f"outstanding {outstanding}\ntimeout 20s\nbuffer 64KiB\nrate 100000"), "-workers", "1")
        warm(server)
        ask(server, *names(1500))
        found = report(server)
        assert found["questions"] == 1
        assert 500 < found["skipped"]["buffer"] < 1500, "64 KiB hold some hundreds"
        gate.set()
        until(lambda: (found := report(server))["questions"] + sum(found["skipped"].values()) == 1501)
        assert len(other.seen) == report(server)["questions"]


def test_a_server_that_goes_while_few_questions_wait(serve: Serve) -> None:
    silent = threading.Event()
    with Upstream(lambda query: None if silent.is_set() else right(query)) as other:
        server = serve(corefile(other.address, "outstanding 2\ntimeout 200ms"), "-workers", "1")
        warm(server)
        silent.set()
        ask(server, *names(50))
        until(lambda: report(server)["state"] == "left alone: it does not answer")
        assert report(server)["differences"] == {}
        until(lambda: report(server)["questions"] + sum(report(server)["skipped"].values()) == 51)


def test_a_server_that_is_wrong_in_everything(serve: Serve) -> None:
    """Differences are looked at at a rate of their own, and the others counted."""
    with Upstream(wrong) as other:
        server = serve(corefile(other.address, "examine 1\nkeep 10\nrate 100000"))
        warm(server)
        ask(server, *names(500))
        until(lambda: report(server)["questions"] == 501)
        found = report(server)
        assert found["differences"]["answer"] + found["unexamined"] == 501
        assert 100 <= found["differences"]["answer"] <= 130
        assert len(found["kept"]) == 10
        assert count(server, "unexamined") == found["unexamined"]


def test_a_reload_keeps_what_is_counted(serve: Serve) -> None:
    with Upstream(right) as other, Upstream(wrong) as another:
        server = serve(corefile(other.address))
        warm(server)
        ask(server, *names(5))
        until(lambda: report(server)["same"] == 6)
        server.reload(corefile(other.address) + "# changed\n")
        ask(server, *names(5))
        until(lambda: report(server)["same"] == 11)
        server.reload(corefile(another.address))
        ask(server, "a.test")
        until(lambda: report(server)["differences"] == {"answer": 1})
        server.reload(corefile(another.address).replace(f"shadow {another.address}  {{\n\n}}", ""))
        assert "shadow" not in control.ask({"sections": ["shadow"]}, server.pid)
        before = len(another.seen)
        ask(server, *names(5))
        assert len(another.seen) == before
        done = subprocess.run([*command(), "shadow", "report", "-pid", str(server.pid)], capture_output=True, text=True, check=False, timeout=60)
        assert (done.returncode, done.stderr) == (1, "the Corefile that is served has no shadow\n")
