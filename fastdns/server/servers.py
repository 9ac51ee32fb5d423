"""Grouping of server blocks by listening address: which blocks share an address, and which zones it serves."""

from __future__ import annotations

from typing import Any

from fastdns.corefile.address import canonical, join_host_port
from fastdns.corefile.errors import CorefileError
from fastdns.corefile.zone import ZoneAddress
from fastdns.server.streams import QUIC
from fastdns.setup.config import Config, ProxySettings

__all__ = ["Server", "group", "validate"]


class Server:
    """One listening address ``transport://host:port`` and the zones of all blocks that it serves."""

    __slots__ = ("host", "members", "port", "transport")

    def __init__(self, transport: str, host: str, port: int) -> None:
        self.transport = transport
        self.host = host
        self.port = port
        #: In the order of the Corefile.
        self.members: list[tuple[ZoneAddress, Config]] = []

    @property
    def address(self) -> str:
        """The label of metrics and errors, such as ``dns://:53``."""
        return f"{self.transport}://{join_host_port(self.host, self.port)}"

    @property
    def configs(self) -> list[Config]:
        """The blocks, each once, in the order of the Corefile."""
        found: list[Config] = []
        for _, config in self.members:
            if config not in found:
                found.append(config)
        return found

    @property
    def zones(self) -> list[str]:
        """Sorted, each once."""
        return sorted({address.zone for address, _ in self.members})

    @property
    def tls(self) -> Any:
        """The credentials of the first block that has some; None: clear text."""
        return next((config.tls for config in self.configs if config.tls is not None), None)

    @property
    def debug(self) -> bool:
        return any(config.debug for config in self.configs)

    @property
    def stacktrace(self) -> bool:
        """The value of the last block, also when it is the default."""
        return self.members[-1][1].stacktrace

    def last(self, name: str) -> Any:
        """The value of the last block that sets it; None when no block does."""
        values = [getattr(config, name) for config in self.configs if getattr(config, name) is not None]
        return values[-1] if values else None

    @property
    def proxy(self) -> ProxySettings | None:
        """What is done with PROXY headers: each value of the last block that sets it. A block's settings are for the address of its first key."""
        found = [config.proxy for address, config in self.members if config.proxy is not None and address is config.addresses[0]]
        if not found:
            return None
        merged = ProxySettings()
        merged.networks, merged.default = found[-1].networks, found[-1].default
        for settings in found:
            if settings.session_lifetime > 0:
                merged.session_lifetime = settings.session_lifetime
            if settings.sessions > 0:
                merged.sessions = settings.sessions
            merged.tlvs = merged.tlvs or settings.tlvs
        return merged


def validate(configs: list[Config]) -> None:
    """Raises CorefileError when two blocks serve the same zone on the same address, or one on all addresses and one on a bound address.

    Of two blocks the one that can be left out is to blame, if any.
    """
    taken: dict[tuple[str, str, str, str], str] = {}  # origin of the block
    last: dict[tuple[str, str, str], tuple[ZoneAddress, str, str]] = {}  # zone and port -> last key without filters, its host and origin
    for config in configs:
        for address in config.addresses:
            for host in config.listen_hosts:
                key = (address.transport, address.zone, address.port)
                if (*key, host) in taken:
                    if config.filters:
                        continue
                    text = f"cannot serve {address.on(host)} - it is already defined"
                    raise CorefileError(text).of(config.origin or taken[*key, host])
                other = last.get(key)
                if other is not None and (not host or (*key, "") in taken):
                    clash = other[0].on(other[1] if not host else "")
                    text = f"cannot serve {address.on(host)} - zone overlap listener capacity with {clash}"
                    raise CorefileError(text).of(config.origin or other[2])
                if not config.filters:
                    taken[*key, host] = config.origin
                    last[key] = (address, host, config.origin)


def group(configs: list[Config]) -> list[Server]:
    """The servers of a configuration. Raises CorefileError for an invalid port or transport."""
    servers: dict[tuple[str, str, str], Server] = {}
    for config in configs:
        config.servers = []
        for address in config.addresses:
            if address.transport == "unix":  # accepted, and never served
                continue
            if address.transport in QUIC:
                _check_quic(address, config)
            if not address.port.isdigit() or int(address.port) > 65535:
                raise CorefileError(f"address {address.port}: invalid port").of(config.origin)
            for host in config.listen_hosts:
                key = (address.transport, canonical(host), address.port)
                if key not in servers:
                    servers[key] = Server(address.transport, key[1], int(address.port))
                servers[key].members.append((address, config))
                if servers[key].address not in config.servers:
                    config.servers.append(servers[key].address)
    return list(servers.values())


def _check_quic(address: ZoneAddress, config: Config) -> None:
    """Raises CorefileError when this build has no QUIC, or an address no certificate."""
    from fastdns.engine.quic import is_available

    if not is_available():
        file, line = config.place
        raise CorefileError(
            f"{file}:{line} - Error during parsing: {address.transport}:// is not in this build: install cargo, then make quic and make "
            f"(server block {address})",
            file,
            line,
        ).of(config.origin)
    if config.tls is None:
        raise CorefileError(QUIC[address.transport]).of(config.origin)
