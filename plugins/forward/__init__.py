"""forward: passes queries on to other resolvers.

Upstreams over UDP and TCP are asked by the workers themselves (the native modules of this folder), those over TLS and HTTPS by a
thread of their own (`fastdns.plugins.forward.clients`), which runs only where one is configured.
"""

from __future__ import annotations

from functools import partial

from fastdns.plugins.forward._forward import ForwardHandler
from fastdns.plugins.forward.options import parse
from fastdns.plugins.forward.upstreams import pack_address, targets
from fastdns.setup import Controller
from fastdns.setup.traits import Traits
from fastdns.telemetry.log import Log

__all__ = ["setup"]

TRAITS = Traits(any_class=True, runs_in_check=True)

log = Log()


def setup(controller: Controller) -> None:
    """``forward FROM TO... { … }``; each occurrence in a block is a handler of its own, in the order of the file.

    ``proxy`` is what it was called until CoreDNS 1.5.0.
    """
    while controller.next():
        if controller.directive == "proxy":
            log.warning(f"{controller.file()}:{controller.line()}: plugin/forward: 'proxy' is the old name of 'forward': write 'forward' instead")
        options = parse(controller)
        found = targets(options)
        if options.source_address:
            options.source = pack_address(options.source_address, 0)
        handler = ForwardHandler(options, found)
        if any(target.scheme != "dns" for target in found):
            from fastdns.plugins.forward.clients import join

            join(handler)
        controller.on_startup(partial(tap, controller, handler))
        controller.config.add_handler(handler)


def tap(controller: Controller, handler: ForwardHandler) -> None:
    """Have the block's dnstap log queries to upstreams."""
    senders = [getattr(other, "sender", None) for other in controller.config.handlers if other.name == "dnstap"]
    if senders:
        handler.set_taps(senders)
