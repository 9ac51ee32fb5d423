"""A configuration that serves: runs hooks, opens addresses, publishes chains, and undoes all that."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from fastdns.corefile.address import join_host_port
from fastdns.corefile.errors import CorefileError
from fastdns.corefile.zone import UDP_TRANSPORTS
from fastdns.server.configuration import Configuration, run_hooks
from fastdns.server.servers import Server
from fastdns.server.streams import QUIC, STREAMS, QuicRenewal, QuicSettings, doh_cells

if TYPE_CHECKING:
    from fastdns.engine.chains import Chains, ServerSpec
    from fastdns.engine.engine import Engine, Place
    from fastdns.engine.listener import Listener
    from fastdns.engine.quic.listener import QuicListener
    from fastdns.engine.service import Service
    from fastdns.proxy.policy import ProxyProtocol
    from fastdns.tls.credentials import Credentials

__all__ = ["Instance"]

#: Seconds, where `timeouts` does not set them.
READ_TIMEOUT = 3.0
WRITE_TIMEOUT = 5.0
IDLE_TIMEOUT = 10.0

#: UDP sessions of a listening address whose clients the server remembers, where `proxyproto` does not say how many.
PROXY_SESSIONS = 10_240


class Reserved:
    """The place of an address that is not open yet."""

    watched = True

    def __init__(self, engine: Engine) -> None:
        self.place: Place = engine.reserve()
        self.index, self.generation = self.place
        self._engine = engine

    def close(self) -> None:
        self._engine._forget(self)


class Instance:
    """One configuration from its start-up hooks to its shutdown."""

    def __init__(self, configuration: Configuration) -> None:
        self.configuration = configuration
        self.hooks = configuration.hooks
        self.servers = configuration.servers
        #: By address label.
        self.listeners: dict[str, Listener] = {}
        #: What clients of the encrypted transports of the workers get.
        self.services: dict[str, Service] = {}
        #: Addresses of QUIC.
        self.settings: dict[str, QuicSettings] = {}
        self.chains: Any = None

    @property
    def checksum(self) -> str:
        return self.configuration.checksum

    @property
    def debug(self) -> bool:
        return any(config.debug for config in self.configuration.configs)

    def open(self, engine: Engine, standing: dict[str, Listener], inherited: dict[str, list[int]], later: bool = False) -> None:
        """Open all addresses, except for those that another instance (``standing``) or process (``inherited``: descriptors) has open.

        With ``later`` they are closed again, which shows that they can be opened, and have places until `open_reserved`. Raises CorefileError after
        closing what was opened here.
        """
        opened: list[Listener] = []
        for server in self.servers:
            label = server.address
            if server.transport in STREAMS:
                self.services[label] = self._service(server)
            elif server.transport != "dns":
                self.settings[label] = self._settings(server)
            if label in standing:
                self.listeners[label] = standing[label]
                continue
            try:
                self.listeners[label] = self._bind(engine, server, inherited.get(label, []))
                if later:
                    self.listeners[label].close()
                    self.listeners[label] = Reserved(engine)  # type: ignore[assignment]
            except BaseException as error:
                for listener in opened:
                    listener.close()
                self.listeners = {}
                raise _refused(server, error) from error
            opened.append(self.listeners[label])

    def open_reserved(self, engine: Engine, chains: Chains) -> None:
        """Open the addresses that have places only, in chains that were prepared with these. Raises CorefileError after closing them again."""
        opened: dict[str, Listener] = {}
        for server in self.servers:
            reserved = self.listeners[server.address]
            if not isinstance(reserved, Reserved):
                continue
            try:
                opened[server.address] = self._bind(engine, server, [], reserved.place)
            except BaseException as error:
                for listener in opened.values():
                    listener.close()
                raise _refused(server, error) from error
        chains.listeners[:] = [next((one for one in opened.values() if one.index == each.index), each) for each in chains.listeners]
        self.listeners |= opened

    def close_reserved(self) -> None:
        """Give back the places of addresses that will not be opened. No worker chooses the configuration any more."""
        for listener in self.listeners.values():
            if isinstance(listener, Reserved):
                listener.close()

    def _bind(self, engine: Engine, server: Server, inherited: list[int], reserved: Place | None = None) -> Listener:
        if server.transport in QUIC:
            from fastdns.engine.quic.listener import QuicListener

            settings = self.settings[server.address]
            place, sockets = (server.transport, server.host, server.port), server.configs[0].sockets or 0
            return engine.place(
                lambda index, generation: QuicListener(engine.threads, engine._forget, index, generation, *place, inherited, sockets, settings), reserved
            )
        return engine.bind(server.host, server.port, inherited, server.configs[0].sockets or 0, self.services.get(server.address), reserved)

    def prepare(self, engine: Engine) -> Chains:
        """Build the native chains; no query uses them yet."""
        return engine.prepare([self._specification(server, engine) for server in self.servers])

    def publish(self, engine: Engine, prepared: Chains | None = None) -> None:
        """Publish the chains: workers use them from their next batch on. What raises leaves everything as it was; after the switch errors are logged."""
        chains = prepared or self.prepare(engine)
        steps = self._adoptions(chains)
        self.chains = engine.publish(chains)
        run_hooks(steps, "Serving the new configuration")

    def _adoptions(self, chains: Chains) -> list[Callable[[], object]]:
        """What listeners and credentials are told once the chains serve."""
        steps: list[Callable[[], object]] = []
        for server in self.servers:
            if _takes_datagrams(server):
                proxy = chains.proxies.get(server.address)
                # The header that opens a session must be read before what follows it.
                steps.append(partial(self.listeners[server.address].keep_flows, proxy is not None and proxy.sessions is not None))
        steps += [partial(self.listeners[label].adopt, service) for label, service in self.services.items()]
        for server in self.servers:
            settings = self.settings.get(server.address)
            if settings is not None and settings.tls is not None:
                listener: QuicListener = self.listeners[server.address]  # type: ignore[assignment]
                steps += [partial(listener.offer, settings), partial(settings.tls.follow, QuicRenewal(listener, settings))]
        return steps + [credentials.keep_renewed for credentials in self._credentials()]

    def leave(self, engine: Engine, successor: Instance) -> None:
        """Stop serving the addresses that the successor does not take over. Replies to queries in progress are still sent through them."""
        for credentials in self._credentials():
            credentials.stop_renewing()
        kept = {id(listener) for listener in successor.listeners.values()}
        left = [listener for listener in self.listeners.values() if id(listener) not in kept]
        for listener in left:
            listener.pause()
        # Queries of earlier configurations, too, may use their sockets.
        engine.when_retired(partial(run_hooks, [listener.close for listener in left], "Closing addresses of the previous configuration"))

    def close_plugins(self) -> None:
        """Close the handlers of Python plugins at the end of the process: they may have files and connections. Native handlers have only memory."""
        python = sys.modules.get("fastdns.executor.handler")
        if python is None:
            return
        handlers = [handler for config in self.configuration.configs for handler in config.handlers]
        run_hooks([handler.close for handler in handlers if isinstance(handler, python.PythonHandler)], "Closing plugins")

    def abandon(self, standing: dict[str, Listener]) -> None:
        """Undo a configuration that was rejected after `open`: close its addresses and run its shutdown hooks."""
        for label, listener in self.listeners.items():
            if standing.get(label) is not listener:
                listener.close()
        self.configuration.discard()

    def _credentials(self) -> list[Credentials]:
        """Of the addresses that the workers serve with TLS, each as often as it is used."""
        return [server.tls for server in self.servers if server.transport != "dns" and server.tls is not None]

    def _service(self, server: Server) -> Service:
        """What clients of an address get from the workers. OSError, ValueError."""
        from fastdns.engine.service import Service

        stream = STREAMS[server.transport]
        context = server.tls.server(stream.alpn, stream.strict) if server.tls is not None else None
        limits = _limits(server, stream.directive)
        cells = doh_cells(server.address) if server.transport == "https" else 0
        return Service(server.transport, context, limits.get("max_connections", stream.max_connections), limits.get("max_streams", stream.max_streams), cells)

    def _settings(self, server: Server) -> QuicSettings:
        """The settings of a QUIC address, whose files have been read. OSError, ValueError."""
        from fastdns.engine.quic.listener import LIMITS, check

        directive, defaults = LIMITS[server.transport]
        idle_timeout = _or(server.last("idle_timeout"), IDLE_TIMEOUT)
        settings = QuicSettings(server.address, server.tls, idle_timeout, {**defaults, **_limits(server, directive)})
        check(server.transport, settings)
        return settings

    def _specification(self, server: Server, engine: Engine) -> ServerSpec:
        from fastdns.engine.chains import ServerSpec, ZoneSpec

        # All zones of a block get the same list object, by which the engine recognises a shared chain.
        zones = [ZoneSpec(address.zone, config.handlers, config.filters, config.view) for address, config in server.members]
        return ServerSpec(
            server.address,
            [self.listeners[server.address]],
            zones,
            debug=server.debug,
            stacktrace=server.stacktrace,
            read_timeout=_or(server.last("read_timeout"), READ_TIMEOUT),
            write_timeout=_or(server.last("write_timeout"), WRITE_TIMEOUT),
            idle_timeout=_or(server.last("idle_timeout"), IDLE_TIMEOUT),
            max_tcp_queries=server.last("max_tcp_queries") or 0,
            latency=server.last("latency") or 0,
            proxy=self._proxy(server, engine.chains.proxies.get(server.address)),
        )

    def _proxy(self, server: Server, former: ProxyProtocol | None) -> ProxyProtocol | None:
        """What an address does with PROXY headers. UDP sessions outlast a reload that leaves their number as it is."""
        settings = server.proxy
        if settings is None:
            return None
        from fastdns.proxy.policy import ProxyProtocol
        from fastdns.proxy.sessions import LIMIT, Sessions

        sessions = None
        if settings.session_lifetime > 0 and _takes_datagrams(server):
            capacity = min(settings.sessions or PROXY_SESSIONS, LIMIT)
            sessions = former.sessions if former is not None else None
            if sessions is None or sessions.capacity != capacity:
                sessions = Sessions(capacity)
        default = settings.default or ("ignore" if settings.networks else "use")
        return ProxyProtocol(settings.networks, default, settings.session_lifetime, sessions, settings.tlvs)


def _takes_datagrams(server: Server) -> bool:
    return server.transport == "dns" or server.transport in UDP_TRANSPORTS


def _limits(server: Server, directive: str) -> Mapping[str, int]:
    """What a directive says of the limits of an address. Those of a block count for its first key only; those of the first block count."""
    address, config = server.members[0]
    limits: Mapping[str, int] = config.values.get(directive, {}) if address is config.addresses[0] else {}
    return limits


def _or(value: Any, default: float) -> float:
    return default if value is None else float(value)


def _refused(server: Server, error: BaseException) -> BaseException:
    """What is raised where an address cannot be opened."""
    if not isinstance(error, OSError):
        return error
    reason = (error.strerror or str(error)).lower()
    network = "udp" if server.transport in UDP_TRANSPORTS else "tcp"
    return CorefileError(f"Listen: listen {network} {join_host_port(server.host, server.port)}: bind: {reason}")
