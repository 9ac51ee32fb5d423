"""grpc: passes queries on to other resolvers, over gRPC."""

from __future__ import annotations

import asyncio
import importlib.util
import random
import ssl
import time
from itertools import count
from typing import TYPE_CHECKING, Any

from fastdns.corefile import CorefileError
from fastdns.corefile.address import host_port_or_file, split_address, strip_scope
from fastdns.corefile.zone import origins, split_transport
from fastdns.plugin import PASS, Next, Plugin, Query
from fastdns.protocol.header import FLAG_CD, FLAG_QR, FLAG_RD, FLAGS_OPCODE, OPCODE_QUERY, flags_opcode, flags_rcode, message_flags
from fastdns.protocol.parameters import rcode_text
from fastdns.setup import Controller
from fastdns.setup.traits import Traits
from fastdns.telemetry.metrics import Metric

if TYPE_CHECKING:
    from fastdns.plugins.grpc.client import Client, Target

__all__ = ["Grpc", "Options", "parse", "setup"]

TRAITS = Traits(runs_in_check=True)

UPSTREAMS_MAX = 15
#: Seconds for all attempts together.
TIMEOUT = 5.0
POLICIES = ("random", "round_robin", "sequential")
NOERROR, FORMERR, NXDOMAIN = 0, 1, 3
NO_UPSTREAM = "no healthy gRPC proxies"

requests = Metric("coredns_grpc_requests_total", "Counter of requests made per upstream.", "counter", ("to",))
responses = Metric("coredns_grpc_responses_total", "Counter of requests made per upstream.", "counter", ("rcode", "to"))
durations = Metric(
    "coredns_grpc_request_duration_seconds",
    "Histogram of the time each request took.",
    "histogram",
    ("to",),
    tuple(0.00025 * 2**k for k in range(16)),
    1e9,
)


class Options:
    """What the directive says."""

    def __init__(self, zone: str, targets: list[Target]) -> None:
        self.zone = zone
        self.targets = targets
        self.excepted: list[str] = []
        #: Paths of `tls`; None: clear text.
        self.tls: list[str] | None = None
        self.servername = ""
        self.policy = "random"
        #: Zones of `fallthrough`.
        self.fall: list[str] = []


def setup(controller: Controller) -> Grpc:
    """``grpc FROM TO... { … }``"""
    place = controller.place()
    if importlib.util.find_spec("h2") is None:
        raise CorefileError(f"{place.file}:{place.line} - Error during parsing: grpc needs h2, which is not installed", place.file, place.line)
    plugin = Grpc(parse(controller))
    controller.on_startup(lambda: plugin.look_below(controller.config.handlers))
    return plugin


def parse(controller: Controller) -> Options:
    """Raises CorefileError, ValueError."""
    controller.once()
    zone = controller.arg()
    normalized = origins(zone)
    texts = controller.remaining_args()
    if not normalized:
        raise ValueError(f"unable to normalize '{zone}'")
    if not texts:
        raise controller.arg_err()
    found = host_port_or_file(*texts)
    options = Options(normalized[0], [target(text) for text in found])
    while controller.next_block():
        parse_option(controller, options)
    if len(found) > UPSTREAMS_MAX:
        raise ValueError(f"more than {UPSTREAMS_MAX} TOs configured: {len(found)}")
    if controller.once():
        raise controller.arg_err()
    return options


def parse_option(controller: Controller, options: Options) -> None:
    match controller.val():
        case "except":
            for name in controller.args(1):
                options.excepted += origins(name)
        case "tls":
            options.tls = [controller.path(path) for path in controller.args(0, 3)]
        case "tls_servername":
            options.servername = controller.arg()
        case "policy":
            policy = controller.arg()
            if policy not in POLICIES:
                raise controller.err(f"unknown policy '{policy}'")
            options.policy = policy
        case "fallthrough":
            options.fall = controller.fallthrough()
        case unknown:
            raise controller.err(f"unknown property '{unknown}'")


def target(text: str) -> Target:
    """An upstream from ``[scheme://]address:port`` or ``unix://path``."""
    from fastdns.plugins.grpc.client import Target

    scheme, place = split_transport(text)
    if scheme == "unix":
        return Target(text, "", 0, place)
    host, port = split_address(place)
    if not port.isdigit() or not 0 < int(port) < 65536:
        raise ValueError(f"invalid port in upstream address: {text}")
    return Target(place if scheme == "grpc" else text, strip_scope(host) if "." in host else host, int(port))


def is_below(name: str, zone: str) -> bool:
    """Both in lower case, with their final dots."""
    return zone == "." or name == zone or name.endswith("." + zone)


class Grpc(Plugin):
    """Asks each upstream at most once, in the order of the policy."""

    #: The client loop's; a little more than that of the attempts.
    deadline = TIMEOUT + 1.0

    def __init__(self, options: Options) -> None:
        from fastdns.control.tls import client_context
        from fastdns.plugins.grpc.client import Client

        self.options = options
        self.zones = [options.zone]
        context: ssl.SSLContext | None = None
        if options.tls is not None or options.servername:
            context = client_context(options.tls or (), ("h2",))
        self.clients = [Client(target, context, options.servername) for target in options.targets]
        #: Another plugin stands below.
        self.has_next = False
        self._turn = count(1)
        for each in options.targets:
            requests.cell((each.text,))
            durations.cell((each.text,))

    def look_below(self, handlers: list[Any]) -> None:
        """Of the block, in order."""
        self.has_next = not handlers or handlers[-1].name != "grpc"

    def order(self) -> list[Client]:
        """All upstreams, those to be asked first in front."""
        if self.options.policy == "random":
            return random.sample(self.clients, len(self.clients))
        if self.options.policy == "round_robin":
            first = next(self._turn) % len(self.clients)
            return [self.clients[first], *self.clients[:first], *self.clients[first + 1 :]]
        return self.clients

    async def serve(self, query: Query, below: Next) -> Any:
        name = query.name
        if name != self.options.zone and any(is_below(name, zone) for zone in self.options.excepted):
            return PASS if self.has_next else query.fail("SERVFAIL")
        request = query.request
        error = NO_UPSTREAM
        try:
            async with asyncio.timeout(TIMEOUT):
                for client in self.order():
                    try:
                        return self.verdict(query, request, await self.ask(client, request))
                    except UpstreamError as failure:
                        error = str(failure)
        except TimeoutError:
            error = "rpc error: code = DeadlineExceeded desc = context deadline exceeded"
        return PASS if self.falls(name) else query.fail("SERVFAIL", error)

    async def ask(self, client: Client, request: bytes) -> bytes:
        """The reply of one upstream. Raises UpstreamError."""
        from fastdns.plugins.grpc.dnspacket import NOT_FOUND, StatusError

        began = time.monotonic()
        try:
            reply = await client.query(request)
        except StatusError as error:
            if error.status == NOT_FOUND:
                return nothing(request, NXDOMAIN)
            raise UpstreamError(str(error)) from None
        if len(reply) < 12:
            raise UpstreamError("dns: buffer size too small")
        to = client.target.text
        requests.add((to,))
        responses.add((rcode_text(flags_rcode(message_flags(reply))), to))
        durations.observe((to,), time.monotonic() - began)
        return reply

    def verdict(self, query: Query, request: bytes, reply: bytes) -> Any:
        """What the client gets of a reply."""
        if not answers(request, reply):
            return nothing(request, FORMERR)
        if flags_rcode(message_flags(reply)) == NXDOMAIN and self.falls(query.name):
            return PASS
        return reply

    def falls(self, name: str) -> bool:
        """Whether the plugins below are asked instead."""
        return self.has_next and any(is_below(name, zone) for zone in self.options.fall)

    def close(self) -> None:
        for client in self.clients:
            client.close()


class UpstreamError(Exception):
    """An upstream has not answered."""


def question_end(message: bytes) -> int:
    """Behind the first question; 0 where there is none in one piece."""
    at = 12
    while at < len(message) and message[at]:
        if message[at] >= 64:
            return 0
        at += message[at] + 1
    return at + 5 if at + 5 <= len(message) else 0


def answers(request: bytes, reply: bytes) -> bool:
    """A reply to the one question of a request; letters of its name may differ in case."""
    end = question_end(request)
    return (
        message_flags(reply) & FLAG_QR != 0
        and reply[4:6] == b"\0\1"
        and question_end(reply) == end
        and reply[12 : end - 4].lower() == request[12 : end - 4].lower()
        and reply[end - 4 : end] == request[end - 4 : end]
    )


def nothing(request: bytes, rcode: int) -> bytes:
    """A reply without records."""
    flags = message_flags(request)
    copied = flags & (FLAGS_OPCODE | FLAG_CD | (FLAG_RD if flags_opcode(flags) == OPCODE_QUERY else 0))
    return request[:2] + (FLAG_QR | copied | rcode).to_bytes(2, "big") + b"\0\1" + bytes(6) + request[12 : question_end(request)]
