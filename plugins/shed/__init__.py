"""shed: drops replies and queries for which the buffers of UDP sockets are full."""

from __future__ import annotations

from fastdns.corefile.errors import quoted
from fastdns.setup import Controller
from fastdns.setup.traits import Traits

__all__ = ["parse", "setup"]

TRAITS = Traits(answers=False, runs_in_check=True)


def setup(controller: Controller) -> None:
    """``shed``, without arguments."""
    parse(controller)
    from fastdns.plugins.shed._shed import ShedHandler

    controller.config.add_handler(ShedHandler("shed"))


def parse(controller: Controller) -> None:
    """Raises CorefileError."""
    while controller.once():
        if controller.remaining_args():
            raise controller.arg_err()
        if controller.next_block():
            raise controller.err("shed takes no options")
    for address in controller.config.addresses:
        if address.transport != "dns":
            raise controller.err(f"only plain DNS server blocks are supported; {quoted(str(address))} uses transport {quoted(address.transport)}")
