"""shed: drops replies for which the buffers of UDP sockets are full, and queries that have waited too long."""

from __future__ import annotations

from fastdns.corefile.errors import quoted
from fastdns.setup import Controller
from fastdns.setup.traits import Traits

__all__ = ["parse", "setup"]

TRAITS = Traits(answers=False, runs_in_check=True)

#: Nanoseconds after which a query is not answered while the server is overloaded: half of a period of the kernel's CPU quota, in which a server stands still.
AGE = 50_000_000
LEAST, MOST = 1_000_000, 10_000_000_000


def setup(controller: Controller) -> None:
    """``shed [AGE]``."""
    age = parse(controller)
    from fastdns.plugins.shed._shed import ShedHandler

    controller.config.add_handler(ShedHandler("shed", age))


def parse(controller: Controller) -> int:
    """Nanoseconds after which a query is not answered while the server is overloaded; 0: at any age. Raises CorefileError."""
    age = AGE
    while controller.once():
        if arguments := controller.args(0, 1):
            try:
                age = controller.duration(arguments[0])
            except ValueError as error:
                raise controller.err(f"invalid age: {error}") from None
            if age and not LEAST <= age <= MOST:
                raise controller.err(f"the age must be in range [1ms, 10s], or 0s: {arguments[0]}")
        if controller.next_block():
            raise controller.err("shed takes no options")
    for address in controller.config.addresses:
        if address.transport != "dns":
            raise controller.err(f"only plain DNS server blocks are supported; {quoted(str(address))} uses transport {quoted(address.transport)}")
    return age
