"""The way of front ends to the workers: what a gate's future gives."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def found() -> dict[str, object]:
    ran = subprocess.run([sys.executable, "-m", "tests.asking_gate"], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    outcomes: dict[str, object] = json.loads(ran.stdout)
    return outcomes


@pytest.mark.parametrize(
    ("case", "wanted"),
    [
        ("query", "7 2 192.0.2.7"),
        ("six", "7 2 2001:db8::7"),
        ("mapped", "7 2 192.0.2.9"),
        ("big", "9 2 192.0.2.7"),
        ("short", "rejected in silence"),
        ("response", "rejected in silence"),
        ("update", "rejected 4"),
        ("two", "rejected 1"),
        ("drop", "nothing"),
        ("quic", "0 2 192.0.2.7"),
        ("quic id", "rejected in silence"),
        ("quic keepalive", "rejected in silence"),
        ("many", True),
        ("held", [[False] * 4, True]),
        ("crowd", [9000, True]),
        ("nowhere", "no IP address: nowhere"),
        ("192.0.2.300", "no IP address: 192.0.2.300"),
    ],
)
def test_what_a_future_gives(found: dict[str, object], case: str, wanted: object) -> None:
    assert found[case] == wanted
