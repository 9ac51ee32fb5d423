"""secondary: zones that are transferred from their primaries and kept up with them."""

from __future__ import annotations

import itertools
import socket

from fastdns import control
from fastdns._wire import name_text
from fastdns.plugins.file.source import notifier
from fastdns.plugins.secondary._secondary import SecondaryHandler, open_queue, serve_notifies
from fastdns.plugins.secondary.group import Group
from fastdns.plugins.secondary.keeper import file_log, receivers
from fastdns.plugins.secondary.settings import parse
from fastdns.setup import Controller
from fastdns.setup.traits import Traits

__all__ = ["setup"]

TRAITS = Traits(runs_in_check=True, asks_others="all")


def setup(controller: Controller) -> None:
    """Add the block's handler; its zones are asked for once it serves."""
    block = parse(controller)
    number = next(_numbers)
    group = Group(block)
    controller.config.add_handler(SecondaryHandler("secondary", group.zones, block.fall, number=number))

    def start() -> None:
        _groups[number] = group
        _thread.start()
        receivers.start()
        group.begin(notifier(controller.config))

    def stop() -> None:
        _groups.pop(number, None)
        group.end()

    controller.on_startup(start)
    controller.on_started(group.start)
    controller.on_shutdown(stop)


# ---- NOTIFY ----

_numbers = itertools.count(1)
_groups: dict[int, Group] = {}
_thread = control.OffloadThread("notifies", open_queue, lambda: serve_notifies(accept))


def accept(number: int, zone: bytes, address: bytes) -> bool:
    """Whether a NOTIFY of this client is one of a primary; then the zone is asked about."""
    group = _groups.get(number)
    sender = socket.inet_ntop(socket.AF_INET if len(address) == 4 else socket.AF_INET6, address)
    keeper = group.accepts(zone, address) if group is not None else None
    if keeper is None:
        file_log.info(f"Dropping notify from {sender} for {name_text(zone)}")
        return False
    keeper.notify(sender)
    return True
