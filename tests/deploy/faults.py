"""The faults that alerts are for, each caused in a running server; its page of metrics before, after ordinary work, and after the fault."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import resource
import select
import signal
import socket
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from shutil import which
from typing import Any, NamedTuple

import dns.message
import pytest

from fastdns.testing import Upstream
from tests.conformance.kube_api import KubeAPI
from tests.deploy.conftest import ManifestServer
from tests.node.nodes import LOCAL, METRICS, Namespace, Node
from tests.plugins.dynupdate.zones import SHARED, acme, fill, seed
from tests.programs import need, program
from tests.server import STARTED, Server, free_port
from tests.waiting import LIMIT, REPLY, until

#: More than wait for one plugin in Python.
QUEUE = 2048
#: As in rules.yaml.
MEMORY = 150 << 20

BLOCK = """
.:{port} {
    bind 127.0.0.1
    prometheus 127.0.0.1:{port2}
    reload 2s 1s
    errors
BODY
}
"""
#: An upstream: names below good, bad and late.
OTHER = """
.:{port3} {
    bind 127.0.0.1
    template IN A bad.example {
        rcode SERVFAIL
    }
    template IN A good.example {
        answer "{{ .Name }} 60 IN A 192.0.2.1"
    }
}
late.example:{port3} {
    bind 127.0.0.1
    erratic {
        drop 0
        delay 1 1500ms
    }
}
"""
PLUGIN = """
import ctypes, os, time
from fastdns.plugin import Plugin

class Example(Plugin):
    zones = ["example."]
    deadline = 0.3
    kept = b""

    def serve(self, query):
        if query.name.startswith("bad"):
            raise RuntimeError("bad")
        if query.name.startswith("large"):
            self.kept = b"x" * (160 << 20)
        if query.name.startswith("lock"):
            os.close(ctypes.PyDLL(None).open(b"pipe", os.O_RDONLY))
        while query.name.startswith("hang") and not os.path.exists("go"):
            time.sleep(0.01)
        return query.reply("A 192.0.2.1")

def setup(controller):
    return Example()
"""

Pages = Iterator[str]
Serve = Callable[..., Server]


class Scene(NamedTuple):
    """What a fault is caused with."""

    serve: Serve
    folder: Path
    fixture: Callable[[str], Any]


def page(server: Server) -> str:
    return server.get(server.ports["port2"], "/metrics")


def total(server: Server, name: str) -> float:
    """The sum of a metric's samples."""
    return sum(float(line.rpartition(" ")[2]) for line in page(server).splitlines() if re.match(rf"{name}[ {{]", line))


def until_counted(server: Server, name: str, action: Callable[[], None]) -> None:
    """Does something until a metric counts it."""

    def counted() -> float:
        action()
        return total(server, name)

    until(counted, name)


def ask(server: Server, names: list[str]) -> None:
    """Queries for all names at once; returns when each has its reply."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.connect(("127.0.0.1", server.port))
        client.settimeout(LIMIT)
        for name in names:
            client.send(dns.message.make_query(name, "A").to_wire())
        for _ in names:
            client.recv(4096)


def forwards(scene: Scene, options: str = "") -> Server:
    return scene.serve(BLOCK.replace("BODY", f"forward . 127.0.0.1:{{port3}} {{\n{options}\n}}") + OTHER)


def runs_python(scene: Scene) -> Server:
    (scene.folder / "example.py").write_text(PLUGIN)
    return scene.serve(BLOCK.replace("BODY", "plugin {dir}/../example.py"))


def absent(scene: Scene) -> Pages:
    """The server ends: nothing is scraped."""
    server = scene.serve(BLOCK.replace("BODY", "whoami"))
    yield page(server)
    yield page(server)
    server.stop()
    yield ""


def servfail(scene: Scene) -> Pages:
    """The upstream answers SERVFAIL."""
    server = forwards(scene)
    ask(server, ["a.good.example"])
    yield page(server)
    ask(server, [f"a{number}.good.example" for number in range(20)])
    yield page(server)
    ask(server, [f"a{number}.bad.example" for number in range(10)])
    yield page(server)


def slow(scene: Scene) -> Pages:
    """The upstream takes a second and a half."""
    server = forwards(scene)
    ask(server, ["a.good.example"])
    yield page(server)
    ask(server, [f"a{number}.good.example" for number in range(20)])
    yield page(server)
    ask(server, [f"a{number}.late.example" for number in range(10)])
    yield page(server)


def dead_upstream(scene: Scene) -> Pages:
    """The only upstream ends."""
    with Upstream() as upstream:
        server = scene.serve(BLOCK.replace("BODY", f"forward . {upstream.address} {{\n health_check 0.1s\n}}"))
        ask(server, ["a.example"])
        yield page(server)
        ask(server, [f"a{number}.example" for number in range(20)])
        yield page(server)
    numbers = itertools.count()
    until_counted(server, "coredns_forward_healthcheck_broken_total", lambda: ask(server, [f"b{next(numbers)}.example"]))
    yield page(server)


def max_concurrent(scene: Scene) -> Pages:
    """More queries at once than max_concurrent, at an upstream that is slow."""
    server = forwards(scene, "max_concurrent 2")
    yield page(server)
    for number in range(5):
        ask(server, [f"a{number}.good.example"])
    yield page(server)
    ask(server, [f"a{number}.late.example" for number in range(8)])
    yield page(server)


def given_up(scene: Scene) -> Pages:
    """An upstream that says nothing, and more queries than slots."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        silent.bind(("127.0.0.1", 0))
        server = scene.serve(BLOCK.replace("BODY", f"forward . 127.0.0.1:{silent.getsockname()[1]}"), "-workers", "1")
        client.connect(("127.0.0.1", server.port))
        yield page(server)
        send(client, 0, 100)
        until(lambda: total(server, "fastdns_parked_queries") >= 100, "queries that wait")
        yield page(server)
        numbers = itertools.count(1)
        until_counted(server, "fastdns_evicted_queries_total", lambda: send(client, next(numbers) * 500, 500))
        yield page(server)
        server.process.kill()  # which waits for none of them
        server.process.wait()


def send(client: socket.socket, first: int, count: int) -> None:
    for number in range(first, first + count):
        client.send(dns.message.make_query(f"n{number}.example", "A").to_wire())


def late_endpoints(scene: Scene) -> Pages:
    """An endpoint slice that is written a minute after what it says has changed."""
    api: ManifestServer = scene.fixture("apiserver")
    server = scene.serve(BLOCK.replace("BODY", f"kubernetes cluster.local {{\n endpoint {api.http}\n}}"))
    numbers = itertools.count(1)

    def change(seconds: float) -> None:
        """A new endpoint, changed so long ago."""
        counted = total(server, "coredns_kubernetes_dns_programming_duration_seconds_count")
        api.apply_service("late", f"10.1.0.{next(numbers)}", seconds)
        until(lambda: total(server, "coredns_kubernetes_dns_programming_duration_seconds_count") > counted, "the change")

    until(lambda: total(server, "coredns_kubernetes_objects") > 0, "the list")
    change(0)
    yield page(server)
    change(0)
    yield page(server)
    change(60)
    yield page(server)


def snapshot(scene: Scene) -> Pages:
    """A restart while the API server is away."""
    api: ManifestServer = scene.fixture("apiserver")
    api.apply_service("snapshot", "10.1.1.1")
    corefile = BLOCK.replace("BODY", f"kubernetes cluster.local {{\n endpoint {api.http}\n snapshot {scene.folder}/snapshot\n}}")
    server = scene.serve(corefile)
    until(lambda: total(server, "coredns_kubernetes_objects") > 0, "the list")
    yield page(server)
    server.stop()
    server = scene.serve(corefile)
    until(lambda: not total(server, "coredns_kubernetes_snapshot_stale"), "the API server's list")
    yield page(server)
    server.stop()
    api.command("stop")
    try:
        server = scene.serve(corefile)
        yield page(server)
        server.stop()
    finally:
        api.command("start")


def failing_watch(scene: Scene) -> Pages:
    """Manifests cannot be read, for longer than half a minute."""
    path = scene.folder / "objects.json"
    path.write_text(json.dumps({"kind": "Namespace", "metadata": {"name": "d"}}))
    server = scene.serve(BLOCK.replace("BODY", f"kubernetes cluster.local {{\n manifests {path}\n}}"))
    until(lambda: "fastdns_kubernetes_watch_failing{" in page(server), "the first look")
    yield page(server)
    yield page(server)
    path.write_text("{")
    until(lambda: total(server, "fastdns_kubernetes_watch_failing"), "the state")
    yield page(server)


def refused_object(scene: Scene) -> Pages:
    """A Service has a text where a list belongs."""
    port = free_port()
    api = KubeAPI(port, [])
    try:
        server = scene.serve(BLOCK.replace("BODY", f"kubernetes cluster.local {{\n endpoint http://127.0.0.1:{port}\n}}"))
        yield page(server)
        yield page(server)
        metadata = {"namespace": "d", "name": "s"}
        api.apply({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"clusterIP": "10.0.0.1", "externalIPs": "10.0.0.2"}})
        until(lambda: total(server, "fastdns_kubernetes_objects_refused"), "the object")
        yield page(server)
    finally:
        api.stop()


def old_replica(scene: Scene) -> Pages:
    """The primary of a zone does not answer any more."""
    (scene.folder / "zone").write_text("example.org. 60 IN SOA ns.example.org. host.example.org. 1 3600 600 86400 60\nexample.org. 60 IN NS ns.example.org.\n")
    primary = scene.serve(BLOCK.replace("BODY", "file {dir}/../zone example.org {\n}\ntransfer example.org {\n to *\n}"))
    server = scene.serve(BLOCK.replace("BODY", f"secondary example.org {{\n transfer from 127.0.0.1:{primary.port}\n stale serve\n}}"))
    until(lambda: "fastdns_replica_age_seconds" in page(server), "a transfer")
    yield page(server)
    until(lambda: total(server, "fastdns_replica_age_seconds") < 2, "a zone that is confirmed")
    yield page(server)
    primary.signal(signal.SIGSTOP)
    try:
        until(lambda: total(server, "fastdns_replica_age_seconds") > 10, "its age")
        yield page(server)
    finally:
        primary.signal(signal.SIGCONT)


def bad_reload(scene: Scene) -> Pages:
    """A Corefile that does not parse."""
    server = scene.serve(BLOCK.replace("BODY", "whoami"))
    yield page(server)
    server.reload(BLOCK.replace("BODY", "any"))
    yield page(server)
    server.write(BLOCK.replace("BODY", "nosuchplugin"))
    server.signal(signal.SIGUSR1)
    until(lambda: total(server, "coredns_reload_failed_total"), "the failure")
    yield page(server)


def broken_import(scene: Scene) -> Pages:
    """One of the files that a Corefile imports does not parse, and is left out."""
    folder = scene.folder / "zones"
    folder.mkdir()
    (folder / "good.zone").write_text("any\n")
    server = scene.serve(BLOCK.replace("BODY", f"whoami\n    import {folder}/*.zone skip_broken"))
    yield page(server)
    (folder / "other.zone").write_text("bufsize 1232\n")
    server.wait_log("Reloading complete")
    yield page(server)
    (folder / "good.zone").write_text("nosuchplugin\n")
    server.wait_log(r"Left out .*good\.zone")
    until(lambda: total(server, "fastdns_corefile_left_out"), "the file")
    yield page(server)


def exception(scene: Scene) -> Pages:
    """A plugin raises an exception."""
    server = runs_python(scene)
    yield page(server)
    ask(server, ["good.example"])
    yield page(server)
    ask(server, ["bad.example"])
    yield page(server)


def full_queue(scene: Scene) -> Pages:
    """A plugin that hangs, and more queries than wait for one."""
    server = runs_python(scene)
    yield page(server)
    ask(server, ["good.example"])
    yield page(server)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.connect(("127.0.0.1", server.port))
        query = dns.message.make_query("good.example", "A").to_wire()
        client.send(dns.message.make_query("hang.example", "A").to_wire())

        def crowd() -> None:
            for _ in range(QUEUE):
                client.send(query)

        until_counted(server, "fastdns_plugin_rejects_total", crowd)
    yield page(server)
    (server.folder / "go").touch()


def hang(scene: Scene, times: int = 1) -> Pages:
    """A plugin hangs, once or so often that its queries are refused."""
    server = runs_python(scene)
    yield page(server)
    ask(server, ["good.example"])
    yield page(server)
    for _ in range(times):
        ask(server, ["hang.example"])
    until(lambda: total(server, "fastdns_plugin_hangs_total") >= times, "the hang")
    yield page(server)
    (server.folder / "go").touch()


def hangs(scene: Scene) -> Pages:
    return hang(scene, 3)


def lock(scene: Scene) -> Pages:
    """A plugin keeps the interpreter lock in a call of C until somebody writes to a pipe."""
    server = runs_python(scene)
    os.mkfifo(server.folder / "pipe")
    ask(server, ["good.example"])
    yield page(server)
    yield page(server)
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(ask, server, ["lock.example"])
        server.wait_log("has held the interpreter lock")
        (server.folder / "pipe").open("w").close()
        asked.result()
    until(lambda: total(server, "fastdns_plugin_lock_holds_total"), "the count")
    yield page(server)


def memory(scene: Scene) -> Pages:
    """A plugin keeps 160 MiB."""
    server = runs_python(scene)
    yield page(server)
    ask(server, ["good.example"])
    yield page(server)
    ask(server, ["large.example"])
    until(lambda: server.metric(server.ports["port2"], "process_resident_memory_bytes") > MEMORY, "the page that shows it")
    yield page(server)


def descriptors(scene: Scene) -> Pages:
    """Clients of TCP that leave a few descriptors."""
    server = scene.serve(BLOCK.replace("BODY", "timeouts {\n read 1m\n}\nwhoami"))
    limit = server.descriptors() * 2
    resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (limit, limit))
    yield page(server)
    server.query("a.example", tcp=True)
    yield page(server)
    with contextlib.ExitStack() as open_ones:
        while server.descriptors() < 0.9 * limit:
            client = open_ones.enter_context(socket.create_connection(("127.0.0.1", server.port), REPLY))
            client.send(b"\0")
            time.sleep(0.02)
        yield page(server)


def lost_lines(scene: Scene) -> Pages:
    """Nobody reads standard output any more."""
    pipes: list[int] = []

    def pipe(folder: Path) -> None:
        """In place of the file for standard output."""
        os.mkfifo(folder / "server.log")
        pipes.append(os.open(folder / "server.log", os.O_RDONLY | os.O_NONBLOCK))

    server = scene.serve(BLOCK.replace("BODY", "log\nwhoami"), prepare=pipe, wait=False)
    (read,) = pipes
    said = b""
    while not STARTED.search(said.decode()):
        assert select.select([read], [], [], LIMIT)[0], said
        said += os.read(read, 4096)
    yield page(server)
    ask(server, ["a.example"])
    yield page(server)
    names = ["x" * 60 + ".example.org"] * 50
    until_counted(server, "fastdns_log_lines_dropped_total", lambda: ask(server, names))
    yield page(server)
    server.stop()
    os.close(read)


def full_share(scene: Scene) -> Pages:
    """A key of *dynupdate* writes records until they are refused."""
    server = scene.serve(SHARED, prepare=seed)
    yield page(server)
    assert acme(server, "a") == "NOERROR"
    yield page(server)
    fill(server)
    yield page(server)


def unwritable(scene: Scene) -> Pages:
    """A file stands where *cache* keeps its snapshot."""
    folder = scene.folder / "kept"
    folder.mkdir()
    server = scene.serve(BLOCK.replace("BODY", f"whoami\n    cache {{\n        snapshot {folder}/cache 1s\n    }}"))
    yield page(server)
    ask(server, ["a.example"])
    yield page(server)
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    folder.write_text("")
    until(lambda: total(server, "fastdns_kept_file_failing"), "the failure")
    yield page(server)


def node_setup(scene: Scene) -> Pages:
    """The iptables commands go away from under the cache on a node."""
    need("ip", "iptables", "ip6tables")
    if os.geteuid() != 0:
        pytest.skip("needs root to make a network namespace")
    programs = scene.folder / "programs"
    programs.mkdir()
    for name in ("iptables", "ip6tables"):
        (programs / name).symlink_to(program(name))
    space = Namespace()
    node = Node(space, scene.folder)
    try:
        node.run("-syncinterval", "1", PATH=f"{programs}:{Path(which('sh') or '/bin/sh').parent}")

        def scrape() -> str:
            with urllib.request.urlopen(f"http://{METRICS}/metrics", timeout=REPLY) as reply:
                return str(reply.read().decode())

        until(lambda: space.ask("elsewhere.example", LOCAL[0]), "an answer")
        until(lambda: len(space.rules()) > 0, "the rules")
        yield space.do(scrape)
        yield space.do(scrape)
        for name in ("iptables", "ip6tables"):
            (programs / name).unlink()
        before = space.errors().get("iptables", 0)
        until(lambda: space.errors().get("iptables", 0) > before, "the count")
        yield space.do(scrape)
    finally:
        node.stop()
        space.thread.shutdown()


#: Alert -> its fault.
FAULTS: dict[str, Callable[[Scene], Pages]] = {
    "FastDNSAbsent": absent,
    "FastDNSServfail": servfail,
    "FastDNSSlow": slow,
    "FastDNSUpstreamsDown": dead_upstream,
    "FastDNSUpstreamFailing": dead_upstream,
    "FastDNSUpstreamServfail": servfail,
    "FastDNSMaxConcurrent": max_concurrent,
    "FastDNSWaitingQueriesGivenUp": given_up,
    "FastDNSPropagationSlow": late_endpoints,
    "FastDNSSnapshotServed": snapshot,
    "FastDNSWatchFailing": failing_watch,
    "FastDNSObjectsRefused": refused_object,
    "FastDNSReplicaOld": old_replica,
    "FastDNSReloadFailed": bad_reload,
    "FastDNSFileLeftOut": broken_import,
    "FastDNSPanics": exception,
    "FastDNSPluginRefusesQueries": full_queue,
    "FastDNSPluginHung": hang,
    "FastDNSPluginHoldsInterpreter": lock,
    "FastDNSPluginRefusing": hangs,
    "FastDNSUpdateKeyFull": full_share,
    "FastDNSMemoryHigh": memory,
    "FastDNSFilesNearlyOut": descriptors,
    "FastDNSLogLinesLost": lost_lines,
    "FastDNSKeptFileFailing": unwritable,
    "NodeLocalSetupErrors": node_setup,
}
