"""The faults: each is begun, lasts, and is ended. What questions may fail meanwhile is its `excuses`; a wrong answer never is."""

from __future__ import annotations

import os
import re
import resource
import signal
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from tests.chaos.cgroup import MemoryCgroup
from tests.chaos.target import Target
from tests.preload import Preload
from tests.soak import Cluster, Upstreams

#: Kinds of questions (methods of the soak's Asker): those that need an upstream, and all.
FORWARDED = frozenset({"forwarded", "denied", "large", "pipelined"})
EVERYTHING = FORWARDED | {"endpoint", "echo", "transfer"}
#: Octets that a process may take while its cgroup is short of memory.
MEMORY_LEFT = 2 << 20


@dataclass
class World:
    """What faults act on."""

    target: Target
    cluster: Cluster
    upstreams: Upstreams
    #: The next configuration.
    corefile: Callable[[], str]
    #: Seconds that the server's wall clock is wrong by (tests/robustness/clock.c).
    clock: Preload
    #: Of how many sends one fails (buffers.c).
    buffers: Preload
    #: What memory was limited by.
    limits: Counter[str] = field(default_factory=Counter)


class Fault(ABC):
    #: Seconds that it may last.
    lasts: ClassVar[tuple[float, float]] = (0.0, 0.0)
    excuses: ClassVar[frozenset[str]] = frozenset()
    #: Whether queries of the paced load may be lost.
    loses: ClassVar[bool] = False

    def __init__(self, world: World) -> None:
        self.world = world
        self.target = world.target

    @abstractmethod
    def begin(self) -> None: ...

    def end(self) -> None:  # noqa: B027 - many faults are over at once
        """What `begin` did is undone."""


class Change(Fault):
    """Endpoints of the cluster change."""

    def begin(self) -> None:
        self.world.cluster.change()


class Reload(Fault):
    """SIGUSR1 with another configuration, while queries wait."""

    def begin(self) -> None:
        start = len(self.target.log())
        self.target.write(self.world.corefile())
        self.target.signal(signal.SIGUSR1)
        self.target.wait_log_of(re.compile(r"Reloading complete"), start)


class BrokenReload(Fault):
    """SIGUSR1 with a configuration that is refused: the one before goes on."""

    def begin(self) -> None:
        start = len(self.target.log())
        before = self.target.corefile.read_text()
        self.target.write(before + "\nbroken.test {\n nosuch\n}\n")
        self.target.signal(signal.SIGUSR1)
        self.target.wait_log_of(re.compile(r"nosuch"), start)
        self.target.write(before)


class Upgrade(Fault):
    """SIGUSR2: another process takes over."""

    # A connection over TCP that has nothing under way is closed by the process that leaves.
    excuses = frozenset({"endpoint", "forwarded", "large", "pipelined", "transfer"})

    def begin(self) -> None:
        self.target.upgrade()


class Stop(Fault):
    """The process is stopped and goes on, as by a debugger or a frozen cgroup."""

    lasts = (0.2, 3.0)
    excuses = EVERYTHING

    def begin(self) -> None:
        self.target.signal(signal.SIGSTOP)

    def end(self) -> None:
        self.target.signal(signal.SIGCONT)


class Kill(Fault):
    """The process is killed, as without memory, and started again."""

    excuses = EVERYTHING
    loses = True

    def begin(self) -> None:
        self.target.kill()


class Outage(Fault):
    """One upstream or both are silent."""

    lasts = (1.0, 6.0)
    excuses = FORWARDED
    turns: ClassVar[int] = 0

    def begin(self) -> None:
        Outage.turns += 1
        self.world.upstreams.turn((1, 3, 5)[Outage.turns % 3])

    def end(self) -> None:
        self.world.upstreams.turn(0)


class Limit(Fault):
    """A resource of the process is used up."""

    resource: ClassVar[int]
    lasts = (0.5, 2.0)

    @abstractmethod
    def used(self) -> int:
        """What the process has now, so that it gets no more."""

    def begin(self) -> None:
        self.before = resource.prlimit(self.target.pid, self.resource)
        resource.prlimit(self.target.pid, self.resource, (self.used(), self.before[1]))

    def end(self) -> None:
        resource.prlimit(self.target.pid, self.resource, self.before)


class Descriptors(Limit):
    """No descriptor can be opened: connections of clients and to upstreams."""

    resource = resource.RLIMIT_NOFILE
    excuses = EVERYTHING - {"echo"}

    def used(self) -> int:
        return max(map(int, os.listdir(f"/proc/{self.target.pid}/fd"))) + 1


class DiskFull(Limit):
    """No file, which the log is, can grow: what a full disk does, too."""

    resource = resource.RLIMIT_FSIZE

    def used(self) -> int:
        return 0


class AddressSpace(Limit):
    """No memory can be had but what the process has: allocations fail."""

    resource = resource.RLIMIT_AS
    excuses = EVERYTHING

    def used(self) -> int:
        return int(Path(f"/proc/{self.target.pid}/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")


class Memory(Fault):
    """The cgroup has little memory left: who takes more waits. Where no cgroup can be made, allocations fail."""

    lasts = (0.5, 2.0)
    excuses = EVERYTHING

    def begin(self) -> None:
        self.cgroup: MemoryCgroup | None = None
        try:
            self.cgroup = MemoryCgroup(self.target.pid, MEMORY_LEFT)
            self.world.limits[f"cgroup v{self.cgroup.version}"] += 1
        except OSError:
            self.instead = AddressSpace(self.world)
            self.instead.begin()
            self.world.limits["RLIMIT_AS"] += 1

    def end(self) -> None:
        if self.cgroup is not None:
            self.cgroup.lift()
        else:
            self.instead.end()


class NoBuffers(Fault):
    """The kernel has no buffers for datagrams: every other send fails with ENOBUFS, and their replies and questions are lost."""

    lasts = (0.5, 2.0)
    excuses = EVERYTHING
    loses = True

    def begin(self) -> None:
        self.world.buffers.set(2)

    def end(self) -> None:
        self.world.buffers.set(0)


class Clock(Fault):
    """The wall clock jumps by a day, forth and back."""

    lasts = (1.0, 3.0)

    def begin(self) -> None:
        self.world.clock.set(86400)

    def end(self) -> None:
        self.world.clock.set(0)


FAULTS: list[type[Fault]] = [
    Change, Reload, BrokenReload, Upgrade, Stop, Kill, Outage, Descriptors, DiskFull, AddressSpace, Memory, NoBuffers, Clock,
]  # fmt: skip
