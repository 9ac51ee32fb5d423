"""loadbalance: reorders the addresses of successful answers."""

from __future__ import annotations

from typing import NamedTuple

from fastdns.corefile import CorefileError
from fastdns.corefile.address import packed
from fastdns.plugins.loadbalance._loadbalance import LoadbalanceHandler
from fastdns.setup import Controller
from fastdns.setup.traits import Traits

__all__ = ["Settings", "parse", "parse_network", "setup"]

TRAITS = Traits(answers=False, runs_in_check=True)

SECOND = 10**9
RELOAD = 30 * SECOND


class Settings(NamedTuple):
    """What the last ``loadbalance`` line of a block says."""

    #: Path of the weight file; "": round_robin.
    weights: str = ""
    #: Nanoseconds between two looks at it; 0: none.
    reload: int = RELOAD
    #: Networks whose addresses come first: packed address, prefix length.
    networks: tuple[tuple[bytes, int], ...] = ()


def setup(controller: Controller) -> None:
    """Add the block's handler; weights are read before the block serves."""
    settings = parse(controller)
    handler = LoadbalanceHandler("loadbalance", bool(settings.weights), list(settings.networks))
    controller.config.add_handler(handler)
    if settings.weights:
        from fastdns.plugins.loadbalance.weights import WeightFile

        file = WeightFile(settings.weights, settings.reload, handler)
        controller.on_startup(file.start)
        controller.on_started(file.watch)
        controller.on_shutdown(file.stop)


def parse(controller: Controller) -> Settings:
    """Read the directive: the last policy counts, preferred networks add up. Raises CorefileError."""
    settings = Settings()
    networks: list[tuple[bytes, int]] = []
    while controller.next():
        arguments = controller.remaining_args()
        if not arguments or arguments[0] == "round_robin":
            if len(arguments) > 1:
                raise controller.err("unknown property for round_robin")
            while controller.next_block():
                if controller.val() != "prefer":
                    raise controller.err(f"unknown property '{controller.val()}'")
                networks += [_network(controller, text) for text in controller.remaining_args()]
            settings = Settings(networks=tuple(networks))
        elif arguments[0] == "weighted":
            settings = _weighted(controller, arguments[1:])
        else:
            raise CorefileError(f"unknown policy: {arguments[0]}")
    return settings


def _weighted(controller: Controller, arguments: list[str]) -> Settings:
    if not arguments:
        raise controller.err("missing weight file argument")
    if len(arguments) > 1:
        raise controller.err("unexpected argument(s)")
    reload = RELOAD
    while controller.next_block():
        if controller.val() != "reload":
            raise controller.err(f"unknown property '{controller.val()}'")
        values = controller.remaining_args()
        if not values:
            raise controller.err("reload duration value is missing")
        if len(values) > 1:
            raise controller.err("unexpected argument")
        try:
            reload = controller.duration(values[0])
        except ValueError:
            reload = -1
        if reload < 0:
            raise controller.err(f"invalid reload duration '{values[0]}'")
    return Settings(controller.path(arguments[0]), reload)


def _network(controller: Controller, text: str) -> tuple[bytes, int]:
    network = parse_network(text)
    if network is None:
        raise controller.err(f'invalid CIDR "{text}": invalid CIDR address: {text}')
    return network


def parse_network(text: str) -> tuple[bytes, int] | None:
    """Packed address and prefix length of ``ADDRESS/LENGTH``, or None."""
    address, slash, length = text.partition("/")
    octets = packed(address)
    if not slash or octets is None or not (length.isascii() and length.isdigit()):
        return None
    bits = int(length)
    if len(octets) == 4 and ":" in address:  # IPv4-mapped
        bits -= 96
    return (octets, bits) if 0 <= bits <= 8 * len(octets) else None
