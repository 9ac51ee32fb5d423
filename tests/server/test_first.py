"""`fastdns init`: what it asks, writes and refuses, and that the Corefile serves."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import dns.rcode
import pytest

from fastdns.server import first
from tests.server import Server, command
from tests.waiting import LIMIT


def init(folder: Path, answers: str, *words: str) -> tuple[int, str, str]:
    done = subprocess.run([*command(), "init", *words], input=answers, capture_output=True, text=True, cwd=folder, timeout=LIMIT)
    return done.returncode, done.stdout, done.stderr


def test_answers_become_a_corefile_that_is_right(tmp_path: Path) -> None:
    status, out, err = init(tmp_path, "192.168.1.0/24  fd00::/8\ntls://9.9.9.9\nhome.arpa\n", "first")
    assert (status, err) == (0, "")
    assert out.splitlines()[-1].startswith("first is written")
    text = (tmp_path / "first").read_text()
    assert text == first.compose(first.Answers("192.168.1.0/24 fd00::/8", "tls://9.9.9.9", "home.arpa"))
    checked = subprocess.run([*command(), "check", "-strict", "first"], capture_output=True, text=True, cwd=tmp_path, timeout=LIMIT)
    assert checked.returncode == 0, checked.stdout


def test_enter_takes_what_is_offered(tmp_path: Path) -> None:
    for name, answers in (("entered", "\n\n\n"), ("ended", "")):
        status, out, _ = init(tmp_path, answers, name)
        assert status == 0
        assert f"[{first.NETWORKS}]" in out
        text = (tmp_path / name).read_text()
        assert f"allow net {first.NETWORKS}\n" in text
        assert "forward . " in text
        assert "hosts" not in text


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ("10.0.0.0/99\n", "'10.0.0.0/99' does not appear to be an IPv4 or IPv6 network"),
        ("\nnot-an-address:x\n", "not-an-address:x"),
        ("\nspdy://192.0.2.1\n", "spdy://192.0.2.1"),
        ("\n\nhome.arpa other.test\n", "home.arpa other.test: one zone only"),
    ],
)
def test_wrong_answers(tmp_path: Path, answers: str, said: str) -> None:
    status, _, err = init(tmp_path, answers)
    assert status == 1
    assert said in err
    assert not (tmp_path / "Corefile").exists()


def test_a_file_that_exists_stays(tmp_path: Path) -> None:
    (tmp_path / "Corefile").write_text("mine")
    assert init(tmp_path, "\n\n\n") == (1, "", "Corefile: exists; it is left as it is\n")
    assert (tmp_path / "Corefile").read_text() == "mine"
    status, _, err = init(tmp_path, "\n\n\n", "nowhere/Corefile")
    assert (status, err) == (1, "open nowhere/Corefile: no such file or directory\n")
    assert init(tmp_path, "", "a", "b")[0] == 2


def test_a_terminal_is_asked_again(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    with subprocess.Popen([*command(), "init"], stdin=theirs, stdout=theirs, stderr=theirs, cwd=tmp_path) as process:
        os.close(theirs)
        seen = ""
        for awaited, answer in (("may ask", "nonsense"), ("does not appear", "10.0.0.0/8"), ("all other", "192.0.2.1"), ("of your own", "-")):
            seen = read_until(ours, awaited)
            os.write(ours, f"{answer}\n".encode())
        seen = read_until(ours, "is written")
        assert process.wait(LIMIT) == 0, seen
    os.close(ours)
    assert (tmp_path / "Corefile").read_text() == first.compose(first.Answers("10.0.0.0/8", "192.0.2.1", "-"))


def read_until(terminal: int, text: str) -> str:
    """What a terminal shows, up to a text and the prompt behind it."""
    seen, end = "", time.monotonic() + LIMIT
    while text not in seen or not seen.endswith((": ", "\n")):
        assert select.select([terminal], [], [], max(0, end - time.monotonic()))[0], seen
        seen += os.read(terminal, 4096).decode()
    return seen


def test_it_serves(serve: Callable[..., Server]) -> None:
    """Names of /etc/hosts in the zone are answered, all others forwarded, and clients of other networks are refused."""
    text = first.compose(first.Answers("127.0.0.2", "127.0.0.1:{port2}", "localhost"))
    server = serve(text.replace(". {\n", ".:{port} {\n", 1).replace("# bind 192.0.2.1 127.0.0.1", "bind 127.0.0.1"))
    assert server.query("localhost", source="127.0.0.2").rcode() == dns.rcode.NOERROR
    assert server.query("example.org", source="127.0.0.2").rcode() == dns.rcode.SERVFAIL
    assert server.query("localhost", source="127.0.0.3").rcode() == dns.rcode.REFUSED
