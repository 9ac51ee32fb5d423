"""The programs that tests start. Without one a test skips and says which package has it."""

from __future__ import annotations

import pytest

from tools import system_packages


def program(name: str) -> str:
    """The path of a program."""
    path = system_packages.program(name)
    if path is None:
        pytest.skip(f"needs {name}: install {system_packages.package(name) or name}")
    return path


def need(*names: str) -> None:
    for name in names:
        program(name)
