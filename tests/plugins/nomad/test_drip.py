"""nomad: an API that sends its replies an octet at a time."""

from __future__ import annotations

import pytest

from fastdns.plugins.nomad import api
from fastdns.plugins.nomad.api import Api, NomadError
from tests.dripping import Dripping


@pytest.mark.parametrize("path", [b"/head", b"/body", b"/chunks"])
def test_a_call_has_an_end(path: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "CALL_SECONDS", 0.3)
    server = Dripping(path)
    try:
        with pytest.raises(NomadError, match=r"it took longer than 0\.3 s"):
            Api([server.url], "", "").services("web", "default")
    finally:
        server.close()
