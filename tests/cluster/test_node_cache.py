"""The manifest of the cache on every node, made for a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster import node_cache
from tests.cluster.images import NODE

TEXT = "\n".join(path.read_text() for path in sorted(node_cache.FOLDER.glob("*.yaml")) if path.name != "kustomization.yaml")

pytestmark = pytest.mark.skipif(not Path(node_cache.FOLDER).is_dir(), reason="the source tree is not here")


@pytest.mark.parametrize(
    ("mode", "addresses", "bind"), [("iptables", "169.254.20.10,10.96.0.10", "169.254.20.10 10.96.0.10"), ("nftables", "169.254.20.10", "169.254.20.10")]
)
def test_addresses(mode: str, addresses: str, bind: str) -> None:
    made = node_cache.manifest(TEXT, mode)
    assert f'"-localip", "{addresses}",' in made
    assert f"bind {bind}\n" in made
    assert f"image: {NODE}\n" in made
    # What fastdns-node itself replaces stays.
    assert {word for word in made.split() if "PILLAR" in word} >= {"__PILLAR__CLUSTER__DNS__", "__PILLAR__UPSTREAM__SERVERS__"}
    assert "__PILLAR__DNS__SERVER__" not in made
