"""The life of the process: start, banner, hooks, signals, exit statuses, restarts (spec/corefile.md sections 9 to 13)."""

from __future__ import annotations

import os
import re
import resource
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import dns.exception
import dns.rcode
import pytest

from fastdns.setup import registry
from tests.server import Server, command, free_port
from tests.waiting import LIMIT, REPLY, until

Serve = Callable[..., Server]

#: A plugin file whose hooks log themselves; its arguments are those that fail, and whether the last one waits for a file `go`.
HOOKS = """
import os, time
from fastdns.telemetry.log import Log
from fastdns.plugin import Plugin
log = Log("plugin/hooks")
class Passing(Plugin):
    zones = []
    def __init__(self, name):
        self.name = name
    def serve(self, query):
        return None
    def close(self):
        log.info(f"{self.name} close")
def setup(controller):
    controller.next()
    name, *failing = controller.remaining_args()
    def hook(kind):
        def run():
            log.info(f"{name} {kind}")
            if kind in failing:
                raise ValueError(f"{kind} of {name} fails")
            while kind == "final_shutdown" and "slow" in failing and not os.path.exists("go"):
                time.sleep(0.01)
        return run
    log.info(f"{name} setup")
    for kind in ("first_startup", "startup", "started", "restart", "restart_failed", "shutdown", "final_shutdown"):
        getattr(controller, f"on_{kind}")(hook(kind))
    return Passing(name) if "closes" in failing else None
"""


@pytest.fixture
def hooks(tmp_path: Path) -> str:
    path = tmp_path / "hooks.py"
    path.write_text(HOOKS)
    return str(path)


def called(server: Server) -> list[str]:
    return re.findall(r"^\[INFO\] plugin/hooks: (.*)$", server.log(), re.M)


def corefile(hooks: str, name: str, *failing: str) -> str:
    return f".:{{port}} {{\n bind 127.0.0.1\n plugin {hooks} {name} {' '.join(failing)}\n whoami\n}}"


def answers(server: Server, name: str = "x.test.", port: str = "port", timeout: float = REPLY) -> bool:
    try:
        return bool(server.query(name, port=server.ports[port], timeout=timeout))
    except (dns.exception.Timeout, OSError):
        return False


# ---- start ----


def test_banner(serve: Serve) -> None:
    server = serve("b.org:{port} a.org:{port} {\n bind 127.0.0.1\n whoami\n}\n1x:{port} {\n bind 127.0.0.2\n}\n10.0.0.0/15:{port2} {\n bind 127.0.0.1\n}")
    one, two = server.ports["port"], server.ports["port2"]
    assert server.log().splitlines()[:6] == [
        f"a.org.:{one} on 127.0.0.1",
        f"b.org.:{one} on 127.0.0.1",
        'Warning: Domain "1x." does not follow RFC1035 preferred syntax',
        f"1x.:{one} on 127.0.0.2",
        f"0.10.in-addr.arpa.:{two} on 127.0.0.1",
        f"1.10.in-addr.arpa.:{two} on 127.0.0.1",
    ]
    assert re.fullmatch(r"fastdns-\S+\nlinux/\S+, \S+, \S*", "\n".join(server.log().splitlines()[6:]))


def test_wildcard_serves_both_families(serve: Serve) -> None:
    server = serve(".:{port} {\n whoami\n}")
    assert f".:{server.port}\n" in server.log()
    for tcp in (False, True):
        assert server.query("x.test.", tcp=tcp).additional
        assert server.query("x.test.", tcp=tcp, host="::1").additional


def test_quiet_and_pidfile(serve: Serve) -> None:
    server = serve(".:{port} {\n bind 127.0.0.1\n whoami\n}", "-quiet", "-pidfile", "{dir}/pid", wait=False)
    pidfile = server.folder / "pid"
    until(lambda: pidfile.exists() and pidfile.read_text())
    assert pidfile.read_text() == f"{server.process.pid}\n"
    assert pidfile.stat().st_mode & 0o777 == 0o644 & ~_umask()
    assert answers(server)
    assert server.stop() == 0
    assert not pidfile.exists()
    assert server.log() == "[INFO] SIGTERM: Shutting down servers then terminating\n"


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_pidfile_that_cannot_be_written(serve: Serve) -> None:
    server = serve(".:{port} {\n bind 127.0.0.1\n}", "-pidfile", "{dir}/no/pid")
    server.wait_log(r"^\[ERROR\] Could not write pidfile: open \S+/no/pid: no such file or directory$")
    assert answers(server)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (". {\n whoami x\n}", r"^plugin/whoami: \S+/Corefile:2 - Error during parsing: Wrong argument count or unexpected line ending after 'x'$"),
        (". {\n bind\n}", r"^plugin/bind: at least one address or interface name is expected$"),
        ("a.org:99999 {\n}", r"^address 99999: invalid port$"),
        (".:{port} {\n bind 192.0.2.123\n}", r"^Listen: listen tcp 192\.0\.2\.123:\d+: bind: cannot assign requested address$"),
        (". {\n nosuch\n}", r"^\S+/Corefile:2 - Error during parsing: Unknown directive 'nosuch'$"),
    ],
)
def test_refused(serve: Serve, text: str, message: str) -> None:
    server = serve(text, wait=False)
    assert server.exit_status() == 1
    assert re.fullmatch(message, server.log().rstrip("\n")), server.log()


def test_address_in_use(serve: Serve) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        server = serve(f".:{port} {{\n bind 127.0.0.1\n}}", wait=False)
        assert server.exit_status() == 1
        assert server.log() == f"Listen: listen tcp 127.0.0.1:{port}: bind: address already in use\n"


def test_a_start_that_fails_is_undone(serve: Serve, hooks: str) -> None:
    text = f".:{{port}} {{\n bind 127.0.0.1\n plugin {hooks} one closes\n whoami\n}}\na:{{port2}} {{\n bind 192.0.2.123\n}}\n"
    server = serve(text, wait=False)
    assert server.exit_status() == 1
    assert called(server) == ["one setup", "one first_startup", "one startup", "one shutdown", "one close"]


def test_startup_hook_that_fails(serve: Serve, hooks: str) -> None:
    server = serve(corefile(hooks, "one", "startup"), wait=False)
    assert server.exit_status() == 1
    assert called(server)[-2:] == ["one startup", "one shutdown"], "its first_startup has run"
    assert server.log().splitlines()[-1] == "startup of one fails"


@pytest.mark.parametrize("text", ["unix:///tmp/x {\n}", ".:{port} {\n bind 127.0.0.1 {\n  except 127.0.0.1\n }\n whoami\n}"])
def test_nothing_to_listen_on(serve: Serve, text: str) -> None:
    server = serve(text, wait=False)
    assert server.exit_status() == 0
    assert re.fullmatch(r"fastdns-\S+\nlinux/.*\n", server.log())


def test_corefile_in_the_working_directory_and_on_standard_input(tmp_path: Path) -> None:
    port = free_port()
    (tmp_path / "Corefile").write_text(f"a.org:{port} {{\n bind 127.0.0.1\n}}\n")
    piped = f"b.org:{port} {{\n bind 127.0.0.1\n}}\n".encode()
    for words, stdin, zone in ([], b"", "a.org"), (["-conf", "stdin"], piped, "b.org"):
        process = subprocess.Popen([*command(), *words], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(stdin)
        process.stdin.close()
        assert process.stdout.readline() == f"{zone}.:{port} on 127.0.0.1\n".encode()
        process.terminate()
        process.stdout.read()
        process.stdout.close()
        assert process.wait(LIMIT) == 0


def test_built_in_corefile(tmp_path: Path) -> None:
    if "log" not in registry.built():
        pytest.skip("the directive log is not built")
    port = str(free_port())
    process = subprocess.Popen([*command(), "-p", port], cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == f".:{port}\n".encode()
    while not process.stdout.readline().startswith(b"linux/"):
        pass
    process.send_signal(signal.SIGUSR1)
    assert process.stdout.readline() == b"[INFO] SIGUSR1: Reloading\n"
    assert process.stdout.readline() == b"[ERROR] SIGUSR1: no Caddyfile loader with which to reload Caddyfile\n"
    process.terminate()
    process.stdout.read()
    process.stdout.close()
    assert process.wait(LIMIT) == 0


@pytest.mark.parametrize("text", ["", "# nothing\n", "(snippet) {\n whoami\n}\n"])
def test_corefile_without_blocks(serve: Serve, text: str) -> None:
    if "log" not in registry.built():
        pytest.skip("the directive log is not built")
    server = serve(text, "-p", "{port}")
    assert f".:{server.port}\n" in server.log()


@pytest.mark.memory
def test_small_at_rest(serve: Serve, tmp_path: Path) -> None:
    """No module that costs memory and is not needed is imported, and the process stays small."""
    path = tmp_path / "modules.py"
    path.write_text(
        "import sys\nfrom fastdns.telemetry.log import write\n"
        "def setup(controller):\n controller.on_started(lambda: write('modules ' + ' '.join(sys.modules)))\n"
    )
    server = serve(f".:{{port}} {{\n bind 127.0.0.1\n whoami\n reload\n plugin {path}\n}}")
    loaded = set(server.wait_log(r"^modules (.*)$")[1].split())
    assert not loaded & {"asyncio", "ssl", "email", "http", "argparse", "inspect", "msgspec", "dnslib", "dns", "yaml", "kubernetes", "uvloop", "ctypes"}
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert found is not None
    assert int(found[1]) < 45_000


@pytest.mark.parametrize("zone", ["ȶ", "a\\.b.org", "xyz://a.org", "10.0.0.0/33", "}", ".".join(["x" * 63] * 3 + ["x" * 61])])
def test_odd_zones_are_served(serve: Serve, zone: str) -> None:
    server = serve(f"{zone}:{{port}} {{\n bind 127.0.0.1\n whoami\n}}")
    assert f"{zone}.:{server.port} on 127.0.0.1" in server.log().splitlines()
    assert answers(server)


def test_start_after_a_kill(serve: Serve) -> None:
    """Nothing that a killed server leaves behind, not even its pid file, keeps the next one from serving."""
    server = serve(".:{port} {\n bind 127.0.0.1\n whoami\n}", "-pidfile", "{dir}/pid")
    server.process.kill()
    server.process.wait()
    assert (server.folder / "pid").exists()
    again = serve(f".:{server.port} {{\n bind 127.0.0.1\n whoami\n}}", "-pidfile", str(server.folder / "pid"))
    again.ports["port"] = server.port
    assert answers(again)
    assert (server.folder / "pid").read_text() == f"{again.process.pid}\n"


def test_ending_before_the_start_is_done(serve: Serve, tmp_path: Path) -> None:
    path = tmp_path / "waits.py"
    path.write_text("import time\nfrom fastdns.telemetry.log import write\ndef setup(controller):\n write('waiting')\n while True:\n  time.sleep(0.05)\n")
    for number in (signal.SIGTERM, signal.SIGINT):
        server = serve(f".:{{port}} {{\n plugin {path}\n}}", wait=False)
        server.wait_log("^waiting$")
        server.signal(number)
        assert server.exit_status() == 0, server.log()


# ---- the end ----


def test_shutdown_hooks_run_while_serving(serve: Serve, hooks: str) -> None:
    server = serve(corefile(hooks, "one", "slow"))
    server.signal(signal.SIGTERM)
    server.wait_log("one final_shutdown")
    assert answers(server)
    (server.folder / "go").touch()
    assert server.exit_status() == 0
    assert called(server) == [f"one {kind}" for kind in ("setup", "first_startup", "startup", "started", "shutdown", "final_shutdown")]


def test_python_plugins_are_closed_at_the_end_and_when_replaced(serve: Serve, tmp_path: Path) -> None:
    path = tmp_path / "closes.py"
    path.write_text(
        "from fastdns.plugin import Log, PASS, Plugin\n"
        "class Closes(Plugin):\n"
        " def serve(self, query): return query.reply('A 192.0.2.1')\n"
        " def close(self): Log().info('closed')\n"
        "def setup(controller): return Closes()\n"
    )
    text = f".:{{port}} {{\n bind 127.0.0.1\n plugin {path}\n}}"
    server = serve(text)
    assert server.answers("x.test.") == ["192.0.2.1"]
    server.reload(text)
    until(lambda: server.log().count("[INFO] closed") == 1)
    assert server.answers("x.test.") == ["192.0.2.1"]
    server.signal(signal.SIGTERM)
    assert server.exit_status() == 0
    assert server.log().count("[INFO] closed") == 2


@pytest.mark.parametrize(
    ("number", "message", "status"),
    [
        (signal.SIGTERM, "[INFO] SIGTERM: Shutting down servers then terminating", 0),
        (signal.SIGINT, "[INFO] SIGINT: Shutting down", 0),
        (signal.SIGQUIT, "[INFO] SIGQUIT: Quitting process immediately", 0),
    ],
)
def test_signals_that_end_it(serve: Serve, hooks: str, number: signal.Signals, message: str, status: int) -> None:
    server = serve(corefile(hooks, "one"), "-pidfile", "{dir}/pid")
    server.signal(number)
    assert server.exit_status() == status
    assert message in server.log().splitlines()
    assert ("one final_shutdown" in called(server)) == (number != signal.SIGQUIT)
    assert not (server.folder / "pid").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_shutdown_hook_that_fails(serve: Serve, hooks: str, number: signal.Signals) -> None:
    server = serve(corefile(hooks, "one", "shutdown"))
    server.signal(number)
    assert server.exit_status() == 4
    assert f"[ERROR] {number.name} shutdown: shutdown of one fails" in server.log().splitlines()
    assert "one final_shutdown" in called(server)


@pytest.mark.skipif("FASTDNS_SANITIZED" in os.environ, reason="the sanitizers need address space of their own")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_out_of_address_space(serve: Serve, number: signal.Signals) -> None:
    """No thread can be made any more: what is served is served on, a reload is refused, and the process ends."""
    server = serve(".:{port} {\n bind 127.0.0.1\n whoami\n}", "-pidfile", "{dir}/pid")
    pages = int((Path("/proc") / str(server.process.pid) / "statm").read_text().split()[0])
    limit = pages * resource.getpagesize()
    resource.prlimit(server.process.pid, resource.RLIMIT_AS, (limit, limit))
    server.signal(signal.SIGUSR1)
    server.wait_log("SIGUSR1: Reloading")
    assert answers(server)
    server.signal(number)
    # Python waits for ever for a thread that begins and then has no memory for its first object: that is the watchdog's.
    status = server.exit_status()
    assert status in (0, 3)
    assert (server.folder / "pid").exists() == (status == 3)


@pytest.mark.slow
def test_a_control_side_that_hangs_is_killed(serve: Serve, tmp_path: Path) -> None:
    """Nothing of Python runs any more: queries are answered until the watchdog ends it, after 20 s."""
    path = tmp_path / "hangs.py"
    path.write_text(
        "import ctypes, threading\n"
        "def hang():\n"
        " libc, mutex = ctypes.PyDLL(None), ctypes.create_string_buffer(128)\n"
        " libc.pthread_mutex_lock(mutex)\n"
        " libc.pthread_mutex_lock(mutex)\n"
        "def setup(controller): controller.on_started(lambda: threading.Timer(1, hang).start())\n"
    )
    server = serve(f".:{{port}} {{\n bind 127.0.0.1\n plugin {path}\n whoami\n}}")
    time.sleep(2)
    server.signal(signal.SIGTERM)
    assert answers(server)
    assert server.process.wait(60) == 3
    assert "[ERROR] The process did not end in time: killed" in server.log().splitlines()


def test_second_interrupt_forces_the_end(serve: Serve, hooks: str) -> None:
    server = serve(corefile(hooks, "one", "slow"), "-pidfile", "{dir}/pid")
    server.signal(signal.SIGINT)
    server.wait_log("one final_shutdown")
    assert not (server.folder / "pid").exists()
    server.signal(signal.SIGINT)
    assert server.exit_status() == 2
    assert "[INFO] SIGINT: Force quit" in server.log().splitlines()


def test_hangup_is_ignored(serve: Serve) -> None:
    server = serve(".:{port} {\n bind 127.0.0.1\n}")
    server.signal(signal.SIGHUP)
    assert answers(server)
    server.signal(signal.SIGUSR1)  # which comes after it
    server.wait_log("Reloading complete")
    assert answers(server)


# ---- restart ----


def test_restart_runs_hooks_in_order(serve: Serve, hooks: str) -> None:
    server = serve(corefile(hooks, "one"))
    before = called(server)
    server.reload(corefile(hooks, "two"))
    assert called(server)[len(before) :] == ["one restart", "two setup", "two startup", "one shutdown", "two started"]
    lines = server.log().splitlines()
    assert lines[-1] == "[INFO] Reloading complete"
    assert lines.index("[INFO] SIGUSR1: Reloading") == lines.index("[INFO] Reloading") - 1
    assert len([line for line in lines if line.startswith("fastdns-")]) == 1
    assert answers(server)
    server.signal(signal.SIGTERM)
    assert server.exit_status() == 0
    assert called(server)[-2:] == ["two shutdown", "two final_shutdown"]


FAILURES = [
    ("one", ["restart"], "two", [], ["one restart", "one restart_failed"], "restart of one fails"),
    ("one", [], "two", ["startup"], ["one restart", "two setup", "two startup", "one restart_failed"], "startup of two fails"),
]


@pytest.mark.parametrize(("old", "old_fails", "new", "new_fails", "expected", "message"), FAILURES)
def test_restart_that_fails(
    serve: Serve, hooks: str, old: str, old_fails: list[str], new: str, new_fails: list[str], expected: list[str], message: str
) -> None:
    server = serve(corefile(hooks, old, *old_fails))
    before = called(server)
    server.write(corefile(hooks, new, *new_fails))
    server.signal(signal.SIGUSR1)
    server.wait_log(rf"^\[ERROR\] SIGUSR1: starting with listener file descriptors: {message}$")
    assert f"[ERROR] Restart failed: {message}" in server.log().splitlines()
    assert called(server)[len(before) :] == expected
    assert answers(server)


UNDONE = [
    # (the new Corefile's plugins, more of it, what is called)
    (["two closes", "three closes startup"], "", ["two setup", "three setup", "two startup", "three startup", "two shutdown", "two close", "three close"]),
    (["two startup closes", "three closes"], "", ["two setup", "three setup", "two startup", "two close", "three close"]),
    (["two closes"], ".:{port2} {\n bind 192.0.2.123\n}\n", ["two setup", "two startup", "two shutdown", "two close"]),
    (["two shutdown closes", "three closes"], "a:{port2} {\n bind 192.0.2.123\n}\n",
     ["two setup", "three setup", "two startup", "three startup", "two shutdown", "three shutdown", "two close", "three close"]),
    (["two closes"], "a:{port} {\n bind 127.0.0.1\n errors x\n}\n", []),
    (["two closes"], "a:{port} {\n bind 127.0.0.1\n plugin {dir}/gone.py\n}\n", []),
    (["two closes"], "a:{port} {\n bind 127.0.0.1\n forward . x\n}\n", ["two setup", "two close"]),
]  # fmt: skip


@pytest.mark.parametrize(("plugins", "more", "expected"), UNDONE)
def test_what_a_refused_configuration_started_is_undone(serve: Serve, hooks: str, plugins: list[str], more: str, expected: list[str]) -> None:
    """The hooks and `close` of those that had started, no other's, before the old configuration goes on."""
    lines = "".join(f" plugin {hooks} {plugin}\n" for plugin in plugins)
    text = f".:{{port}} {{\n bind 127.0.0.1\n{lines} whoami\n}}\n{more}"
    server = serve(corefile(hooks, "one"))
    before = called(server)
    server.write(text)
    server.signal(signal.SIGUSR1)
    server.wait_log(r"^\[ERROR\] SIGUSR1: starting with listener file descriptors: ")
    assert called(server)[len(before) :] == ["one restart", *expected, "one restart_failed"]
    assert answers(server)


def test_restart_opens_and_closes_addresses(serve: Serve) -> None:
    server = serve("a.org:{port} {\n bind 127.0.0.1\n whoami\n}\n.:{port2} {\n bind 127.0.0.1\n whoami\n}")
    assert answers(server, port="port2")
    server.reload("a.org:{port} {\n bind 127.0.0.1\n whoami\n}\n.:{port3} {\n bind 127.0.0.1\n whoami\n}")
    assert answers(server, "a.org.")
    assert answers(server, port="port3")
    until(lambda: not answers(server, port="port2", timeout=1.0), "the end of the old address")

    def free() -> bool:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.bind(("127.0.0.1", server.ports["port2"]))
            except OSError:
                return False
        return True

    until(free, "that the port is free again, for anyone")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a.org:{port} {", r"\S+/Corefile:1 - (Error|Syntax error).*"),
        (".:{port} {\n whoami x\n}", r"plugin/whoami: \S+/Corefile:2 - Error during parsing: Wrong argument count.*"),
        (".:{port} {\n bind 127.0.0.1\n}\n.:{port} {\n bind 192.0.2.123\n}", r"Listen: listen tcp 192\.0\.2\.123:.*"),
    ],
)
def test_corefile_that_does_not_load_changes_nothing(serve: Serve, text: str, message: str) -> None:
    server = serve(".:{port} {\n bind 127.0.0.1\n whoami\n}")
    descriptors = server.descriptors()
    server.write(text)
    for _ in range(3):
        start = len(server.log())
        server.signal(signal.SIGUSR1)
        server.wait_log(rf"^\[ERROR\] Restart failed: {message}$", start=start)
        server.wait_log(rf"^\[ERROR\] SIGUSR1: starting with listener file descriptors: {message}$", start=start)
        assert answers(server)
    until(lambda: server.descriptors() == descriptors, "that all it opened is closed")
    server.reload("a.org:{port} {\n bind 127.0.0.1\n whoami\n}")
    assert answers(server, "a.org.")


def test_imports_that_match_nothing_are_a_warning_each_time_the_corefile_is_loaded(serve: Serve) -> None:
    """What an optional ConfigMap leaves of `import custom/*.override` while it is not there; `reload` looks without a word."""
    warnings = [f"[WARNING] No files matching import glob pattern: custom/*.{kind}" for kind in ("override", "server")]
    text = ".:{port} {\n bind 127.0.0.1\n whoami\n reload 2s 0\n import custom/*.override\n}\nimport custom/*.server\n"
    server = serve(text)

    def told() -> list[str]:
        return [line for line in server.log().splitlines() if line.startswith("[WARNING]")]

    assert told() == warnings
    assert answers(server)
    (server.folder / "custom").mkdir()
    (server.folder / "custom" / "more.server").write_text(f"more.test:{server.ports['port']} {{\n bind 127.0.0.1\n}}\n")
    server.wait_log("Reloading complete")  # by a look, two seconds from the last at the least
    assert told() == [*warnings, warnings[0]]
    assert server.query("a.more.test.").rcode() == dns.rcode.REFUSED


def test_corefile_that_is_gone(serve: Serve) -> None:
    server = serve(".:{port} {\n bind 127.0.0.1\n whoami\n}")
    server.corefile.unlink()
    server.signal(signal.SIGUSR1)
    server.wait_log(r"^\[ERROR\] SIGUSR1: loading updated Caddyfile: open \S+/Corefile: no such file or directory$")
    assert answers(server)


def test_many_restarts_leave_nothing_behind(serve: Serve) -> None:
    text = ".:{port} {\n bind 127.0.0.1\n whoami\n}\n"
    server = serve(text)
    server.reload(text)
    descriptors = server.descriptors()
    for number in range(30):
        server.reload(f"{text}x{number}.org:{{port2}} {{\n bind 127.0.0.1\n}}\n")
    server.reload(text)
    until(lambda: server.descriptors() <= descriptors, "the end of what reloads replaced")
    assert answers(server)


def test_restart_loses_no_query(serve: Serve) -> None:
    server = serve(".:{port} {\n bind 127.0.0.1\n whoami\n}")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.connect(("127.0.0.1", server.port))
        client.settimeout(REPLY)
        for number in range(300):
            if number % 100 == 50:
                server.signal(signal.SIGUSR1)
            client.send(number.to_bytes(2, "big") + bytes.fromhex("0100000100000000000001610000010001"))
            assert client.recv(512)[:2] == number.to_bytes(2, "big")
    server.wait_log("Reloading complete")


# ---- upgrade ----


def test_upgrade(serve: Serve) -> None:
    server = serve(".:{port} {\n bind 127.0.0.1\n whoami\n}", "-pidfile", "{dir}/pid")
    pidfile = server.folder / "pid"
    first = server.process.pid
    server.signal(signal.SIGUSR2)
    server.wait_log(r"^\[INFO\] SIGUSR2: Upgrading\n\[INFO\] Upgrading\n(.*\n)*\[INFO\] Upgrade finished$")
    assert server.exit_status() == 0
    second = int(pidfile.read_text())
    try:
        assert second != first
        assert answers(server)
        assert len(re.findall(r"^fastdns-", server.log(), re.M)) == 2
        # And it is as good as the first one.
        os.kill(second, signal.SIGUSR1)
        until(lambda: "Reloading complete" in server.log())
        assert answers(server)
    finally:
        os.kill(second, signal.SIGTERM)
    until(lambda: not pidfile.exists())


def test_an_upgrade_after_a_refused_reload_serves_what_was_served(serve: Serve) -> None:
    corefile = ".:{port} {\n bind 127.0.0.1\n whoami\n}\n"
    server = serve(corefile)
    server.write(corefile + "b.test:{port} {\n nosuch\n}\n")
    server.signal(signal.SIGUSR1)
    server.wait_log(r"SIGUSR1: starting with listener file descriptors: .*nosuch")
    server.signal(signal.SIGUSR2)
    server.wait_log(r"^\[INFO\] Upgrade finished$")
    assert server.exit_status() == 0
    assert answers(server)


def test_upgrade_that_fails(serve: Serve) -> None:
    server = serve(".:{port} {\n bind 127.0.0.1\n whoami\n}\nimport more\n", wait=False)
    server.stop()
    more = server.folder / "more"
    more.write_text(f"a.org:{free_port()} {{\n}}\n")
    again = serve(f".:{{port}} {{\n bind 127.0.0.1\n whoami\n}}\nimport {more}\n")
    more.write_text("nosuch {\n nosuch\n}\n")
    again.signal(signal.SIGUSR2)
    again.wait_log(r"^\[ERROR\] SIGUSR2: the new process did not start to serve$")
    assert answers(again)


def test_the_soft_limit_of_descriptors_is_raised(serve: Callable[..., Server]) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 256), hard))
    try:
        server = serve(".:{port} {\n    bind 127.0.0.1\n    whoami\n}\n")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    limits = Path(f"/proc/{server.process.pid}/limits").read_text()
    assert re.search(rf"Max open files\s+{hard}\s+{hard}", limits), limits
