"""timeouts: what is set, and that connections end then."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable

import dns.message
import dns.query
import pytest

from fastdns.corefile import CorefileError
from fastdns.plugins.timeouts import setup
from fastdns.setup import Controller
from tests.server import Server
from tests.waiting import REPLY


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("timeouts {\n read 1s\n}", (1.0, None, None, None)),
        ("timeouts {\n read 30\n write 1m\n idle 24h\n}", (30.0, 60.0, 86400.0, None)),
        ("timeouts {\n maxtcpqueries -1\n}", (None, None, None, 0)),
        ("timeouts {\n maxtcpqueries 5\n read 2s\n read 3s\n}", (3.0, None, None, 5)),
        ("timeouts {\n read 2s\n}\ntimeouts {\n idle 1.5s\n}", (2.0, None, 1.5, None)),
    ],
)
def test_values(text: str, wanted: tuple[float | None, ...]) -> None:
    controller = Controller.of(text)
    setup(controller)
    config = controller.config
    assert (config.read_timeout, config.write_timeout, config.idle_timeout, config.max_tcp_queries) == wanted


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("timeouts", "plugin/timeouts: plugin/timeouts: Testfile:1 - Error during parsing: timeouts block with no timeouts specified"),
        ("timeouts {\n}", "plugin/timeouts: plugin/timeouts: Testfile:2 - Error during parsing: timeouts block with no timeouts specified"),
        ("timeouts 1s", "plugin/timeouts: plugin/timeouts: Testfile:1 - Error during parsing: Wrong argument count or unexpected line ending after '1s'"),
        ("timeouts {\n read\n}", "Testfile:2 - Error during parsing: Wrong argument count or unexpected line ending after 'read'"),
        ("timeouts {\n read 1s 2s\n}", "Testfile:2 - Error during parsing: Wrong argument count or unexpected line ending after '2s'"),
        ("timeouts {\n read x\n}", "Testfile:2 - Error during parsing: failed to parse duration 'x'"),
        ("timeouts {\n read 0\n}", "Testfile:2 - Error during parsing: timeout provided '0s' needs to be between 1 second and 24 hours"),
        ("timeouts {\n read 25h\n}", "Testfile:2 - Error during parsing: timeout provided '25h0m0s' needs to be between 1 second and 24 hours"),
        ("timeouts {\n wait 1h\n}", "Testfile:2 - Error during parsing: unknown option: 'wait'"),
        ("timeouts {\n wait x\n}", "Testfile:2 - Error during parsing: failed to parse duration 'x'"),
        (
            "timeouts {\n maxtcpqueries x\n}",
            "Testfile:2 - Error during parsing: invalid value for maxtcpqueries 'x': strconv.Atoi: parsing \"x\": invalid syntax",
        ),
        ("timeouts {\n maxtcpqueries 0\n}", "Testfile:2 - Error during parsing: maxtcpqueries provided '0' needs to be -1 (unlimited) or a positive integer"),
    ],
)
def test_errors(text: str, message: str) -> None:
    with pytest.raises(CorefileError) as caught:
        setup(Controller.of(text))
    assert str(caught.value) == message


def closed_after(server: Server, queries: int) -> float:
    """Seconds until the server closes a connection that has asked so many queries."""
    with socket.create_connection(("127.0.0.1", server.port), REPLY) as connection:
        for _ in range(queries):
            dns.query.send_tcp(connection, dns.message.make_query("a.test.", "A"))
            dns.query.receive_tcp(connection)
        start = time.monotonic()
        assert connection.recv(1) == b""
        return time.monotonic() - start


def test_connections_end(serve: Callable[..., Server]) -> None:
    server = serve("a.test:{port} {\n timeouts {\n read 3s\n idle 9s\n }\n whoami\n}\n.:{port} {\n timeouts {\n read 1s\n idle 2s\n }\n whoami\n}")
    assert closed_after(server, 0) > 0.9
    assert closed_after(server, 1) > 1.9


def test_the_number_of_queries_of_a_connection(serve: Callable[..., Server]) -> None:
    server = serve(".:{port} {\n timeouts {\n idle 1h\n maxtcpqueries 2\n }\n whoami\n}")
    assert closed_after(server, 2) < 60
