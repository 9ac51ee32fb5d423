"""debug: a switch without arguments, and what it changes for plugins in Python."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fastdns.corefile import CorefileError
from fastdns.plugins.debug import setup
from fastdns.setup import Controller
from tests.server import Server


def test_switch() -> None:
    controller = Controller.of("debug")
    assert not controller.config.debug
    setup(controller)
    assert controller.config.debug


@pytest.mark.parametrize("text", ["debug off", "debug {\n}"])
def test_refused(text: str) -> None:
    with pytest.raises(CorefileError, match=r"Wrong argument count|Unexpected token"):
        setup(Controller.of(text))


# ---- exceptions in Python plugins ----

BROKEN = """
from fastdns.plugin import Plugin

class Broken(Plugin):
    def serve(self, query):
        return self.look_up(query)

    def look_up(self, query):
        raise LookupError(f"no {query.name}\\n[INFO] a line of the client's")

class Late(Broken):
    async def serve(self, query, next):
        await next(query)
        return self.look_up(query)

def setup(controller):
    controller.next()
    return Late() if controller.remaining_args() else Broken()
"""

LINE = r"^\[ERROR\] plugin/broken: LookupError: no a\.test\.\\010\[INFO\] a line of the client's \(broken\.py:9\)$"


@pytest.mark.parametrize(
    ("block", "other", "traced", "panics"),
    [
        ("", "", False, 1),
        ("debug", "", True, 0),
        ("", "debug", True, 0),  # of the listener, not of the block
        ("errors {\n stacktrace\n }", "errors {\n stacktrace\n }", True, 1),
        ("errors {\n stacktrace\n }", "", False, 1),  # the last block has its way
    ],
)
@pytest.mark.parametrize("coroutine", ["", "late"])
def test_exceptions(serve: Callable[..., Server], tmp_path: Path, coroutine: str, block: str, other: str, traced: bool, panics: int) -> None:
    (tmp_path / "broken.py").write_text(BROKEN)
    server = serve(
        f"""
        test:{{port}} {{
            bind 127.0.0.1
            prometheus 127.0.0.1:{{port2}}
            {block}
            plugin {{dir}}/../broken.py {coroutine}
            whoami
        }}
        other:{{port}} {{
            bind 127.0.0.1
            {other}
            whoami
        }}
        """
    )
    assert server.answers("a.test.") == ["SERVFAIL"]
    server.wait_log(LINE)
    assert server.metric(server.ports["port2"], 'fastdns_plugin_errors_total{plugin="broken"}') == 1
    assert server.metric(server.ports["port2"], "coredns_panics_total") == panics
    assert server.query("a.other.").additional
    if traced:
        server.wait_log(r"^\[ERROR\] plugin/broken: Traceback \(most recent call last\):\n(\[ERROR\] plugin/broken: .*\n)*.*broken\.py\", line 9, in look_up$")
    server.stop()
    assert ("Traceback" in server.log()) is traced
    assert not [line for line in server.log().splitlines() if line.startswith("[INFO] a line")]
