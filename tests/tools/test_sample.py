"""`make run` and `make ask`: the port that is free, and the truth about what is served."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.server import free_port
from tests.waiting import LIMIT, until
from tools import sample

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.skipif(not (ROOT / "setup.py").is_file(), reason="needs the source tree")

RUN = """
import sys
from pathlib import Path
from tools import sample
sample.PORT, sample.PORT_FILE = int(sys.argv[1]), Path(sys.argv[2])
sys.exit(sample.main(["run", sys.argv[3]]))
"""


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> int:
    """Another port than 5353, which may be in use where tests run."""
    port = free_port()
    monkeypatch.setattr(sample, "PORT", port)
    monkeypatch.setattr(sample, "PORT_FILE", tmp_path / "sample.port")
    return port


def test_ask_says_that_nothing_is_served(elsewhere: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert sample.main(["ask"]) == 1
    assert capsys.readouterr().err == f"nothing answers on 127.0.0.1:{elsewhere}: start `make run` first\n"


def test_ask_says_so_where_something_else_has_the_port(elsewhere: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sample, "TIMEOUT", 0.1)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", elsewhere))
        assert sample.main(["ask", "kubernetes.default.svc.cluster.local", "A"]) == 1
    assert "nothing answers" in capsys.readouterr().err


@pytest.mark.parametrize(("kind", "address"), [(socket.SOCK_DGRAM, "0.0.0.0"), (socket.SOCK_STREAM, "127.0.0.1")])
def test_the_next_port_is_taken_and_found(elsewhere: int, kind: socket.SocketKind, address: str, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket(socket.AF_INET, kind) as other:
        if kind == socket.SOCK_DGRAM:
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as mDNS responders do
        other.bind((address, elsewhere))
        program = str(Path(sys.executable).with_name("fastdns"))
        command = [sys.executable, "-c", RUN, str(elsewhere), str(sample.PORT_FILE), program]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as serving:
            try:
                until(lambda: sample.main(["ask", "kubernetes.default.svc.cluster.local", "A"]) == 0, "an answer")
                assert capsys.readouterr().out.splitlines()[-1] == "10.96.0.1"
                port = int(sample.PORT_FILE.read_text())
            finally:
                serving.terminate()
                said = serving.communicate(timeout=LIMIT)[0]
    assert port > elsewhere
    assert said.startswith(f"Port {elsewhere} is taken, perhaps by mDNS: the sample cluster is served on {port}.\n")
    assert not sample.PORT_FILE.exists()
