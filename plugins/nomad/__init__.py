"""nomad: answers from the service catalogue of HashiCorp Nomad."""

from __future__ import annotations

import asyncio
import ipaddress
import struct
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from fastdns._wire import name_wire
from fastdns.corefile.zone import fqdn
from fastdns.plugin import PASS, Next, Plugin, Query, Record
from fastdns.plugins.nomad.api import Api, NomadError, Service
from fastdns.setup import Controller
from fastdns.setup.traits import Traits
from fastdns.telemetry.log import Log
from fastdns.telemetry.metrics import Metric

__all__ = ["Nomad", "Options", "parse", "setup"]

TRAITS = Traits(runs_in_check=True)

log = Log("plugin/nomad")

ZONE = "service.nomad"
TTL = 30
TTL_MAX = 3600
#: Calls to the API at a time.
CALLS = 32
NXDOMAIN = 3
A, SOA, AAAA, SRV = 1, 6, 28, 33
PRIORITY = WEIGHT = 10

succeeded = Metric("coredns_nomad_success_requests_total", "Counter of DNS requests handled successfully.", "counter", ("server", "namespace"))
failed = Metric("coredns_nomad_failed_requests_total", "Counter of DNS requests failed.", "counter", ("server", "namespace"))
#: Names of namespaces that have counters: whoever asks for others does not make more of them.
COUNTED_MAX = 1000


class Options:
    """What the directive says."""

    def __init__(self, zone: str) -> None:
        #: In lower case, with its final dot.
        self.zone = fqdn(zone).lower()
        self.addresses: list[str] = []
        self.filter = ""
        self.token = ""
        self.ttl = TTL


def setup(controller: Controller) -> Nomad:
    """``nomad [ZONE] { … }``"""
    options = parse(controller)
    plugin = Nomad(options, Api(options.addresses, options.token, options.filter))
    controller.on_startup(lambda: plugin.serve_as(controller.config.servers))
    return plugin


def parse(controller: Controller) -> Options:
    """Raises CorefileError. Only the first directive of a block counts."""
    controller.next()
    arguments = controller.remaining_args()
    options = Options(arguments[0] if arguments else ZONE)
    name_wire(options.zone)
    while controller.next_block():
        name = controller.val().lower()
        arguments = controller.remaining_args()
        if name == "address":
            if not arguments:
                raise controller.err("at least one address is required")
            options.addresses += arguments
        elif name not in ("filter", "token", "ttl"):
            raise controller.err(f"unknown property '{name}'")
        elif len(arguments) != 1:
            raise controller.err(f"exactly one {name}{' value' if name == 'ttl' else ''} is required")
        elif name == "filter":
            options.filter = arguments[0]
        elif name == "token":
            options.token = arguments[0]
        else:
            options.ttl = parse_ttl(controller, arguments[0])
    return options


def parse_ttl(controller: Controller, text: str) -> int:
    try:
        ttl = controller.integer(text)
    except ValueError as error:
        raise controller.err(f"error parsing ttl: {error}") from None
    if not 0 <= ttl <= TTL_MAX:
        raise controller.err(f"ttl must be in range [0, {TTL_MAX}]: {ttl}")
    return ttl


class Nomad(Plugin):
    """Asks the API for the service that a name means: ``SERVICE.NAMESPACE.ZONE``."""

    def __init__(self, options: Options, api: Api) -> None:
        self.options = options
        self.api = api
        self.zones = [options.zone]
        self.pool = ThreadPoolExecutor(CALLS, "nomad")
        self.server = ""
        self.counted: set[str] = set()

    def serve_as(self, servers: list[str]) -> None:
        """Labels of the servers that the block belongs to: its queries are counted with the first one."""
        self.server = servers[0] if servers else ""

    def ready(self) -> bool:
        """Whether there is an API to ask; a single address is always taken for one."""
        return len(self.api.addresses) == 1 or self.api.is_there()

    async def serve(self, query: Query, below: Next) -> Any:
        labels = query.name.removesuffix(self.options.zone).split(".")[:-1] if self.options.zone != "." else query.name.split(".")[:-1]
        if len(labels) < 2:
            return PASS
        name, namespace = labels[:2]
        try:
            services = await asyncio.get_running_loop().run_in_executor(self.pool, self.api.services, name, namespace)
        except NomadError as error:
            log.warning(str(error))
            self.count(failed, namespace)
            return query.fail("SERVFAIL", str(error))
        answer = self.records(query, services)
        if answer is None:
            self.count(failed, namespace)
            return query.reply(self.soa(query.name), rcode=NXDOMAIN)
        self.count(succeeded, namespace)
        return query.reply(*answer[0], additional=answer[1])

    def records(self, query: Query, services: list[Service]) -> tuple[list[Record], list[Record]] | None:
        """Answer and additional section; None: there is no such name or type, or the catalogue holds what is no address."""
        answer: list[Record] = []
        additional: list[Record] = []
        if not services or query.qtype not in (A, AAAA, SRV):
            return None
        ttl = self.options.ttl
        lower = name_wire(query.name)
        for service in services:
            try:
                address = ipaddress.ip_address(service.address)
            except ValueError:
                return None
            if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
                address = address.ipv4_mapped
            qtype = A if address.version == 4 else AAAA
            if query.qtype == SRV:
                answer.append(Record(SRV, struct.pack("!3H", PRIORITY, WEIGHT, service.port & 0xFFFF) + lower, ttl))
                additional.append(Record(qtype, address.packed, ttl, lower))
            elif query.qtype == qtype:
                answer.append(Record(qtype, address.packed, ttl))
        return answer, additional

    def soa(self, name: str) -> Record:
        names = name_wire(f"ns1.{name}"[-253:].lstrip(".")) + name_wire(f"hostmaster.{self.options.zone}")
        return Record(SOA, names + struct.pack("!5I", 0, 3600, 600, 86400, 30), self.options.ttl, name_wire(name))

    def count(self, metric: Metric, namespace: str) -> None:
        if namespace not in self.counted:
            if len(self.counted) >= COUNTED_MAX:
                namespace = "other"
            self.counted.add(namespace)
        metric.add((self.server, namespace))

    def close(self) -> None:
        self.pool.shutdown(wait=False, cancel_futures=True)
        self.api.close()
