"""Sections of the status document that the server itself provides: `server`, `plan`, `corefile`, `events`, and `rates` of the metrics."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from fastdns import __version__
from fastdns.server import plan
from fastdns.system.host import host_name, memory_limit
from fastdns.telemetry import events, rates, status
from fastdns.telemetry.metrics import registry

if TYPE_CHECKING:
    from fastdns.engine.engine import Engine
    from fastdns.server.instance import Instance

__all__ = ["provide"]

#: Octets of a Corefile that the section shows.
COREFILE_MAX = 1 << 18
#: Zones that the plan shows.
ZONES_MAX = 500
#: Lines of a difference.
DIFFERENCE_MAX = 2000
#: Properties whose further words in the line are shown as asterisks. Those of {$VARIABLE} are names, and stay.
SECRETS = frozenset(("aws_access_key", "credentials", "key", "password", "secret", "token"))
MASK = "***"


class Serving(Protocol):
    """What the sections need of the process."""

    instance: Instance | None
    engine: Engine | None


def provide(process: Serving) -> None:
    """Provide the sections from now on, of whatever configuration serves."""
    sections = Sections(process)
    status.provide("server", sections.server)
    status.provide("plan", sections.plan)
    status.provide("corefile", sections.corefile)
    status.provide("events", recent_events)
    status.provide("rates", rates.report)


def recent_events(request: Mapping[str, Any]) -> dict[str, Any]:
    """The events after the number ``events_after`` of the request, at most ``most`` of them, oldest first."""
    found = events.last(int(request.get("events_after", 0)), int(request.get("most", 200)))
    return {"events": [event._asdict() for event in found]}


class Sections:
    """The sections of a process. ValueError while there is no configuration yet."""

    def __init__(self, process: Serving) -> None:
        self._process = process
        self._started = time.time()

    def _instance(self) -> Instance:
        instance = self._process.instance
        if instance is None:
            raise ValueError("the server is starting")
        return instance

    def server(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Version, age, addresses, and what is used of each bound; a bound of 0 is none."""
        instance, engine = self._instance(), self._process.engine
        if engine is None:
            raise ValueError("the server is starting")
        counts = engine.statistics()
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return {
            "version": __version__,
            "host": host_name(),
            "pid": os.getpid(),
            "started": self._started,
            "uptime": time.time() - self._started,
            "workers": engine.workers,
            "listeners": list(instance.listeners),
            "cpu_seconds": usage.ru_utime + usage.ru_stime,
            "rss": resident(),
            "evicted": counts["evicted"],
            "send_errors": counts["send_errors"],
            "bounds": _bounds(counts),
        }

    def plan(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Addresses, zones and chains, as ``fastdns plan -json`` has them of a Corefile."""
        configuration = self._instance().configuration
        servers, left = [], ZONES_MAX
        for server in plan.describe(configuration):
            servers.append(server | {"zones": server["zones"][:left], "zones_left_out": max(0, len(server["zones"]) - left)})
            left -= len(servers[-1]["zones"])
        return {"file": configuration.source.file, "servers": servers, "not_ready": configuration.not_ready()}

    def corefile(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """The Corefile that serves, and how the file differs from it by now: lines as ``diff -u`` has them. Secrets are masked in both."""
        source = self._instance().configuration.source
        serving = _shown(source.data)
        import difflib

        found = {"file": source.file, "path": source.path, "checksum": self._instance().checksum, "serving": serving, "error": ""}
        try:
            now = source.again().data
        except OSError as error:
            return found | {"same": False, "difference": [], "error": error.strerror or str(error)}
        lines = difflib.unified_diff(serving.splitlines(), _shown(now).splitlines(), f"{source.file} (serving)", source.file, lineterm="")
        return found | {"same": now == source.data, "difference": [line for line, _ in zip(lines, range(DIFFERENCE_MAX), strict=False)]}


def resident() -> int:
    """Resident memory of the process in octets."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def _bounds(counts: Mapping[str, int]) -> list[dict[str, Any]]:
    """What is used, and at most. Whose unit is ``octets`` is memory."""
    found = [
        ("memory", resident(), memory_limit(), "octets"),
        ("queries waiting", counts["parked"], counts["slots_most"], ""),
        ("connections", counts["connections"], counts["connections_most"], ""),
        ("descriptors", len(os.listdir("/proc/self/fd")) - 1, max(0, resource.getrlimit(resource.RLIMIT_NOFILE)[0]), ""),
    ]
    for name, unit, metric in (("cache entries", "", "coredns_cache_entries"), ("index", "octets", "fastdns_index_bytes")):
        if metric in registry:
            found.append((name, int(sum(value for _, value in registry[metric].collect() if isinstance(value, float))), 0, unit))
    return [{"name": name, "used": used, "most": most, "unit": unit} for name, used, most, unit in found]


def _shown(data: bytes) -> str:
    """The text of a Corefile without secrets."""
    return "\n".join(map(_masked, data[:COREFILE_MAX].decode("utf-8", "replace").splitlines()))


def _masked(line: str) -> str:
    """A line with asterisks in place of secrets: words behind a property of `SECRETS`, and passwords in URLs."""
    words = line.split()
    secret = next((place for place, word in enumerate(words[:2]) if word.lower() in SECRETS), None)
    for place, word in enumerate(words):
        if secret is not None and place > secret and word not in ("{", "}", "file") and not word.startswith(("{$", "{%", "#")):
            words[place] = MASK
        elif "://" in word and "@" in word:
            scheme, _, rest = word.partition("://")
            words[place] = f"{scheme}://{MASK}@{rest.rpartition('@')[2]}"
    indent = line[: len(line) - len(line.lstrip())]
    return indent + " ".join(words) if MASK in words or any(MASK in word for word in words) else line
