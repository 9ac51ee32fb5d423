"""forward: passes queries on to other resolvers.

The workers ask the upstreams themselves (the native modules of this folder), over all transports.
"""

from __future__ import annotations

import os
from functools import partial

from fastdns.corefile.zone import split_transport
from fastdns.plugins.forward._forward import ForwardHandler
from fastdns.plugins.forward.options import Options, parse
from fastdns.plugins.forward.renewal import keep_renewed
from fastdns.plugins.forward.upstreams import pack_address, targets
from fastdns.plugins.forward.watch import UpstreamWatch
from fastdns.setup import Controller
from fastdns.setup.traits import Traits
from fastdns.telemetry.log import Log

__all__ = ["setup"]

TRAITS = Traits(any_class=True, runs_in_check=True, asks_others="first")

log = Log()


def setup(controller: Controller) -> None:
    """``forward FROM TO... { … }``; each occurrence in a block is a handler of its own, in the order of the file.

    ``proxy`` is what it was called until CoreDNS 1.5.0.
    """
    while controller.next():
        if controller.directive == "proxy":
            log.warning(f"{controller.file()}:{controller.line()}: plugin/forward: 'proxy' is the old name of 'forward': write 'forward' instead")
        place = controller.place()
        options = parse(controller)
        suspect_unreachable(controller, options, place.line)
        for text in options.targets:
            _, path = split_transport(text)
            if os.path.isfile(path):  # name servers
                controller.reads(path)
        found = targets(options)
        if options.source_address:
            options.source = pack_address(options.source_address, 0)
        if len(found) < 2 and (options.hedge_delay or options.hedge_quantile):
            controller.suspect("hedge: there is no second upstream", "name another one behind the zone")
        handler = ForwardHandler(options, found)
        for context in handler.contexts.values():
            keep_renewed(controller, context, "plugin/forward")
        if options.max_fails:
            watch = UpstreamWatch(handler)
            controller.on_started(watch.start)
            controller.on_shutdown(watch.stop)
        controller.on_startup(partial(tap, controller, handler))
        if handler.hedges:
            controller.on_complete(partial(record, controller, handler))
        above = [other for other in controller.config.handlers if isinstance(other, ForwardHandler)]
        if above:
            handler.follow(above[-1])
        controller.config.add_handler(handler)


def suspect_unreachable(controller: Controller, options: Options, line: int) -> None:
    """The occurrences of a block are asked in the order of the file: the first one whose zone a name is in answers."""
    earlier: list[tuple[Options, int]] = controller.config.values.setdefault("forward", [])
    for other, at in earlier:
        passes = other.excepted or other.next or other.next_on_nodata
        if not passes and (options.zone == other.zone or other.zone == "." or options.zone.endswith(f".{other.zone}")):
            controller.suspect(
                f"never asked: the one of line {at} answers for `{other.zone}`", "the one with the longer zone has to stand first, or in a block of its own"
            )
            break
    earlier.append((options, line))


def record(controller: Controller, handler: ForwardHandler) -> None:
    """Have the block's recorder write down both upstreams of a query."""
    take = next((getattr(other, "take_pairs", None) for other in controller.config.handlers if other.name == "recorder"), None)
    if take is not None:
        handler.set_recorder(take())


def tap(controller: Controller, handler: ForwardHandler) -> None:
    """Have the block's dnstap log queries to upstreams."""
    senders = [getattr(other, "sender", None) for other in controller.config.handlers if other.name == "dnstap"]
    if senders:
        handler.set_taps(senders)
