"""The internet that the resolvers of these tests see, in a network of its own, for its servers have port 53. The process is in it while a module runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.networks import own_network
from tests.plugins.unbound.internet import Internet, run_internet


@pytest.fixture(scope="module")
def internet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Internet]:
    folder: Path = tmp_path_factory.mktemp("internet")
    with own_network(), run_internet(folder) as found:
        yield found
