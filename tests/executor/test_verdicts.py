"""What Python plugins want remembered: through sockets, and the memory beside a model of it."""

from __future__ import annotations

import ipaddress
import itertools
import random
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event, Thread
from typing import Any

import dns.exception
import dns.message
import dns.opcode
import dns.rcode
import pytest

from fastdns._wire import name_wire, suffix_hashes
from fastdns.executor.verdicts import Verdicts
from fastdns.plugin import DROP, PASS, Plugin, Query, Record, Reply
from fastdns.testing import Case, Dropped, Executor, Failed, Passed, ask, check, make
from tests.server import Server

Serve = Callable[..., Server]

# Says what the label above `example.` asks for; KIND.stats.example tells how often it was asked for that.
POLICY = """
import ctypes, threading, time
from collections import Counter
from fastdns.plugin import DROP, PASS, Plugin

class Policy(Plugin):
    def __init__(self, rcode, memory):
        self.rcode = rcode
        self.memory = memory
        self.served = Counter()

    def serve(self, query):
        labels = query.name.split(".")
        kind = labels[-3]
        if kind == "stats":
            return query.reply(f"TXT {self.served[labels[0]]}", ttl=0)
        self.served[kind] += 1
        if kind == "ads":
            soa = "ads.example. 30 SOA ns.example. x.example. 1 2 3 4 5"
            return query.reply(rcode=self.rcode, authority=[soa]).remember(60, suffix="ads.example.", all_types=True)
        if kind == "short":
            return query.reply("A 192.0.2.1", ttl=3600).remember(1.2, suffix="Short.Example")
        if kind == "typed":
            return query.reply("A 192.0.2.2" if query.type == "A" else "AAAA 2001:db8::2", ttl=5).remember(60)
        if kind == "clients":
            return query.reply(f"TXT {query.client}").remember(60, all_types=True, client=f"{query.client}/24")
        if kind == "pass":
            return PASS.remember(60, suffix="pass.example.")
        if kind == "drop":
            return DROP.remember(60, suffix="drop.example.")
        if kind == "refuse":
            return query.fail("REFUSED", "not you").remember(60, suffix="refuse.example.")
        if kind == "wrong":
            wrong = {"name": {"suffix": "other.example."}, "label": {"suffix": "rong.example."}, "client": {"client": "10.0.0.0/8"},
                     "prefix": {"client": "127.0.0.0/33"}, "long": {"suffix": "x" * 64}}.get(labels[0], {})
            return query.reply("A 192.0.2.3").remember({"none": 0, "back": -1, "text": "soon"}.get(labels[0], 60), **wrong)
        if kind == "slow":
            time.sleep(0.5)
            return query.reply("A 192.0.2.4").remember(60, suffix="slow.example.")
        if kind == "hold":
            start = time.monotonic()
            ctypes.PyDLL(None).usleep(500_000)      # a call of PyDLL keeps the GIL
            return query.reply(f"TXT {start} {time.monotonic()}")
        if kind == "many":
            return query.reply(f"TXT {query.name}").remember(60)
        if kind == "large":
            return query.reply(*(f"TXT {i} " + " ".join(["x" * 250] * 5) for i in range(40))).remember(60)
        if kind == "forget":
            return query.reply(f"TXT {self.forget() if labels[0] == 'all' else self.forget(suffix=labels[0] + '.example.')}")
        if kind == "late":          # withdrawn by another thread while it thinks
            other = threading.Thread(target=self.forget)
            other.start()
            other.join()
            return query.reply("A 192.0.2.5").remember(60)

def setup(controller):
    controller.next()
    rcode, memory = controller.remaining_args()
    return Policy(rcode, int(memory))
"""

COREFILE = """
.:{port} {
    bind 127.0.0.1
    prometheus 127.0.0.1:{port2}
    errors
    plugin {dir}/../policy.py NXDOMAIN 64
    whoami
}
"""


@pytest.fixture
def server(serve: Serve, tmp_path: Path) -> Server:
    (tmp_path / "policy.py").write_text(POLICY)
    return serve(COREFILE)


def served(server: Server, kind: str) -> int:
    return int(server.answers(f"{kind}.stats.example.", "TXT")[0].strip('"'))


def metric(server: Server, name: str) -> float:
    return server.metric(server.ports["port2"], f'fastdns_plugin_{name}{{plugin="policy"}}')


# ---- through sockets ----


def test_a_suffix_is_asked_for_once(server: Server) -> None:
    """For any type and letter case, over UDP and TCP, but not for a name that merely ends in the same letters."""
    for name, rdtype in [("a.ads.example.", "A"), ("b.c.ADS.example.", "AAAA"), ("ads.example.", "MX"), ("A.Ads.Example.", "HTTPS")]:
        for tcp in (False, True):
            reply = server.query(name, rdtype, tcp=tcp)
            assert reply.question[0].name.to_text() == name
            assert reply.rcode() == dns.rcode.NXDOMAIN
            assert [rrset.to_text() for rrset in reply.authority] == ["ads.example. 30 IN SOA ns.example. x.example. 1 2 3 4 5"]
    assert served(server, "ads") == 1
    assert metric(server, "remembered_hits_total") == 7
    assert metric(server, "remembered_entries") == 1
    for name in ("bads.example.", "xads.example.", "ads.bads.example."):
        assert server.query(name).additional  # whoami's
    assert served(server, "bads") == 2


def test_a_verdict_ends(server: Server) -> None:
    """No TTL is longer than what is left of its time, in the first reply as in later ones; then the plugin is asked again."""
    start = time.monotonic()
    ttls = [server.query(f"{i}.short.example.").answer[0].ttl for i in range(20)]
    count = served(server, "short")
    if time.monotonic() < start + 1.2:
        assert count == 1
        assert ttls == sorted(ttls, reverse=True)
    assert set(ttls) <= {1, 2}
    assert ttls[0] == 2
    end = time.monotonic() + 10
    while served(server, "short") == count:
        assert time.monotonic() < end
        assert server.answers("x.short.example.") == ["192.0.2.1"]
        time.sleep(0.05)
    assert time.monotonic() > start + 1.2


def test_the_scope_is_one_name_and_type_unless_it_is_wider(server: Server) -> None:
    for _ in range(5):
        assert server.answers("A.typed.example.") == ["192.0.2.2"]
        assert server.answers("a.typed.example.", "AAAA") == ["2001:db8::2"]
    assert served(server, "typed") == 2
    assert server.answers("b.typed.example.") == ["192.0.2.2"]
    assert server.answers("x.a.typed.example.") == ["192.0.2.2"]
    assert served(server, "typed") == 4
    reply = server.query("a.TYPED.example.", use_edns=True, payload=1232)
    assert reply.edns == 0
    assert [rrset.to_text() for rrset in reply.answer] == ["a.TYPED.example. 5 IN A 192.0.2.2"]
    assert served(server, "typed") == 4


def test_clients_of_a_prefix(server: Server) -> None:
    told = [server.answers("x.clients.example.", "TXT", source=f"127.0.{net}.{host}") for host in (1, 2, 3) for net in (0, 1, 2)]
    assert told == [[f'"127.0.{net}.1"'] for _ in range(3) for net in (0, 1, 2)]
    assert served(server, "clients") == 3


def test_verdicts_that_are_no_messages(server: Server) -> None:
    for _ in range(3):
        start = len(server.log())
        assert server.answers("a.refuse.example.") == ["REFUSED"]
        server.wait_log(r"plugin/errors: 5 a\.refuse\.example\. A: not you", start=start)
        assert server.query("b.pass.example.").additional
        with pytest.raises(dns.exception.Timeout):
            server.query("c.drop.example.", timeout=0.2)
    assert [served(server, kind) for kind in ("refuse", "pass", "drop")] == [1, 1, 1]


WRONG = [
    ("name", r"name\.wrong\.example\. is not at or below other\.example\."),
    ("label", r"label\.wrong\.example\. is not at or below rong\.example\."),
    ("client", r"the client is not in 10\.0\.0\.0/8"),
    ("prefix", r"'127\.0\.0\.0/33' is no prefix of addresses: no length of a prefix"),
    ("long", r"label over 63 octets in name: x+"),
    ("none", r"a verdict is remembered for more than 0 and at most 2147483647 seconds, not 0"),
    ("back", r"a verdict is remembered for more than 0 and at most 2147483647 seconds, not -1"),
    ("text", r"could not convert string to float: 'soon'"),
]


def test_a_wrong_scope_is_an_error_and_the_verdict_used_once(server: Server) -> None:
    for count, (name, line) in enumerate(2 * WRONG, 1):
        start = len(server.log())
        assert server.answers(f"{name}.wrong.example.") == ["192.0.2.3"]
        server.wait_log(rf"\[ERROR\] plugin/policy: remember: {line}$", start=start)
        assert served(server, "wrong") == metric(server, "errors_total") == count
    assert metric(server, "remembered_entries") == 0


def test_a_memory_that_is_too_large_is_refused(serve: Serve, tmp_path: Path) -> None:
    (tmp_path / "policy.py").write_text(POLICY)
    server = serve(COREFILE.replace("64", "4194305"), wait=False)
    assert server.exit_status() == 1
    assert "plugin/policy: " in server.log()
    assert "a plugin may have 0 to 4194304 verdicts remembered, not 4194305" in server.log()


def test_a_plugin_withdraws(server: Server) -> None:
    def all_asked() -> list[int]:
        for name in ("x.ads.example.", "x.typed.example.", "y.typed.example."):
            server.query(name)
        return [served(server, "ads"), served(server, "typed")]

    assert all_asked() == all_asked() == [1, 2]
    assert server.answers("typed.forget.example.", "TXT") == ['"2"']
    assert all_asked() == all_asked() == [1, 4]
    assert server.answers("all.forget.example.", "TXT") == ['"3"']
    assert metric(server, "remembered_entries") == 0
    assert all_asked() == all_asked() == [2, 6]
    for _ in range(3):
        assert server.answers("x.late.example.") == ["192.0.2.5"]
    assert served(server, "late") == 3


def test_a_reload_forgets(server: Server) -> None:
    for _ in range(3):
        assert server.answers("x.ads.example.") == ["NXDOMAIN"]
        assert server.answers("x.typed.example.") == ["192.0.2.2"]
    server.reload(COREFILE.replace("NXDOMAIN", "REFUSED"))
    for _ in range(3):
        assert server.answers("x.ads.example.") == ["REFUSED"]
    assert served(server, "ads") == 1
    end = time.monotonic() + 10
    while metric(server, "remembered_entries") != 1:
        assert time.monotonic() < end
        time.sleep(0.02)


def test_queries_that_wait_behind_the_first_are_answered_by_its_verdict(server: Server) -> None:
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda i: server.answers(f"{i}.slow.example.", timeout=10), range(20)))
    assert answers == [["192.0.2.4"]] * 20
    assert served(server, "slow") == 1


def test_the_GIL_is_not_needed(server: Server) -> None:
    """While a plugin holds it, what is remembered goes on being answered."""
    assert server.answers("x.ads.example.") == ["NXDOMAIN"]
    times = []
    with ThreadPoolExecutor(1) as pool:
        holding = pool.submit(server.answers, "x.hold.example.", "TXT", timeout=10)
        while not holding.done():
            asked = time.monotonic()
            assert server.answers("y.ads.example.") == ["NXDOMAIN"]
            times.append((asked, time.monotonic()))
        start, end = (float(word.strip('"')) for word in holding.result()[0].split())
    assert end - start > 0.45
    assert sum(start < asked and answered < end for asked, answered in times) >= 5
    assert served(server, "ads") == 1


def test_the_memory_is_bounded(server: Server) -> None:
    """What was used goes last."""
    for i in range(40):
        assert server.answers(f"{i}.many.example.", "TXT") == [f'"{i}.many.example."']
    for i in range(200):
        assert server.answers("7.many.example.", "TXT") == ['"7.many.example."']
        assert server.answers(f"x{i}.many.example.", "TXT") == [f'"x{i}.many.example."']
    assert served(server, "many") == 240
    assert metric(server, "remembered_entries") == 64
    assert metric(server, "remembered_evictions_total") == 240 - 64
    assert server.answers("0.many.example.", "TXT") == ['"0.many.example."']
    assert served(server, "many") == 241


def test_replies_of_many_octets(server: Server) -> None:
    """Octets are bounded too: 64 verdicts of these would be 3.4 MB."""
    for _ in range(2):
        reply = server.query("a.large.example.", "TXT", tcp=True)
        assert len(reply.answer[0]) == 40
    assert served(server, "large") == 1
    for i in range(30):
        assert len(server.query(f"{i}.large.example.", "TXT", tcp=True).answer[0]) == 40
    assert 10 < metric(server, "remembered_entries") < 25
    assert metric(server, "remembered_evictions_total") + metric(server, "remembered_entries") == 31


def test_other_messages_of_the_name_are_none_of_its_queries(server: Server) -> None:
    for _ in range(2):
        assert server.answers("x.ads.example.", "SOA") == ["NXDOMAIN"]
    notify = dns.message.make_query("x.ads.example.", "SOA")
    notify.set_opcode(dns.opcode.NOTIFY)
    for _ in range(2):
        assert server.send(notify).opcode() == dns.opcode.NOTIFY
    assert served(server, "ads") == 3
    assert metric(server, "remembered_entries") == 1


CHURN = """
import threading
from fastdns.plugin import Plugin

class Churn(Plugin):
    memory = 50

    def __init__(self):
        self.ended = threading.Event()
        threading.Thread(target=self.forget_often, daemon=True).start()

    def forget_often(self):
        while not self.ended.wait(0.0001):
            self.forget(suffix="3.churn.example.")
            self.forget(client="127.0.0.5")

    def serve(self, query):
        scope = {"suffix": query.name} if len(query.name) & 1 else {}
        return query.reply(f"TXT {query.name}", ttl=9, additional=[f"x.{query.name} 5 A 192.0.2.1"]).remember(0.05, client=query.client, **scope)

    def close(self):
        self.ended.set()

def setup(controller):
    return Churn()
"""


def test_readers_and_writers_at_once(serve: Serve, tmp_path: Path) -> None:
    """Verdicts come, end, are evicted and withdrawn while two workers read them: every reply is that of its question, to the octet."""
    (tmp_path / "churn.py").write_text(CHURN)
    server = serve(".:{port} {\n bind 127.0.0.1\n prometheus 127.0.0.1:{port2}\n plugin {dir}/../churn.py\n}\n", "-workers", "2")
    names = [f"{'n' * length}.{number}.churn.example." for length in range(1, 9) for number in range(9)]
    queries = [dns.message.make_query(name, "TXT", id=number).to_wire() for number, name in enumerate(names)]
    replies = [server.query(name, "TXT") for name in names]
    for name, reply in zip(names, replies, strict=True):
        assert [rrset.to_text() for rrset in reply.answer] == [f'{name} 1 IN TXT "{name}"']
        assert [rrset.to_text() for rrset in reply.additional] == [f"x.{name} 1 IN A 192.0.2.1"]
    wanted = [reply.wire[2:] for reply in replies if reply.wire is not None]
    over = Event()

    def work(number: int) -> int:
        chance, asked = random.Random(number), 0
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.bind((f"127.0.0.{number}", 0))
            sock.connect(("127.0.0.1", server.port))
            sock.settimeout(10)
            while not over.is_set():
                burst = chance.choices(range(len(names)), k=32)
                for i in burst:
                    sock.send(queries[i])
                for _ in burst:
                    reply = sock.recv(4096)
                    assert reply[2:] == wanted[int.from_bytes(reply[:2], "big")]
                asked += len(burst)
        return asked

    with ThreadPoolExecutor(6) as pool:
        done = [pool.submit(work, 2 + i) for i in range(6)]
        time.sleep(1)
        over.set()
        assert sum(work.result() for work in done) > 100
    labels = '{plugin="churn"}'
    assert server.metric(server.ports["port2"], f"fastdns_plugin_remembered_entries{labels}") <= 50
    assert server.metric(server.ports["port2"], f"fastdns_plugin_remembered_hits_total{labels}") > 0


# ---- without sockets ----


class Sink(Plugin):
    """Everything at and below ads.example. is an address of ours, a verdict with an owner of its own beside it."""

    def serve(self, query: Query) -> object:
        if query.name == "own.example.":
            return query.reply("own.example. A 192.0.2.8", "A 192.0.2.9", ttl=60).remember(30)
        if query.name.endswith("refused.example."):
            return query.fail("REFUSED", "no").remember(30, suffix="refused.example.", client="2001:db8::/32")
        if query.name.endswith("dropped.example."):
            return DROP.remember(30, suffix="dropped.example.", all_types=True)
        if not query.name.endswith("ads.example."):
            return PASS.remember(30)
        additional = ["fixed.example. 10 A 192.0.2.2", Record(41, b"\0\x0f\0\2\0\x0f", 0, b"\0")]  # an extended error: Blocked
        return query.reply("A 192.0.2.1", ttl=60, additional=additional).remember(100, suffix="ads.example.")


def test_an_executor_applies_cached_verdicts() -> None:
    plugin = Sink()
    executor = Executor(plugin)
    for name in ("a.ads.example.", "b.ads.example.", "ads.example."):
        reply = executor.ask(name)
        check(reply, Case(name, answer=[f"{name} 60 IN A 192.0.2.1"], additional=["fixed.example. 10 IN A 192.0.2.2"]))
        assert reply.options[0].otype == 15
    assert executor.served == 1
    executor.advance(50)
    assert executor.ask("c.ads.example.").answer[0].ttl == 50
    executor.advance(49.5)
    assert executor.ask("c.ads.example.").answer[0].ttl == 1
    assert executor.served == 1
    executor.advance(1)
    assert executor.ask("c.ads.example.").answer[0].ttl == 60
    assert executor.served == 2
    assert plugin.forget(suffix="x.y.ads.example.") == 1
    executor.ask("c.ads.example.")
    assert executor.served == 3
    for _ in range(3):
        executor.ask("c.ads.example.", "TXT")
    assert executor.served == 4
    assert executor.ask("own.example.").answer[0].ttl == 30
    reply = executor.ask("OWN.example.")
    assert [reply.answer[0].to_text(), reply.answer[1].to_text()] == ["OWN.example. 30 IN A 192.0.2.8", "OWN.example. 30 IN A 192.0.2.9"]


def test_an_executor_raises_as_ask_does() -> None:
    executor = Executor(Sink())
    for _ in range(3):
        with pytest.raises(Passed):
            executor.ask("www.example.")
        assert executor.ask("www.example.", below=lambda name, qtype: ["A 192.0.2.7"]).answer[0][0].to_text() == "192.0.2.7"
        with pytest.raises(Failed, match="REFUSED: no"):
            executor.ask("x.refused.example.", client="2001:db8::1")
        with pytest.raises(Dropped):
            executor.ask("x.dropped.example.", "MX")
    assert executor.served == 3
    with pytest.raises(ValueError, match=r"the client is not in 2001:db8::/32"):
        executor.ask("x.refused.example.", client="2001:db9::1")
    with pytest.raises(Failed):
        ask(Sink(), "x.refused.example.", client="2001:db8::2")


@pytest.mark.parametrize(
    ("given", "client", "held"),
    [
        ("192.0.2.0/24", "192.0.2.255", True),
        ("192.0.2.0/24", "192.0.3.0", False),
        ("192.0.2.77/24", "192.0.2.1", True),
        ("192.0.2.1", "192.0.2.1", True),
        ("192.0.2.1/31", "192.0.2.0", True),
        ("0.0.0.0/0", "203.0.113.9", True),
        ("0.0.0.0/0", "2001:db8::1", False),
        ("::/0", "2001:db8::1", True),
        ("::/0", "192.0.2.1", False),
        ("2001:db8::/33", "2001:db8:7fff::1", True),
        ("2001:db8::/33", "2001:db8:8000::1", False),
        ("2001:db8::/64", "2001:db8::ffff:0:0:1", True),
        ("2001:db8::8000:0:0:0/65", "2001:db8::7fff:0:0:1", False),
        ("2001:db8::1", "2001:db8::1", True),
        ("2001:db8::1/128", "2001:db8::2", False),
        ("::ffff:192.0.2.0/120", "192.0.2.9", True),
        (ipaddress.ip_network("192.0.2.0/25"), "192.0.2.127", True),
        (ipaddress.ip_network("192.0.2.0/25"), "192.0.2.128", False),
    ],
)
def test_prefixes(given: Any, client: str, held: bool) -> None:
    verdicts, query = Verdicts("test", 9), make("a.example.", client=client)
    remembered = PASS.remember(9, client=given)
    if not held:
        with pytest.raises(ValueError, match="the client is not in"):
            verdicts.put(query, remembered)
        return
    assert verdicts.put(query, remembered)
    assert verdicts.find(query) is PASS
    assert verdicts.forget(client=given) == 1


@pytest.mark.parametrize("given", ["", "192.0.2", "192.0.2.0/", "192.0.2.0/-1", "192.0.2.0/+8", "192.0.2.0/33", "::/129", "example.", "::ffff:0.0.0.0/90", 7])
def test_no_prefixes(given: Any) -> None:
    verdicts = Verdicts("test", 9)
    with pytest.raises(ValueError, match="is no prefix of addresses"):
        verdicts.put(make("a.example."), PASS.remember(9, client=given))
    with pytest.raises(ValueError, match="is no prefix of addresses"):
        verdicts.forget(client=given)
    assert verdicts.count == 0


def test_limits() -> None:
    for wrong in (-1, 4194305):
        with pytest.raises(ValueError, match="0 to 4194304"):
            Verdicts("test", wrong)
    none = Verdicts("test", 0)
    assert not none.put(make("a.example."), PASS.remember(9))
    assert none.find(make("a.example.")) is None
    one = Verdicts("test", 1)
    for name in ("a.example.", "b.example.", "b.example."):
        assert one.put(make(name), PASS.remember(9))
    assert (one.count, one.find(make("a.example.")), one.find(make("b.example."))) == (1, None, PASS)


def test_what_is_over_is_swept_away() -> None:
    verdicts, second = Verdicts("test", 1000), 10**9
    for i in range(500):
        verdicts.put(make(f"{i}.example."), PASS.remember(1 + i % 2 * 100), now=second)
    assert verdicts.count == 500
    for _ in range(250):
        verdicts.put(make("x.example."), PASS.remember(1), now=3 * second)
    assert verdicts.count == 251
    octets = verdicts.octets
    assert verdicts.forget() == 251
    assert verdicts.forget() == 0
    query = make("x.example.")
    assert not verdicts.put(query, PASS.remember(1))
    verdicts.begin(query)
    assert verdicts.put(query, PASS.remember(1))
    assert 0 < verdicts.octets < octets / 50


def test_names_of_one_hash_are_different_names() -> None:
    hashes: dict[int, str] = {}
    for i in itertools.count():
        name = f"{i}.example."
        other = hashes.setdefault(suffix_hashes(name_wire(name))[0], name)
        if other != name:
            break
    verdicts = Verdicts("test", 9)
    verdicts.put(make(other), DROP.remember(9))
    verdicts.put(make(f"x.{other}"), DROP.remember(9, suffix=other))
    assert [verdicts.find(make(asked)) for asked in (other, f"y.{other}", name, f"x.{name}")] == [DROP, DROP, None, None]
    verdicts.put(make(name), PASS.remember(9))
    assert [verdicts.find(make(asked)) for asked in (other, name)] == [DROP, PASS]
    assert verdicts.forget(suffix=name) == 1


class Model:
    """The memory as a list, for verdicts that are numbers."""

    def __init__(self) -> None:
        self.entries: dict[tuple[str, bool, int | None, Any], tuple[int, int]] = {}

    @staticmethod
    def below(name: str, suffix: str) -> bool:
        return suffix == "." or name == suffix or name.endswith("." + suffix)

    def find(self, query: Query, now: int) -> int | None:
        found = []
        client = ipaddress.ip_address(query.client)
        for (name, exact, qtype, prefix), (expires, number) in self.entries.items():
            if query.name != name if exact else not self.below(query.name, name):
                continue
            if qtype not in (None, query.qtype) or (prefix is not None and client not in prefix) or expires <= now:
                continue
            found.append((len(name) if name != "." else 0, exact, -1 if prefix is None else prefix.prefixlen, qtype is not None, number))
        return max(found)[-1] if found else None

    def forget(self, suffix: str | None, client: Any) -> int:
        gone = [
            key
            for key in self.entries
            if (suffix is None or self.below(key[0], suffix) or (not key[1] and self.below(suffix, key[0])))
            and (client is None or key[3] is None or (key[3].version == client.version and key[3].overlaps(client)))
        ]
        for key in gone:
            del self.entries[key]
        return len(gone)


@pytest.mark.parametrize("seed", range(6))
def test_beside_a_model(seed: int) -> None:
    chance = random.Random(seed)
    verdicts, model, now = Verdicts("test", 2048), Model(), 10**9
    clients = [f"10.{a}.{b}.{c}" for a in (0, 1, 128) for b in (0, 64, 255) for c in (0, 1, 127)]
    clients += [f"2001:db8:{a}::{b}:{c}" for a in ("0", "8000") for b in ("0", "8000") for c in ("1", "ff")]

    def question() -> Query:
        labels = [chance.choice("abC") for _ in range(chance.choice([0, 1, 2, 3, 3, 4, 5, 70]))]
        return make(".".join(labels) + ".", chance.choice(["A", "AAAA", "TXT"]), client=chance.choice(clients))

    def prefix(client: str) -> Any:
        most = 128 if ":" in client else 32
        return ipaddress.ip_network(f"{client}/{chance.choice([0, 8, 9, 16, 24, 31, 32, 33, 64, 65, 100, 127, 128, most]) % (most + 1)}", strict=False)

    for number in range(2500):
        now += chance.choice([0, 10**7, 3 * 10**8])
        query = question()
        what = chance.random()
        verdicts.begin(query)
        if what < 0.5:
            labels = query.name.rstrip(".").split(".")
            suffix = ".".join(labels[chance.randrange(len(labels) + 1) :]) + "." if chance.random() < 0.6 else None
            all_types, seconds = chance.random() < 0.5, chance.choice([1, 3, 50, 500])
            client = prefix(query.client) if chance.random() < 0.5 else None
            answer = Reply([Record(16, b"\x04%04d" % number)])
            assert verdicts.put(query, answer.remember(seconds, suffix=suffix, all_types=all_types, client=client), answer.to_wire(query), now)
            key = (query.name if suffix is None else suffix.lower(), suffix is None, None if all_types else query.qtype, client)
            model.entries[key] = (now + seconds * 10**9, number)
        elif what > 0.99:
            name = query.name if chance.random() < 0.8 else None
            client = prefix(query.client) if chance.random() < 0.5 else None
            gone = verdicts.forget(name, client)
            before = {key for key, value in model.entries.items() if value[0] > now}
            model.forget(name, client)
            assert gone >= len(before) - len([key for key, value in model.entries.items() if value[0] > now])
        for asked in (query, question(), question()):
            found: Any = verdicts.find(asked, now)
            assert (None if found is None else int(found.answer[0].rdata[1:])) == model.find(asked, now)
    assert verdicts.count <= len(model.entries)


def test_threads_that_withdraw_and_remember() -> None:
    verdicts = Verdicts("test", 100)
    over = Event()

    def withdraw() -> None:
        while not over.is_set():
            verdicts.forget(suffix="b.example.")

    thread = Thread(target=withdraw)
    thread.start()
    kept = 0
    for i in range(3000):
        query = make(f"{i % 50}.{'ab'[i & 1]}.example.")
        verdicts.begin(query)
        kept += verdicts.put(query, PASS.remember(60))
    over.set()
    thread.join()
    assert kept > 0
    assert verdicts.count <= 100
    verdicts.forget(suffix="b.example.")
    assert all(verdicts.find(make(f"{i}.b.example.")) is None for i in range(50))
