"""Every encrypted transport by clients of other projects: one query at a time, a new connection for each, and many on a few connections."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fastdns.bench.clients import CLIENTS, Client
from fastdns.bench.scenarios.names import PROBE
from fastdns.bench.scenarios.scenario import SATURATED, Scenario, ScenarioError, Stage, Variant
from fastdns.bench.servers import SECURE, Running, Work, subject
from fastdns.bench.workload import Collector, Question, Workload

#: Shape of the load -> fields of its plan; `many` has those of the command line.
SHAPES: dict[str, Mapping[str, Any]] = {
    "one": {"clients": 1, "window": 1},
    "new": {"clients": 1, "window": 1, "new_connection": True},
    "many": {},
}

SERVER = """.:{port} SCHEME://.:{secure} {
    {bind}
    tls {certificate} {key}
    whoami
}
"""
#: Asked over UDP, it asks the upstream.
GRPC_CLIENT = """.:{port} {
    {bind}
    grpc . 127.0.0.1:UPSTREAM
}
"""
UPSTREAM = """.:{port} {
    {bind}
    whoami
}
grpc://.:{secure} {
    {bind}
    whoami
}
"""


@dataclass(frozen=True)
class Row:
    """Of the report: work that is measured in every shape."""

    title: str
    transport: str
    #: The server passes the query on to gRPC.
    forwards: bool = False


#: By the name that `--transport` takes, in the order of the report.
ROWS = {
    "dot": Row("DoT", "dot"),
    "doh": Row("DoH, HTTP/2", "doh"),
    "doh1": Row("DoH, HTTP/1.1", "doh1"),
    "doq": Row("DoQ", "doq"),
    "doh3": Row("DoH3", "doh3"),
    "grpc": Row("gRPC", "grpc"),
    "grpc-client": Row("*grpc* (client)", "udp", forwards=True),
}


class Transports(Scenario):
    name = "transports"
    help = "a fixed answer over each encrypted transport, asked by dnsperf, h2load, ghz and a client over quic-go"
    baseline = "coredns"
    rates = (SATURATED,)
    closed = True
    subjects = ("fastdns", "coredns", "nghttpd")

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        group = parser.add_argument_group("transports", "again for more; all that are not left out")
        group.add_argument("--client", action="append", choices=list(CLIENTS), help="who asks; it must be installed then")
        group.add_argument("--transport", action="append", choices=list(ROWS), help="doh1: HTTP/1.1, doh3: HTTP/3, grpc-client: forwarding to gRPC")
        group.add_argument("--shape", action="append", choices=list(SHAPES), help="one query at a time, a new connection for each, --window on --clients")

    def prepare(self, options: argparse.Namespace, stage: Stage) -> list[Variant]:
        """Notes say which clients are missing. ScenarioError when one that was asked for is, or nothing is left."""
        collector = Collector()
        collector.add(Question(*PROBE, 0))
        workload = collector.workload(f"one name, {options.seconds:g} s a load")
        works: dict[str, Work] = {}
        variants: list[Variant] = []
        for name in options.transport or ROWS:
            row = ROWS[name]
            client = next(each for each in CLIENTS.values() if row.transport in each.transports)
            if client.name not in (options.client or CLIENTS):
                continue
            if why := client.missing():
                if options.client:
                    raise ScenarioError(why)
                stage.notes.append(f"not measured over {name}: {why}")
                continue
            client.prepare()
            scheme = SECURE.get(row.transport, "")
            work = works.get(scheme) or works.setdefault(scheme, forwarding(stage) if row.forwards else serving(scheme))
            variants += shapes(name, client, work, workload, options.shape or list(SHAPES), stage)
        if not variants:
            raise ScenarioError("; ".join(stage.notes) or "no client asks over these transports")
        return variants


def shapes(name: str, client: Client, work: Work, workload: Workload, names: list[str], stage: Stage) -> Iterator[Variant]:
    """Of a row; a note says where the client cannot make new connections."""
    row = ROWS[name]
    for shape in names:
        if not SHAPES[shape].get("new_connection") or (client.makes_connections and not row.forwards):
            yield Variant(work, workload, f"{name} {shape}", row.transport, client=client, plan=SHAPES[shape], row=row.title, shape=shape)
        elif not row.forwards:
            stage.notes.append(f"not measured with new connections over {name}: {client.name} cannot make them")


def serving(scheme: str) -> Work:
    return Work("fixed answer", SERVER.replace("SCHEME", scheme), PROBE, needs=("tls", "whoami"))


def forwarding(stage: Stage) -> Work:
    """To a server of this project beside the load, without TLS."""
    upstream = stage.parts.enter_context(Running(subject("fastdns"), Work("upstream", UPSTREAM, PROBE), stage.load_cpus[:1]))
    return Work("forwarded over gRPC", GRPC_CLIENT.replace("UPSTREAM", str(upstream.secure_port)), PROBE, needs=("grpc",))
