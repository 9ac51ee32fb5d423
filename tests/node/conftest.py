"""A network of its own for each test of ``fastdns-node``, and a pod that serves there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.node.nodes import Namespace, Node
from tests.node.pods import Pod, whole
from tests.programs import need
from tests.waiting import until


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    need("ip", "iptables", "ip6tables")
    if os.geteuid() != 0:
        pytest.skip("needs root to make a network namespace")
    space = Namespace()
    node = Node(space, tmp_path)
    yield node
    node.stop()
    space.thread.shutdown()


@pytest.fixture
def first(node: Node) -> Pod:
    pod = Pod(node, "first")
    pod.serves()
    until(lambda: whole(node), "interface and rules")
    return pod
