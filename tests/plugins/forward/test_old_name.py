"""`proxy`, what *forward* was called once, and a plugin that is no more."""

from __future__ import annotations

import re
from collections.abc import Callable

from fastdns.testing import Upstream
from tests.plugins.cache.scripted import Script
from tests.server import Server


def test_proxy_is_forward(serve: Callable[..., Server]) -> None:
    with Upstream(Script()) as upstream:
        server = serve(f".:{{port}} {{\n proxy a.test {upstream.address}\n whoami\n}}")
        assert server.answers("x.a.test.") == ["192.0.2.1"]
        assert server.query("x.b.test.").additional, "whoami"
    warning = r"^\[WARNING\] \S+Corefile:2: plugin/forward: 'proxy' is the old name of 'forward': write 'forward' instead$"
    assert len(re.findall(warning, server.log(), re.M)) == 1


def test_federation_is_gone(serve: Callable[..., Server]) -> None:
    server = serve(".:{port} {\n federation cluster.local\n}", wait=False)
    assert server.exit_status() == 1
    assert "Corefile:2 - Error during parsing: Unknown directive 'federation': gone since CoreDNS 1.7.0" in server.log()
