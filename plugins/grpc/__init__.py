"""grpc: passes queries on to other resolvers, over gRPC."""

from __future__ import annotations

import os
import socket
import struct
from typing import NamedTuple

from fastdns.corefile.address import host_port_or_file, split_address, strip_scope
from fastdns.corefile.zone import origins, split_transport
from fastdns.plugins.forward.renewal import keep_renewed
from fastdns.plugins.forward.upstreams import pack_address
from fastdns.plugins.grpc._grpc import GrpcHandler
from fastdns.setup import Controller
from fastdns.setup.traits import Traits

__all__ = ["Options", "Target", "parse", "setup"]

TRAITS = Traits(runs_in_check=True, asks_others="first")

UPSTREAMS_MAX = 15
#: Octets of a unix socket's path.
PATH_MAX = 107
POLICIES = ("random", "round_robin", "sequential")


class Target(NamedTuple):
    """An upstream. ``text`` is as the Corefile has it; ``path`` is of a unix socket, else "" ."""

    text: str
    host: str
    port: int
    path: str = ""

    def sockaddr(self) -> bytes:
        """The address as the kernel wants it. Raises ValueError."""
        if not self.path:
            return pack_address(self.host, self.port)
        path = os.fsencode(self.path)
        if len(path) > PATH_MAX:
            raise ValueError(f"the path of a socket has more than {PATH_MAX} octets: {self.path}")
        return struct.pack("=H", socket.AF_UNIX) + path + b"\0"


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


def setup(controller: Controller) -> None:
    """``grpc FROM TO... { … }``"""
    handler = GrpcHandler(parse(controller))
    if handler.context is not None:
        keep_renewed(controller, handler.context, "plugin/grpc")
    controller.config.add_handler(handler)


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
    for text in texts:
        _, path = split_transport(text)
        if os.path.isfile(path):  # name servers
            controller.reads(path)
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
    scheme, place = split_transport(text)
    if scheme == "unix":
        return Target(text, "", 0, place)
    host, port = split_address(place)
    if not port.isdigit() or not 0 < int(port) < 65536:
        raise ValueError(f"invalid port in upstream address: {text}")
    return Target(place if scheme == "grpc" else text, strip_scope(host) if "." in host else host, int(port))
