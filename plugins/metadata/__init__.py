"""metadata: lets plugins of the block publish values about each query."""

from __future__ import annotations

from fastdns.index.zone_list import ZoneList
from fastdns.setup import Controller
from fastdns.setup.traits import Traits

__all__ = ["setup"]

TRAITS = Traits(answers=False, runs_in_check=True)


def setup(controller: Controller) -> None:
    """``metadata [ZONES...]``, once. There is no handler: readers look labels up at load, and values are computed when they are read."""
    zones = controller.zones([])
    controller.next()
    arguments = controller.remaining_args()
    if arguments:
        zones = controller.zones(arguments)
    if controller.next_block() or controller.next():
        raise controller.arg_err()
    controller.config.values["metadata"] = ZoneList(zones)
