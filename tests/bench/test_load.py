"""Load over UDP against scripted servers and fastdns: what is counted, what is checked, when latency begins."""

from __future__ import annotations

import json
import random
import threading
from array import array
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from fastdns._wire import name_wire
from fastdns.bench.generator.queries import QuerySet
from fastdns.bench.load import LoadError, drive
from fastdns.bench.result import Interval, Plan, Result, Target
from fastdns.bench.workload import Question, Workload
from tests.bench.scripted import Script, Scripted, end_of_question, reply
from tests.server import free_port

A, SRV = 1, 33
ADDRESS = b"\x0a\0\0\1"


def query_set(*questions: Question, bursts: Sequence[int] | None = None, **options: Any) -> QuerySet:
    asked = questions or (Question("www.example.org.", A),)
    return QuerySet(Workload("test", asked, array("I", range(len(asked))), array("I", bursts) if bursts else None), **options)


def names(count: int) -> list[Question]:
    return [Question(f"n{i}.example.org.", A, 0) for i in range(count)]


def load(server: Scripted, queries: QuerySet, **plan: Any) -> Result:
    given = {"seconds": 0.3, "rate": 500, "timeout": 10} | plan
    return drive(queries, Target("127.0.0.1", server.port), Plan(**given))


def good(query: bytes) -> list[bytes]:
    return [reply(query, "10.0.0.1")]


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("plan", [{"rate": 2000}, {"rate": 0, "window": 16}, {"rate": 1000, "arrivals": "poisson"}, {"steps": [300, 900, 100], "rate": 0}])
def test_every_query_is_counted_once(plan: dict[str, Any], threads: int) -> None:
    with Scripted(good) as server:
        result = load(server, query_set(*names(50)), threads=threads, clients=4, warm=0.1, **plan)
    assert result.sent == result.answered > 0
    assert result.sent + result.warmed == server.queries
    assert (result.lost, result.unsent, result.wrong, result.rcodes) == (0, 0, {}, {"NOERROR": result.sent})
    assert result.latency.count == result.answered
    assert sum(interval.sent for interval in result.intervals) == result.sent
    assert sum(interval.answered for interval in result.intervals) == result.answered
    assert [step.plan.rate for step in result.steps] == plan.get("steps", [])
    assert Result.from_json(json.loads(json.dumps(result.to_json()))) == result


def test_an_open_loop_sends_what_is_due() -> None:
    with Scripted(good) as server:
        result = load(server, query_set(), seconds=0.5, steps=[200, 600, 1000, 200, 400])
        even = load(server, query_set(), seconds=0.5, rate=1000)
    assert [step.sent for step in result.steps] == pytest.approx([20, 60, 100, 20, 40], abs=40)
    assert [interval.rate for interval in result.intervals] == [200, 600, 1000, 200, 400]
    assert result.sent == pytest.approx(240, abs=4)
    assert even.sent == 500


def test_a_closed_loop_keeps_its_window() -> None:
    waiting: list[bytes] = []
    seen: list[int] = []

    def script(query: bytes) -> list[bytes]:
        """Answers only when twelve are waiting: more than that never come before."""
        waiting.append(query)
        if len(waiting) < 12:
            return []
        seen.append(len(waiting))
        found = [reply(each, "10.0.0.1") for each in waiting]
        waiting.clear()
        return found

    with Scripted(script) as server:
        result = load(server, query_set(), rate=0, window=12, clients=1, seconds=0.4, timeout=1)
    assert len(seen) > 1
    assert result.answered == 12 * len(seen)
    assert result.lost == len(waiting) == result.sent - result.answered


def test_bursts_leave_together() -> None:
    order: list[bytes] = []

    def script(query: bytes) -> list[bytes]:
        order.append(query[12 : end_of_question(query)])
        return good(query)

    asked = [Question(f"n{i}.example.org.", kind) for i in range(4) for kind in (A, 28)]
    with Scripted(script) as server:
        result = load(server, query_set(*asked, bursts=[2] * 4), rate=200, seconds=0.2, clients=3)
    assert result.sent == 40
    wire = [name_wire(question.name) + question.type.to_bytes(2, "big") + b"\0\1" for question in asked]
    pairs = [(wire[i], wire[i + 1]) for i in range(0, len(wire), 2)]
    assert [(order[i], order[i + 1]) for i in range(0, len(order), 2)] == [pairs[i % 4] for i in range(20)]


# ---- what is wrong ----


def other_id(query: bytes) -> list[bytes]:
    return [(int.from_bytes(query[:2], "big") ^ 0x4001).to_bytes(2, "big") + reply(query, "10.0.0.1")[2:], *good(query)]


def changed(offset: int, octet: int) -> Script:
    def script(query: bytes) -> list[bytes]:
        made = bytearray(reply(query, "10.0.0.1"))
        made[offset] ^= octet
        return [bytes(made)]

    return script


EXPECTED = Question("www.example.org.", A, 0, frozenset({ADDRESS}))
TWO = Question("www.example.org.", A, 0, frozenset({ADDRESS, b"\x0a\0\0\2"}))

LIES: list[tuple[str, Question, Script, dict[str, int]]] = [
    ("nothing", EXPECTED, good, {}),
    ("another id", EXPECTED, other_id, {"id": 1}),
    ("twice", EXPECTED, lambda query: good(query) * 2, {"id": 1}),
    ("another name", EXPECTED, changed(13, 1), {"question": 1}),
    ("another case, which is no lie", EXPECTED, changed(13, 0x20), {}),
    ("another type", EXPECTED, lambda query: [reply(query, "10.0.0.1").replace(b"\0\1\0\1\xc0", b"\0\x1c\0\1\xc0")], {"question": 1}),
    ("a query", EXPECTED, changed(2, 0x80), {"malformed": 1}),
    ("half a header", EXPECTED, lambda query: [reply(query)[:7]], {"malformed": 1}),
    ("one octet", EXPECTED, lambda query: [b"x", *good(query)], {"malformed": 1}),
    ("cut off", EXPECTED, lambda query: [reply(query, "10.0.0.1")[:-1]], {"malformed": 1}),
    ("rcode", EXPECTED, lambda query: [reply(query, "10.0.0.1", rcode=2)], {"rcode": 1}),
    ("rcode, where none is expected", Question("www.example.org.", A), lambda query: [reply(query, rcode=2)], {}),
    ("an address", EXPECTED, lambda query: [reply(query, "10.0.0.9")], {"answer": 1}),
    ("no address", EXPECTED, lambda query: [reply(query)], {"answer": 1}),
    ("one more", EXPECTED, lambda query: [reply(query, "10.0.0.1", "10.0.0.2")], {"answer": 1}),
    ("one of two", TWO, lambda query: [reply(query, "10.0.0.2")], {"answer": 1}),
    ("one of two twice", TWO, lambda query: [reply(query, "10.0.0.2", "10.0.0.2")], {"answer": 1}),
    ("another order, which is no lie", TWO, lambda query: [reply(query, "10.0.0.2", "10.0.0.1")], {}),
]


@pytest.mark.parametrize(("question", "script", "wrong"), [lie[1:] for lie in LIES], ids=[lie[0] for lie in LIES])
def test_lies_are_found_out(question: Question, script: Script, wrong: dict[str, int]) -> None:
    with Scripted(script) as server:
        result = load(server, query_set(question), seconds=0.1, rate=200)
    assert result.sent == result.answered == server.queries == 20
    assert result.wrong == {kind: 20 * share for kind, share in wrong.items()}


@pytest.mark.parametrize(("check", "wrong"), [("all", 320), ("sample", 20), ("none", 0)])
def test_answers_of_some(check: str, wrong: int) -> None:
    with Scripted(lambda query: [reply(query, "10.0.0.9")]) as server:
        result = load(server, query_set(EXPECTED), rate=1600, seconds=0.2, clients=1, check=check)
    assert result.answered == 320
    assert result.wrongs == wrong


def test_truncated_answers_may_lack_some() -> None:
    with Scripted(lambda query: [reply(query, "10.0.0.1")[:2] + b"\x87\0" + reply(query, "10.0.0.1")[4:]]) as server:
        result = load(server, query_set(TWO), seconds=0.1, rate=200)
    assert (result.wrong, result.truncated) == ({}, 20)


def test_names_in_rdata_have_no_case() -> None:
    target = b"\0\0\0\0\0\x41" + name_wire("Host.Example.org.")
    record = b"\xc0\x0c\0\x21\0\1\0\0\0\5" + len(target).to_bytes(2, "big")

    def answer(rdata: bytes) -> Result:
        with Scripted(lambda query: [reply(query)[:6] + b"\0\1" + reply(query)[8:] + record + rdata]) as server:
            return load(server, query_set(Question("_a._tcp.example.org.", SRV, 0, frozenset({target}))), seconds=0.1, rate=100)

    assert answer(target[:6] + target[6:].lower()).wrong == {}
    assert answer(target[:5] + b"\x61" + target[6:]).wrong == {"answer": 10}


def test_the_upper_half_of_an_rcode_is_read() -> None:
    opt = b"\0\0\x29\4\xd0\1\0\0\0\0\0"
    with Scripted(lambda query: [reply(query)[:11] + b"\1" + reply(query)[12:] + opt]) as server:
        result = load(server, query_set(Question("www.example.org.", A, 0), udp_size=1232), seconds=0.1, rate=100)
    assert result.rcodes == {"BADVERS": 10}
    assert result.wrong == {"rcode": 10}


# ---- what does not come ----


def test_silence_is_loss_and_what_comes_after_is_late() -> None:
    held: list[bytes] = []
    choice = random.Random(5)

    def script(query: bytes) -> list[bytes]:
        if choice.random() < 0.5:
            held.append(query)
            return []
        return good(query)

    with Scripted(script) as server:
        result = load(server, query_set(*names(9)), rate=600, seconds=0.5, timeout=2)
    assert result.lost == len(held) > 0
    assert result.answered == 300 - result.lost
    assert result.lost_share == result.lost / 300


def test_late_replies_are_neither_answers_nor_lies() -> None:
    held: list[bytes] = []

    def script(query: bytes) -> list[bytes]:
        """Every query is answered when the fortieth behind it comes, 0.4 s later."""
        held.append(query)
        return good(held.pop(0)) if len(held) > 40 else []

    with Scripted(script) as server:
        result = load(server, query_set(*names(9)), rate=100, seconds=1, timeout=0.1, clients=1)
    assert (result.answered, result.lost, result.wrong) == (0, 100, {})
    assert result.late > 0


def test_nobody_listens() -> None:
    result = drive(query_set(), Target("127.0.0.1", free_port()), Plan(seconds=0.2, rate=100, timeout=0.5))
    assert (result.sent, result.answered, result.lost) == (20, 0, 20)
    assert result.refused > 0


def test_no_such_host() -> None:
    with pytest.raises(LoadError, match=r"no-such\.invalid"):
        drive(query_set(), Target("no-such.invalid"), Plan())


def test_a_stop_ends_a_run() -> None:
    stop = threading.Event()
    seen: list[Interval] = []

    def progress(interval: Interval) -> None:
        seen.append(interval)
        stop.set()

    with Scripted(good) as server:
        result = drive(query_set(), Target("127.0.0.1", server.port), Plan(seconds=3600, rate=100), progress, stop=stop)
    assert seen
    assert 0 < result.seconds < 3600
    assert result.sent >= result.answered > 0


# ---- latency ----


def test_an_open_loop_sees_a_server_that_stalls() -> None:
    """It sleeps 0.2 s of every 1.2: of the queries due meanwhile, one sixth of all, half wait for more than 0.1 s."""
    with Scripted(good, stall=0.2) as server:
        result = load(server, query_set(), rate=400, seconds=2.4)
    assert result.answered == result.sent == 960
    assert result.latency.percentile(95) >= 0.1
    assert result.latency.percentile(99) >= 0.15
    assert result.latency.maximum >= 0.19


def test_counts_agree_with_the_servers_metrics(serve: Callable[..., Any]) -> None:
    server = serve(".:{port} {\n    whoami\n    prometheus localhost:{port2}\n}\n")
    target = Target("127.0.0.1", server.port)
    queries = query_set(*names(20))
    results = [drive(queries, target, Plan(**plan)) for plan in ({"seconds": 0.5, "window": 32}, {"seconds": 0.5, "rate": 3000, "warm": 0.2})]
    asked = sum(result.sent + result.warmed for result in results)
    page = server.get(server.ports["port2"], "/metrics")
    counted = sum(float(line.split()[-1]) for line in page.splitlines() if line.startswith("coredns_dns_requests_total{"))
    assert counted == asked
    assert [result.lost for result in results] == [0, 0]
