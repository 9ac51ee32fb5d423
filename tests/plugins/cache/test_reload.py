"""cache: what outlasts a reload, and what does not."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.server import Server
from tests.waiting import until

Serve = Callable[..., Server]

ZONE = "@ 3600 IN SOA ns host 1 3600 600 86400 3600\nwww 3600 IN A 192.0.2.1\n"
#: The first block changes; of the second one the cache is looked at.
COREFILE = """
(zones) {{
    file {{dir}}/db.example.org example.org {{
        reload 0
    }}
}}
a.test:{{port3}} {{
    bind 127.0.0.1
    {first}
}}
example.org:{{port}} {{
    bind 127.0.0.1
    prometheus 127.0.0.1:{{port2}}
    {cache}
    {more}
    import zones
}}
"""
CACHE = "cache 3600"


def start(serve: Serve, tmp_path: Path, more: str = "", **options: object) -> Server:
    (tmp_path / "db.example.org").write_text(ZONE)
    text = corefile(more=more).replace("{dir}", str(tmp_path))
    server = serve(text, **options)
    fill(server)
    return server


def corefile(first: str = "whoami", cache: str = CACHE, more: str = "") -> str:
    return COREFILE.format(first=first, cache=cache, more=more)


def fill(server: Server) -> None:
    for name in ("www.example.org.", "none.example.org."):
        server.query(name)
    assert entries(server) == (1, 1)


def entries(server: Server) -> tuple[float, float]:
    sample = 'coredns_cache_entries{{server="dns://127.0.0.1:{}",type="{}",view="",zones="example.org."}}'
    return tuple(server.metric(server.ports["port2"], sample.format(server.port, kind)) for kind in ("success", "denial"))  # type: ignore[return-value]


def reload(server: Server, tmp_path: Path, **changed: str) -> None:
    server.reload(corefile(**changed).replace("{dir}", str(tmp_path)))


def test_the_cache_of_an_equal_block_is_kept(serve: Serve, tmp_path: Path) -> None:
    server = start(serve, tmp_path)
    for first in ("erratic", "whoami", "erratic"):
        reload(server, tmp_path, first=first)
        assert entries(server) == (1, 1)
        assert server.answers("www.example.org.") == ["192.0.2.1"]
    hits = f'coredns_cache_hits_total{{server="dns://127.0.0.1:{server.port}",type="success",view="",zones="example.org."}}'
    assert server.metric(server.ports["port2"], hits) == 3


@pytest.mark.parametrize("changed", [{"cache": "cache 3601"}, {"more": "minimal"}, {"more": "import more"}], ids=str)
def test_that_of_a_changed_block_is_empty(serve: Serve, tmp_path: Path, changed: dict[str, str]) -> None:
    (tmp_path / "more").write_text("header {\n response set aa\n }\n")
    server = start(serve, tmp_path)
    reload(server, tmp_path, first="erratic", **{key: text.replace("import more", f"import {tmp_path}/more") for key, text in changed.items()})
    assert entries(server) == (0, 0)
    fill(server)


def test_a_changed_import(serve: Serve, tmp_path: Path) -> None:
    """The text of the block is as it was."""
    more = tmp_path / "more"
    more.write_text("# nothing\n")
    server = start(serve, tmp_path, f"import {more}")
    more.write_text("minimal\n")
    reload(server, tmp_path, more=f"import {more}")
    assert entries(server) == (0, 0)
    fill(server)


def test_a_changed_snippet(serve: Serve, tmp_path: Path) -> None:
    server = start(serve, tmp_path)
    server.reload(corefile().replace("reload 0", "reload 0\n upstream").replace("{dir}", str(tmp_path)))
    assert entries(server) == (0, 0)
    fill(server)


def test_nothing_has_changed(serve: Serve, tmp_path: Path) -> None:
    """SIGUSR1 empties it, as in CoreDNS."""
    server = start(serve, tmp_path)
    reload(server, tmp_path)
    assert entries(server) == (0, 0)
    fill(server)


def test_a_file_that_a_plugin_reads_has_changed(serve: Serve, tmp_path: Path) -> None:
    server = start(serve, tmp_path)
    (tmp_path / "db.example.org").write_text(ZONE.replace("192.0.2.1", "192.0.2.2"))
    assert server.answers("www.example.org.") == ["192.0.2.1"]
    reload(server, tmp_path, first="erratic")
    assert entries(server) == (0, 0)
    assert server.answers("www.example.org.") == ["192.0.2.2"]
    # Touched only.
    fill(server)
    os.utime(tmp_path / "db.example.org", (1, 1))
    reload(server, tmp_path)
    assert entries(server) == (1, 1)


def test_a_plugin_from_elsewhere_may_read_anything(serve: Serve, tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text("from fastdns.plugin import Plugin\n\nclass Other(Plugin):\n    def serve(self, query):\n        return None\n\n"
                                       "def setup(controller):\n    return Other()\n")  # fmt: skip
    more = f"plugin {tmp_path}/other.py"
    server = start(serve, tmp_path, more)
    reload(server, tmp_path, first="erratic", more=more)
    assert entries(server) == (0, 0)
    fill(server)


def test_a_reload_that_is_refused(serve: Serve, tmp_path: Path) -> None:
    server = start(serve, tmp_path)
    server.write(corefile(first="whoami x").replace("{dir}", str(tmp_path)))
    server.signal(signal.SIGUSR1)
    server.wait_log("Restart failed")
    assert entries(server) == (1, 1)
    server.write(corefile(first="bind 192.0.2.77\n whoami").replace("{dir}", str(tmp_path)))  # after the start-up hooks
    start_of_log = len(server.log())
    server.signal(signal.SIGUSR1)
    server.wait_log("Restart failed", start=start_of_log)
    assert entries(server) == (1, 1)
    start_of_log = len(server.log())
    server.write(corefile(first='whoami\n test "a.test. A" expects 192.0.2.99').replace("{dir}", str(tmp_path)))  # after both caches had the entries
    server.signal(signal.SIGUSR1)
    server.wait_log("Restart failed", start=start_of_log)
    assert entries(server) == (1, 1)
    assert server.answers("www.example.org.") == ["192.0.2.1"]
    reload(server, tmp_path, first="erratic")
    assert entries(server) == (1, 1)


def test_the_cache_learns_of_changes_after_it_was_kept(serve: Serve, tmp_path: Path) -> None:
    """From the zones of the configuration that serves then."""
    server = start(serve, tmp_path)
    text = corefile(first="erratic").replace("reload 0", "reload 1s").replace("{dir}", str(tmp_path))
    server.reload(text)
    fill(server)
    server.reload(text.replace("erratic", "whoami"))
    assert entries(server) == (1, 1)
    (tmp_path / "db.example.org").write_text(ZONE.replace("192.0.2.1", "192.0.2.2").replace("host 1", "host 2"))
    until(lambda: server.answers("www.example.org.") == ["192.0.2.2"])
    assert server.answers("none.example.org.") == ["NXDOMAIN"]
