"""Crashes and reloads of a node's server under 5,000 queries a second."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from tests.node.nodes import LOCAL, Node
from tests.node.pods import AROUND, IN_HAND, TEMPLATE, Load, Pod, nothing_is_left, whole
from tests.waiting import LIMIT, until


def test_a_crash_loses_what_is_in_hand(node: Node, first: Pod) -> None:
    """Queries wait in the sockets while the server starts again. Interface and rules stay."""
    queries = Load(node)
    for _ in range(2):
        pid = first.serves()
        os.kill(pid, signal.SIGKILL)
        first.serves(pid)
        time.sleep(AROUND)
    assert queries.end() <= 2 * IN_HAND
    assert "Tearing down" not in first.log()
    assert whole(node)
    page = node.space.page()
    assert "\nfastdns_node_restarts_total 2\n" in page


def test_crashes_in_a_row_give_the_addresses_back(node: Node, first: Pod) -> None:
    pid = 0
    for _ in range(3):
        pid = first.serves(pid)
        os.kill(pid, signal.SIGKILL)
    assert first.process.wait(LIMIT) == 128 + signal.SIGKILL
    assert nothing_is_left(node)


def test_a_server_that_does_not_come_back_gives_the_addresses_back(node: Node, first: Pod) -> None:
    """It hangs at its start, as with a file system that does not answer."""
    former = first.serves()
    os.kill(former, signal.SIGKILL)
    os.kill(until(lambda: children(first.process.pid, former), "the next server")[0], signal.SIGSTOP)
    assert first.process.wait(LIMIT) == 1
    assert "The server does not serve after 10 s" in first.log()
    assert nothing_is_left(node)


def children(pid: int, former: int) -> list[int]:
    """The servers of a pod, but for a former one, which may be ending."""
    found = [int(text) for text in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return [child for child in found if child != former and b"-workers" in Path(f"/proc/{child}/cmdline").read_bytes()]


def test_reloads_lose_nothing(node: Node, first: Pod) -> None:
    """By changes of the ConfigMap."""
    queries = Load(node)
    for i in range(3):
        first.change(TEMPLATE.replace("10.0.0.1", f"10.0.0.{2 + i}"))
        until(lambda i=i: node.space.ask("changed.example", LOCAL[1]) == [f"10.0.0.{2 + i}"], "the change")
    assert queries.end() == 0
    assert first.log().count("Reloading complete") == 3
