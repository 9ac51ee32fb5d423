"""Primaries of tests, which end with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.plugins.secondary.primary import Primary


@pytest.fixture
def primary() -> Iterator[Callable[..., Primary]]:
    """Primary(*versions, **options)."""
    made: list[Primary] = []

    def make(*versions: str, **options: object) -> Primary:
        made.append(Primary(*versions, **options))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for one in made:
        one.close()
