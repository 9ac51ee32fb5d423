"""quic: what the directive takes and refuses."""

from __future__ import annotations

import pytest

from fastdns.corefile import CorefileError
from fastdns.plugins.quic import setup
from fastdns.setup import Controller


@pytest.mark.parametrize(
    ("text", "limits"),
    [
        ("quic", {}),
        ("quic {\n}", {}),
        ("quic {\n max_streams 1\n}", {"max_streams": 1}),
        ("quic {\n worker_pool_size 4096\n}", {"worker_pool_size": 4096}),
        ("quic {\n max_connections 0\n}", {"max_connections": 0}),
        ("quic {\n max_connections 50\n}", {"max_connections": 50}),
        ("quic {\n worker_pool_size 7\n max_streams 100000\n}", {"max_streams": 100000, "worker_pool_size": 7}),
        ("quic {\n max_streams 3\n}\nquic {\n max_streams 4\n}", {"max_streams": 3}),
    ],
)
def test_values(text: str, limits: dict[str, int]) -> None:
    controller = Controller.of(text)
    setup(controller)
    assert controller.config.values["quic"] == limits


COUNT = "Wrong argument count or unexpected line ending after"


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("quic a", 1, f"{COUNT} 'a'"),
        ("quic {\n max_streams\n}", 2, f"{COUNT} 'max_streams'"),
        ("quic {\n max_streams 1 2\n}", 2, f"{COUNT} '2'"),
        ("quic {\n max_streams a\n}", 2, "invalid max_streams value 'a': strconv.Atoi: parsing \"a\": invalid syntax"),
        ("quic {\n max_streams 0\n}", 2, "max_streams must be a positive integer: 0"),
        ("quic {\n max_streams 1\n max_streams 2\n}", 3, "max_streams already defined for this server block"),
        ("quic {\n worker_pool_size\n}", 2, f"{COUNT} 'worker_pool_size'"),
        (
            "quic {\n worker_pool_size 99999999999999999999\n}",
            2,
            "invalid worker_pool_size value '99999999999999999999': strconv.Atoi: parsing \"99999999999999999999\": value out of range",
        ),
        ("quic {\n worker_pool_size -1\n}", 2, "worker_pool_size must be a positive integer: -1"),
        ("quic {\n worker_pool_size 1\n worker_pool_size 1\n}", 3, "worker_pool_size already defined for this server block"),
        ("quic {\n max_connections -1\n}", 2, "max_connections must be a non-negative integer: -1"),
        ("quic {\n max_connections 1\n max_connections 1\n}", 3, "max_connections already defined for this server block"),
        ("quic {\n connections 1\n}", 2, "unknown property 'connections'"),
    ],
)
def test_errors(text: str, line: int, message: str) -> None:
    with pytest.raises(CorefileError) as caught:
        setup(Controller.of(text))
    assert str(caught.value) == f"Testfile:{line} - Error during parsing: {message}"
