"""The proxy in front of the API server: what passes, and what each fault makes of a request."""

from __future__ import annotations

import http.client
import http.server
import json
import signal
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.certificates import client_context, write_certificates
from tests.cluster import api_proxy
from tests.server import free_port
from tests.waiting import LIMIT, REPLY, until

WATCH = "/api/v1/services?watch=true&resourceVersion=7&timeoutSeconds=500"
LIST = "/api/v1/services?limit=500"


class Server(http.server.BaseHTTPRequestHandler):
    """Says what it was asked."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        body = json.dumps([self.path, self.headers.get("Authorization")]).encode()
        if "old" in self.path:
            body = api_proxy.EXPIRED
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_request(self, *arguments: object) -> None:
        pass


class Proxied:
    """A proxy in front of such a server."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder, self.log, self.fault = folder, folder / "log", folder / "fault"
        self.port = free_port()
        self.fault.write_text("none")
        paths = [str(folder / name) for name in ("server.pem", "server.key", "ca.pem")]
        command = [sys.executable, api_proxy.__file__, str(self.port), f"127.0.0.1:{port}", *paths, str(self.fault)]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            until(self.listens, "the proxy's start", LIMIT)
        except AssertionError as error:
            self.end()
            raise AssertionError(self.log.read_text()) from error

    def listens(self) -> bool:
        with socket.socket() as asked:
            return asked.connect_ex(("127.0.0.1", self.port)) == 0

    def end(self) -> None:
        self.process.terminate()
        self.process.wait(REPLY)

    def set(self, fault: str) -> None:
        self.fault.write_text(fault)
        self.process.send_signal(signal.SIGHUP)
        until(lambda: f"fault {fault}\n" in self.log.read_text(), "the fault", REPLY)

    def ask(self, target: str) -> tuple[int, str, str | None]:
        """Status, body and Retry-After."""
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=REPLY, context=client_context(self.folder))
        try:
            connection.request("GET", target, headers={"Authorization": "Bearer t"})
            reply = connection.getresponse()
            return reply.status, reply.read().decode(), reply.headers.get("Retry-After")
        finally:
            connection.close()


@pytest.fixture
def proxied(tmp_path: Path) -> Iterator[Proxied]:
    write_certificates(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.pem", tmp_path / "server.key")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        made = Proxied(tmp_path, server.server_address[1])
        try:
            yield made
        finally:
            made.end()
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_without_a_fault_requests_pass(proxied: Proxied) -> None:
    assert proxied.ask(WATCH) == (200, json.dumps([WATCH, "Bearer t"]), None)
    assert proxied.ask("/old")[1] == api_proxy.EXPIRED.decode()
    assert "gone /old\n" in proxied.log.read_text()


@pytest.mark.parametrize(("code", "after"), [(429, "1"), (500, None), (503, None)])
def test_a_status_refuses_all(proxied: Proxied, code: int, after: str | None) -> None:
    proxied.set(str(code))
    for target in (LIST, WATCH):
        status, body, retry = proxied.ask(target)
        assert (status, json.loads(body)["code"], retry) == (code, code, after)


def test_gone_refuses_watches_that_go_on(proxied: Proxied) -> None:
    proxied.set("gone")
    event = json.loads(proxied.ask(WATCH)[1])
    assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")
    for target in (LIST, f"{WATCH}&sendInitialEvents=true"):
        assert json.loads(proxied.ask(target)[1])[0] == target


def test_timeouts_are_short(proxied: Proxied) -> None:
    proxied.set("timeouts")
    assert json.loads(proxied.ask(WATCH)[1])[0] == WATCH.replace("=500", f"={api_proxy.SECONDS}")


def test_away_closes_connections(proxied: Proxied) -> None:
    proxied.set("away")
    with pytest.raises((OSError, http.client.RemoteDisconnected)):
        proxied.ask(LIST)
    proxied.set("none")
    assert proxied.ask(LIST)[0] == 200
