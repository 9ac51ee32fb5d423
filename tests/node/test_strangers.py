"""Who may have the sockets of a node's cache, and what is not taken for one."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from fastdns.node.store import fields
from tests.node.nodes import LOCAL, Node
from tests.node.pods import Pod
from tests.waiting import LIMIT, REPLY, until


def test_strangers_are_refused(node: Node, first: Pod) -> None:
    """Another user cannot reach the socket. One that could is refused, and so is who says what nobody says there."""
    folder = node.folder / "run"
    path = folder / "serving"
    until(path.exists, "the socket")
    assert folder.stat().st_mode & 0o777 == 0o700

    def say(message: bytes) -> bytes:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sock:
            sock.settimeout(REPLY)
            sock.connect(str(path))
            sock.send(message)
            return sock.recv(4096)

    assert say(b"TAKE=1").startswith(b"FDSTORE=1")
    for message in (b"SERVING=1", b"FDSTORE=1\nFDNAME=x", b"READY=1", b"\xff" * 5000, b"nonsense", b"="):
        with suppress(ConnectionError):
            assert say(message) == b"", message
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as silent:
        silent.connect(str(path))  # and hangs
        for part in (node.folder, *node.folder.parents[:3]):
            part.chmod(0o755)
        folder.chmod(0o755)
        path.chmod(0o777)
        assert as_nobody(lambda: say(b"TAKE=1")) == b""
        first.said("user 65534 is not allowed to")
        second = Pod(node, "second")
        second.serves()
        second.said("Taken over")


def as_nobody(function: Callable[[], bytes]) -> bytes:
    """What a process of user 65534 gets."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setuid(65534)
            try:
                found = function()
            except ConnectionError:
                found = b""
            os.write(writer, b"got " + found)
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader, "rb") as file:
        found = file.read()
    os.waitpid(pid, 0)
    assert found.startswith(b"got "), "it could not connect"
    return found[4:]


def test_what_is_no_socket_for_queries_is_not_used(node: Node) -> None:
    """Who has the place of the pod that serves gives descriptors of other kinds, and then queries' sockets of an address that is none of this server's."""
    (node.folder / "run").mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as giver, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as elsewhere:
        giver.bind(str(node.folder / "run" / "serving"))
        giver.listen()
        giver.settimeout(LIMIT)
        elsewhere.bind(("127.0.0.1", 0))
        inode = os.fstat(elsewhere.fileno()).st_ino
        first = Pod(node, "first")
        sock, _ = giver.accept()
        with sock, open("/dev/null", "rb") as file:
            assert fields(sock.recv(100)) == {"TAKE": "1"}
            socket.send_fds(sock, [b"FDSTORE=1\nFDNAME=x"], [file.fileno(), giver.fileno(), sock.fileno(), elsewhere.fileno()])
            sock.send(b"READY=1")
            pid = first.serves()
            first.said("Taken over 1 sockets")
            assert sock.recv(100) == b"SERVING=1"
    until(lambda: node.space.ask("some.example", LOCAL[0]) == ["10.0.0.1"], "an answer")
    assert f"socket:[{inode}]" not in {os.readlink(path) for path in Path(f"/proc/{pid}/fd").iterdir()}
    assert f"socket:[{inode}]" not in {os.readlink(path) for path in Path(f"/proc/{first.process.pid}/fd").iterdir()}
    first.end()
