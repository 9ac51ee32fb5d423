"""Listening sockets that a service manager keeps: systemd's own tool passes some, and a manager of the tests keeps those of a server that is killed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import dns.message
import dns.query
import pytest

from fastdns.node.child import Child
from fastdns.node.store import Notices, Store, receive
from tests.programs import program
from tests.server import command, free_port
from tests.waiting import LIMIT, REPLY, until

QUERY = dns.message.make_query("whoami.test.", "A")
#: Sockets of clients, so that the kernel spreads their queries over all sockets of the server.
CLIENTS = 100


class Manager:
    """A service manager: it starts a server with the sockets that it has, and keeps what the server gives it."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.corefile = folder / "Corefile"
        self.corefile.write_text(f".:{self.port} {{\n    bind 127.0.0.1\n    whoami\n}}\n")
        self.store, self.notices = Store(), Notices()
        self.server: Child | None = None

    def start(self, *flags: str) -> Child:
        path, *arguments = command()
        environment = {**os.environ, "NOTIFY_SOCKET": self.notices.path}
        self.server = Child([path, *arguments, "-conf", str(self.corefile), *flags], environment, self.store.sockets)
        return self.server

    def ready(self) -> None:
        assert self.server is not None
        pid = self.server.pid
        until(lambda: self.notices.read(self.store, pid), "READY")

    def kill(self) -> None:
        assert self.server is not None
        self.server.end(signal.SIGKILL, LIMIT)

    def close(self) -> None:
        if self.server is not None:
            self.server.end(signal.SIGKILL, LIMIT)
        self.store.close()
        self.notices.close()


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    manager = Manager(tmp_path)
    yield manager
    manager.close()


@pytest.mark.parametrize("kind", ["udp", "tcp"])
def test_systemd_passes_a_socket(tmp_path: Path, kind: str) -> None:
    """The server is started by the first query, and answers it."""
    port = free_port()
    corefile = tmp_path / "Corefile"
    corefile.write_text(f".:{port} {{\n    bind 127.0.0.1\n    whoami\n}}\n")
    options = ["--datagram"] if kind == "udp" else []
    log = tmp_path / "log"
    with log.open("wb") as out:
        activate = [program("systemd-socket-activate"), *options, "--listen", f"127.0.0.1:{port}", *command(), "-conf", str(corefile), "-workers", "1"]
        process = subprocess.Popen(activate, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
    try:
        until(lambda: "Listening" in log.read_text(), "the socket")
        ask = dns.query.udp if kind == "udp" else dns.query.tcp
        assert ask(QUERY, "127.0.0.1", port=port, timeout=REPLY).additional
        assert ask(QUERY, "127.0.0.1", port=port, timeout=REPLY).additional
    finally:
        process.terminate()
        assert process.wait(LIMIT) == 0


@pytest.mark.parametrize(("before", "after"), [(1, 1), (4, 1), (1, 4)])
def test_queries_wait_for_the_next_process(manager: Manager, before: int, after: int) -> None:
    """Those that come while no server runs are answered by the next one, also if it has fewer workers; connections, too."""
    manager.start("-workers", str(before))
    manager.ready()
    manager.kill()
    with ExitStack() as stack:
        clients = [stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) for _ in range(CLIENTS)]
        for client in clients:
            client.settimeout(REPLY)
            client.connect(("127.0.0.1", manager.port))
            client.send(QUERY.to_wire())
        streams = [stack.enter_context(socket.create_connection(("127.0.0.1", manager.port), REPLY)) for _ in range(8)]
        for stream in streams:
            dns.query.send_tcp(stream, QUERY)
        manager.start("-workers", str(after))
        manager.ready()
        for client in clients:
            assert dns.message.from_wire(client.recv(4096)).id == QUERY.id
        for stream in streams:
            assert dns.query.receive_tcp(stream)[0].id == QUERY.id
    (descriptors,) = manager.store.sockets.values()
    assert len(descriptors) == 2 * max(before, after)


def test_what_a_manager_has_for_another_process_is_not_taken(tmp_path: Path) -> None:
    """LISTEN_PID names another one, or descriptors are no sockets of an address of the Corefile, or not there: the server opens its own."""
    port = free_port()
    corefile = tmp_path / "Corefile"
    corefile.write_text(f".:{port} {{\n    bind 127.0.0.1\n    whoami\n}}\n")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as unix, ExitStack() as stack:
        other.bind(("127.0.0.1", 0))
        path, *arguments = command()
        line = [path, *arguments, "-conf", str(corefile)]
        given = Child(line, dict(os.environ), {"": [other.fileno(), unix.fileno()]})
        stack.callback(given.end, signal.SIGTERM, LIMIT)
        until(lambda: answers(port))
        assert not {os.fstat(sock.fileno()).st_ino for sock in (other, unix)} & inodes(given.pid)
        given.end(signal.SIGTERM, LIMIT)
        assert given.status == 0
        # The manager says that there are three, and there is none.
        false = Child(line, {**os.environ, "LISTEN_FDS": "3"}, {})
        stack.callback(false.end, signal.SIGTERM, LIMIT)
        until(lambda: answers(port))
        false.end(signal.SIGTERM, LIMIT)
        assert false.status == 0
        foreign = subprocess.Popen(line, env={**os.environ, "LISTEN_FDS": "1", "LISTEN_PID": "1"}, pass_fds=[])
        stack.callback(foreign.wait, LIMIT)
        stack.callback(foreign.terminate)
        until(lambda: answers(port))


def answers(port: int) -> bool:
    try:
        return bool(dns.query.udp(QUERY, "127.0.0.1", port=port, timeout=0.5).additional)
    except (OSError, dns.exception.DNSException):
        return False


def inodes(pid: int) -> set[int]:
    links = [os.readlink(path) for path in Path(f"/proc/{pid}/fd").iterdir()]
    return {int(link[len("socket:[") : -1]) for link in links if link.startswith("socket:")}


def test_a_manager_follows_an_upgrade(manager: Manager) -> None:
    """After SIGUSR2 it learns which process is the service, from the one that it knows."""
    server = manager.start()
    manager.ready()
    server.send_signal(signal.SIGUSR2)
    manager.notices.socket.settimeout(LIMIT)
    while True:
        said, descriptors, sender = receive(manager.notices.socket)
        for descriptor in descriptors:
            os.close(descriptor)
        if sender == server.pid:
            break
    successor = int(said["MAINPID"])
    assert successor != server.pid
    until(lambda: server.poll() is not None, "the end of the former process")
    assert answers(manager.port)
    os.kill(successor, signal.SIGTERM)
    until(lambda: not os.path.exists(f"/proc/{successor}") or "State:\tZ" in Path(f"/proc/{successor}/status").read_text(), "the end")


def test_a_manager_that_is_gone_changes_nothing(manager: Manager) -> None:
    manager.notices.close()
    manager.start()
    until(lambda: answers(manager.port))
