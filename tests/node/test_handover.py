"""Updates of a node's cache under 5,000 queries a second: pods that come and go in any order."""

from __future__ import annotations

import os
import signal
import socket

from fastdns.node.peer import Client
from fastdns.node.store import Store
from fastdns.system.credentials import peer_credentials
from tests.node.nodes import LOCAL, Node, expected
from tests.node.pods import TEMPLATE, Load, Pod, nothing_is_left, whole
from tests.waiting import LIMIT, until


def test_updates_lose_nothing(node: Node, first: Pod) -> None:
    """To a new pod, and to another one. TCP connections that wait to be accepted are those of whoever serves."""
    queries = Load(node)
    for name in ("second", "third"):
        pod = Pod(node, name)
        pod.serves()
        pod.said("Taken over 4 sockets of the pod that serves")
        first.said("Another pod serves")
        first.end()
        assert "Interface and rules are left to another pod" in first.log()
        assert "Tearing down" not in first.log()
        first = pod
    assert queries.end() == 0
    assert whole(node)
    first.end()
    assert nothing_is_left(node)


def test_a_former_pod_that_knows_of_no_other_one(node: Node) -> None:
    """As node-cache, it removes interface and rules at its end. The new pod, which has started meanwhile, sees that and puts them back."""
    former = node.run("-metrics-listen-address", "127.0.0.1:9354")
    until(lambda: node.space.rules() == expected(LOCAL), "all rules")
    second = Pod(node, "second")
    second.serves()
    former.terminate()
    assert former.wait(LIMIT) == 0
    second.said("Added interface")
    until(lambda: whole(node), "interface and rules")
    until(lambda: node.space.ask("some.example", LOCAL[0]) == ["10.0.0.1"], "an answer")


def test_an_update_is_awaited(node: Node, first: Pod) -> None:
    """The former pod is told to end while the new one starts."""
    queries = Load(node)
    second = Pod(node, "second")
    second.said("Taken over")
    first.end()
    second.serves()
    assert queries.end() == 0
    assert "Tearing down" not in first.log()
    assert whole(node)


def test_a_pod_that_does_not_come_up_changes_nothing(node: Node, first: Pod) -> None:
    queries = Load(node)
    broken = Pod(node, "broken", ".:53 {\n    nonsense\n}\n")
    assert broken.process.wait(LIMIT) == 1
    assert "Interface and rules are left to another pod" in broken.log()
    assert whole(node)
    assert queries.end() == 0
    # And the pod goes as if no other had been there.
    first.end()
    assert nothing_is_left(node)


def test_a_pod_goes_on_when_its_successor_has_gone(node: Node, first: Pod) -> None:
    """The successor dies with its server, and is started again: it finds the pod that serves."""
    second = Pod(node, "second")
    pid = second.serves()
    first.said("Another pod serves")
    for number in (pid, second.process.pid):
        os.kill(number, signal.SIGKILL)
    second.process.wait(LIMIT)
    first.said("The pod that had taken over has ended")
    queries = Load(node)
    second.start()
    second.serves(pid)
    first.end()
    assert queries.end() == 0
    assert whole(node)


def test_two_new_pods(node: Node, first: Pod) -> None:
    """Both take the sockets of the one that serves. Whichever ends, the others are found, and have interface and rules until the last one ends."""
    queries = Load(node)
    second, third = Pod(node, "second"), Pod(node, "third")
    for pod in (second, third):
        pod.serves()
        pod.said("Taken over 4 sockets of the pod that serves")
    until(lambda: first.log().count("Another pod serves") == 2, "both")
    first.end()
    path = node.folder / "run" / "serving"
    place = path.stat().st_ino
    # The one that is found at the path ends, and the other one takes its place.
    found, other = (second, third) if serving(node) == second.process.pid else (third, second)
    found.end()
    until(lambda: path.stat().st_ino != place, "the other one at the path")
    assert serving(node) == other.process.pid
    last = Pod(node, "last")
    last.serves()
    last.said("Taken over 4 sockets of the pod that serves")
    other.end()
    assert queries.end() == 0
    assert whole(node)
    for pod in (first, found, other):
        assert "Tearing down" not in pod.log()
    last.end()
    assert nothing_is_left(node)


def serving(node: Node) -> int:
    """The process that a new pod finds."""
    client = Client(str(node.folder / "run" / "serving"))
    pid = peer_credentials(client.socket).pid
    client.close()
    return int(pid)


def test_pods_that_end_at_once_leave_nothing(node: Node, first: Pod) -> None:
    second = Pod(node, "second")
    second.serves()
    first.said("Another pod serves")
    for pod in (first, second):
        pod.process.terminate()
    for pod in (first, second):
        assert pod.process.wait(LIMIT) == 0
    assert nothing_is_left(node)


def test_a_pod_of_other_addresses_keeps_its_own(node: Node, first: Pod) -> None:
    """The former one removes what is its own, of which the new one puts back what both have."""
    local = [LOCAL[0], "10.96.0.11"]
    second = Pod(node, "second", local=local)
    second.serves()
    first.said("Another pod serves")
    first.end()
    until(lambda: node.space.rules() == expected(local) and "nodelocaldns" in node.space.links(), "interface and rules")
    for address in local:
        until(lambda address=address: node.space.ask("some.example", address) == ["10.0.0.1"], f"an answer of {address}")
    second.end()
    assert nothing_is_left(node)


def test_a_pod_that_is_stopped_keeps_its_sockets(node: Node, first: Pod) -> None:
    """The new one does without them, and is as much an owner of interface and rules as the former one."""
    path = node.folder / "run" / "serving"
    place = path.stat().st_ino
    os.kill(first.process.pid, signal.SIGSTOP)
    second = Pod(node, "second")
    second.said("Taking over sockets: timed out")
    # A server has its pidfile before its supervisor knows that it serves, and is an owner.
    until(lambda: path.stat().st_ino != place, "the second one at the path")
    os.kill(first.process.pid, signal.SIGCONT)
    first.end()
    assert "Interface and rules are left to another pod" in first.log()
    assert whole(node)
    until(lambda: node.space.ask("some.example", LOCAL[0]) == ["10.0.0.1"], "an answer")
    second.end()
    assert nothing_is_left(node)


def test_a_pod_that_hangs_is_not_waited_for(node: Node) -> None:
    (node.folder / "run").mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as hangs:
        hangs.bind(str(node.folder / "run" / "serving"))
        hangs.listen()
        first = Pod(node, "first")
        first.serves()
        first.said("Taking over sockets: timed out")
    until(lambda: whole(node), "all rules")
    first.end()


def test_what_a_reload_adds_and_removes_is_handed_over(node: Node, first: Pod) -> None:
    usual = ["dns|//10.96.0.10|53", "dns|//169.254.20.10|53"]
    until(lambda: kept(node) == usual, "the first sockets")
    first.change(TEMPLATE + "\nother.test:1053 {\n    bind 169.254.20.10\n    whoami\n}\n")
    until(lambda: kept(node) == sorted([*usual, "dns|//169.254.20.10|1053"]), "the new ones")
    first.change(TEMPLATE)
    until(lambda: kept(node) == usual, "the first sockets alone")


def kept(node: Node) -> list[str]:
    """Names of the sockets that another pod would get."""
    store = Store()
    try:
        client = Client(str(node.folder / "run" / "serving"))
    except OSError:
        return []
    client.take(store)
    client.close()
    names = sorted(store.sockets)
    store.close()
    return names
