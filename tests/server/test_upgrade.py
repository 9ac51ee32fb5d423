"""SIGUSR1 and SIGUSR2 while clients of DNS over QUIC and over HTTP/3 are connected: connections go on, and what the new process has to know it knows."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import dns.message
import pytest

from tests.certificates import write_certificates
from tests.quic import Client, Closed, WebClient, query
from tests.server import Server
from tests.waiting import LIMIT, until

Serve = Callable[..., Server]

COREFILE = "%s://.:{port} {\n bind 127.0.0.1\n tls server.pem server.key\n timeouts {\n idle 1h\n }\n hosts {\n 192.0.2.1 a.test\n }\n}"
QUESTION = query("a.test.")
SCHEMES = pytest.mark.parametrize("scheme", ["quic", "https3"])
RETRY_ABOVE = 32


def started(serve: Serve, scheme: str = "quic", workers: int = 2, seconds: float = 3600) -> Server:
    """seconds: for which a process serves its connections after an upgrade."""

    def prepare(folder: Path) -> None:
        write_certificates(folder)
        (folder / "patched").mkdir()
        (folder / "patched" / "sitecustomize.py").write_text(f"from fastdns.server import upgrade\nupgrade.QUIC_SECONDS = {seconds}\n")

    return serve(COREFILE % scheme, "-workers", str(workers), prepare=prepare, env={"PYTHONPATH": "patched"})


def connect(server: Server, scheme: str = "quic", **options: object) -> Client:
    options = {"idle_timeout": 3600.0, **options}
    return Client(server.port, **options) if scheme == "quic" else WebClient(server.port, **options)  # type: ignore[arg-type]


def begin(client: Client) -> int:
    return client.request(body=QUESTION) if isinstance(client, WebClient) else client.begin(QUESTION)


def answer(client: Client, stream: int) -> str:
    reply = dns.message.from_wire(client.response(stream).body) if isinstance(client, WebClient) else client.reply(stream)
    return str(reply.answer[0][0])


def ask(client: Client) -> str:
    return answer(client, begin(client))


def last(client: Client) -> Closed:
    """How the connection of a client that goes on asking ends."""
    while True:
        try:
            assert ask(client) == "192.0.2.1"
        except Closed as closed:
            return closed


def upgrade(server: Server) -> None:
    """Returns once the process that was signalled last reads its sockets no more."""
    pid = max(server.successors(), default=server.process.pid, key=lambda pid: os.stat(f"/proc/{pid}").st_ctime_ns)
    start = len(server.log())
    os.kill(pid, signal.SIGUSR2)
    until(lambda: "Upgrade finished" in server.log()[start:], "the upgrade")


@SCHEMES
def test_no_query_is_lost_in_fifty_reloads_and_an_upgrade(serve: Serve, scheme: str) -> None:
    """Clients that go on asking: no connection ends, and none is refused."""
    server = started(serve, scheme)
    asked = 0
    with ExitStack() as stack:
        clients = [stack.enter_context(connect(server, scheme)) for _ in range(4)]

        def go_on() -> None:
            nonlocal asked
            streams = [(client, begin(client)) for client in clients for _ in range(4)]
            assert {answer(client, stream) for client, stream in streams} == {"192.0.2.1"}
            asked += len(streams)

        for _ in range(50):
            start = len(server.log())
            server.signal(signal.SIGUSR1)
            go_on()
            while "Reloading complete" not in server.log()[start:]:
                go_on()
        server.signal(signal.SIGUSR2)
        while "Upgrade finished" not in server.log():
            go_on()
        clients += [stack.enter_context(connect(server, scheme)) for _ in range(4)]
        for _ in range(20):
            go_on()
        assert asked >= 50 * 16
    assert server.exit_status() == 0
    assert "ERROR" not in server.log()


@SCHEMES
def test_the_former_process_ends_with_its_last_connection(serve: Serve, scheme: str) -> None:
    server = started(serve, scheme)
    with connect(server, scheme) as client:
        ask(client)
        upgrade(server)
        with connect(server, scheme) as fresh:
            for _ in range(5):
                assert (ask(client), ask(fresh)) == ("192.0.2.1", "192.0.2.1")
        assert server.process.poll() is None
    assert server.exit_status() == 0


def test_a_client_moves_while_another_process_has_the_socket(serve: Serve) -> None:
    """To a new port, and to a new port with another connection id, which is of the former process, too."""
    server = started(serve, workers=4)
    with connect(server) as client:
        ask(client)
        tag = client.quic._peer_cid.cid[1]
        upgrade(server)
        for _ in range(2):
            client.move()
            ask(client)
            client.pump(lambda: client.quic._loss.bytes_in_flight == 0)
            with pytest.raises(AssertionError):  # all that is on its way arrives before the path goes
                client.pump(lambda: False, 0.2)
            client.quic.change_connection_id()
            client.move()
            ask(client)
            assert client.quic._peer_cid.cid[1] == tag
            with pytest.raises(AssertionError):
                client.pump(lambda: False, 0.2)


@pytest.mark.parametrize("changes", [False, True], ids=["rebinding", "another-id"])
def test_a_client_moves_on_and_on_meanwhile(serve: Serve, changes: bool) -> None:
    """More often than there are paths of a connection, before, while and after another process takes the sockets over."""
    server = started(serve, workers=2)
    with connect(server) as client:
        server.signal(signal.SIGUSR2)
        after = 0
        while after < 12:
            after += "Upgrade finished" in server.log()
            assert ask(client) == "192.0.2.1"
            if changes:
                client.quic.change_connection_id()
            client.move()


def test_clients_that_come_meanwhile(serve: Serve) -> None:
    """For a moment both processes read the sockets: each passes on what is for the other."""
    server = started(serve)
    server.signal(signal.SIGUSR2)
    tags = []
    while "Upgrade finished" not in server.log() or tags[-1:] == tags[:1]:
        with connect(server) as client:
            assert ask(client) == "192.0.2.1"
            tags.append(client.quic._peer_cid.cid[1])
    assert len(set(tags)) == 2


def test_one_upgrade_after_the_other(serve: Serve) -> None:
    """Three processes at a time, each with its connections."""
    server = started(serve)
    with ExitStack() as stack:
        clients = [stack.enter_context(connect(server))]
        for _ in range(2):
            upgrade(server)
            clients.append(stack.enter_context(connect(server)))
        for _ in range(3):
            assert {ask(client) for client in clients} == {"192.0.2.1"}
        assert len(server.successors()) == 2
        assert len({client.quic._peer_cid.cid[1] for client in clients}) == 3  # tags of the processes
    assert server.exit_status() == 0
    until(lambda: len(server.successors()) == 1)


def test_an_upgrade_that_fails_leaves_connections(serve: Serve) -> None:
    server = started(serve)
    with connect(server) as client:
        ask(client)
        (server.folder / "server.key").rename(server.folder / "away.key")
        server.signal(signal.SIGUSR2)
        server.wait_log(r"^\[ERROR\] SIGUSR2: the new process did not start to serve$")
        assert ask(client) == "192.0.2.1"
        (server.folder / "away.key").rename(server.folder / "server.key")
        upgrade(server)
        assert ask(client) == "192.0.2.1"
        with connect(server) as fresh:
            assert ask(fresh) == "192.0.2.1"


@pytest.mark.parametrize(("scheme", "seconds"), [("quic", 1), ("https3", 1), ("quic", 3600)])
def test_connections_that_do_not_end(serve: Serve, scheme: str, seconds: int) -> None:
    """They are closed once what was asked is answered. A client that asks again what it has no answer to loses nothing, and resumes its session."""
    server = started(serve, scheme, seconds=seconds)
    with connect(server, scheme) as client:
        ask(client)
        ticket = client.resume()
        upgrade(server)
        if seconds > 1:
            ask(client)
            server.signal(signal.SIGTERM)  # which does not wait
        assert last(client).code == (0 if scheme == "quic" else 0x100)
    assert server.exit_status() == 0
    with connect(server, scheme, ticket=ticket) as client:
        assert client.handshake is not None
        assert client.handshake.session_resumed
        assert ask(client) == "192.0.2.1"


def test_resets_of_connections_of_the_former_process(serve: Serve) -> None:
    """RFC 9000 10.3: the new process can tell a client that its connection is gone."""
    server = started(serve)
    with connect(server) as client:
        ask(client)
        name, token = client.quic._peer_cid.cid, client.quic._peer_cid.stateless_reset_token
        assert token is not None
        upgrade(server)
        server.process.kill()
        server.process.wait()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.connect(("127.0.0.1", server.port))
            sock.settimeout(0.2)

            def reset() -> bool:
                sock.send(b"\x40" + name + os.urandom(60))
                try:
                    return sock.recv(65535).endswith(token)
                except TimeoutError:
                    return False

            until(reset)
            sock.send(b"\x40" + name[:1] + bytes([name[1] - 1 & 255]) + os.urandom(66))  # of a process that nobody knows
            with pytest.raises(TimeoutError):
                sock.recv(65535)


def test_tokens_of_the_former_process(serve: Serve) -> None:
    """Whoever was asked to show its address may show it to the new process. It would end a connection that does not know of the Retry."""
    server = started(serve, workers=1)
    with ExitStack() as stack:
        for _ in range(2 * RETRY_ABOVE):
            begun = Client(server.port, wait=False)
            stack.callback(begun.socket.close)
            begun.push()
        client = stack.enter_context(Client(server.port, wait=False))
        client.push()
        client.socket.settimeout(LIMIT)
        retry = client.socket.recv(65535)
        assert retry[0] & 0xF0 == 0xF0
        client.socket.setblocking(False)
        client.quic.receive_datagram(retry, client.address, now=time.monotonic())
        upgrade(server)
        client.push()
        client.pump(lambda: client.handshake is not None)
        assert client.quic._retry_count == 1
        assert ask(client) == "192.0.2.1"
