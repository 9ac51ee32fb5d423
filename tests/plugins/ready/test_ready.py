"""ready: which plugins are asked, and when no more."""

from __future__ import annotations

import signal
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from fastdns.corefile import CorefileError
from fastdns.httpd.message import Request
from fastdns.plugins.ready import PATIENCE, Readiness, parse
from fastdns.setup import Config, Controller
from tests.server import Server
from tests.waiting import REPLY

Serve = Callable[..., Server]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("ready", (":8181", None)),
        ("ready localhost:1234", ("localhost:1234", None)),
        ("ready :1 {\nmonitor until-ready\n}", (":1", False)),
        ("ready {\nmonitor continuously\n}", (":8181", True)),
    ],
)
def test_good(text: str, wanted: tuple[str, bool | None]) -> None:
    assert parse(Controller.of(text)) == wanted


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("ready bla", r"^address bla: missing port in address$"),
        ("ready a:1 b:1", r"Testfile:1 - Error during parsing: Wrong argument count"),
        ("ready {\nmonitor\n}", r"Testfile:2 - Error during parsing: Wrong argument count"),
        ("ready {\nmonitor often\n}", r"^monitor type 'often' not supported$"),
        ("ready {\nother\n}", r"Testfile:2 - Error during parsing: unknown property 'other'"),
        ("ready\nready", r"^this plugin can only be used once per Server Block$"),
    ],
)
def test_bad(text: str, error: str) -> None:
    with pytest.raises((CorefileError, ValueError), match=error):
        parse(Controller.of(text))


class Asked:
    """A plugin whose readiness the test sets."""

    def __init__(self, state: bool) -> None:
        self.state = state
        self.times = 0

    def ready(self) -> bool:
        self.times += 1
        return self.state


def block(**plugins: Asked) -> Config:
    config = Controller.of("ready").config
    config.handlers += [SimpleNamespace(name=name, plugin=asked) for name, asked in [*plugins.items(), ("cache", None)]]  # type: ignore[misc]
    return config


def page(readiness: Readiness) -> tuple[int, bytes]:
    reply = readiness.page(Request("GET", "/ready", {}))
    return reply.status, reply.body


def test_until_ready_a_plugin_is_asked_no_more() -> None:
    readiness, plugin = Readiness(), Asked(False)
    readiness.add(block(kubernetes=plugin))
    assert page(readiness) == (503, b"kubernetes")
    plugin.state = True
    assert page(readiness) == (200, b"OK")
    plugin.state = False
    assert page(readiness) == (200, b"OK")
    assert plugin.times == 2


def test_continuously_it_is_asked_for_ever() -> None:
    readiness, plugin = Readiness(), Asked(True)
    readiness.continuously = True
    readiness.add(block(kubernetes=plugin))
    assert page(readiness) == (200, b"OK")
    plugin.state = False
    assert page(readiness) == (503, b"kubernetes")


def test_names_are_sorted_and_the_later_block_has_its_way() -> None:
    readiness, first, later = Readiness(), Asked(False), Asked(True)
    readiness.add(block(zz=Asked(False), same=first))
    readiness.add(block(aa=Asked(False), same=later))
    assert page(readiness) == (503, b"aa,zz")
    assert first.times == 0


SLOW = """
import os
from fastdns._mux import NativeHandler

class Handler(NativeHandler):
    def ready(self):
        return os.path.exists("{dir}/ready")

def setup(controller):
    while controller.next():
        pass
    return Handler("slow")
"""


def status(server: Server) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.ports['port2']}/ready", timeout=REPLY) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


COREFILE = """.:{port} {
    bind 127.0.0.1
    ready 127.0.0.1:{port2}
    health 127.0.0.1:{port3} {
        lameduck 3s
    }
    plugin {dir}/slow.py
    whoami
}
b.test:{port} {
    bind 127.0.0.1
    ready 127.0.0.1:{port2}
    whoami
}
"""


def test_through_sockets(serve: Serve, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("plugin")
    (folder / "slow.py").write_text(SLOW.replace("{dir}", str(folder)))
    corefile = COREFILE.replace("{dir}", str(folder))
    server = serve(corefile)
    assert status(server) == (503, "slow")
    server.wait_log(r'^\[INFO\] plugin/ready: Plugins not ready: "slow"$')
    server.reload(corefile)
    assert status(server) == (503, "slow"), "no name twice after a reload"
    (folder / "ready").touch()
    assert status(server) == (200, "OK")
    (folder / "ready").unlink()
    assert status(server) == (200, "OK")
    server.reload(corefile.replace("port2}\n", "port2} {\n monitor continuously\n }\n"))
    assert status(server) == (503, "slow")
    (folder / "ready").touch()
    assert status(server) == (200, "OK")
    server.signal(signal.SIGTERM)
    server.wait_log("lameduck")
    assert status(server) == (503, "Shutting down")
    assert server.exit_status() == 0


EARLY = """
import socket
from fastdns._mux import NativeHandler
from fastdns.telemetry.log import write

class Handler(NativeHandler):
    state = False

    def ready(self):
        return self.state

def setup(controller):
    port, moment = controller.args(2, 2) if controller.next() else ()
    handler = Handler("early")
    client = socket.create_connection(("127.0.0.1", int(port)), 10)
    client.sendall(b"GET /ready HTTP/1.0\\r\\n\\r\\n")

    def read_reply():
        with client, client.makefile() as reply:
            write(f"reply: {reply.readline().strip()}")

    def be_ready():
        handler.state = True

    if moment == "waits":
        controller.on_startup(read_reply)
    controller.on_startup(be_ready)
    if moment != "waits":
        controller.on_started(read_reply)
    return handler
"""


@pytest.mark.parametrize(("moment", "reply"), [("goes-on", "200 OK"), ("waits", "503 Service Unavailable")])
def test_a_question_before_the_server_serves(serve: Serve, tmp_path_factory: pytest.TempPathFactory, moment: str, reply: str) -> None:
    """kubelet asks soon after the start, and then not for ten seconds. Its connection is taken at once, and answered when all is ready, or after PATIENCE."""
    folder = tmp_path_factory.mktemp("plugin")
    (folder / "early.py").write_text(EARLY)
    corefile = COREFILE.replace("slow.py", f"early.py {{port2}} {moment}").replace("{dir}", str(folder))
    server = serve(corefile)
    server.wait_log(f"^reply: HTTP/1.[01] {reply}$")
    assert status(server) == (200, "OK")


BRIEF = """
import os, signal
from fastdns._mux import NativeHandler

def setup(controller):
    while controller.next():
        pass

    def reload_without():
        if os.path.getsize("{dir}/pages"):
            open("{dir}/pages", "w").close()
            os.kill(os.getpid(), signal.SIGUSR1)

    controller.on_started(reload_without)
    return NativeHandler("brief")
"""


def test_a_page_that_a_reload_has_closed_stays_closed(serve: Serve, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Also where the reload comes before PATIENCE is over, with which the first configuration would have been opened."""
    folder = tmp_path_factory.mktemp("plugin")
    (folder / "brief.py").write_text(BRIEF.replace("{dir}", str(folder)))
    corefile = f".:{{port}} {{\n bind 127.0.0.1\n import {folder}/pages\n plugin {folder}/brief.py\n whoami\n}}\n"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        page = free.getsockname()
    (folder / "pages").write_text(f"ready 127.0.0.1:{page[1]}\n")
    server = serve(corefile)
    server.wait_log("Reloading complete$")
    time.sleep(2 * PATIENCE)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(page, REPLY)
