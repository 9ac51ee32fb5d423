"""Mutated packets and replies against a running server (R1, R2); `make fuzz` throws many more, at a build with sanitizers."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fastdns.setup import registry
from tests.fuzz import packets


@pytest.mark.timeout(1200)
def test_R1_mutated_packets(tmp_path: Path) -> None:
    missing = sorted(set(packets.PLUGINS) - set(registry.built()))
    assert not missing
    packets.fuzz(tmp_path, int(os.environ.get("FASTDNS_PACKETS", "20000")), 3)
