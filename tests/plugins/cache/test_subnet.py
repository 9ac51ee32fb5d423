"""Replies for a client's subnet (RFC 7871): never given to another."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import dns.edns
import dns.message
import dns.query
import dns.rrset
import pytest

from fastdns.testing import Upstream
from tests.server import Server
from tests.waiting import REPLY, until

Serve = Callable[..., Server]

SUBNET = dns.edns.OptionType.ECS
BLOCK = ".:{{port}} {{\n bind 127.0.0.1\n {rule}\n cache {{\n  {settings}\n }}\n forward . {upstream}\n}}\n"


def ecs(network: str, scope: int = 0) -> dns.edns.ECSOption:
    address, _, bits = network.partition("/")
    return dns.edns.ECSOption(address, int(bits), scope)


@contextmanager
def running(serve: Serve, scope: int | None, rule: str = "", settings: str = "prefetch 2 1m") -> Iterator[tuple[Server, Upstream]]:
    """A server whose upstream answers with the subnet's address, ``scope`` bits of it; None: it says nothing of subnets."""

    def answer(query: dns.message.Message) -> dns.message.Message:
        told = next((option for option in query.options if option.otype == SUBNET), None)
        reply = dns.message.make_response(query)
        address = told.address if told and ipaddress.ip_address(told.address).version == 4 else "192.0.2.1"
        reply.answer.append(dns.rrset.from_text(query.question[0].name, 300, "IN", "A", address))
        if told and scope is not None:
            reply.use_edns(0, options=[dns.edns.ECSOption(told.address, told.srclen, scope)])
        return reply

    with Upstream(answer) as upstream:
        yield serve(BLOCK.format(rule=rule, settings=settings, upstream=upstream.address)), upstream


def ask(server: Server, *networks: str) -> str:
    query = dns.message.make_query("x.test.", "A")
    if networks:
        query.use_edns(0, options=[ecs(network) for network in networks])
    return str(server.send(query).answer[0][0])


@pytest.mark.parametrize("scope", [None, 8, 16, 24])
def test_each_subnet_has_its_own_reply(serve: Serve, scope: int | None) -> None:
    networks = ["10.0.1.0/24", "10.0.2.0/24", "10.0.1.0/25", "10.0.0.0/16"]
    with running(serve, scope) as (server, upstream):
        for _ in range(3):
            assert [ask(server, network) for network in networks] == [network.partition("/")[0] for network in networks]
            assert ask(server) == "192.0.2.1"
            assert ask(server, "2001:db8::/56") == "192.0.2.1"
            assert ask(server, "0.0.0.0/0") == "0.0.0.0"
        assert len(upstream.seen) == len(networks) + 3


def test_a_scope_of_0_is_for_everybody(serve: Serve) -> None:
    with running(serve, 0) as (server, upstream):
        assert [ask(server, "10.0.1.0/24"), ask(server, "10.0.2.0/24"), ask(server)] == ["10.0.1.0"] * 3
        assert len(upstream.seen) == 1


def test_a_reply_without_a_subnet_is_not_for_subnets(serve: Serve) -> None:
    with running(serve, 24) as (server, upstream):
        assert [ask(server), ask(server, "10.0.1.0/24"), ask(server)] == ["192.0.2.1", "10.0.1.0", "192.0.2.1"]
        assert len(upstream.seen) == 2


def test_two_subnets_are_not_kept(serve: Serve) -> None:
    with running(serve, 24) as (server, upstream):
        for _ in range(3):
            ask(server, "10.0.1.0/24", "10.0.2.0/24")
        assert len(upstream.seen) == 3
        assert ask(server, "10.0.2.0/24") == "10.0.2.0"


def test_a_rule_that_tells_the_subnet(serve: Serve) -> None:
    """The rule runs below the cache, which keeps clients apart by as many bits as it tells; a client has its own subnet replaced."""
    with running(serve, 32, "rewrite edns0 subnet set 30 64") as (server, upstream):

        def asked_from(source: str) -> str:
            query = dns.message.make_query("x.test.", "A")
            return str(dns.query.udp(query, "127.0.0.1", REPLY, server.port, source=source).answer[0][0])

        sources = ["127.0.0.1", "127.0.0.2", "127.0.0.5", "127.0.0.6", "127.0.1.1"]
        for _ in range(2):
            assert [asked_from(source) for source in sources] == ["127.0.0.0", "127.0.0.0", "127.0.0.4", "127.0.0.4", "127.0.1.0"]
        assert len(upstream.seen) == 3


def test_a_refresh_asks_for_its_subnet(serve: Serve) -> None:
    """With 90 % of a TTL of two seconds each hit starts a refresh, whose reply takes the place of the entry of that subnet alone."""
    networks = ["10.0.1.0/24", "10.0.2.0/24"]
    with running(serve, 24, settings="success 1024 2 0\n  prefetch 1 1m 90%") as (server, upstream):
        assert [ask(server, network) for network in networks * 2] == ["10.0.1.0", "10.0.2.0"] * 2
        until(lambda: len(upstream.seen) >= 4, "the refreshes")
        assert {option.to_text() for query in upstream.seen for option in query.options} == {f"ECS {network} scope/0" for network in networks}
        assert [ask(server, network) for network in networks] == ["10.0.1.0", "10.0.2.0"]
