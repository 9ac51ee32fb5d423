"""shadow: asks another server what clients ask this one, and compares the answers."""

from __future__ import annotations

from fastdns.plugins.shadow._shadow import ShadowHandler
from fastdns.plugins.shadow.service import service
from fastdns.plugins.shadow.settings import parse
from fastdns.setup import Controller
from fastdns.setup.traits import Traits

__all__ = ["setup"]

TRAITS = Traits(answers=False, side_effects=True)


def setup(controller: Controller) -> ShadowHandler:
    """``shadow ADDRESS [SHARE%] { … }``"""
    settings, zones = parse(controller)
    shared = service(settings)
    started = 0

    def start() -> None:
        nonlocal started
        shared.start()
        started += 1

    def stop() -> None:
        nonlocal started
        while started:
            started -= 1
            shared.stop()

    controller.on_startup(start)
    controller.on_shutdown(stop)
    return ShadowHandler(shared.target, zones)
