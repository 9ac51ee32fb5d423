"""Replies larger than the network's packets, in a network namespace whose loopback takes 1,280 octets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import dns.message
import dns.query
import pytest

from tests.networks import enter_network
from tests.server import Server
from tests.waiting import REPLY

MTU = 1280

MANY = 200  # addresses: 3,200 octets of records


@pytest.fixture
def namespace() -> Iterator[ThreadPoolExecutor]:
    """One thread in a namespace of its own: what is submitted runs there."""
    with ThreadPoolExecutor(1) as thread:
        try:
            thread.submit(enter_network, MTU).result()
        except PermissionError:
            pytest.skip("network namespaces are for root")
        yield thread


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", ""])
def test_a_reply_larger_than_its_path_takes_comes_in_fragments(serve: Callable[..., Server], namespace: ThreadPoolExecutor, host: str) -> None:
    addresses = [f"192.0.2.{i + 1}" for i in range(MANY)]
    lines = "\n".join(f"        {address} many.example.org" for address in addresses)
    corefile = ".:{port} {\n" + (f"    bind {host}\n" if host else "") + "    hosts {\n" + lines + "\n        192.0.2.250 one.example.org\n    }\n}\n"

    def converse() -> None:
        server = serve(corefile)

        def ask(name: str) -> dns.message.Message:
            query = dns.message.make_query(name, "A", use_edns=0, payload=4096)
            return dns.query.udp(query, host or "127.0.0.1", REPLY, server.port)

        for name, count in (("one", 1), ("many", MANY), ("many", MANY), ("one", 1)):
            reply = ask(f"{name}.example.org")
            assert len(reply.answer[0]) == count
            assert (len(reply.to_wire()) > MTU) == (count > 1)

    namespace.submit(converse).result()
