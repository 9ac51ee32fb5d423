"""recorder: what is in memory, asked for through the control socket."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from typing import Any

import dns.edns
import dns.message
import dns.rdatatype
import pytest

from fastdns.server import control
from fastdns.testing import Upstream
from tests.plugins.forward.test_forward import reply
from tests.server import Server
from tests.waiting import REPLY, until

Serve = Callable[..., Server]


def corefile(rest: str = "whoami", size: str = "4MiB", options: str = "", above: str = "") -> str:
    return f".:{{port}} {{\n    bind 127.0.0.1 ::1\n    {above}\n    recorder {size} {{\n{options}\n}}\n    {rest}\n}}\n"


def section(server: Server, **request: Any) -> dict[str, Any]:
    found: dict[str, Any] = control.ask({"sections": ["recorder"], **request}, server.pid)["recorder"]
    return found


def queries(server: Server, **request: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = section(server, **request)["queries"]
    return found


@pytest.mark.parametrize("tcp", [False, True])
@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_question_is_there_with_all_that_it_had(serve: Serve, tcp: bool, host: str) -> None:
    server = serve(corefile())
    before = time.time()
    subnet = dns.edns.ECSOption.from_text("192.0.2.0/24")
    answer = server.query("WWW.Example.org", "AAAA", tcp=tcp, host=host, want_dnssec=True, options=[subnet])
    after = time.time()
    [query] = queries(server)
    assert (query["name"], query["type"], query["class"], query["rcode"]) == ("WWW.Example.org.", "AAAA", "IN", "NOERROR")
    assert (query["client"], query["transport"]) == (host, "tcp" if tcp else "udp")
    assert (query["flags"], query["reply_flags"]) == (["rd", "edns", "do"], ["aa"])
    assert len(answer.wire or b"") <= query["size"] < len(answer.wire or b"") + 40, "as the log: names that are compressed at the last moment count in full"
    assert before - 1 <= query["time"] <= after + 1
    assert 0 < query["took"] <= after - before
    assert (query["server"], query["zone"]) == (f"dns://{host}:{server.port}" if host == "127.0.0.1" else f"dns://[::1]:{server.port}", ".")
    assert [(stage["plugin"], stage["says"]) for stage in query["stages"]] == [("recorder", "passed it on"), ("whoami", "answered")]
    assert (query["upstream"], query["error"], query["whole"], query["answer"]) == ("", "", False, [])


def test_the_newest_come_first_and_can_be_chosen(serve: Serve) -> None:
    server = serve(corefile(), "-workers", "2")
    for number in range(30):
        server.query(f"n{number}.a.test" if number % 2 else f"n{number}.B.test", source=f"127.0.0.{1 + number % 3}")
    assert [query["name"] for query in queries(server)] == [f"n{n}.a.test." if n % 2 else f"n{n}.B.test." for n in reversed(range(30))]
    assert [query["name"] for query in queries(server, most=3)] == ["n29.a.test.", "n28.B.test.", "n27.a.test."]
    assert {query["name"] for query in queries(server, name="b.TEST")} == {f"n{n}.B.test." for n in range(0, 30, 2)}
    assert [query["name"] for query in queries(server, name="n4.b.test.")] == ["n4.B.test."]
    assert queries(server, name="4.b.test") == []
    assert {query["client"] for query in queries(server, client="127.0.0.2")} == {"127.0.0.2"}
    assert {query["client"] for query in queries(server, client="127.0.0.2/31")} == {"127.0.0.2", "127.0.0.3"}
    held = section(server, most=1)
    assert held["held"] == 30
    assert 30 * 80 < held["bytes"] < 30 * 200 < held["capacity"] == 4 << 20


@pytest.mark.parametrize(
    ("request_", "problem"),
    [({"which": "all"}, "which is one of recent, slow, failed, dropped, not 'all'"), ({"client": "nobody"}, "nobody"), ({"most": "x"}, "invalid literal")],
)
def test_a_request_that_is_none(serve: Serve, request_: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        section(serve(corefile()), **request_)


def test_the_ring_has_the_last_ones(serve: Serve) -> None:
    """1 MiB of one worker: 640 KiB for the ring, some 6,000 records."""
    server = serve(corefile(size="1MiB"), "-workers", "1")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.connect(("127.0.0.1", server.port))
        client.settimeout(REPLY)
        for number in range(12_000):
            client.send(dns.message.make_query(f"n{number}.test", "A").to_wire())
            client.recv(4096)
    found = section(server, most=10_000)
    held = found["held"]
    assert 4000 < held < 9000
    assert found["bytes"] <= 655_360
    assert [query["name"] for query in found["queries"]] == [f"n{number}.test." for number in range(11_999, 11_999 - held, -1)]


def late(request: dns.message.Message) -> dns.message.Message:
    time.sleep(0.25)
    return reply(request, "@ 5 A 192.0.2.1")


def test_an_upstream_and_how_long_it_took(serve: Serve) -> None:
    with Upstream(late) as upstream:
        server = serve(corefile(f"forward . {upstream.address}", options="slow 100ms"))
        server.query("slow.test")
        [query] = queries(server, which="slow")
    assert query["upstream"] == upstream.address
    stage = query["stages"][-1]
    assert (stage["plugin"], stage["says"], stage["waits"]) == ("forward", "answered", 1)
    assert stage["at"] < 0.2 < stage["waited"] <= query["took"]
    assert query["whole"]
    assert query["answer"] == ["A 192.0.2.1"]
    assert queries(server)[0]["answer"] == [], "the short record has no messages"


def test_what_a_plugin_asks_for_a_client_belongs_to_its_query(serve: Serve) -> None:
    """filter_aaaa asks for A in the place of AAAA: one query, whose wait is forward's."""
    with Upstream(late) as upstream:
        server = serve(corefile(f"filter_aaaa\n    forward . {upstream.address}", options="slow 100ms"))
        server.query("slow.test", "AAAA")
        [query] = queries(server)
    stages = {stage["plugin"]: stage for stage in query["stages"]}
    assert (query["type"], query["upstream"]) == ("AAAA", upstream.address)
    waits = [stage["waited"] for stage in query["stages"] if "waited" in stage]
    assert sum(waits) > 0.2
    assert [(name, stage["says"]) for name, stage in stages.items()] == [("recorder", "passed it on"), ("filter_aaaa", "answered"), ("forward", "waits")]


def test_what_failed_is_kept_with_its_whole_way(serve: Serve) -> None:
    with Upstream(lambda request: reply(request, rcode=2)) as upstream:
        chain = f"acl {{\n block type TXT\n }}\n forward a.test {upstream.address}\n template IN A nx.test {{\n rcode NXDOMAIN\n }}\n erratic"
        server = serve(corefile(chain, above="errors"))
        server.query("x.a.test", source="127.0.0.9")
        server.query("t.test", "TXT", use_edns=0)
        server.query("a.nx.test")
        failed = queries(server, which="failed")
    assert [(query["name"], query["rcode"], query["whole"]) for query in failed] == [("t.test.", "REFUSED", True), ("x.a.test.", "SERVFAIL", True)]
    assert failed[1]["upstream"] == upstream.address
    assert failed[0]["stages"][-1]["plugin"] == "acl"
    assert "block" in failed[0]["stages"][-1]["note"]
    assert failed[1]["client"] == "127.0.0.9"
    assert section(server, which="failed")["held"] == 2
    assert [query["rcode"] for query in queries(server)] == ["NXDOMAIN", "REFUSED", "SERVFAIL"]


def test_a_failure_that_nobody_wrote_has_its_error(serve: Serve) -> None:
    server = serve(".:{port} {\n    bind 127.0.0.1\n    recorder 1MiB\n    errors\n}")
    server.query("a.test")
    [query] = queries(server, which="failed")
    assert (query["rcode"], query["error"]) == ("SERVFAIL", "plugin/errors: no next plugin found")
    assert query["stages"][-1] == {"plugin": "errors", "says": "failed"}


def test_what_was_dropped_is_kept(serve: Serve) -> None:
    server = serve(corefile("acl {\n        drop type TXT\n    }\n    whoami"), "-workers", "1")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.sendto(dns.message.make_query("gone.test", "TXT").to_wire(), ("127.0.0.1", server.port))
        [query] = until(lambda: queries(server, which="dropped"), "the dropped query")
    assert (query["name"], query["rcode"], query["size"], query["whole"]) == ("gone.test.", "DROPPED", 0, True)
    assert query["stages"][-1]["says"] == "dropped"
    assert queries(server, which="failed") == []


def test_what_no_block_takes_is_recorded(serve: Serve) -> None:
    server = serve("a.test:{port} {\n    bind 127.0.0.1\n    recorder 1MiB\n    whoami\n}")
    assert server.answers("b.test") == ["REFUSED"]
    [query] = queries(server, which="failed")
    assert (query["name"], query["rcode"], query["zone"], query["stages"]) == ("b.test.", "REFUSED", "", [])


def test_a_query_that_waited_too_long(serve: Serve) -> None:
    """cancel ends it: the upstream is silent."""
    with Upstream(lambda request: None) as upstream:
        server = serve(corefile(f"forward . {upstream.address}", options="slow 100ms", above="cancel 300ms"))
        server.query("silent.test")
        [query] = queries(server, which="failed")
        [slow] = queries(server, which="slow")
    assert (query["rcode"], query["error"], query["upstream"]) == ("SERVFAIL", "deadline exceeded", upstream.address)
    assert slow["took"] == query["took"] > 0.25


def test_one_client_does_not_put_out_what_others_met_with(serve: Serve) -> None:
    server = serve(corefile("acl {\n block type TXT\n }\n whoami", size="1MiB"), "-workers", "1")
    server.query("first.test", "TXT", source="127.0.7.1")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.connect(("127.0.0.1", server.port))
        client.settimeout(REPLY)
        for number in range(2000):
            client.send(dns.message.make_query(f"n{number}.test", "TXT").to_wire())
            client.recv(4096)
    held = section(server, which="failed", client="127.0.7.0/24")
    assert [query["name"] for query in held["queries"]] == ["first.test."]
    assert 40 < held["held"] < 200
    newest = queries(server, which="failed", most=10)
    assert [query["name"] for query in newest] == [f"n{number}.test." for number in range(1999, 1989, -1)]


# ---- privacy ----


def test_names_are_hashed(serve: Serve) -> None:
    server = serve(corefile("acl {\n block type TXT\n }\n whoami", options="names hash 2"))
    for name in ("secret.example.org", "SECRET.Example.org", "other.example.org", "example.org"):
        server.query(name)
    server.query("secret.example.org", "TXT")
    text, plain, other, *both = queries(server)
    assert plain["name"] == "example.org."
    assert both[0]["name"] == both[1]["name"] == text["name"] != other["name"]
    label, _, rest = both[0]["name"].partition(".")
    assert (len(label), set(label) <= set("0123456789abcdef"), rest) == (16, True, "example.org.")
    assert [query["name"] for query in queries(server, name="secret.example.org", which="failed")] == [text["name"]]
    assert len(queries(server, name="secret.example.org")) == 3
    assert not text["whole"], "messages have the name"
    assert "note" not in text["stages"][-1], "so may notes"


def test_names_and_clients_are_cut(serve: Serve) -> None:
    server = serve(corefile(options="names cut 1\n clients 16 56"))
    server.query("a.b.c.test", source="127.0.7.9", use_edns=0, options=[dns.edns.ECSOption.from_text("192.0.2.0/24")])
    [query] = queries(server)
    assert (query["name"], query["client"]) == ("test.", "127.0.0.0")


# ---- configurations ----


def test_a_reload_keeps_what_is_recorded(serve: Serve) -> None:
    first = corefile()
    server = serve(first)
    server.query("before.test")
    server.reload(first + "# changed\nother.test:{port} {\n    bind 127.0.0.1\n    whoami\n}\n")
    server.query("after.test")
    assert [query["name"] for query in queries(server)] == ["after.test.", "before.test."]
    server.reload(corefile(size="2MiB"))
    server.query("new.test")
    assert [query["name"] for query in queries(server)] == ["new.test."]
    server.reload(corefile().replace("recorder 4MiB {\n\n}", ""))
    assert control.ask({"sections": ["recorder"]}, server.pid) == {}
    with pytest.raises(ValueError, match="the Corefile that is served has no recorder"):
        control.ask({"command": "recorder", "action": "dump"}, server.pid)


def test_metrics(serve: Serve) -> None:
    server = serve(corefile("acl {\n block type TXT\n }\n whoami", above="prometheus 127.0.0.1:{port2}"))
    server.query("a.test")
    server.query("b.test", "TXT")
    name = "fastdns_recorder_queries_total"
    samples = {kind: server.metric(server.ports["port2"], f'{name}{{kind="{kind}"}}') for kind in ("recent", "slow", "failed", "dropped")}
    assert samples == {"recent": 2, "slow": samples["slow"], "failed": 1, "dropped": 0}
