"""Python plugins in a running server: verdicts, failures, deadlines, coroutines; and the document's example."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import dns.flags
import dns.rcode
import pytest

from tests.server import Server
from tests.waiting import LIMIT

#: Seconds: the deadline of plugins that are to miss it, and of all others.
HASTY, PATIENT = 0.6, 60.0

PLUGIN = """
import asyncio, os, time
import dns.rrset
import dnslib
from fastdns.plugin import DROP, PASS, Log, Plugin

class Many(Plugin):
    zones = ["ZONE.example."]
    deadline = DEADLINE

    def __init__(self, words):
        self.words = words

    def serve(self, query):
        what = query.name.split(".")[0]
        if what == "raise":
            raise RuntimeError("no\\nsuch luck")
        if what == "hang":
            Log().info("hangs")
            while not os.path.exists("go"):
                time.sleep(0.01)
            Log().info("is back")
        if what == "pass":
            return PASS
        if what == "drop":
            return DROP
        if what == "refuse":
            return query.fail("REFUSED", "not you")
        if what == "wrong":
            return 42
        if what == "junk":
            return b"junk"
        if what == "large":
            return bytes(65536)
        if what == "dnspython":
            import dns.message
            message = dns.message.make_response(dns.message.from_wire(query.packet))
            message.answer = [dns.rrset.from_text(query.qname, 5, "IN", "A", "192.0.2.6")]
            return message
        if what == "dnslib":
            reply = query.message.reply()
            reply.add_answer(dnslib.RR(query.qname, 1, 1, 5, dnslib.A("192.0.2.5")))
            return reply
        return query.reply(f'TXT "{query.client} {query.proto} {query.type} {self.words}"', ttl=7, additional=["x.example. 5 A 192.0.2.9"])

def setup(controller):
    controller.next()
    return Many(" ".join(controller.remaining_args()))
"""

COROUTINE = """
import asyncio
from fastdns.plugin import Plugin

class Waiter(Plugin):
    zones = ["ZONE.example."]
    deadline = DEADLINE

    async def serve(self, query, next):
        what = query.name.split(".")[0]
        if what == "long":
            await asyncio.sleep(300)
        if what == "nap":
            await asyncio.sleep(0.05)
        if what == "raise":
            raise ValueError("later")
        answer = await next(query)
        if what == "twice":
            answer = await next(query, name="other.example.")
        if what == "count":
            return query.reply(f'TXT "{len(answer.records)} {answer.rcode} {answer.failed}"')
        return answer

def setup(controller):
    return Waiter()
"""

COREFILE = """
.:{port} {
    bind 127.0.0.1
    plugin {dir}/../many.py one two
    plugin {dir}/../hasty.py
    plugin {dir}/../waiter.py
    plugin {dir}/../hastywaiter.py
    whoami
}
"""


@pytest.fixture
def server(serve: Callable[..., Server], tmp_path: Path) -> Server:
    for name, text, zone, deadline in (
        ("many", PLUGIN, "many", PATIENT),
        ("hasty", PLUGIN, "hasty", HASTY),
        ("waiter", COROUTINE, "wait", PATIENT),
        ("hastywaiter", COROUTINE, "hastywait", HASTY),
    ):
        (tmp_path / f"{name}.py").write_text(text.replace("ZONE", zone).replace("DEADLINE", str(deadline)))
    return serve(COREFILE)


def test_reply_and_verdicts(server: Server) -> None:
    reply = server.query("A.many.example.", "TXT")
    assert [rrset.to_text() for rrset in reply.answer] == ['A.many.example. 7 IN TXT "127.0.0.1 udp TXT one two"']
    assert [rrset.to_text() for rrset in reply.additional] == ["x.example. 5 IN A 192.0.2.9"]
    assert "tcp" in server.answers("a.many.example.", "TXT", tcp=True)[0]
    assert server.answers("dnslib.many.example.") == ["192.0.2.5"]
    assert server.answers("dnspython.many.example.") == ["192.0.2.6"]
    assert server.query("pass.many.example.").additional  # whoami's
    assert server.query("other.example.").additional
    assert server.answers("refuse.many.example.") == ["REFUSED"]
    with pytest.raises(Exception, match=r"timed out|Timeout"):
        server.query("drop.many.example.", timeout=0.5)


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("raise", r"\[ERROR\] plugin/many: RuntimeError: no\\010such luck \(many\.py:\d+\)"),
        ("wrong", r"\[ERROR\] plugin/many: TypeError: serve returned int, which is no reply"),
        ("junk", r"\[ERROR\] plugin/many: ValueError: the reply is no DNS message"),
        ("large", r"\[ERROR\] plugin/many: ValueError: the reply is too large: 65536 octets, and a DNS message has at most 65535"),
    ],
)
def test_an_error_is_servfail_for_its_query_alone(server: Server, name: str, line: str) -> None:
    assert server.answers(f"{name}.many.example.") == ["SERVFAIL"]
    server.wait_log(line)
    assert server.query("a.many.example.", "TXT").rcode() == dns.rcode.NOERROR


def test_a_hanging_plugin_meets_its_deadline_and_loses_its_thread(server: Server) -> None:
    start = time.monotonic()
    assert server.answers("hang.hasty.example.", timeout=LIMIT) == ["SERVFAIL"]
    assert time.monotonic() - start > HASTY - 0.1
    server.wait_log(r"\[ERROR\] plugin/hasty: hangs on hang\.hasty\.example\. A from 127\.0\.0\.1 \(hasty\.py:\d+\): serve has not returned for 0\.6s")
    assert server.query("a.many.example.", "TXT").rcode() == dns.rcode.NOERROR
    assert server.query("a.hasty.example.", "TXT").rcode() == dns.rcode.NOERROR
    assert server.answers("hang.hasty.example.", timeout=LIMIT) == ["SERVFAIL"]
    server.wait_log(r"left behind \(2 of at most 3\)")
    assert server.query("nap.wait.example.").additional
    assert "is back" not in server.log()
    # The threads that were left behind do no harm when they come back.
    (server.folder / "go").touch()
    server.wait_log(r"is back\n(.*\n)*.*is back")
    for _ in range(20):
        assert server.query("a.hasty.example.", "TXT").rcode() == dns.rcode.NOERROR
        assert server.query("x.wait.example.").additional
        time.sleep(0.01)


def test_others_are_served_while_python_hangs(server: Server) -> None:
    with ThreadPoolExecutor(1) as pool:
        hanging = pool.submit(server.query, "hang.many.example.", "TXT", timeout=LIMIT)
        server.wait_log("hangs")
        for _ in range(100):
            assert server.query("native.example.").additional
        assert not hanging.done()
        (server.folder / "go").touch()
        assert hanging.result().rcode() == dns.rcode.NOERROR


def test_coroutines(server: Server) -> None:
    assert server.query("a.wait.example.").additional[0].name.to_text() == "a.wait.example."
    assert server.query("nap.wait.example.").additional
    assert server.query("twice.wait.example.").additional[0].name.to_text() == "other.example."
    assert server.answers("count.wait.example.", "TXT") == ['"2 0 False"']
    assert server.answers("raise.wait.example.") == ["SERVFAIL"]
    server.wait_log(r"plugin/waiter: ValueError: later")
    assert server.answers("long.hastywait.example.") == ["SERVFAIL"]
    with ThreadPoolExecutor(16) as pool:
        replies = list(pool.map(lambda i: server.query(f"nap.{i}.wait.example."), range(200)))
    assert all(reply.additional[0].name.to_text() == f"nap.{i}.wait.example." for i, reply in enumerate(replies))


PASSES_ON = """
before = "header"

from fastdns.plugin import Plugin

class PassesOn(Plugin):
    async def serve(self, query, next):
        answer = await next(query)
        return answer if query.name.startswith("whole") else query.reply(*(record for section, record in answer.records if section == 0))

def setup(controller):
    return PassesOn()
"""


@pytest.mark.parametrize(("name", "flags"), [("whole.example.", "QR AA"), ("records.example.", "QR AA RD")])
def test_a_whole_message_has_its_own_flags(serve: Callable[..., Server], tmp_path: Path, name: str, flags: str) -> None:
    """An answer from below is passed on as it is, RD and CD included; what a plugin makes of records repeats the query's."""
    (tmp_path / "passes.py").write_text(PASSES_ON)
    server = serve(".:{port} {\n plugin {dir}/../passes.py\n header {\n  response clear rd\n }\n whoami\n}")
    reply = server.query(name)
    assert dns.flags.to_text(reply.flags) == flags


#: A file, the directive that the error is told of, the error, and its frames. The Corefile's line comes between directive and error.
BROKEN = [
    ("def setup(controller):\n    controller.next()\n    raise controller.err('bad word')\n", "broken", "bad word", []),
    (
        "def setup(controller):\n    inner()\n\ndef inner():\n    {}['x']\n",
        "broken",
        "KeyError: 'x' (broken.py:5)",
        ["PATH:2 in setup: inner()", "PATH:5 in inner: {}['x']"],
    ),
    ("import nosuch\n", "plugin", "PATH: ModuleNotFoundError: No module named 'nosuch' (broken.py:1)", ["PATH:1 in <module>: import nosuch"]),
    ("def setup(controller:\n", "plugin", "PATH: SyntaxError: ", ["PATH:1: def setup(controller:"]),
    ("x = 1\n", "plugin", "PATH: AttributeError: ", []),
    (None, "plugin", "open PATH: no such file or directory", []),
]


@pytest.mark.parametrize(("text", "directive", "error", "frames"), BROKEN)
def test_a_file_that_breaks_is_refused(serve: Callable[..., Server], tmp_path: Path, text: str | None, directive: str, error: str, frames: list[str]) -> None:
    if text is not None:
        (tmp_path / "broken.py").write_text(text)
    server = serve(".:{port} {\n    plugin {dir}/../broken.py\n}\n", wait=False)
    assert server.exit_status() == 1
    path = f"{server.folder}/../broken.py"
    first, *others = server.log().splitlines()
    assert first.startswith(f"plugin/{directive}: {server.corefile}:2 - Error during parsing: {error.replace('PATH', path)}")
    assert others == [f"    at {frame.replace('PATH', path)}" for frame in frames]


def test_a_setup_that_returns_no_plugin(serve: Callable[..., Server], tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("def setup(controller):\n    return 1\n")
    server = serve(".:{port} {\n    plugin {dir}/../broken.py\n}\n", wait=False)
    assert server.exit_status() == 1
    assert "plugin/broken: TypeError: setup returned int, which has no serve method" in server.log()
