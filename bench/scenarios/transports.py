"""Every encrypted transport by clients of other projects: one query at a time, a new connection for each, and many on a few connections."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from fastdns.bench.clients import CLIENTS
from fastdns.bench.scenarios.names import PROBE
from fastdns.bench.scenarios.scenario import SATURATED, Scenario, ScenarioError, Stage, Variant
from fastdns.bench.servers import SECURE, Work
from fastdns.bench.workload import Collector, Question

#: In the order of the report.
TRANSPORTS = ("dot", "doh", "doh1", "doq", "doh3", "grpc")
#: Shape of the load -> fields of its plan; `many` has those of the command line.
SHAPES: dict[str, Mapping[str, Any]] = {
    "one": {"clients": 1, "window": 1},
    "new": {"clients": 1, "window": 1, "new_connection": True},
    "many": {},
}

COREFILE = """.:{port} SCHEME://.:{secure} {
    {bind}
    tls {certificate} {key}
    whoami
}
"""


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
        group.add_argument("--transport", action="append", choices=TRANSPORTS, help="doh1: HTTP/1.1, doh3: HTTP/3")
        group.add_argument("--shape", action="append", choices=list(SHAPES), help="one query at a time, a new connection for each, --window on --clients")

    def prepare(self, options: argparse.Namespace, stage: Stage) -> list[Variant]:
        """Notes say which clients are missing. ScenarioError when one that was asked for is, or nothing is left."""
        collector = Collector()
        collector.add(Question(PROBE[0], PROBE[1], 0))
        workload = collector.workload(f"one name, {options.seconds:g} s a load")
        works = {scheme: Work("fixed answer", COREFILE.replace("SCHEME", scheme), PROBE, needs=("tls", "whoami")) for scheme in SECURE.values()}
        variants = []
        for client in CLIENTS.values():
            asked = [name for name in TRANSPORTS if name in client.transports and name in (options.transport or TRANSPORTS)]
            if not asked or client.name not in (options.client or CLIENTS):
                continue
            if why := client.missing():
                if options.client:
                    raise ScenarioError(why)
                stage.notes.append(f"not measured over {', '.join(asked)}: {why}")
                continue
            client.prepare()
            for shape in options.shape or SHAPES:
                if SHAPES[shape].get("new_connection") and not client.makes_connections:
                    stage.notes.append(f"not measured with new connections over {', '.join(asked)}: {client.name} cannot make them")
                    continue
                variants += [Variant(works[SECURE[name]], workload, f"{name} {shape}", name, client=client, plan=SHAPES[shape], shape=shape) for name in asked]
        if not variants:
            raise ScenarioError("; ".join(stage.notes) or "no client asks over these transports")
        shapes = list(SHAPES)
        return sorted(variants, key=lambda variant: (TRANSPORTS.index(variant.transport), shapes.index(variant.shape)))
