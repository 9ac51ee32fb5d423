"""R29: no thread can be started, as where a pod has as many tasks as its cgroup lets it have."""

from __future__ import annotations

import signal
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.certificates import client_context, write_certificates
from tests.preload import Preload, environment
from tests.server import Server
from tests.waiting import REPLY, until

COREFILE = """
.:{port} {
    bind 127.0.0.1
    prometheus 127.0.0.1:{port2} {
        tls {dir}/web.yml
    }
    errors
    plugin {dir}/sleeps.py
    kubernetes cluster.local {
        manifests {dir}/cluster.yaml
    }
    hosts {
        ADDRESS www.example.org
        fallthrough
    }
}
"""
#: A call that hangs is left behind with its thread, and another thread takes the queue.
PLUGIN = """
import time

from fastdns.plugin import Plugin

class Sleeps(Plugin):
    zones = ["python.test."]
    deadline = 0.5

    def serve(self, query):
        if query.name.startswith("hangs."):
            time.sleep(3600)
        return query.reply("A 192.0.2.7")

def setup(controller):
    return Sleeps()
"""
#: What the second configuration has beside it: an address that the first has not.
OTHER = "other.test:{port3} {\n bind 127.0.0.1\n whoami\n}\n"


def cluster(last: int) -> str:
    spec = f"clusterIP: 10.96.0.{last}, clusterIPs: [10.96.0.{last}], ports: [{{port: 80}}]"
    return f"{{kind: Service, metadata: {{name: web, namespace: shop}}, spec: {{{spec}}}}}"


@pytest.fixture
def threads(tmp_path: Path) -> Iterator[Preload]:
    preload = Preload(Path(__file__).with_name("threads.c"), tmp_path)
    yield preload
    preload.close()


@pytest.fixture
def server(tmp_path: Path, threads: Preload) -> Iterator[Server]:
    folder = tmp_path / "server"
    folder.mkdir()
    (folder / "cluster.yaml").write_text(cluster(1))
    (folder / "sleeps.py").write_text(PLUGIN)
    write_certificates(folder)
    (folder / "web.yml").write_text("tls_server_config:\n  cert_file: server.pem\n  key_file: server.key\n")
    with Server(folder, COREFILE.replace("ADDRESS", "192.0.2.1"), env=environment(threads)) as started:
        yield started


def test_R29_what_has_to_wait_for_a_thread_goes_on_once_there_is_one(server: Server, threads: Preload) -> None:
    """The look at manifests, which ended for ever."""
    name = "web.shop.svc.cluster.local."
    assert server.answers(name) == ["10.96.0.1"]
    threads.set(1)
    (server.folder / "cluster.yaml").write_text(cluster(2))
    server.wait_log("waits: can't start new thread$")
    assert server.answers(name) == ["10.96.0.1"]
    threads.set(0)
    until(lambda: server.answers(name) == ["10.96.0.2"], "the change")


def test_R29_a_reload_is_refused_as_a_whole(server: Server, threads: Preload) -> None:
    """The former configuration goes on with its handlers, and the next reload takes its place."""
    after = COREFILE.replace("ADDRESS", "192.0.2.2") + OTHER
    for _ in range(3):
        start = len(server.log())
        threads.set(1)
        server.write(after)
        server.signal(signal.SIGUSR1)
        server.wait_log(r"Restart failed: can't start new thread", start=start)
        assert threads.count()
        assert server.answers("www.example.org.") == ["192.0.2.1"]
        assert server.answers("web.shop.svc.cluster.local.") == ["10.96.0.1"]
    threads.set(0)
    server.reload(after)
    assert server.answers("www.example.org.") == ["192.0.2.2"]
    server.reload(COREFILE.replace("ADDRESS", "192.0.2.3"))
    assert server.answers("www.example.org.") == ["192.0.2.3"]
    server.signal(signal.SIGTERM)
    assert server.exit_status() == 0


def test_R29_a_page_over_tls_comes_back(server: Server, threads: Preload) -> None:
    """The thread that accepts outlives a connection that no thread could be started for."""
    threads.set(1)
    with pytest.raises(OSError):
        read_page(server)
    assert threads.count()
    threads.set(0)
    assert b"coredns_build_info" in read_page(server)


def test_R29_a_thread_that_hangs_is_replaced_later(server: Server, threads: Preload) -> None:
    assert server.answers("a.python.test.") == ["192.0.2.7"]
    threads.set(1)
    assert server.answers("hangs.python.test.") == ["SERVFAIL"]
    server.wait_log("plugin/sleeps: RuntimeError: can't start new thread$")
    assert server.answers("a.python.test.") == ["SERVFAIL"]
    threads.set(0)
    until(lambda: server.answers("a.python.test.") == ["192.0.2.7"], "another thread")


def read_page(server: Server) -> bytes:
    """Raises OSError."""
    context = client_context(server.folder)
    with urllib.request.urlopen(f"https://127.0.0.1:{server.ports['port2']}/metrics", context=context, timeout=REPLY) as reply:
        page: bytes = reply.read()
    return page
