"""A Python plugin whose zones are a NameMap: other names pass by without it, also after the names were replaced."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fastdns.plugin import NameMap, Plugin, Query, Reply
from fastdns.testing import Executor, Passed
from tests.server import Server

PLUGIN = """
from fastdns.plugin import NameMap, Plugin

class Names(Plugin):
    def __init__(self):
        self.zones = NameMap(["a.test", "control.test"])

    def serve(self, query):
        if query.type == "TXT":
            self.zones.replace([query.name.partition(".")[0] + ".test", "control.test"])
            self.forget()
            return query.reply("TXT done")
        return query.reply("A 192.0.2.1", ttl=60).remember(60, suffix=self.zones.match(query.name).suffix)

before = "whoami"

def setup(controller):
    return Names()
"""


def test_names_outside_pass_by(serve: Callable[..., Server]) -> None:
    corefile = ".:{port} {\n bind 127.0.0.1\n prometheus 127.0.0.1:{port2}\n plugin {dir}/names.py\n whoami\n}\n"
    server = serve(corefile, prepare=lambda folder: (folder / "names.py").write_text(PLUGIN))

    def called() -> float:
        """How often the plugin was asked, with what its verdicts answered."""
        return sum(server.metric(server.ports["port2"], f'fastdns_plugin_{name}_total{{plugin="names"}}') for name in ("queries", "remembered_hits"))

    for name, mine in (("a.test.", True), ("x.A.test.", True), ("b.test.", False), ("test.", False), ("aa.test.", False), (".", False)):
        assert (server.answers(name) == ["192.0.2.1"]) is mine, name
    assert called() == 2
    assert server.answers("b.control.test.", "TXT") == ['"done"']
    for name, mine in (("a.test.", False), ("x.b.test.", True), ("b.test.", True)):
        assert (server.answers(name) == ["192.0.2.1"]) is mine, name
    assert called() == 5


class Names(Plugin):
    def __init__(self) -> None:
        self.zones = NameMap(["a.test"])

    def serve(self, query: Query) -> Reply:
        return query.reply("A 192.0.2.1")


def test_executors_of_tests_honour_it() -> None:
    plugin = Names()
    executor = Executor(plugin)
    assert executor.ask("x.a.test.").answer
    with pytest.raises(Passed):
        executor.ask("b.test.")
    assert isinstance(plugin.zones, NameMap)
    plugin.zones.replace(["b.test"])
    assert executor.ask("b.test.").answer
    assert executor.served == 2
