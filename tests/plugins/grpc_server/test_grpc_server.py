"""grpc_server: what the directive takes and refuses."""

from __future__ import annotations

import pytest

from fastdns.corefile import CorefileError
from fastdns.plugins.grpc_server import setup
from fastdns.setup import Controller


@pytest.mark.parametrize(
    ("text", "limits"),
    [
        ("grpc_server", {}),
        ("grpc_server {\n}", {}),
        ("grpc_server {\n max_streams 0\n}", {"max_streams": 0}),
        ("grpc_server {\n max_connections 7\n max_streams 100000\n}", {"max_streams": 100000, "max_connections": 7}),
        ("grpc_server {\n max_streams 3\n}\ngrpc_server {\n max_streams 4\n}", {"max_streams": 3}),
    ],
)
def test_limits(text: str, limits: dict[str, int]) -> None:
    controller = Controller.of(text)
    setup(controller)
    assert controller.config.values["grpc_server"] == limits


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("grpc_server 1", "Testfile:1 - Error during parsing: Wrong argument count or unexpected line ending after '1'"),
        ("grpc_server {\n max_streams\n}", "Testfile:2 - Error during parsing: Wrong argument count or unexpected line ending after 'max_streams'"),
        ("grpc_server {\n max_streams x\n}", "Testfile:2 - Error during parsing: invalid max_streams value 'x': strconv.Atoi: parsing \"x\": invalid syntax"),
        ("grpc_server {\n max_connections -1\n}", "Testfile:2 - Error during parsing: max_connections must be a non-negative integer: -1"),
        (
            "grpc_server {\n max_streams 1\n max_streams 1\n}",
            "Testfile:3 - Error during parsing: max_streams already defined for this server block",
        ),
        ("grpc_server {\n other 1\n}", "Testfile:2 - Error during parsing: unknown property 'other'"),
    ],
)
def test_errors(text: str, error: str) -> None:
    with pytest.raises(CorefileError) as caught:
        setup(Controller.of(text))
    assert str(caught.value) == error
