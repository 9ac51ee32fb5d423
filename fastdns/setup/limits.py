"""Directives whose block is a list of numbers: `quic`, `https3` and their like."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fastdns.setup.controller import Controller

__all__ = ["parse_limits"]


def parse_limits(controller: Controller, least: Mapping[str, int], most: Mapping[str, int] | None = None) -> dict[str, int]:
    """Read ``DIRECTIVE { NAME N … }``: the given properties, each at most once. ``least`` has their names and the lowest N of each, ``most`` the
    highest N of some.

    Of several occurrences in a block only the first one is read. Raises CorefileError.
    """
    limits: dict[str, int] = {}
    controller.next()
    if controller.remaining_args():
        raise controller.arg_err()
    while controller.next_block():
        name = controller.val()
        if name not in least:
            raise controller.err(f"unknown property '{name}'")
        text = controller.one_arg()
        try:
            number = controller.integer(text)
        except ValueError as error:
            raise controller.err(f"invalid {name} value '{text}': {error}") from None
        if number < least[name]:
            raise controller.err(f"{name} must be a {'positive' if least[name] else 'non-negative'} integer: {number}")
        if most and number > most.get(name, number):
            raise controller.err(f"{name} must not exceed {most[name]}: {number}")
        if name in limits:
            raise controller.err(f"{name} already defined for this server block")
        limits[name] = number
    return limits
