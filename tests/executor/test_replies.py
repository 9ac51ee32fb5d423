"""What replies of Python plugins may carry beside records: extended errors, and a count for each query that a verdict is applied to."""

from __future__ import annotations

from collections.abc import Callable

import dns.edns
import pytest

from fastdns.plugin import Plugin, Query, Reply
from fastdns.testing import ask
from tests.server import Server

PLUGIN = """
from fastdns.plugin import DROP, Metric, Plugin

ANSWERS = Metric("example_answers_total", "Counter of answers.", "counter", ("kind",))

class Replies(Plugin):
    zones = ["test."]

    def serve(self, query):
        verdict = DROP if query.name == "drop.test." else query.reply(rcode="NXDOMAIN", ede=15)
        return verdict.remember(60, all_types=True, counter=ANSWERS.cell((query.name,)))

before = "whoami"

def setup(controller):
    return Replies()
"""


@pytest.mark.parametrize("first", [-1, 0])
def test_extended_errors_are_for_clients_with_edns(serve: Callable[..., Server], first: int) -> None:
    """Whoever was the first to ask: others may get the same verdict."""
    corefile = ".:{port} {\n bind 127.0.0.1\n prometheus 127.0.0.1:{port2}\n plugin {dir}/replies.py\n whoami\n}\n"
    server = serve(corefile, prepare=lambda folder: (folder / "replies.py").write_text(PLUGIN))
    for use_edns in (first, 0, -1, 0):
        reply = server.query("a.test.", use_edns=use_edns)
        assert reply.edns == use_edns
        assert [int(option.code) for option in reply.options if isinstance(option, dns.edns.EDEOption)] == [15] * (use_edns == 0)
    with pytest.raises(dns.exception.Timeout):
        server.query("drop.test.", timeout=0.2)
    assert server.metric(server.ports["port2"], 'example_answers_total{kind="a.test."}') == 4
    assert server.metric(server.ports["port2"], 'example_answers_total{kind="drop.test."}') == 1


class Blocked(Plugin):
    def serve(self, query: Query) -> Reply:
        return query.reply(ede=15)


def test_extended_errors_in_tests() -> None:
    (option,) = ask(Blocked(), "a.test.").options
    assert isinstance(option, dns.edns.EDEOption)
    assert int(option.code) == 15
