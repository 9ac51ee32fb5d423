"""Queries to a configuration before, or without, serving it."""

from __future__ import annotations

from functools import partial
from socket import AF_INET, AF_INET6, inet_pton
from typing import TYPE_CHECKING

from fastdns.corefile.address import packed
from fastdns.corefile.errors import CorefileError
from fastdns.corefile.lexer import Token
from fastdns.server.configuration import Configuration, run_hooks
from fastdns.server.expectations import Expectation, expectations, verify
from fastdns.server.instance import Instance
from fastdns.setup import Config, Hooks, registry
from fastdns.setup.traits import Traits

if TYPE_CHECKING:
    from fastdns._mux import NativeHandler
    from fastdns.engine.chains import Chains
    from fastdns.engine.engine import Engine
    from fastdns.server.explain import Explained
    from fastdns.server.source import Source

__all__ = ["Trial", "Tried", "ask_of", "expected", "failures", "must_hold"]


class Tried(Configuration):
    """A configuration that changes nothing outside of it: as the traits of its plugins say, they are left out, asked, or set up and not asked."""

    def __init__(self, source: Source, dns_port: str) -> None:
        #: Handlers that are not asked, with the directive's place.
        self.not_asked: list[tuple[NativeHandler, Token]] = []
        super().__init__(source, dns_port)

    def _run(self, setup: registry.Setup | None, name: str, words: list[Token], config: Config, traits: Traits) -> None:
        from fastdns.server.explain import NotAsked

        if traits.side_effects:
            return
        handlers, filters = len(config.handlers), len(config.filters)
        super()._run(setup, name, words, config, traits)
        if self.asks(traits):
            return
        self.directives[-1] = Hooks()  # nothing of it starts, so that there is nothing to end
        del config.filters[filters:]
        for index, handler in enumerate(config.handlers[handlers:], handlers):
            self.not_asked.append((handler, words[0]))
            config.handlers[index] = NotAsked(handler.name)
            config.handlers[index].set_traits(traits)

    def asks(self, traits: Traits) -> bool:
        """Whether a plugin is started and asked."""
        return traits.runs_in_check

    def discard(self) -> None:
        super().discard()
        run_hooks([handler.close for handler, _ in self.not_asked], "Closing plugins")
        self.not_asked.clear()


class Address:
    """A listening address without a socket."""

    generation = 0

    def __init__(self, index: int) -> None:
        self.index = index
        self.watched = True


class Trial:
    """A Corefile set up and started, without any listening address, and without what acts on its own (see `Traits`)."""

    def __init__(self, source: Source, dns_port: str, kind: type[Tried] = Tried, beside: Trial | None = None) -> None:
        """``beside``: a trial whose worker this one shares, and which ends after it. Raises CorefileError and whatever start-up hooks raise."""
        from fastdns.engine.engine import Engine

        self.configuration = kind(source, dns_port)
        self.instance = Instance(self.configuration)
        self.shares_engine = beside is not None
        self.engine: Engine = beside.engine if beside is not None else Engine(1)
        try:
            self.configuration.start(first=True)
            self.instance.listeners = {server.address: Address(index) for index, server in enumerate(self.instance.servers)}  # type: ignore[misc]
            self.chains = self.instance.prepare(self.engine)
        except BaseException:
            self.configuration.discard()
            raise
        if not self.shares_engine:
            self.engine.start()

    def ask(self, packet: bytes, client: bytes, address: str = "", tcp: bool = False) -> Explained:
        """Run one query at an address (default: the first). Raises ValueError."""
        return ask_of(self.engine, self.instance, self.chains, address, packet, client, tcp)

    def failures(self) -> list[str]:
        """Run the expectations of the Corefile; returns a text for each one that fails."""
        return failures(self.engine, self.instance, self.chains)

    def close(self) -> None:
        self.engine.dismiss(self.chains)
        if not self.shares_engine:
            self.engine.stop()
        self.configuration.discard()


def expected(instance: Instance) -> list[tuple[str, Expectation]]:
    """All expectations of a configuration, each with the first address of its block."""
    return [(config.servers[0], expectation) for config in instance.configuration.configs if config.servers for expectation in expectations(config.values)]


def failures(engine: Engine, instance: Instance, chains: Chains) -> list[str]:
    """Run the expectations of a configuration; returns a text for each one that fails."""
    found = []
    for address, expectation in expected(instance):
        found += verify([expectation], partial(ask_of, engine, instance, chains, address))
    return found


def ask_of(
    engine: Engine,
    instance: Instance,
    chains: Chains,
    address: str,
    packet: bytes,
    client: bytes,
    tcp: bool = False,
    seconds: float = 12.0,
    forgets: bool = False,
) -> Explained:
    """Run one query at an address of a configuration, such as ``dns://:53`` ("": the first); the rest as for `explain`. Raises ValueError."""
    from fastdns.server.explain import explain

    if not instance.listeners:
        raise ValueError("no address is served")
    address = address or next(iter(instance.listeners))
    if address not in instance.listeners:
        raise ValueError(f"{address} is not served: {' '.join(instance.listeners)}")
    server = next(server for server in instance.servers if server.address == address)
    local = packed(server.host) or inet_pton(*((AF_INET, "127.0.0.1") if len(client) == 4 else (AF_INET6, "::1")))
    return explain(engine, chains, instance.listeners[address].index, packet, client, local, server.port, tcp, seconds, forgets)


def must_hold(engine: Engine, instance: Instance, chains: Chains) -> None:
    """Raises CorefileError with the first expectation that fails."""
    for text in failures(engine, instance, chains):
        raise CorefileError(f"plugin/test: {text}")
