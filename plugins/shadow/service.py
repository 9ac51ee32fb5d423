"""The thread that asks the other server, and what it has found."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Any
from weakref import WeakValueDictionary

from fastdns.comparison.asking import Server
from fastdns.comparison.tally import UNANSWERED, Tally
from fastdns.plugins.shadow._target import FLOODED, REFUSED, RESULTS_TOTAL, SILENT, SKIPPED, SKIPPED_TOTAL, STOPPED, SUSPECTS, Target
from fastdns.plugins.shadow.settings import Settings
from fastdns.system.thread import lower_priority
from fastdns.telemetry import events, status
from fastdns.telemetry.log import Log
from fastdns.telemetry.metrics import Metric

__all__ = ["Service", "service"]

log = Log("plugin/shadow")

NAME = "shadow"
NICENESS = 10
RECEIVE_BUFFER = 1 << 20
#: Seconds that a server that does not answer is left alone: each time twice as long as before.
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
#: Seconds between two looks at whether it has answered, and those that an end waits for the thread.
TURN, FINISH = 0.5, 2.0
OURS = "this server"
CAUSES = {SILENT: "it does not answer", REFUSED: "connection refused", FLOODED: "it sends what nobody asked for"}

UP = Metric("fastdns_shadow_up", "Whether the server at `to` answers: 0 while it is left alone, or tried out.", "gauge", ("to",))

#: Of blocks that say the same, and over reloads, there is one.
_services: WeakValueDictionary[Settings, Service] = WeakValueDictionary()
_running: list[Service] = []


class Service:
    """Of a target. Server blocks and configurations share one, which ends with the last of them."""

    def __init__(self, settings: Settings) -> None:
        """Raises OSError, MemoryError."""
        self.settings = settings
        self.target = Target(
            str(settings.server),
            ip_address(settings.server.host).packed,
            is_local(settings.server),
            settings.share,
            settings.rate,
            settings.outstanding,
            settings.timeout,
            settings.octets,
            settings.examined,
        )
        self.tally = Tally(settings.keep, settings.ignored)
        self.since = time.time()
        self.users = 0
        self.state = "not asked yet"
        self.lock = threading.Lock()
        self.stopping = threading.Event()
        self.thread: threading.Thread | None = None

    def start(self) -> None:
        self.users += 1
        if self.users > 1:
            return
        self.stopping.clear()
        self.target.stop(False)
        self.thread = threading.Thread(target=self._run, name="shadow", daemon=True)
        self.thread.start()
        UP.watch((self.target.name,), lambda: float(self.target.is_up))
        _running.append(self)
        status.provide(NAME, section)

    def stop(self) -> None:
        self.users -= 1
        if self.users:
            return
        self.stopping.set()
        self.target.stop()
        if self.thread is not None:
            self.thread.join(FINISH)
        UP.forget((self.target.name,))
        _running.remove(self)
        if not _running:
            status.withdraw(NAME, section)

    def report(self) -> dict[str, Any]:
        """Of values that JSON has."""
        counts = self.target.counts
        skipped = {reason: int(value) for (name, reason), value in SKIPPED_TOTAL.collect() if name == self.target.name and isinstance(value, float)}
        with self.lock:
            report = self.tally.report((OURS, self.target.name))
        report["questions"] += sum(counts.values())
        report["same"] += counts["same"]
        report["truncated"] += counts["truncated"]
        return report | {
            "since": self.since,
            "state": self.state,
            "share": self.settings.share,
            "unexamined": counts["unexamined"],
            "skipped": {reason: skipped.get(reason, 0) for reason in SKIPPED},
        }

    def _run(self) -> None:
        lower_priority(NICENESS)
        pause = FIRST_PAUSE
        while not self.stopping.is_set():
            try:
                with connected(self.settings.server) as one:
                    self.target.begin(one.fileno(), one.getsockname()[1])
                    cause, was_up = self._exchange()
            except OSError as error:
                cause, was_up = str(error), False
            finally:
                self.target.end()
            if self.stopping.is_set():
                return
            if was_up:
                pause = FIRST_PAUSE
                events.note("upstream_down", self.target.name, f"shadow: {cause}")
                log.warning(f"{self.target.name} is left alone: {cause}")
            self.state = f"left alone: {cause}"
            self.stopping.wait(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    def _exchange(self) -> tuple[str, bool]:
        """Ask until the server is silent: why, and whether it had answered."""
        was_up = False
        while (found := self.target.pump(TURN)) not in CAUSES and found != STOPPED:
            if self.target.is_up and not was_up:
                was_up = True
                if self.state.startswith("left alone"):
                    events.note("upstream_up", self.target.name, "shadow: it answers again")
                self.state = "answers"
            if found == SUSPECTS:
                self._examine()
        return CAUSES.get(found, ""), was_up or self.target.is_up

    def _examine(self) -> None:
        for question, client, ours, theirs in self.target.suspects():
            with self.lock:
                found = self.tally.add(question, client, ours, theirs)
            RESULTS_TOTAL.add((self.target.name, "known" if found.known else found.kind if theirs else UNANSWERED))


def service(settings: Settings) -> Service:
    """The one of these settings, or another that is to be started."""
    found = _services.get(settings)
    if found is None:
        found = _services[settings] = Service(settings)
    return found


def section(request: Mapping[str, Any]) -> dict[str, Any]:
    """The section ``shadow`` of the status document."""
    return {"targets": [running.report() for running in list(_running)]}


def connected(server: Server) -> socket.socket:
    """A UDP socket that takes datagrams of this server alone. Raises OSError."""
    one = socket.socket(socket.AF_INET6 if ":" in server.host else socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
    try:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
        one.connect(server)
    except BaseException:
        one.close()
        raise
    return one


def is_local(server: Server) -> bool:
    """Whether the server's address is one of this machine."""
    try:
        with connected(server) as one:
            return bool(one.getsockname()[0] == server.host)
    except OSError:  # no route: it is not
        return False
