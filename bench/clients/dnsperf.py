"""dnsperf: DNS over TLS and UDP. Version 2.10 or later, which can limit the queries of a connection."""

from __future__ import annotations

import re
from collections import Counter
from typing import ClassVar

from dns.rdatatype import RdataType

from fastdns.bench.clients.client import Client, Load, record
from fastdns.bench.result import Result

#: Connections at a time, each for one query. dnsperf looks every 100 ms whether handshakes are done.
NEW_CONNECTIONS = 32

#: Queries a second that leave one at a time, and how many of them may wait for an answer. With `-q 1` instead dnsperf on one CPU sends 10 queries a
#: second: its receiving thread wakes the sending one before it counts the answer, and once more 100 ms later.
ONE_AT_A_TIME = 1000
WAITING = 100

REPLY = re.compile(r"^> ([A-Z]\w*) \S+ \S+ (\d+\.\d+)$", re.M)


class Dnsperf(Client):
    name = "dnsperf"
    source = "Debian's package dnsperf"
    transports: ClassVar[frozenset[str]] = frozenset(["dot", "udp"])

    def command(self, load: Load) -> list[str]:
        plan, target = load.plan, load.target
        queries = load.write("queries", f"{load.question.name} {RdataType.to_text(RdataType.make(load.question.type))}\n")
        clients, window = plan.clients, plan.window
        if plan.new_connection:
            clients = window = NEW_CONNECTIONS
        elif window == 1:
            window = WAITING
        made = ["dnsperf", "-m", target.transport, "-s", target.host, "-p", str(target.port), "-d", queries, "-l", f"{plan.seconds:g}"]
        made += ["-c", str(clients), "-q", str(window), "-T", str(min(plan.threads, clients)), "-t", f"{plan.timeout:g}", "-O", "suppress=sockready"]
        if plan.new_connection:
            made += ["-O", "num-queries-per-conn=1"]
        elif plan.window == 1:
            made += ["-Q", str(ONE_AT_A_TIME)]
        # A line for each reply is the only way to percentiles. With many queries under way it would cost the client more than the queries.
        return [*made, "-v"] if verbose(load) else made

    def read(self, load: Load, output: str, result: Result) -> None:
        result.sent = int(figure(output, "Queries sent"))
        result.answered = int(figure(output, "Queries completed"))
        result.lost = int(figure(output, "Queries lost"))
        result.seconds = float(figure(output, r"Run time \(s\)"))
        result.rcodes = {name: int(count) for name, count in re.findall(r"([A-Z]\w*) (\d+) \(", line(output, "Response codes"))}
        if others := sum(result.rcodes.values()) - result.rcodes.get("NOERROR", 0):
            result.wrong = {"rcode": others}
        result.octets = result.answered * int(re.findall(r"response (\d+)", line(output, "Average packet size"))[0])
        replies = Counter(float(seconds) for _, seconds in REPLY.findall(output))
        record(result, replies.items())


def verbose(load: Load) -> bool:
    return load.plan.window == 1 or load.plan.new_connection


def line(output: str, name: str) -> str:
    """What follows the name of a figure. LookupError."""
    found = re.search(rf"^\s*{name}:\s+(.*)$", output, re.M)
    if found is None:
        raise LookupError(f"no line {name!r}")
    return found[1]


def figure(output: str, name: str) -> str:
    return line(output, name).split()[0]
