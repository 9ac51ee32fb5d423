"""import with skip_broken: a broken file is left out at the start and at a reload, told of, and taken up once it is mended."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import dns.rcode

from tests.server import Server, command, free_port
from tests.waiting import until

Serve = Callable[..., Server]

COREFILE = """
import {dir}/zones/*.conf skip_broken
.:{port} {
    bind 127.0.0.1
    reload 2s 0s
    prometheus 127.0.0.1:{port2}
    template IN A {
        answer "{{ .Name }} 60 IN A 192.0.2.1"
    }
    import {dir}/parts/* skip_broken
}
"""


def zone(name: str, body: str) -> str:
    return f'{name}:{{$PORT}} {{\n bind 127.0.0.1\n template IN A {{\n  answer "{{{{ .Name }}}} 60 IN A {body}"\n }}\n}}\n'


def left_out(server: Server) -> set[str]:
    lines = server.get(server.ports["port2"], "/metrics").splitlines()
    return {Path(line.partition('file="')[2].partition('"')[0]).name for line in lines if line.startswith("fastdns_corefile_left_out{")}


def folders(tmp_path: Path) -> tuple[Path, Path]:
    zones, parts = tmp_path / "zones", tmp_path / "parts"
    zones.mkdir()
    parts.mkdir()
    return zones, parts


def test_broken_files_are_left_out(serve: Serve, tmp_path: Path) -> None:
    """A text that does not parse, a set-up that fails, a zone that another file has, and directives; then all are mended."""
    zones, parts = folders(tmp_path)
    (zones / "a.conf").write_text(zone("a.org", "192.0.2.2"))
    (zones / "b.conf").write_text("b.org:{$PORT} {\n nosuch\n}\n")
    (zones / "c.conf").write_text(zone("c.org", "192.0.2.3").replace("template IN", "whoami x\n template IN"))
    (zones / "d.conf").write_text(zone("a.org", "192.0.2.4"))
    (parts / "any").write_text("any x\n")
    (parts / "minimal").write_text("minimal\n")
    port = str(free_port())
    server = serve(COREFILE.replace("{dir}", str(tmp_path)).replace("{port}", port), env={"PORT": port})
    server.ports["port"] = int(port)
    assert left_out(server) == {"b.conf", "c.conf", "d.conf", "any"}
    assert server.answers("x.a.org.") == ["192.0.2.2"]
    assert server.answers("x.c.org.") == server.answers("x.b.org.") == ["192.0.2.1"], "what is left out does not answer"
    assert "Left out " + str(zones / "b.conf") in server.log()
    page = server.get(server.ports["port2"], "/metrics")
    assert 'fastdns_events_total{kind="file_left_out"} 4' in page
    # Nothing changes, so nothing is loaded again.
    before = server.log().count("Reloading")
    (zones / "b.conf").write_text(zone("b.org", "192.0.2.5"))
    server.until("x.b.org.", "A", ["192.0.2.5"])
    until(lambda: "Reloading complete" in server.log(), "the line, which follows the first answers")
    assert server.log().count("Reloading\n") == before + 1
    assert left_out(server) == {"c.conf", "d.conf", "any"}
    (zones / "c.conf").write_text(zone("c.org", "192.0.2.3"))
    (zones / "d.conf").unlink()
    (parts / "any").write_text("any\n")
    server.until("x.c.org.", "A", ["192.0.2.3"])
    until(lambda: not left_out(server), "all files")
    assert server.query("x.org.", "ANY").answer[0].to_text().endswith('RFC 8482"')
    # One that serves breaks.
    (zones / "a.conf").write_text("a.org {\n")
    until(lambda: left_out(server) == {"a.conf"}, "the file")
    assert server.answers("x.a.org.") == ["192.0.2.1"]


def test_the_rest_has_to_be_right(serve: Serve, tmp_path: Path) -> None:
    """An error of the Corefile itself ends the start with status 1, and a reload is refused."""
    zones, _ = folders(tmp_path)
    (zones / "a.conf").write_text("a.org {\n nosuch\n}\n")
    port = str(free_port())
    corefile = COREFILE.replace("{dir}", str(tmp_path)).replace("{port}", port)
    server = serve(corefile, env={"PORT": port})
    server.ports["port"] = int(port)
    server.write(corefile.replace("reload 2s 0s", "reload 2s 0s\n    whoami x"))
    server.wait_log("Corefile changed but reload failed: .*plugin/whoami")
    assert server.query("x.org.").rcode() == dns.rcode.NOERROR
    path = tmp_path / "Bad"
    path.write_text(corefile.replace("{port2}", str(free_port())).replace("reload 2s 0s", "whoami x"))
    ended = subprocess.run([*command(), "-conf", str(path)], capture_output=True, timeout=60, env={"PORT": str(free_port())}, check=False)
    assert (ended.returncode, b"plugin/whoami" in ended.stderr) == (1, True)


def test_check_says_it(tmp_path: Path) -> None:
    """As warnings, since the Corefile would be served; -strict makes errors of them."""
    zones, parts = folders(tmp_path)
    (zones / "a.conf").write_text("a.org:1053 {\n errors\n nosuch\n}\n")
    (zones / "b.conf").write_text("b.org:1053 {\n whoami x\n}\n")
    (zones / "c.conf").write_text("c.org:1053 {\n")
    (parts / "any").write_text("any x\n")
    path = tmp_path / "Corefile"
    path.write_text(COREFILE.replace("{dir}", str(tmp_path)).replace("{port}", "1053").replace("{port2}", "1054"))
    for flags, status in (((), 0), (("-strict",), 1)):
        checked = subprocess.run([*command(), "check", *flags, str(path)], capture_output=True, text=True, timeout=60, check=False)
        assert checked.returncode == status, checked.stdout
        for place, file in (("a.conf:3", "a.conf"), ("b.conf:2", "b.conf"), ("c.conf:1", "c.conf"), ("any:1", "any")):
            lines = [line for line in checked.stdout.splitlines() if line.startswith(str(tmp_path)) and place in line]
            assert len(lines) == 1, checked.stdout
            assert lines[0].endswith(f"{file} would be left out (skip_broken)")
