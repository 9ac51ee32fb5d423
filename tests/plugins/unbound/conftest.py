"""The internet that the resolvers of these tests see: one for all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.plugins.unbound.internet import Internet, run_internet


@pytest.fixture(scope="session")
def internet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Internet]:
    folder: Path = tmp_path_factory.mktemp("internet")
    with run_internet(folder) as found:
        yield found
