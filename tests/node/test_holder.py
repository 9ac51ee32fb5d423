"""The process that keeps sockets, interface and rules for a container that was killed, under 5,000 queries a second."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from tests.node.memory import Memory
from tests.node.nodes import LOCAL, Node
from tests.node.pods import IN_HAND, Load, Pod, nothing_is_left, whole
from tests.programs import program
from tests.waiting import LIMIT, until


def hold(node: Node, *rights: str, local: Sequence[str] = ()) -> subprocess.Popen[bytes]:
    """A process that keeps sockets, once it is there. It has these capabilities alone, as its container."""
    path = node.folder / "run" / "keeping"
    before = path.stat().st_ino if path.exists() else 0
    command = [program("setpriv"), "--bounding-set=" + ",".join(["-all", *rights]), "--inh-caps=-all"]
    command += [sys.executable, "-m", "fastdns.node", "-hold", "-handover", str(node.folder / "run")]
    process = node.start([*command, *(["-localip", ",".join(local)] if local else [])], node.folder / "hold.log")
    until(lambda: path.exists() and path.stat().st_ino != before, "the process that keeps sockets")
    return process


def sockets_of(pid: int) -> int:
    found = 0
    for path in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            found += os.readlink(path).startswith("socket:")
    return found


@pytest.fixture
def memory() -> Iterator[Memory]:
    memory = Memory()
    yield memory
    memory.close()


def test_no_memory_loses_what_is_in_hand(memory: Memory, node: Node) -> None:
    """The kernel kills the server, or the container, which is started again."""
    process = hold(node)
    first = Pod(node, "first", memory=memory)
    pid = first.serves()
    until(lambda: whole(node), "all rules")
    until(lambda: sockets_of(process.pid) > 4, "the sockets")
    queries = Load(node)

    def is_over() -> bool:
        return first.process.poll() is not None or "The server has ended with status 137" in first.log()

    memory.exhaust([first.process.pid, pid], is_over)
    if first.process.poll() is not None:
        first.start()
    first.serves(pid)
    assert queries.end() <= IN_HAND
    assert whole(node)
    first.end()
    assert nothing_is_left(node)


def test_a_container_that_is_killed_loses_what_is_in_hand(node: Node) -> None:
    """As the kernel does it with a container without memory: all its processes at once. Another container keeps the sockets until it runs again."""
    hold(node)
    first = Pod(node, "first")
    pid = first.serves()
    # The process that keeps sockets is replaced, too.
    second = hold(node)
    os.kill(node.started[0].pid, signal.SIGKILL)
    node.started[0].wait(LIMIT)
    until(lambda: sockets_of(second.pid) > 4, "the sockets")
    queries = Load(node)
    for number in (first.process.pid, pid):
        os.kill(number, signal.SIGKILL)
    first.process.wait(LIMIT)
    time.sleep(1.0)
    first.start()
    first.serves(pid)
    first.said("Taken over 4 sockets of one that has ended")
    assert queries.end() <= IN_HAND
    first.end()


def test_what_nobody_serves_is_removed(node: Node) -> None:
    """The container is killed and does not run again: sockets, interface and rules go, and queries to the cluster's DNS server."""
    process = hold(node, "+net_admin", "+net_raw", local=LOCAL)
    first = Pod(node, "first")
    pid = first.serves()
    until(lambda: whole(node), "all rules")
    until(lambda: sockets_of(process.pid) > 4, "the sockets")
    for number in (first.process.pid, pid):
        os.kill(number, signal.SIGKILL)
    first.process.wait(LIMIT)
    assert whole(node)
    until(lambda: sockets_of(process.pid) <= 1, "their end")
    until(lambda: nothing_is_left(node), "the end of interface and rules")
    # As if nothing had happened.
    first.start()
    first.serves(pid)
    until(lambda: whole(node), "all rules")
    until(lambda: sockets_of(process.pid) > 4, "the sockets")
    process.terminate()
    assert process.wait(LIMIT) == 0
    assert whole(node)
