"""The directive ``clientip [ZONES...]``: every name of the zones has the address of the client that asks."""

from fastdns.plugin import Controller, Traits
from fastdns_clientip._clientip import ClientIP

TRAITS = Traits(answers=True, runs_in_check=True)

#: A cached answer would be another client's.
before = "cache"


def setup(controller: Controller) -> ClientIP:
    """Once for each server block that has the directive."""
    controller.once()
    return ClientIP("clientip", controller.zones(controller.remaining_args()))
