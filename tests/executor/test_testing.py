"""fastdns.testing: what stands for a server in the tests of plugin authors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dns.message
import dns.rrset
import pytest

from fastdns.corefile import CorefileError
from fastdns.plugin import Controller, Plugin, Query, Result
from fastdns.testing import Case, Executor, Failed, Lane, Passed, ask, check, configure, make


class Zoned(Plugin):
    zones = ("one.example.", "TWO.example.")

    def serve(self, query: Query) -> Result:
        return query.reply("A 192.0.2.1").remember(60, all_types=True)


def below(name: str, qtype: int) -> list[str]:
    return ["A 192.0.2.9"]


@pytest.mark.parametrize(("name", "inside"), [("one.example.", True), ("a.Two.Example.", True), ("example.", False), ("atwo.example.", False)])
def test_zones(name: str, inside: bool) -> None:
    executor = Executor(Zoned())
    for _ in range(2):
        if not inside:
            with pytest.raises(Passed):
                executor.ask(name)
        (rrset,) = executor.ask(name, below=below).answer
        assert rrset[0].to_text() == ("192.0.2.1" if inside else "192.0.2.9")
    assert executor.served == inside


def test_the_name_until_0_1() -> None:
    assert Lane is Executor


class Message(Plugin):
    def serve(self, query: Query) -> Result:
        message = dns.message.make_response(dns.message.from_wire(query.packet))
        message.answer = [dns.rrset.from_text(query.qname, 5, "IN", "A", "192.0.2.6")]
        return message


def test_a_message_of_dnspython() -> None:
    check(ask(Message(), "a.example."), Case("a.example.", answer=["a.example. 5 IN A 192.0.2.6"]))


def test_an_answer_that_is_a_failure() -> None:
    class Below(Plugin):
        async def serve(self, query: Query, next: Any) -> Result:
            found: Result = await next(query)
            return found

    with pytest.raises(Failed, match="no next plugin found"):
        ask(Below(), "a.example.")


def test_metadata() -> None:
    query = make("a.example.", metadata={"geoip/country/code": "CH"})
    assert query.metadata["geoip/country/code"] == query.metadata.get("geoip/country/code") == "CH"
    assert "geoip/country/code" in query.metadata
    assert "other/x" not in query.metadata
    assert query.metadata.get("other/x", "none") == "none"
    with pytest.raises(KeyError):
        query.metadata["other/x"]
    assert query.cluster is None
    assert query.client_pod is None


def setup(controller: Controller) -> Zoned | None:
    controller.next()
    words = controller.remaining_args()
    if not words:
        raise controller.arg_err()
    if words[0] == "break":
        raise KeyError("x")
    plugin = Zoned()
    plugin.zones = tuple(words)
    return plugin if words[0] != "nothing" else None


def test_configure() -> None:
    plugin = configure("# the Corefile\n. {\n whoami\n zoned a.example. b.example.\n}", "zoned", setup)
    assert isinstance(plugin, Zoned)
    assert plugin.zones == ("a.example.", "b.example.")
    with pytest.raises(Passed):
        ask(plugin, "c.example.")
    assert configure("a.org {\n zoned a.org.\n}\nb.org {\n zoned b.org.\n}", "zoned", setup).zones == ("a.org.",)


@pytest.mark.parametrize(
    ("corefile", "error", "line"),
    [
        (". {\n zoned\n}", r"^plugin/zoned: Corefile:2 - Error during parsing: Wrong argument count or unexpected line ending after 'zoned'$", 2),
        (". {\n\n zoned break\n}", r"^plugin/zoned: Corefile:3 - Error during parsing: KeyError: 'x' \(test_testing\.py:\d+\)$", 3),
        (". {\n nosuch\n}", r"^Corefile:2 - Error during parsing: Unknown directive 'nosuch'$", 2),
    ],
)
def test_configure_with_an_error(corefile: str, error: str, line: int) -> None:
    for _ in range(2):
        with pytest.raises(CorefileError, match=error) as caught:
            configure(corefile, "zoned", setup)
        assert caught.value.line in (line, 0)
    with pytest.raises(LookupError):
        configure(". {\n zoned nothing\n}", "zoned", setup)


def test_configure_a_file(tmp_path: Path) -> None:
    (tmp_path / "file.py").write_text("from fastdns.plugin import Plugin\n\nclass File(Plugin):\n    pass\n\ndef setup(controller):\n    return File()\n")
    assert type(configure(f". {{\n plugin {tmp_path}/file.py\n}}", "file")).__name__ == "File"
