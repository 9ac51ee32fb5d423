"""R19: a soak of minutes; ``make soak MINUTES=4320`` for the 72 hours of the goal."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.soak import soak


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_R19_soak(tmp_path: Path) -> None:
    """Load, changes of the cluster, reloads and outages for FASTDNS_SOAK seconds: nothing wrong, nothing lost, nothing left behind."""
    report = soak(tmp_path, float(os.environ.get("FASTDNS_SOAK", "120")))
    print(json.dumps(report, indent=1))
    assert not report["wrong"]
    assert not report["load"]["lost"]
