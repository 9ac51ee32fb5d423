"""Listening addresses of DNS over QUIC and over HTTP/3; the native side is in ``engine/quic/state.pxd``."""

from collections.abc import Callable, Iterable, Mapping
from threading import Event
from typing import Protocol

from fastdns.engine.listener import Listener
from fastdns.engine.loop import Workers
from fastdns.engine.quic import handover

class Credentials(Protocol):
    """What the directive ``tls`` says: paths, and "" for none."""

    certificate: str
    key: str
    authority: str
    client_auth: str
    keylog: str
    #: Certificate and key may come later.
    awaited: bool

class Settings(Protocol):
    """What a configuration says of a listening address."""

    @property
    def address(self) -> str: ...
    @property
    def tls(self) -> Credentials | None: ...
    @property
    def idle_timeout(self) -> float: ...
    @property
    def limits(self) -> Mapping[str, int]: ...

#: By scheme: the directive that sets limits, and the limits where it does not name them.
LIMITS: dict[str, tuple[str, dict[str, int]]]

def connections_limit(wanted: int) -> int:
    """How many connections an address has at most by `max_connections`; 0 is as many as TCP has, and so is more."""

class QuicListener(Listener):
    """The sockets of one address, and what connections to come are offered."""

    def __init__(
        self,
        workers: Workers,
        forget: Callable[[Listener], None],
        index: int,
        generation: int,
        scheme: str,
        host: str,
        port: int,
        reuse: list[int],
        count: int,
        settings: Settings,
    ) -> None:
        """scheme: ``quic`` or ``https3``. OSError; ValueError for a certificate that cannot be used."""
    def offer(self, settings: Settings) -> None:
        """A new configuration serves the address: connections that exist go on, those to come have its certificate and limits. ValueError, and nothing
        has changed."""

def check(scheme: str, settings: Settings) -> None:
    """Read the files of an address: what is wrong with them refuses its configuration. ValueError."""

class Letter(handover.Letter):
    """What a process that takes over has to know."""

    #: Keys of tickets, and the secret of tokens.
    secrets: str

def offered(workers: Workers) -> Letter:
    """The letter for a successor; see `fastdns.engine.quic.handover.offered`. The workers read its channel from now on. OSError."""

def adopt(letter: Letter) -> None:
    """Be the successor, before there is a listener. ValueError, KeyError for what is no letter."""

def withdraw(workers: Workers) -> None:
    """The successor does not serve."""

def leave(listeners: Iterable[Listener]) -> None:
    """The successor reads the sockets from now on. Connections go on with what it passes on, and none begins here."""

def outlast(workers: Workers, seconds: float, hurried: Event) -> None:
    """Wait until all connections have ended, or until the time is up or the event set. Those that are left end once what was asked is answered."""
