"""etcd: SkyDNS's records in etcd."""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass, field

from fastdns import control
from fastdns.corefile import CorefileError
from fastdns.corefile.errors import system_error
from fastdns.plugins.etcd._etcd import EtcdHandler
from fastdns.plugins.etcd._snapshot import Records
from fastdns.plugins.etcd.follower import Follower
from fastdns.plugins.etcd.gateway import EtcdAwayError, EtcdError, Gateway
from fastdns.plugins.etcd.message import path_of
from fastdns.setup import Controller
from fastdns.setup.traits import Traits

__all__ = ["Settings", "parse", "setup"]

TRAITS = Traits(runs_in_check=True)

#: Seconds that a start waits for the first list.
PATIENCE = 5.0
TTL_MAX = 2**32 - 1


@dataclass
class Settings:
    """What the block's first directive says."""

    zones: list[str] = field(default_factory=list)
    path: str = "skydns"
    endpoints: list[str] = field(default_factory=lambda: ["http://localhost:2379"])
    #: Certificate and key, CA; as many as are given.
    tls: list[str] | None = None
    user: str = ""
    password: str = ""
    #: None: never.
    fallthrough: list[str] | None = None
    #: The zone's own name has the addresses below `apex.dns` alone.
    no_apex_fallback: bool = False
    #: Bounds of what a lease gives as TTL, in seconds.
    least: int = 30
    most: int = 86400


def setup(controller: Controller) -> None:
    """Add the handler, and follow etcd from the start of the configuration to its end."""
    settings = parse(controller)
    gateway = Gateway(settings.endpoints, context(settings.tls) if settings.tls is not None else None, settings.user, settings.password)
    try:
        if gateway.user and gateway.password:
            control.loop().submit(gateway.authenticate()).result()
    except EtcdAwayError:
        pass  # the follower asks again, and says why
    except EtcdError as error:
        raise CorefileError(str(error)) from None
    records = Records()
    handler = EtcdHandler(
        records, settings.zones, fallthrough=settings.fallthrough, least=settings.least, most=settings.most, apex_fallback=not settings.no_apex_fallback
    )
    controller.config.add_handler(handler)
    follower = Follower(gateway, path_of(settings.path), records)

    def start() -> None:
        follower.start()
        follower.tried.wait(PATIENCE)

    controller.on_startup(start)
    controller.on_shutdown(follower.stop)


def parse(controller: Controller) -> Settings:
    """Read the first directive of the block. Raises CorefileError."""
    controller.next()
    settings = Settings(zones=controller.zones(controller.remaining_args()))
    while controller.next_block():
        match controller.val():
            case "stubzones" | "debug":
                pass
            case "upstream":
                controller.remaining_args()
            case "fallthrough":
                settings.fallthrough = controller.fallthrough()
            case "no_apex_fallback":
                controller.no_args()
                settings.no_apex_fallback = True
            case "path":
                settings.path = controller.arg()
            case "endpoint":
                settings.endpoints = controller.args(1)
            case "tls":
                settings.tls = [controller.path(name) for name in controller.remaining_args()]
                if len(settings.tls) > 3:
                    raise CorefileError(f"maximum of three arguments allowed for TLS config, found {len(settings.tls)}")
            case "credentials":
                given = controller.args(1)
                if len(given) != 2:
                    raise controller.err("credentials requires 2 arguments, username and password")
                settings.user, settings.password = given
            case "min-lease-ttl":
                settings.least = lease_ttl(controller, "min-lease-ttl") or 30
            case "max-lease-ttl":
                settings.most = lease_ttl(controller, "max-lease-ttl") or 86400
            case other:
                raise controller.err(f"unknown property '{other}'")
    while controller.next():  # further ones are passed over
        pass
    return settings


def lease_ttl(controller: Controller, name: str) -> int:
    """Seconds: a bare number, or a duration."""
    text = controller.arg().strip()
    if not text:
        return 0
    try:
        seconds = controller.seconds(f"{text}s" if text.isascii() and text.isdigit() else text)
    except ValueError:
        raise controller.err(f"invalid {name} value: invalid TTL format, use format like '30', '30s', '5m', '1h', or '2h30m'") from None
    if seconds < 0:
        raise controller.err(f"invalid {name} value: TTL must be non-negative")
    if seconds > TTL_MAX:
        raise controller.err(f"invalid {name} value: TTL too large, maximum is {TTL_MAX} seconds")
    return int(seconds)


def context(files: list[str]) -> ssl.SSLContext:
    """A client's context from CA, or certificate and key, or all three. Raises CorefileError."""
    made = ssl.create_default_context()
    if len(files) in (1, 3):
        try:
            made = ssl.create_default_context(cafile=files[-1])
        except ssl.SSLError:
            raise CorefileError("could not read root certs") from None
        except OSError as error:
            raise CorefileError(f"error reading {files[-1]}: {system_error(error, path=files[-1])}") from None
    if len(files) > 1:
        try:
            made.load_cert_chain(files[0], files[1])
        except ssl.SSLError as error:
            raise CorefileError(f"could not load TLS cert: {error}") from None
        except OSError as error:
            missing = next((name for name in files[:2] if not os.path.exists(name)), files[0])
            raise CorefileError(f"could not load TLS cert: {system_error(error, path=missing)}") from None
    return made
