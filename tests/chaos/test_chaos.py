"""Some seconds of faults; ``make chaos MINUTES=120 SEED=7`` for hours."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.chaos.faults import FAULTS, Change, Clock, Fault, Kill, Memory, NoBuffers, Reload, Upgrade
from tests.chaos.run import chaos

#: Those that a short run of all may leave out, and what hands them on to another process.
OTHERS: list[type[Fault]] = [Clock, NoBuffers, Memory, Change, Reload, Upgrade, Kill]


@pytest.mark.parametrize("faults", [FAULTS, OTHERS], ids=["all", "others"])
def test_nothing_is_lost_or_wrong(tmp_path: Path, faults: list[type[Fault]]) -> None:
    report = chaos(tmp_path, 20, random.randrange(1 << 30), faults)
    print(report)
    assert report["load"]["sent"] > 1000
    assert sum(report["faults"].values()) > 3


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", range(3))
def test_for_minutes(tmp_path: Path, seed: int) -> None:
    report = chaos(tmp_path, 180, seed, FAULTS)
    assert set(report["faults"]) == {fault.__name__ for fault in FAULTS}
