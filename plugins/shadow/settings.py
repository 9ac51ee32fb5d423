"""The Corefile of shadow."""

from __future__ import annotations

import re
from typing import NamedTuple

from fastdns.comparison.asking import Server, parse_server
from fastdns.comparison.known import KNOWN, known_names
from fastdns.comparison.tally import KEEP
from fastdns.setup import Controller

__all__ = ["Settings", "parse"]

UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20}
OCTETS_LEAST, OCTETS_MOST = 1 << 16, 256 << 20
OUTSTANDING_MOST = 4096
RATE_MOST = 1_000_000
EXAMINED_MOST = 10_000
KEEP_MOST = 10_000
#: Seconds.
TIMEOUT_LEAST, TIMEOUT_MOST = 0.01, 30.0


class Settings(NamedTuple):
    """What one occurrence says of the other server: where it says the same, it is the same target."""

    server: Server
    #: Of the questions, up to 1.
    share: float = 1.0
    #: Questions a second.
    rate: int = 1000
    #: Questions that wait for an answer.
    outstanding: int = 256
    #: Seconds.
    timeout: float = 2.0
    #: Of copies on their way to the other server.
    octets: int = 1 << 20
    #: Pairs a second that are looked at because they seem to differ.
    examined: int = 100
    #: Differences that are kept.
    keep: int = KEEP
    #: Known differences that are told apart.
    ignored: frozenset[str] = frozenset(KNOWN)


def parse(controller: Controller) -> tuple[Settings, list[str]]:
    """The settings, and the zones (empty: all names). Raises CorefileError, ValueError."""
    zones: list[str] = []
    settings = Settings(Server("", 0))
    while controller.once():
        arguments = controller.args(1, 2)
        try:
            settings = settings._replace(server=parse_server(arguments[0]))
        except ValueError as error:
            raise controller.err(str(error)) from None
        if len(arguments) == 2:
            settings = settings._replace(share=share(controller, arguments[1]))
        while controller.next_block():
            if controller.val() == "zones":
                zones += controller.zones(controller.args(1))
            else:
                settings = parse_option(controller, settings)
    return settings, zones


def parse_option(controller: Controller, settings: Settings) -> Settings:
    match controller.val():
        case "rate":
            return settings._replace(rate=whole(controller, RATE_MOST))
        case "outstanding":
            return settings._replace(outstanding=whole(controller, OUTSTANDING_MOST))
        case "examine":
            return settings._replace(examined=whole(controller, EXAMINED_MOST))
        case "keep":
            return settings._replace(keep=whole(controller, KEEP_MOST))
        case "timeout":
            seconds = controller.seconds(controller.one_arg())
            if not TIMEOUT_LEAST <= seconds <= TIMEOUT_MOST:
                raise controller.err("timeout must be between 10ms and 30s")
            return settings._replace(timeout=seconds)
        case "buffer":
            return settings._replace(octets=size(controller, controller.one_arg()))
        case "ignore":
            try:
                return settings._replace(ignored=known_names(controller.args(1)))
            except ValueError as error:
                raise controller.err(str(error)) from None
        case unknown:
            raise controller.err(f"unknown property '{unknown}'")


def share(controller: Controller, text: str) -> float:
    """Of ``NUMBER%``. Raises CorefileError."""
    found = re.fullmatch(r"([0-9]{1,3}(?:\.[0-9]{1,9})?)%", text)
    if not found or not 0 < float(found[1]) <= 100:
        raise controller.err(f"the share must be above 0% and at most 100%: '{text}'")
    return float(found[1]) / 100


def size(controller: Controller, text: str) -> int:
    """Octets. Raises CorefileError."""
    found = re.fullmatch(r"([0-9]{1,12})([KM]?)(?:iB)?", text)
    number = int(found[1]) * UNITS[found[2]] if found else 0
    if not OCTETS_LEAST <= number <= OCTETS_MOST:
        raise controller.err(f"the buffer must be between 64KiB and 256MiB, such as 1MiB: '{text}'")
    return number


def whole(controller: Controller, most: int) -> int:
    """The number of a line, from 1. Raises CorefileError."""
    name = controller.val()
    text = controller.one_arg()
    try:
        number = controller.integer(text)
    except ValueError as error:
        raise controller.err(f"{text} invalid value. {error}") from None
    if not 1 <= number <= most:
        raise controller.err(f"{name} must be between 1 and {most}")
    return number
