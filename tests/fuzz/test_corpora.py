"""Replays the corpora of the fuzz targets in the ordinary build: what `make fuzz` has found, and what it once has found wrong."""

from __future__ import annotations

import pytest

from tests.fuzz.targets import CORPORA, REGRESSIONS, TARGETS, check


@pytest.mark.timeout(1200)  # the first one compiles the native targets
@pytest.mark.parametrize("name", TARGETS)
def test_the_corpus_of_each_target(name: str) -> None:
    paths = sorted((CORPORA / name).iterdir())
    assert paths
    assert {path.name: said for path in paths if (said := check(name, path.read_bytes()))} == {}


def test_what_was_wrong_once() -> None:
    paths = sorted(REGRESSIONS.glob("*/*"))
    assert paths
    assert {str(path): said for path in paths if (said := check(path.parent.name, path.read_bytes()))} == {}


def test_every_corpus_has_a_target_and_is_small() -> None:
    found = {path.name for folder in (CORPORA, REGRESSIONS) for path in folder.iterdir()}
    assert found <= TARGETS.keys()
    assert sum(path.stat().st_size for path in CORPORA.glob("*/*")) < 1_000_000
