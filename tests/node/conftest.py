"""A network of its own for each test of ``fastdns-node``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.node.nodes import Namespace, Node
from tests.programs import need


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
