"""Signals during the start: none is lost, and none that does not end a server ends it."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.server import Server
from tests.waiting import LIMIT, until

Serve = Callable[..., Server]

ROOT = Path(__file__).parents[2]
COREFILE = ".:{port} {\n    hosts {\n        192.0.2.1 www.example.org\n    }\n}\n"

#: Runs a module's `main`, and sends itself a signal at each import from the entry point's first statement on, or only at one of them.
AT_IMPORTS = """
import _signal, os, sys
module, number, at = sys.argv.pop(1), int(sys.argv.pop(1)), int(sys.argv.pop(1))
count = 0

class Sender:
    @staticmethod
    def find_spec(name, path=None, target=None):
        global count
        count += 1
        if at in (-1, count):
            os.kill(os.getpid(), number)

entry = __import__(module, fromlist=["main"])
install = entry.early.install
def begin():
    install()
    sys.meta_path.insert(0, Sender)
entry.early.install = begin
entry.main()
"""
BLOCKED = {signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP, signal.SIGTERM, signal.SIGINT, signal.SIGQUIT}


@pytest.fixture
def sending(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """``sending(module, number, at)``: servers send themselves a signal at an import, counted from 1; -1: at each."""
    script = tmp_path / "sending.py"
    script.write_text(AT_IMPORTS)

    def use(number: signal.Signals, at: int = -1) -> None:
        monkeypatch.setenv("FASTDNS_BIN", f"{sys.executable} {script} fastdns.server.cli {number} {at}")

    return use


def test_a_reload_that_is_asked_for_at_every_moment_of_the_start_is_carried_out(serve: Serve, sending: Callable[..., None]) -> None:
    sending(signal.SIGUSR1)
    server = serve(COREFILE)
    server.wait_log(r"^\[INFO\] Reloading complete$")
    assert server.answers("www.example.org.") == ["192.0.2.1"]
    assert server.log().count("SIGUSR1: Reloading") <= 2  # the first one, and one for all that came while it waited


def test_hangups_are_ignored_at_every_moment_of_the_start(serve: Serve, sending: Callable[..., None]) -> None:
    sending(signal.SIGHUP)
    assert serve(COREFILE).answers("www.example.org.") == ["192.0.2.1"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT])
@pytest.mark.parametrize("at", [1, 20, 100])
def test_an_end_that_is_asked_for_amid_the_start_is_one_with_status_0(serve: Serve, sending: Callable[..., None], number: signal.Signals, at: int) -> None:
    sending(number, at)
    server = serve(COREFILE, wait=False)
    assert server.exit_status() == 0
    assert "Traceback" not in server.log()


def held(*numbers: signal.Signals) -> Callable[[], None]:
    """For a child before it becomes another program: as a launcher it blocks signals, of which some have come."""

    def hold() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, BLOCKED)
        for number in numbers:
            os.kill(os.getpid(), number)

    return hold


@pytest.mark.parametrize("command", [["-m", "fastdns"], ["-c", "from fastdns.server.cli import main; main()"]], ids=["module", "script"])
@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGUSR2])
def test_signals_that_a_launcher_has_blocked_are_carried_out(tmp_path: Path, command: list[str], number: signal.Signals) -> None:
    """Both come before the interpreter has begun."""
    corefile, log = tmp_path / "Corefile", tmp_path / "log"
    corefile.write_text(".:0 {\n    whoami\n}\n")
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, *command, "-conf", str(corefile), "-pidfile", str(tmp_path / "pid")],
            stdout=output,
            stderr=output,
            preexec_fn=held(number),
        )
    try:
        wanted = "Reloading complete" if number == signal.SIGUSR1 else "Upgrade finished"
        until(lambda: wanted in log.read_text() or process.poll() is not None, "it")
        assert wanted in log.read_text()
    finally:
        pid = tmp_path / "pid"
        successor = int(pid.read_text()) if pid.exists() else process.pid  # of SIGUSR2
        os.kill(successor, signal.SIGTERM)
        if successor != process.pid:
            until(lambda: not Path(f"/proc/{successor}").exists(), "the end of the process that took over")
        assert process.wait(LIMIT) == 0


@pytest.mark.parametrize("module", ["fastdns", "fastdns.node"])
def test_nothing_ends_a_command_before_its_first_statement_but_an_end(module: str) -> None:
    """SIGUSR1, SIGUSR2 and SIGHUP come first, then SIGTERM: the end is one with status 0."""
    numbers = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP, signal.SIGTERM)
    done = subprocess.run([sys.executable, "-m", module], preexec_fn=held(*numbers), capture_output=True, timeout=LIMIT, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_commands_end_at_a_signal_as_programs_do(tmp_path: Path) -> None:
    """`fastdns check` reads a pipe that nobody writes to."""
    os.mkfifo(tmp_path / "Corefile")
    process = subprocess.Popen([sys.executable, "-m", "fastdns", "check", "-conf", str(tmp_path / "Corefile")], stderr=subprocess.PIPE)
    with (tmp_path / "Corefile").open("wb"):  # it has opened the pipe by then
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT) == -signal.SIGTERM
    assert process.stderr is not None
    process.stderr.close()


@pytest.fixture(scope="module")
def launcher(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The program of the container image, of this interpreter."""
    folder, version = sysconfig.get_config_var("LIBDIR"), sysconfig.get_config_var("LDVERSION")
    if not sysconfig.get_config_var("Py_ENABLE_SHARED") or shutil.which("cc") is None:
        pytest.skip("needs libpython as a shared library, and a C compiler")
    made = str(tmp_path_factory.mktemp("launcher") / "coredns")
    names = [f'-DFASTDNS_PYTHON="{sys.executable}"', f"-I{sysconfig.get_path('include')}"]
    libraries = [f"-L{folder}", f"-Wl,-rpath,{folder}", "-Wl,--export-dynamic", f"-lpython{version}"]
    subprocess.run(["cc", "-Wall", "-Werror", *names, "-o", made, str(ROOT / "deploy" / "launcher.c"), *libraries], check=True)
    return made


def test_the_image_blocks_signals_before_the_interpreter_begins(serve: Serve, launcher: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One comes each millisecond until the server serves."""
    monkeypatch.setenv("FASTDNS_BIN", launcher)
    server = serve(COREFILE, wait=False)
    until(lambda: blocks(server.pid, signal.SIGUSR1), "the launcher's first statement")
    while "linux/" not in server.log():
        server.signal(signal.SIGUSR1)
        server.signal(signal.SIGHUP)
        time.sleep(0.001)
    server.wait_log(r"^\[INFO\] Reloading complete$")
    assert server.answers("www.example.org.") == ["192.0.2.1"]
    assert not blocks(server.pid, signal.SIGUSR1)
    assert server.stop() == 0


def blocks(pid: int, number: signal.Signals) -> bool:
    """Whether the main thread of a process blocks a signal."""
    masks = re.search(r"^SigBlk:\s*([0-9a-f]+)$", Path(f"/proc/{pid}/status").read_text(), re.M)
    assert masks is not None
    return bool(int(masks[1], 16) >> (number - 1) & 1)
