"""clientip in a server: asked through a socket, tried by `fastdns check`, explained by `fastdns explain`."""

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import dns.exception
import dns.message
import dns.query
import pytest

FASTDNS = str(Path(sys.executable).parent / "fastdns")
COREFILE = ".:{port} {{\n    bind 127.0.0.1\n    clientip me.example\n    whoami\n    {line}\n}}\n"


def corefile(folder: Path, line: str = "", port: int = 53) -> Path:
    path = folder / "Corefile"
    path.write_text(COREFILE.format(port=port, line=line))
    return path


@pytest.fixture
def server(tmp_path: Path) -> Iterator[int]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    process = subprocess.Popen([FASTDNS, "-conf", corefile(tmp_path, port=port)], stdout=subprocess.DEVNULL)
    try:
        yield port
    finally:
        process.terminate()
        process.wait(30)


def ask(port: int, name: str, kind: str) -> list[str]:
    """Answers, once the server listens."""
    limit = time.monotonic() + 30
    while True:
        try:
            reply = dns.query.udp(dns.message.make_query(name, kind), "127.0.0.1", port=port, timeout=1)
            return [line for rrset in reply.answer for line in str(rrset).split("\n")]
        except (OSError, dns.exception.Timeout):
            if time.monotonic() > limit:
                raise
            time.sleep(0.05)


def test_a_client_gets_its_address(server: int) -> None:
    assert ask(server, "x.me.example", "A") == ["x.me.example. 0 IN A 127.0.0.1"]
    assert ask(server, "me.example", "AAAA") == []
    assert ask(server, "other.example", "A") == []


@pytest.mark.parametrize(("answer", "status"), [("192.0.2.7", 0), ("192.0.2.8", 1)])
def test_check_asks_it(tmp_path: Path, answer: str, status: int) -> None:
    path = corefile(tmp_path, f'test "me.example A from 192.0.2.7" expects {answer}')
    done = subprocess.run([FASTDNS, "check", path], capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stdout + done.stderr


def test_explain_shows_its_note(tmp_path: Path) -> None:
    words = [FASTDNS, "explain", "me.example", "-client", "192.0.2.7", "-json", "-conf", corefile(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert [(step["handler"], step["note"]) for step in json.loads(done.stdout)["steps"]] == [("clientip", "client is 192.0.2.7")]
