"""A storm that one pod makes is found in the console by its namespace."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import dns.message
import dns.rcode
import pytest

from tests.apiserver.process import ApiServer
from tests.browser import browser
from tests.server import Server
from tests.waiting import until

Serve = Callable[..., Server]
COREFILE = """.:{{port}} {{
    console 127.0.0.1:{{port2}}
    top
    kubernetes cluster.local {{
        endpoint {endpoint}
        pods verified
    }}
    whoami
}}
"""
#: Of pods: name, namespace and address.
PODS = (("frontend", "shop", "127.0.0.41"), ("crawler", "batch-jobs", "127.0.0.42"))
#: Seconds from the storm's first query until an operator reads the namespace.
LIMIT = 10.0


@pytest.fixture
def apiserver(cluster_programs: Path) -> Iterator[ApiServer]:
    server = ApiServer()
    try:
        for name, namespace, address in PODS:
            body = {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}, "status": {"podIP": address, "phase": "Running"}}
            server.ask("POST", f"/api/v1/namespaces/{namespace}/pods", {"apiVersion": "v1", "kind": "Pod", **body})
        yield server
    finally:
        server.stop()


def storm(port: int, address: str, over: threading.Event, pause: float) -> None:
    """Queries for names that are not there, from a pod."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.bind((address, 0))
        client.connect(("127.0.0.1", port))
        number = 0
        while not over.wait(pause):
            for _ in range(20):
                number += 1
                client.send(dns.message.make_query(f"x{number}.default.svc.cluster.local", "A").to_wire())


def test_a_storm_is_found_by_its_namespace(serve: Serve, apiserver: ApiServer, tmp_path: Path) -> None:
    server = serve(COREFILE.format(endpoint=apiserver.http))
    until(lambda: server.query("x.default.svc.cluster.local.").rcode() == dns.rcode.NXDOMAIN, "the cluster is there")
    over = threading.Event()
    quiet = threading.Thread(target=storm, args=(server.port, "127.0.0.41", over, 1.0))
    quiet.start()
    loud = threading.Thread(target=storm, args=(server.port, "127.0.0.42", over, 0.005))
    try:
        with browser(tmp_path) as page:
            page.open(f"http://127.0.0.1:{server.ports['port2']}/#clients")
            page.wait_text("Namespaces")
            first = "document.querySelector('section[aria-label=Namespaces] tbody tr')?.textContent ?? ''"
            page.wait(lambda: "shop" in page.run(first), "the namespace of the quiet pod")
            loud.start()
            took = page.wait(lambda: "batch-jobs" in page.run(first), "the namespace of the storm", LIMIT)
            assert took < LIMIT
            assert "crawler" in page.text("section[aria-label='NXDOMAIN by client']")
            assert page.said() == []
    finally:
        over.set()
        quiet.join()
        if loud.ident is not None:
            loud.join()
