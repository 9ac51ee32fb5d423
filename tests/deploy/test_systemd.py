"""The unit of systemd: systemd accepts it, its commands are ours, and the page about it has what it has."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

from fastdns.server import flags
from tests.programs import program

ROOT = Path(__file__).resolve().parent.parent.parent
UNIT = ROOT / "deploy" / "systemd" / "fastdns.service"
PAGE = (ROOT / "docs" / "without-kubernetes.md").read_text()
INSTALLED = "/opt/fastdns/bin/fastdns"


def settings() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in UNIT.read_text().splitlines():
        if "=" in line and not line.startswith("#"):
            name, _, value = line.partition("=")
            found.setdefault(name, []).append(value)
    return found


def analyze(tmp_path: Path, text: str) -> tuple[int, str]:
    """What systemd says of a unit whose program is there."""
    unit = tmp_path / "fastdns.service"
    unit.write_text(text.replace(INSTALLED, str(Path(sys.executable).parent / "fastdns")))
    done = subprocess.run([program("systemd-analyze"), "verify", "--man=no", str(unit)], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def test_systemd_accepts_it(tmp_path: Path) -> None:
    status, said = analyze(tmp_path, UNIT.read_text())
    assert "fastdns.service" not in said
    assert status == 0, said
    _, said = analyze(tmp_path, UNIT.read_text().replace("Restart=always", "Restart=sometimes"))
    assert "fastdns.service" in said, "what is wrong would be seen"


def test_its_commands() -> None:
    unit = settings()
    command, *words = shlex.split(unit["ExecStart"][0])
    assert command == INSTALLED
    asked = flags.parse(words)
    assert (asked.conf, asked.rest) == ("/etc/fastdns/Corefile", [])
    assert shlex.split(unit["ExecStartPre"][0]) == [INSTALLED, "check", asked.conf]
    assert unit["ExecReload"] == ["/bin/kill -USR1 $MAINPID"]


def test_the_page_has_its_paths_and_limits() -> None:
    unit = settings()
    assert f"{INSTALLED} init {flags.parse(shlex.split(unit['ExecStart'][0])[1:]).conf}" in PAGE
    assert f"/var/lib/{unit['StateDirectory'][0]}" in PAGE
    assert f"{int(unit['LimitNOFILE'][0]):,}" in PAGE
    for name in re.findall(r"`([A-Z]\w+)=`", PAGE):
        assert name in unit, name
