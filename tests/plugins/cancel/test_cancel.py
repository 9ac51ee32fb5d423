"""The limit, through the sockets of a server whose upstream is silent."""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.plugins.cache.scripted import UPSTREAM_PATIENCE, running
from tests.server import Server


def test_a_query_is_given_up_after_the_limit(serve: Callable[..., Server]) -> None:
    with running(serve, "cancel 300ms") as (server, _, script):
        script.said["silent.test."] = None
        start = time.monotonic()
        assert server.query("silent.test.").rcode() == 2
        assert 0.25 < time.monotonic() - start < UPSTREAM_PATIENCE - 1
        assert server.query("fine.test.").rcode() == 0
