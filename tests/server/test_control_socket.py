"""The address of the control socket: a private folder, else the abstract namespace, where others may have bound the name."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fastdns.server import control
from fastdns.server.control import address as control_socket
from tests.server import Server
from tests.waiting import LIMIT, until

#: A process that listens on its own name until its client closes; an argument is the user that it becomes.
SQUATTER = f"""
import os, socket, sys
listener = socket.socket(socket.AF_UNIX)
listener.bind({control_socket.NAME!r} + str(os.getpid()))
if len(sys.argv) > 1:
    os.setuid(int(sys.argv[1]))
listener.listen()
print(flush=True)
while True:
    listener.accept()[0].recv(1)
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of sockets, of which no other process of this machine knows."""
    folder = tmp_path / "run"
    monkeypatch.setattr(control_socket, "RUN", str(folder))
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    return folder


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names of other tests' servers do not count."""
    monkeypatch.setattr(control_socket, "NAME", f"\0fastdns-control-{os.getpid()}/")


@pytest.fixture
def squatter(alone: None) -> Iterator[Callable[..., int]]:
    started: list[subprocess.Popen[str]] = []

    def squat(*user: str) -> int:
        code = SQUATTER.replace(repr("\0fastdns-control/"), repr(control_socket.NAME))
        process = subprocess.Popen([sys.executable, "-c", code, *user], stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "\n"
        return process.pid

    yield squat
    for process in started:
        process.kill()
        process.communicate()


def test_a_private_folder_is_the_first_choice(run: Path) -> None:
    run.mkdir(mode=0o755)
    with control_socket.listen() as listener:
        path = run / str(os.getpid())
        assert listener.getsockname() == str(path)
        with control_socket.connect(os.getpid(), LIMIT) as connection:
            assert connection.getpeername() == str(path)
        control_socket.remove(listener)
        assert list(run.iterdir()) == []


def test_a_folder_that_others_can_write_holds_one_of_our_own(run: Path) -> None:
    """A volume of a pod is everybody's."""
    run.mkdir()
    run.chmod(0o777)
    with control_socket.listen() as listener:
        assert listener.getsockname() == str(run / str(os.geteuid()) / str(os.getpid()))
        control_socket.connect(os.getpid(), LIMIT).close()
        (run / str(os.geteuid())).chmod(0o777)
        with pytest.raises(ValueError, match=rf"^no server with process id {os.getpid()} runs here$"):
            control_socket.connect(os.getpid(), LIMIT)


def test_without_a_folder_the_name_is_abstract(run: Path, alone: None) -> None:
    run.write_text("no folder")
    with control_socket.listen() as listener:
        assert listener.getsockname() == f"{control_socket.NAME}{os.getpid()}".encode()
        control_socket.connect(0, LIMIT).close()


def test_sockets_of_ended_processes_go(run: Path) -> None:
    run.mkdir(mode=0o755)
    with subprocess.Popen(["true"]) as ended:
        ended.wait(LIMIT)
    for name in (str(ended.pid), str(os.getpid())):
        with socket.socket(socket.AF_UNIX) as former:
            former.bind(str(run / name))
    control_socket.listen().close()
    assert [path.name for path in run.iterdir()] == [str(os.getpid())]


def test_a_name_of_another_process_is_not_believed(run: Path, alone: None) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(f"{control_socket.NAME}1")
        listener.listen()
        with pytest.raises(ValueError, match=rf"^the control socket of process 1 is held by process {os.getpid()} of user {os.getuid()}$"):
            control.ask({}, 1)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become other users")
def test_other_users_do_not_hide_the_server(run: Path, squatter: Callable[..., int]) -> None:
    """Their names are passed over, so that the only server needs no -pid, and each is refused by its own."""
    strange = [squatter("65534"), squatter("65533")]
    with pytest.raises(ValueError, match=rf"^the control socket of process {strange[0]} is held by process {strange[0]} of user 65534$"):
        control_socket.connect(strange[0], LIMIT)
    with pytest.raises(ValueError, match=r"^no server runs here; -conf explains a Corefile$"):
        control_socket.connect(0, LIMIT)
    own = squatter()
    with control_socket.connect(0, LIMIT) as connection:
        assert connection.getpeername() == f"{control_socket.NAME}{own}".encode()
    other = squatter()
    with pytest.raises(ValueError, match=rf"^several servers run here, name one by -pid: {' '.join(map(str, sorted((own, other))))}$"):
        control_socket.connect(0, LIMIT)


def test_a_process_that_accepts_nobody_delays_nobody(run: Path, squatter: Callable[..., int]) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as deaf, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as first:
        deaf.bind(f"{control_socket.NAME}1")
        deaf.listen(0)
        first.connect(deaf.getsockname())
        own = squatter()
        with control_socket.connect(0, 1e6) as connection:
            assert connection.getpeername() == f"{control_socket.NAME}{own}".encode()


def test_the_socket_of_a_server_goes_with_it(serve: Callable[..., Server], tmp_path: Path) -> None:
    """The folder of the user's session; a root server may have /run/fastdns instead."""
    server = serve(".:{port} {\n    whoami\n}", env={"XDG_RUNTIME_DIR": str(tmp_path)})
    pid = server.process.pid
    folders = [Path(control_socket.RUN), tmp_path / "fastdns"]

    def sockets() -> list[Path]:
        return [path for folder in folders for path in folder.rglob(str(pid)) if path.is_socket()]

    until(lambda: len(sockets()) == 1, "the socket")
    server.stop()
    assert sockets() == []
