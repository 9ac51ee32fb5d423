"""https: limits of DNS over HTTPS."""

from __future__ import annotations

from fastdns.setup import Controller
from fastdns.setup.traits import Traits

__all__ = ["setup"]

TRAITS = Traits(answers=False, runs_in_check=True)


def setup(controller: Controller) -> None:
    """``https { max_connections N }``; CoreDNS does not look at a second one."""
    limits: dict[str, int] = controller.config.values.setdefault("https", {})
    controller.next()
    if controller.remaining_args():
        raise controller.arg_err()
    while controller.next_block():
        name = controller.val()
        if name != "max_connections":
            raise controller.err(f"unknown property '{name}'")
        value = controller.one_arg()
        try:
            number = controller.integer(value)
        except ValueError as error:
            raise controller.err(f"invalid max_connections value '{value}': {error}") from None
        if number < 0:
            raise controller.err(f"max_connections must be a non-negative integer: {number}")
        if "max_connections" in limits:
            raise controller.err("max_connections already defined for this server block")
        limits["max_connections"] = number
