"""h2load of nghttp2: DNS over HTTPS (RFC 8484), with POST, over HTTP/2 and HTTP/1.1."""

from __future__ import annotations

import re
from collections import Counter
from typing import ClassVar

from fastdns.bench.clients.client import Client, Load, record
from fastdns.bench.request import MEDIA_TYPE
from fastdns.bench.result import Result

#: New connections a second, which h2load makes at a fixed rate only. Servers answer a query before the next connection.
NEW_CONNECTIONS = 200
OK = 200

REQUESTS = re.compile(r"^requests: \d+ total, \d+ started, \d+ done, \d+ succeeded, \d+ failed, (\d+) errored, (\d+) timeout$", re.M)
TRAFFIC = re.compile(r"^traffic: .* \((\d+)\) data$", re.M)
#: Seconds of the run; the unit is s or, below a second, ms or us.
FINISHED = re.compile(r"^finished in ([\d.]+)(us|ms|s),", re.M)
UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}


class H2load(Client):
    name = "h2load"
    source = "Debian's package nghttp2-client"
    transports: ClassVar[frozenset[str]] = frozenset(["doh", "doh1"])

    def command(self, load: Load) -> list[str]:
        plan = load.plan
        body = load.write("query", load.query)
        made = ["h2load", "-d", body, "-H", f"content-type: {MEDIA_TYPE}", "-H", f"accept: {MEDIA_TYPE}", f"--log-file={load.folder / 'log'}"]
        made += ["-N", milliseconds(plan.timeout), *(["--h1"] if load.target.transport == "doh1" else [])]
        if plan.new_connection:
            connections = str(max(1, round(plan.seconds * NEW_CONNECTIONS)))
            made += ["-n", connections, "-c", connections, "-r", "1", "--rate-period", milliseconds(1 / NEW_CONNECTIONS)]
        else:
            streams = max(1, plan.window // plan.clients)
            made += ["-D", milliseconds(plan.seconds), "-c", str(plan.clients), "-m", str(streams), "-t", str(min(plan.threads, plan.clients))]
        return [*made, f"https://{load.authority}{load.target.path}"]

    def read(self, load: Load, output: str, result: Result) -> None:
        # Of each request: when it began, its status or -1, and its microseconds.
        lines = Counter(text.split("\t", 1)[1] for text in (load.folder / "log").read_text().splitlines())
        statuses: Counter[int] = Counter()
        for text, times in lines.items():
            status, microseconds = map(int, text.split("\t"))
            statuses[status] += times
            if status > 0:
                record(result, [(microseconds * 1e-6, times)])
        result.answered = sum(times for status, times in statuses.items() if status > 0)
        result.statuses = {str(status): times for status, times in statuses.items() if status > 0 and status != OK}
        if result.statuses:
            result.wrong = {"status": sum(result.statuses.values())}
        result.lost = sum(map(int, only(REQUESTS, output)))
        result.sent = result.answered + result.lost
        result.octets = int(only(TRAFFIC, output)[0])
        number, unit = only(FINISHED, output)
        result.seconds = float(number) * UNITS[unit]


def milliseconds(seconds: float) -> str:
    return f"{max(1, round(seconds * 1000))}ms"


def only(pattern: re.Pattern[str], output: str) -> tuple[str, ...]:
    """The groups of a line. LookupError."""
    found = pattern.search(output)
    if found is None:
        raise LookupError(f"no line {pattern.pattern!r}")
    return found.groups()
