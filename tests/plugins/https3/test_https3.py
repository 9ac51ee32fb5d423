"""https3: what the directive takes and refuses."""

from __future__ import annotations

import pytest

from fastdns.corefile import CorefileError
from fastdns.plugins.https3 import setup
from fastdns.setup import Controller


@pytest.mark.parametrize(
    ("text", "limits"),
    [
        ("https3", {}),
        ("https3 {\n}", {}),
        ("https3 {\n max_streams 0\n max_connections 0\n}", {"max_streams": 0, "max_connections": 0}),
        ("https3 {\n max_streams 1\n}", {"max_streams": 1}),
        ("https3 {\n max_connections 4096\n}", {"max_connections": 4096}),
        ("https3 {\n max_connections 7\n max_streams 100000\n}", {"max_streams": 100000, "max_connections": 7}),
        ("https3 {\n max_streams 3\n}\nhttps3 {\n max_streams 4\n}", {"max_streams": 3}),
    ],
)
def test_values(text: str, limits: dict[str, int]) -> None:
    controller = Controller.of(text)
    setup(controller)
    assert controller.config.values["https3"] == limits


COUNT = "Wrong argument count or unexpected line ending after"


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("https3 a", 1, f"{COUNT} 'a'"),
        ("https3 {\n max_streams\n}", 2, f"{COUNT} 'max_streams'"),
        ("https3 {\n max_streams 1 2\n}", 2, f"{COUNT} '2'"),
        ("https3 {\n max_streams a\n}", 2, "invalid max_streams value 'a': strconv.Atoi: parsing \"a\": invalid syntax"),
        ("https3 {\n max_streams -2\n}", 2, "max_streams must be a non-negative integer: -2"),
        ("https3 {\n max_streams 1\n max_streams 2\n}", 3, "max_streams already defined for this server block"),
        ("https3 {\n max_connections\n}", 2, f"{COUNT} 'max_connections'"),
        (
            "https3 {\n max_connections 99999999999999999999\n}",
            2,
            "invalid max_connections value '99999999999999999999': strconv.Atoi: parsing \"99999999999999999999\": value out of range",
        ),
        ("https3 {\n max_connections -1\n}", 2, "max_connections must be a non-negative integer: -1"),
        ("https3 {\n max_connections 1\n max_connections 1\n}", 3, "max_connections already defined for this server block"),
        ("https3 {\n worker_pool_size 1\n}", 2, "unknown property 'worker_pool_size'"),
    ],
)
def test_errors(text: str, line: int, message: str) -> None:
    with pytest.raises(CorefileError) as caught:
        setup(Controller.of(text))
    assert str(caught.value) == f"Testfile:{line} - Error during parsing: {message}"
