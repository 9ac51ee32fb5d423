"""recorder and `fastdns explain`: both upstreams of a question that went to two (`hedge` of *forward*)."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dns.message
import dns.rcode
import pytest

from fastdns.server import control
from fastdns.testing import Upstream
from tests.plugins.dnstap.receiver import Message, receiver
from tests.plugins.forward.test_forward import address, needs_prometheus, reply
from tests.server import Server
from tests.waiting import LIMIT, until

Serve = Callable[..., Server]

FIRST, SECOND = "192.0.2.1", "192.0.2.2"
#: Seconds until the second question; timers tick every 4.2 ms.
DELAY = 0.02


def silent(query: dns.message.Message) -> None:
    return None


@pytest.fixture
def quick() -> Iterator[Upstream]:
    with Upstream(address(SECOND)) as upstream:
        yield upstream


def start(serve: Serve, *upstreams: Upstream | str, options: str = "read_timeout 1m", above: str = "", recorder: str = "", prepare: Any = None) -> Server:
    to = " ".join(upstream if isinstance(upstream, str) else upstream.address for upstream in upstreams)
    forward = f"forward . {to} {{\n policy sequential\n max_fails 0\n hedge 20ms budget 100%\n {options}\n}}"
    return serve(f".:{{port}} {{\n bind 127.0.0.1\n {above}\n recorder 4MiB {{\n {recorder}\n}}\n {forward}\n}}\n", "-workers", "1", prepare=prepare)


def recorded(server: Server, **request: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = control.ask({"sections": ["recorder"], **request}, server.pid)["recorder"]["queries"]
    return found


def command(server: Server, *words: str) -> str:
    done = subprocess.run([sys.executable, "-m", "fastdns", *words, "-pid", str(server.pid)], capture_output=True, text=True, timeout=LIMIT)
    assert done.stderr == ""
    return done.stdout


def test_the_second_one_answers(serve: Serve, quick: Upstream) -> None:
    with Upstream(silent) as slow:
        server = start(serve, slow, quick)
        assert server.answers("a.test.") == [SECOND]
        [query] = recorded(server)
        shown = command(server, "recorder", "show")
    first, second = query["asked"]
    assert query["upstream"] == quick.address
    assert (first["upstream"], first["outcome"], first["rcode"]) == (slow.address, "discarded", "")
    assert (second["upstream"], second["outcome"], second["rcode"]) == (quick.address, "answered", "NOERROR")
    assert first["at"] < DELAY <= second["at"] - first["at"]
    assert second["took"] < first["took"] == pytest.approx(second["at"] - first["at"] + second["took"], abs=1e-5)
    assert query["took"] >= first["took"]
    assert f"    asked {slow.address} after " in shown
    assert "no reply in" in shown
    assert f"    asked {quick.address} after " in shown


def test_the_first_one_answers_late(serve: Serve) -> None:
    """The second one was asked, and has not answered when the reply leaves."""
    asked = threading.Event()

    def late(query: dns.message.Message) -> dns.message.Message:
        asked.wait(LIMIT)
        return reply(query, f"@ 5 A {FIRST}")

    def hold(query: dns.message.Message) -> None:
        asked.set()

    with Upstream(late) as one, Upstream(hold) as two:
        server = start(serve, one, two)
        assert server.answers("a.test.") == [FIRST]
        [query] = recorded(server)
    assert query["upstream"] == one.address
    assert [(each["upstream"], each["outcome"]) for each in query["asked"]] == [(one.address, "answered"), (two.address, "discarded")]
    assert query["asked"][1]["took"] < query["asked"][0]["took"]


def test_one_upstream_alone_is_no_pair(serve: Serve) -> None:
    with Upstream(address(FIRST)) as one, Upstream(address(SECOND)) as two:
        server = start(serve, one, two, options="hedge 10s budget 100%")
        assert server.answers("a.test.") == [FIRST]
        [query] = recorded(server)
        assert query["upstream"] == one.address
        assert "asked" not in query
        assert "asked" not in command(server, "explain", "b.test.")


@pytest.mark.parametrize("rcode", ["SERVFAIL", "REFUSED"])
def test_the_second_one_fails(serve: Serve, rcode: str) -> None:
    failed = threading.Event()

    def late(query: dns.message.Message) -> dns.message.Message:
        failed.wait(LIMIT)
        time.sleep(0.2)
        return reply(query, f"@ 5 A {FIRST}")

    def fail(query: dns.message.Message) -> dns.message.Message:
        failed.set()
        return reply(query, rcode=dns.rcode.from_text(rcode))

    with Upstream(late) as one, Upstream(fail) as two:
        server = start(serve, one, two)
        assert server.answers("a.test.") == [FIRST]
        first, second = recorded(server)[0]["asked"]
    assert (first["outcome"], second["outcome"], second["rcode"]) == ("answered", "replied", rcode)
    assert second["at"] + second["took"] < first["at"] + first["took"] - 0.1


def test_both_time_out(serve: Serve) -> None:
    with Upstream(silent) as one, Upstream(silent) as two:
        server = start(serve, one, two, options="read_timeout 500ms\n max_connect_attempts 2")
        assert server.query("a.test.").rcode() == dns.rcode.SERVFAIL
        [query] = recorded(server, which="failed")
    assert [(each["upstream"], each["outcome"]) for each in query["asked"]] == [(one.address, "timeout"), (two.address, "timeout")]
    assert all(each["took"] >= 0.5 for each in query["asked"])
    note = next(stage["note"] for stage in query["stages"] if stage["plugin"] == "forward")
    assert note.startswith(f"asked {one.address}: timed out after ")
    assert note.count("timed out") == 2


def test_failover_and_a_connection_that_ends(serve: Serve) -> None:
    """The first one answers with a code of `failover` and the second one hangs up: a third attempt has the answer."""
    asked, replied = threading.Event(), threading.Event()

    def fail(query: dns.message.Message) -> dns.message.Message:
        asked.wait(LIMIT)
        threading.Timer(0.2, replied.set).start()
        return reply(query, rcode=dns.rcode.SERVFAIL)

    def hang_up(query: dns.message.Message) -> None:
        asked.set()
        replied.wait(LIMIT)
        raise ConnectionResetError

    with Upstream(fail) as one, Upstream(hang_up) as two, Upstream(address(SECOND)) as three:
        server = start(serve, one, two, three, options="read_timeout 1m\n failover SERVFAIL\n force_tcp")
        assert server.answers("a.test.") == [SECOND]
        [query] = recorded(server)
    assert query["upstream"] == three.address
    assert [(each["upstream"], each["outcome"], each["rcode"]) for each in query["asked"]] == [
        (one.address, "replied", "SERVFAIL"),
        (two.address, "failed", ""),
    ]


@needs_prometheus
def test_equal_queries_have_both_alike(serve: Serve) -> None:
    """One came before the second question was sent, one after it."""
    asked, release = threading.Event(), threading.Event()

    def late(query: dns.message.Message) -> dns.message.Message:
        asked.set()
        release.wait(LIMIT)
        return reply(query, f"@ 5 A {SECOND}")

    with Upstream(silent) as slow, Upstream(late) as two:
        server = start(serve, slow, two, above="prometheus 127.0.0.1:{port2}")
        threads = [threading.Thread(target=server.query, args=("a.test.",))]
        threads[0].start()
        assert asked.wait(LIMIT)
        threads.append(threading.Thread(target=server.query, args=("a.test.",)))
        threads[1].start()
        until(lambda: server.metric(server.ports["port2"], "fastdns_parked_queries") == 2, "that both wait")
        release.set()
        for thread in threads:
            thread.join()
        found = recorded(server)
    assert len(found) == 2
    for query in found:
        assert [(each["upstream"], each["outcome"]) for each in query["asked"]] == [(slow.address, "discarded"), (two.address, "answered")]


def test_what_a_plugin_asks_for_a_client_belongs_to_its_query(serve: Serve, quick: Upstream) -> None:
    with Upstream(silent) as slow:
        server = start(serve, slow, quick, above="filter_aaaa")
        server.query("a.test.", "AAAA")
        [query] = recorded(server)
    assert query["type"] == "AAAA"
    assert [(each["upstream"], each["outcome"]) for each in query["asked"]] == [(slow.address, "discarded"), (quick.address, "answered")]


def test_explain_says_both(serve: Serve, quick: Upstream) -> None:
    with Upstream(silent) as slow:
        server = start(serve, slow, quick)
        lines = command(server, "explain", "a.test.").splitlines()
        steps = json.loads(command(server, "explain", "-json", "b.test."))["steps"]
    assert any(f" {quick.address} asked {slow.address}: no reply in " in line and f" ms {quick.address} too: answered in " in line for line in lines)
    [resumed] = [step for step in steps if step["hook"] == "resume"]
    assert resumed["upstream"] == quick.address
    delay = float(resumed["note"].partition("; after ")[2].partition(" ms")[0])
    assert 20 <= delay < 1000 * LIMIT


def test_files_have_both(serve: Serve, quick: Upstream, tmp_path: Path) -> None:
    """Questions to upstreams are rebuilt, and say so."""

    def prepare(folder: Path) -> None:
        (folder / "r").mkdir()

    with Upstream(silent) as slow:
        server = start(serve, slow, quick, recorder="to {dir}/r", prepare=prepare)
        before = time.time()
        server.query("a.test.")
        after = time.time()
        capture, tap = sorted(control.ask({"command": "recorder", "action": "dump"}, server.pid)["files"], reverse=True)
    messages = [Message(frame) for frame in frames_of(Path(tap).read_bytes())]
    kinds = [(message.kind, message["response_port"]) for message in messages]
    assert kinds == [
        ("CLIENT_QUERY", server.port),
        ("FORWARDER_QUERY", slow.port),
        ("FORWARDER_QUERY", quick.port),
        ("FORWARDER_RESPONSE", quick.port),
        ("CLIENT_RESPONSE", server.port),
    ]
    for message in messages[1:4]:
        assert "query_address" not in message
        assert (message["family"], message["protocol"], message["response_address"]) == (1, 1, bytes([127, 0, 0, 1]))
        assert message.outer["extra"].startswith(b"rebuilt by fastdns")
        octets = message["response"] if message.kind == "FORWARDER_RESPONSE" else message["query"]
        assert dns.message.from_wire(octets).question[0].name.to_text() == "a.test."
        assert before - 1 <= message["query_sec"] + message["query_nsec"] / 1e9 <= after + 1
    asked = [message["query_sec"] + message["query_nsec"] / 1e9 for message in messages[1:3]]
    assert asked[1] - asked[0] >= DELAY
    assert b"no reply in" in messages[1].outer["extra"]
    comment = Path(capture).read_bytes()
    assert f"asked {slow.address} after ".encode() in comment
    assert f"asked {quick.address} after ".encode() in comment


def frames_of(octets: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(octets):
        size = int.from_bytes(octets[at : at + 4])
        if size == 0:
            at += 8 + int.from_bytes(octets[at + 4 : at + 8])
        else:
            yield octets[at + 4 : at + 4 + size]
            at += 4 + size


def test_dnstap_has_both_of_a_query_that_is_given_up(serve: Serve, tmp_path: Path) -> None:
    """Neither was answered when its time had run out, which is 12 seconds."""
    with Upstream(silent) as one, Upstream(silent) as two, receiver(tmp_path / "tap") as collector:
        server = start(serve, one, two, above=f"dnstap {tmp_path}/tap full")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.sendto(dns.message.make_query("a.test.", "A").to_wire(), ("127.0.0.1", server.port))
            client.settimeout(LIMIT)
            assert dns.message.from_wire(client.recv(4096)).rcode() == dns.rcode.SERVFAIL
        messages = collector.stream().wait(3)
        [query] = recorded(server)
        kinds = sorted((message.kind, message["response_port"]) for message in messages if message.kind.startswith("FORWARDER"))
    assert kinds == sorted([("FORWARDER_QUERY", one.port), ("FORWARDER_QUERY", two.port)])
    assert [(each["upstream"], each["outcome"], each["took"]) for each in query["asked"]] == [(one.address, "waiting", None), (two.address, "waiting", None)]
