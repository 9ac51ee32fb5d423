"""local: answers names that must not leave the host."""

from __future__ import annotations

from fastdns.corefile.errors import quoted
from fastdns.setup import Controller
from fastdns.setup.traits import Traits

__all__ = ["parse", "setup"]

TRAITS = Traits(runs_in_check=True)


def setup(controller: Controller) -> None:
    """``local { localhost_prefix on|off }``"""
    prefix = parse(controller)
    from fastdns.plugins.local._local import LocalHandler

    controller.config.add_handler(LocalHandler("local", prefix))


def parse(controller: Controller) -> bool:
    """Whether names that begin with ``localhost.`` are answered, too. Raises CorefileError."""
    prefix = True
    while controller.next():
        if controller.remaining_args():
            raise controller.arg_err()
        while controller.next_block():
            if controller.val() != "localhost_prefix":
                raise controller.err(f"unknown property '{controller.val()}'")
            value = controller.one_arg()
            if value not in ("on", "off"):
                raise controller.err(f"localhost_prefix expects 'on' or 'off', got {quoted(value)}")
            prefix = value == "on"
    return prefix
