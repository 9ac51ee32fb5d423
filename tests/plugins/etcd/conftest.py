"""A real etcd for each module, or as many as a test wants."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.etcd import Etcd


@pytest.fixture(scope="session")
def etcd_program(cluster_programs: Path) -> str:
    return str(cluster_programs / "etcd")


@pytest.fixture(scope="module")
def etcd(etcd_program: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    """Runs for the whole module."""
    made = Etcd(etcd_program, tmp_path_factory.mktemp("etcd"))
    made.start()
    yield made
    made.stop()


@pytest.fixture
def new_etcd(etcd_program: str, tmp_path: Path) -> Iterator[Callable[[], Etcd]]:
    """``new_etcd()`` makes one that is not started yet; all end with the test."""
    made: list[Etcd] = []

    def make() -> Etcd:
        folder = tmp_path / f"etcd{len(made)}"
        folder.mkdir()
        made.append(Etcd(etcd_program, folder))
        return made[-1]

    yield make
    for one in made:
        one.stop()
