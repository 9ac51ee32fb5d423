"""erratic: drops, delays and cuts replies, so that clients can be tested."""

from __future__ import annotations

from typing import NamedTuple

from fastdns.corefile import CorefileError
from fastdns.corefile.duration import MILLISECOND, parse_int
from fastdns.corefile.errors import quoted
from fastdns.setup import Controller
from fastdns.setup.traits import Traits

__all__ = ["Settings", "parse", "setup"]

TRAITS = Traits(runs_in_check=True)

AMOUNT = 2


class Settings(NamedTuple):
    """Of how many queries one is dropped, delayed or cut; 0: none."""

    drop: int = AMOUNT
    delay: int = 0
    truncate: int = 0
    #: Nanoseconds.
    duration: int = 0
    large: bool = False


def setup(controller: Controller) -> None:
    """``erratic { drop [N]; truncate [N]; delay [N [DURATION]]; large }``"""
    settings = parse(controller)
    from fastdns.plugins.erratic._erratic import ErraticHandler

    controller.config.add_handler(ErraticHandler("erratic", *settings))


def parse(controller: Controller) -> Settings:
    """All occurrences together. Raises CorefileError."""
    settings = Settings()
    dropping = False
    while controller.next():
        while controller.next_block():
            option = controller.val()
            if option == "drop":
                arguments = controller.args(0, 1)
                if arguments:
                    settings = settings._replace(drop=_amount(arguments[0]))
                    dropping = True
            elif option == "truncate":
                arguments = controller.args(0, 1)
                settings = settings._replace(truncate=_amount(*arguments))
            elif option == "delay":
                arguments = controller.args(0, 2)
                duration = controller.duration(arguments[1]) if len(arguments) > 1 else 100 * MILLISECOND
                settings = settings._replace(delay=_amount(*arguments[:1]), duration=max(duration, 0))
            elif option == "large":
                settings = settings._replace(large=True)
            else:
                raise controller.err(f"unknown property '{option}'")
    if (settings.delay or settings.truncate) and not dropping:
        settings = settings._replace(drop=0)
    return settings


def _amount(text: str = str(AMOUNT)) -> int:
    amount = parse_int(text, 32, "ParseInt")
    if amount < 0:
        raise CorefileError(f"illegal amount value given {quoted(text)}")
    return amount
