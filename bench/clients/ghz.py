"""ghz: gRPC, by Google's library for Go."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, ClassVar

from fastdns.bench.clients.client import Client, Load, record
from fastdns.bench.result import Result

#: What CoreDNS's `dns.proto` describes.
PROTO = """syntax = "proto3";
package coredns.dns;
message DnsPacket { bytes msg = 1; }
service DnsService { rpc Query (DnsPacket) returns (DnsPacket); }
"""
METHOD = "coredns.dns.DnsService.Query"
#: Field 1, a string of octets.
MSG = 0x0A
#: Statuses of calls that nobody answered.
LOST = ("DeadlineExceeded", "Unavailable", "Canceled")


class Ghz(Client):
    name = "ghz"
    source = "go install github.com/bojand/ghz/cmd/ghz@latest"
    transports: ClassVar[frozenset[str]] = frozenset(["grpc"])
    makes_connections = False

    def command(self, load: Load) -> list[str]:
        plan = load.plan
        # `dns.proto`'s only field; a query of one question is shorter than the 128 octets that would need a second octet of length.
        packet = load.write("packet", bytes([MSG, len(load.query)]) + load.query)
        made = ["ghz", "--skipTLS", "--proto", load.write("dns.proto", PROTO), "--call", METHOD, "-B", packet, "-c", str(plan.window)]
        made += ["--connections", str(plan.clients), "-z", f"{plan.seconds:g}s", "--duration-stop", "wait", "-t", f"{plan.timeout:g}s"]
        return [*made, "-O", "json", load.authority]

    def read(self, load: Load, output: str, result: Result) -> None:
        report: dict[str, Any] = json.loads(output)
        statuses: dict[str, int] = report["statusCodeDistribution"]
        result.sent = report["count"]
        result.lost = sum(statuses.get(name, 0) for name in LOST)
        result.answered = result.sent - result.lost
        result.statuses = {name: count for name, count in statuses.items() if name != "OK" and name not in LOST}
        if result.statuses:
            result.wrong = {"status": sum(result.statuses.values())}
        result.seconds = report["total"] * 1e-9
        record(result, Counter(call["latency"] * 1e-9 for call in report["details"] if call["status"] not in LOST).items())
