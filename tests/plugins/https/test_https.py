"""https: what the directive takes and refuses."""

from __future__ import annotations

import pytest

from fastdns.corefile import CorefileError
from fastdns.plugins.https import setup
from fastdns.setup import Controller


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("https", {}),
        ("https {\n}", {}),
        ("https {\n max_connections 0\n}", {"max_connections": 0}),
        ("https {\n max_connections 5\n}", {"max_connections": 5}),
        ("https {\n max_streams 0\n}", {}),
        ("https {\n max_streams 4294967295\n max_connections 1\n}", {"max_streams": 4294967295, "max_connections": 1}),
        ("https {\n max_connections 5\n}\nhttps {\n max_connections 6\n}", {"max_connections": 5}),
    ],
)
def test_values(text: str, wanted: dict[str, int]) -> None:
    controller = Controller.of(text)
    setup(controller)
    assert controller.config.values["https"] == wanted


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("https x", "Testfile:1 - Error during parsing: Wrong argument count or unexpected line ending after 'x'"),
        ("https {\n max_connections\n}", "Testfile:2 - Error during parsing: Wrong argument count or unexpected line ending after 'max_connections'"),
        ("https {\n max_connections 1 2\n}", "Testfile:2 - Error during parsing: Wrong argument count or unexpected line ending after '2'"),
        ("https {\n max_connections x\n}", "invalid max_connections value 'x': strconv.Atoi: parsing \"x\": invalid syntax"),
        ("https {\n max_connections -1\n}", "Testfile:2 - Error during parsing: max_connections must be a non-negative integer: -1"),
        ("https {\n max_connections 1\n max_connections 1\n}", "Testfile:3 - Error during parsing: max_connections already defined for this server block"),
        ("https {\n max_streams x\n}", "invalid max_streams value 'x': strconv.Atoi: parsing \"x\": invalid syntax"),
        ("https {\n max_streams -1\n}", "Testfile:2 - Error during parsing: max_streams must be a non-negative integer: -1"),
        ("https {\n max_streams 4294967296\n}", "Testfile:2 - Error during parsing: max_streams must not exceed 4294967295: 4294967296"),
        ("https {\n max_streams 1\n max_streams 1\n}", "Testfile:3 - Error during parsing: max_streams already defined for this server block"),
        ("https {\n streams 1\n}", "Testfile:2 - Error during parsing: unknown property 'streams'"),
    ],
)
def test_errors(text: str, message: str) -> None:
    with pytest.raises(CorefileError) as caught:
        setup(Controller.of(text))
    assert str(caught.value).endswith(message)
