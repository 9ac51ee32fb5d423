"""Sockets over a Unix socket: what is given by several at once, what ends in the middle, and who has the place at the path."""

from __future__ import annotations

import os
import select
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from fastdns.node.peer import CLIENTS_MAX, Client, Server, own_folder
from fastdns.node.store import Store
from tests.waiting import REPLY


@pytest.fixture
def sockets() -> Iterator[list[socket.socket]]:
    """Bound as those for queries are."""
    with ExitStack() as stack:
        found = [stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) for _ in range(3)]
        for sock in found:
            sock.bind(("127.0.0.1", 0))
        yield found


@pytest.fixture
def keeper(tmp_path: Path) -> Iterator[Server]:
    server = Server(str(tmp_path / "keeping"), Store(), keeps=True)
    server.listen()
    yield server
    end(server)


def end(server: Server) -> None:
    server.store.close()
    for client in server.clients.values():
        client.close()
    if server.socket is not None:
        server.socket.close()


def act(server: Server) -> None:
    """Until nothing more has come."""
    while ready := select.select(server.files(), [], [], 0)[0]:
        server.act(set(ready))


def ports(store: Store) -> list[int]:
    found = []
    for descriptors in store.sockets.values():
        for descriptor in descriptors:
            with socket.socket(fileno=os.dup(descriptor)) as sock:
                found.append(sock.getsockname()[1])
    return sorted(found)


def give(client: Client, sock: socket.socket) -> None:
    socket.send_fds(client.socket, [b"FDSTORE=1\nFDNAME=dns"], [sock.fileno()])


def test_what_two_give_at_once_is_not_mixed(keeper: Server, sockets: list[socket.socket]) -> None:
    first, second, third = sockets
    with closing(Client(keeper.path)) as one, closing(Client(keeper.path)) as other:
        give(one, first)
        act(keeper)
        give(other, second)
        act(keeper)
        give(one, third)
        one.socket.send(b"READY=1")
        act(keeper)
        assert ports(keeper.store) == sorted(sock.getsockname()[1] for sock in (first, third))
        other.socket.send(b"READY=1")
        act(keeper)
        assert ports(keeper.store) == [second.getsockname()[1]]


def test_what_ends_in_the_middle_is_forgotten(keeper: Server, sockets: list[socket.socket]) -> None:
    first, second, _ = sockets
    with closing(Client(keeper.path)) as one:
        give(one, first)
        one.socket.send(b"READY=1")
        act(keeper)
    before = len(os.listdir("/proc/self/fd"))
    with closing(Client(keeper.path)) as other:
        give(other, second)
        act(keeper)
    act(keeper)
    assert ports(keeper.store) == [first.getsockname()[1]]
    # The connection of the first one has ended, too.
    assert len(os.listdir("/proc/self/fd")) == before - 1


def test_no_more_connections_than_are_needed(keeper: Server) -> None:
    with ExitStack() as stack:
        for _ in range(CLIENTS_MAX):
            stack.enter_context(closing(Client(keeper.path)))
            act(keeper)
        late = stack.enter_context(closing(Client(keeper.path)))
        act(keeper)
        late.socket.settimeout(REPLY)
        assert late.socket.recv(1) == b""
        assert len(keeper.clients) == CLIENTS_MAX


def test_the_place_at_the_path(tmp_path: Path) -> None:
    """The newest one has it. When that has gone another one takes it, and not before."""
    path = str(tmp_path / "serving")
    first, second = Server(path, Store(), keeps=False), Server(path, Store(), keeps=False)
    first.keep_place()
    assert not os.path.exists(path)
    first.listen()
    second.listen()
    inode = os.stat(path).st_ino
    first.keep_place()
    assert os.stat(path).st_ino == inode
    end(second)
    first.keep_place()
    with closing(Client(path)):
        act(first)
        assert len(first.clients) == 1
    os.unlink(path)
    first.keep_place()
    assert os.path.exists(path)
    end(first)


def test_the_folder_is_this_users(tmp_path: Path) -> None:
    folder = tmp_path / "run" / "node"
    own_folder(str(folder))
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o777)
    own_folder(str(folder))
    assert folder.stat().st_mode & 0o777 == 0o700
    link = tmp_path / "link"
    link.symlink_to(folder)
    with pytest.raises(PermissionError):
        own_folder(str(link))
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(OSError, match="File exists"):
        own_folder(str(file))
