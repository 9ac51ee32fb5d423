"""debug: a switch without arguments."""

from __future__ import annotations

import pytest

from fastdns.corefile import Controller, CorefileError
from fastdns.plugins.debug import setup


def test_switch() -> None:
    controller = Controller.of("debug")
    assert not controller.config.debug
    setup(controller)
    assert controller.config.debug


@pytest.mark.parametrize("text", ["debug off", "debug {\n}"])
def test_refused(text: str) -> None:
    with pytest.raises(CorefileError, match=r"Wrong argument count|Unexpected token"):
        setup(Controller.of(text))
