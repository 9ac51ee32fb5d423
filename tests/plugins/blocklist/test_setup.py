"""blocklist: what a Corefile may say."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from fastdns.corefile import CorefileError
from fastdns.index.name_map import BELOW, BOTH
from fastdns.plugins.blocklist import parse
from fastdns.plugins.blocklist.policy import SOURCES_MOST
from fastdns.setup import Controller
from tests.server import Server, command

URL = "https://user:word@lists.example:8443/ads?x=1"


def test_everything(tmp_path: Path) -> None:
    for name in ("a", "b", "c", "d"):
        (tmp_path / name).write_text("")
    text = f"""blocklist {tmp_path}/a {URL} {{
        hosts {tmp_path}/b
        rpz {tmp_path}/c {URL}
        domains {URL}
        allow good.example *.part.example {tmp_path}/d
        answer 0.0.0.0 ::ffff:192.0.2.1 2001:db8::1
        ttl 0
        refresh 90
        snapshot {tmp_path}
    }}
    blocklist {tmp_path}/d"""
    settings = parse(Controller.of(text))
    assert settings.lists == [
        ("domains", f"{tmp_path}/a", False),
        ("domains", URL, False),
        ("hosts", f"{tmp_path}/b", False),
        ("rpz", f"{tmp_path}/c", False),
        ("rpz", URL, False),
        ("domains", URL, False),
        ("domains", f"{tmp_path}/d", True),
        ("domains", f"{tmp_path}/d", False),
    ]
    assert settings.allowed == [("good.example", BOTH), ("part.example", BELOW)]
    assert settings.addresses == [bytes(4), bytes([192, 0, 2, 1]), bytes.fromhex("20010db8") + bytes(11) + b"\1"]
    assert (settings.ttl, settings.refresh, settings.snapshot) == (0, 90.0, str(tmp_path))


def test_defaults() -> None:
    settings = parse(Controller.of(f"blocklist {URL}"))
    assert (settings.rcode, settings.addresses, settings.ttl, settings.refresh, settings.snapshot) == ("NXDOMAIN", [], 300, 3600.0, "")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("blocklist", "no list given"),
        ("blocklist {\n allow a.test\n}", "no list given"),
        ("blocklist /does/not/exist", "open /does/not/exist: no such file or directory"),
        ("blocklist ftp://lists.example/ads", 'invalid URL "ftp://lists.example/ads": want http:// or https://'),
        ("blocklist http://", "invalid URL"),
        ("blocklist http://[::1/x", "invalid URL"),
        ("blocklist http://lists.example:x/", "invalid URL"),
        (f"blocklist {URL} {{\n hosts\n}}", "Wrong argument count"),
        (f"blocklist {URL} {{\n allow\n}}", "Wrong argument count"),
        (f"blocklist {URL} {{\n allow a..b\n}}", 'invalid name "a..b"'),
        (f"blocklist {URL} {{\n answer\n}}", "Wrong argument count"),
        (f"blocklist {URL} {{\n answer servfail\n}}", 'invalid answer "servfail": want nxdomain, nodata, refused or addresses'),
        (f"blocklist {URL} {{\n answer nxdomain 192.0.2.1\n}}", 'invalid answer "nxdomain"'),
        (f"blocklist {URL} {{\n ttl\n}}", "Wrong argument count"),
        (f"blocklist {URL} {{\n ttl x\n}}", 'invalid ttl "x"'),
        (f"blocklist {URL} {{\n ttl 65536\n}}", 'invalid ttl "65536": want 0 to 65535'),
        (f"blocklist {URL} {{\n ttl -1\n}}", "invalid ttl"),
        (f"blocklist {URL} {{\n refresh x\n}}", "Unable to parse duration"),
        (f"blocklist {URL} {{\n refresh 0\n}}", "refresh interval must be greater than 0"),
        (f"blocklist {URL} {{\n snapshot\n}}", "Wrong argument count"),
        (f"blocklist {URL} {{\n fallthrough\n}}", "unknown property 'fallthrough'"),
        ("blocklist " + " ".join([URL] * (SOURCES_MOST + 1)), f"more than {SOURCES_MOST} lists"),
    ],
)
def test_errors(text: str, error: str) -> None:
    with pytest.raises(CorefileError) as raised:
        parse(Controller.of(text))
    assert error in str(raised.value)


def test_a_broken_policy_zone_is_refused_at_start(serve: Callable[..., Server]) -> None:
    server = serve(".:{port} {\n blocklist {\n rpz {dir}/rpz\n }\n}", wait=False, prepare=lambda folder: (folder / "rpz").write_text("a.test BROKEN\n"))
    assert server.exit_status() == 1
    assert f"list {server.folder}/rpz is not used: dns:" in server.log()


def test_check_reads_the_lists(tmp_path: Path) -> None:
    """Names of files can be tested there; URLs are not fetched."""
    (tmp_path / "list").write_text("ads.test\n")
    tests = 'test "a.ads.test A" expects NXDOMAIN\n test "other.test A" expects NODATA'
    (tmp_path / "Corefile").write_text(f". {{\n blocklist {tmp_path}/list http://127.0.0.1:1/list\n whoami\n {tests}\n}}\n")
    done = subprocess.run([*command(), "check", str(tmp_path / "Corefile")], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    (tmp_path / "list").write_text("other.test\n")
    done = subprocess.run([*command(), "check", str(tmp_path / "Corefile")], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1, done.stdout + done.stderr
