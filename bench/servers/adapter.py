"""What a server under test is asked to do, in words that every kind of server understands."""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import ClassVar


@dataclass(frozen=True)
class Zone:
    """A zone for servers that take zone files; its answers are those of the work's Corefile. The file is made when the first server wants it."""

    origin: str  # absolute
    #: Lines of the file, or larger pieces.
    text: Callable[[], Iterable[str]]
    #: Where the file goes; no other zone is there.
    folder: Path

    @cached_property
    def path(self) -> Path:
        path = self.folder / "zone"
        with path.open("w") as file:
            file.writelines(self.text())
        return path


@dataclass(frozen=True, slots=True)
class Work:
    """One job that servers can be compared at."""

    #: Sentence for the report.
    title: str
    #: For fastdns and CoreDNS. {bind} becomes `bind 127.0.0.1` or nothing, {port} the port, {http} a free one,
    #: {dir} the folder of the configuration, {zone} the file of the zone, {secure} the port of a transport over TLS or QUIC,
    #: {certificate} and {key} files for it.
    corefile: str
    #: A question (name, type) whose NOERROR answer says that the server is ready.
    probe: tuple[str, int]
    #: Directives in the Corefile that a server may not have.
    needs: tuple[str, ...] = ()
    #: Files beside the Corefile.
    files: dict[str, str] = field(default_factory=dict)
    zone: Zone | None = None
    #: Port on 127.0.0.1 to forward to.
    upstream: int = 0
    #: Whether what the upstream answers is kept.
    cached: bool = False
    #: Only fastdns knows these directives, whatever they are called: why others cannot do it.
    alone: str = ""


@dataclass(frozen=True, slots=True)
class Listen:
    """Where a server listens, and with how many workers."""

    port: int
    #: On every address of the machine instead of 127.0.0.1: what a server pays for sending from the address that was asked.
    wildcard: bool = False
    workers: int = 1
    #: Of a transport over TLS or QUIC, where the work has one.
    secure: int = 0

    @property
    def address(self) -> str:
        """IPv4, for servers that cannot take both families through one socket."""
        return "0.0.0.0" if self.wildcard else "127.0.0.1"


class Adapter(ABC):
    """A kind of server. `path` names its program where it is not the usual one."""

    name: ClassVar[str]
    #: What it takes questions over.
    transports: ClassVar[frozenset[str]] = frozenset(["udp", "tcp"])
    #: Name on the search path, and where Debian puts what is not on everybody's.
    program: ClassVar[str] = ""
    PLACES: ClassVar[Sequence[str]] = ("/usr/local/sbin", "/usr/sbin", "/sbin")
    #: The least that the work costs, to compare others with: it answers everything alike.
    reference: ClassVar[bool] = False
    #: Whether it answers questions over UDP. Otherwise it is ready when it takes connections on the secure port.
    speaks_dns: ClassVar[bool] = True

    def __init__(self, path: str = "") -> None:
        self.path = path
        self.label = self.name

    @abstractmethod
    def command(self, work: Work, listen: Listen, folder: Path) -> list[str]:
        """Writes the configuration into the folder; the command that serves it in the foreground."""

    def missing(self) -> str:
        """Why this server cannot run here; empty when it can."""
        if self.executable():
            return ""
        return f"{self.path} is not a program" if self.path else f"{self.program} is not installed"

    def refuses(self, work: Work) -> str:
        """Why this server cannot do that work; empty when it can."""
        return f"does other work: {work.alone}" if work.alone else ""

    def environment(self) -> dict[str, str]:
        """What is set beside the environment of the benchmark."""
        return {}

    def executable(self) -> str:
        """Path of the program; empty when there is none."""
        return shutil.which(self.path or self.program) or ("" if self.path else shutil.which(self.program, path=":".join(self.PLACES)) or "")
