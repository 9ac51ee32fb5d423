"""pprof: where CPU time and memory go, as `go tool pprof` reads it."""

from __future__ import annotations

from fastdns.corefile import CorefileError
from fastdns.corefile.address import split_address
from fastdns.setup import Controller
from fastdns.setup.traits import Traits
from fastdns.telemetry.log import Log

__all__ = ["setup"]

TRAITS = Traits(answers=False, side_effects=True)

log = Log("plugin/pprof")

ADDRESS = "localhost:6053"


def setup(controller: Controller) -> None:
    """``pprof [ADDRESS] { block [RATE] }``"""
    address = parse(controller)

    opened = False

    def start() -> None:
        nonlocal opened
        from fastdns.plugins.pprof import web

        try:
            web.open(address)
        except OSError as error:
            log.error(f"Failed to start pprof handler: {error.strerror or error}")
            raise CorefileError(error.strerror or str(error)) from None
        opened = True

    def stop() -> None:
        from fastdns.plugins.pprof import web

        if opened:
            web.close(address)

    controller.on_startup(start)
    controller.on_shutdown(stop)


def parse(controller: Controller) -> str:
    """The address. A rate is checked and does nothing: nobody waits for a lock of ours."""
    address = ADDRESS
    while controller.once():
        arguments = controller.args(0, 1)
        if arguments:
            address = arguments[0]
            try:
                split_address(address)
            except ValueError as error:
                raise controller.err(str(error)) from None
        while controller.next_block():
            if controller.val() != "block":
                raise controller.err(f"unknown property '{controller.val()}'")
            for rate in controller.args(0, 1):
                try:
                    controller.integer(rate)
                except ValueError:
                    raise controller.err(f"property 'block' invalid integer value '{rate}'") from None
    return address
