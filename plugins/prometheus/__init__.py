"""prometheus: the metrics page and the counts of every query."""

from __future__ import annotations

import os
from typing import Any

from fastdns.httpd.endpoint import Endpoint, page_address
from fastdns.httpd.message import Reply, Request
from fastdns.plugins.prometheus import process
from fastdns.plugins.prometheus._prometheus import Recorder
from fastdns.setup import Config, Controller
from fastdns.setup.traits import Traits
from fastdns.telemetry.log import Log

__all__ = ["Recorder", "page", "setup"]

TRAITS = Traits(answers=False, side_effects=True)

log = Log()

ADDRESS = "localhost:9153"
#: Pages below this many octets are not worth packing.
PACK_FROM = 1400


def setup(controller: Controller) -> Recorder:
    """``prometheus [ADDRESS] { runtime_metrics; tls CONFIGFILE }``"""
    address, tls, runtime, absent = parse(controller)
    process.register()
    if runtime:
        process.register_runtime()
    controller.on_started(lambda: start(controller))
    if tls is not None:
        controller.on_started(tls.keep_renewed)
    if absent:
        controller.on_startup(lambda: log.error(f"TLS config file does not exist: {absent}"))
    else:
        Endpoint(address, "/metrics", page, tls).follow(controller)
    recorder = Recorder("prometheus")
    controller.on_complete(lambda: show(recorder, controller.config))
    return recorder


def show(recorder: Recorder, config: Config) -> None:
    """As in CoreDNS, a block's first key stands for all, and what is no handler here counts, too."""
    first = config.addresses[0]
    others = [name for name, there in (("metadata", "metadata" in config.values), ("view", config.filters)) if there]
    recorder.show(first.zone, first.transport, first.port, tuple(others))


def start(controller: Controller) -> None:
    """The workers are there by now."""
    if controller.process is not None and controller.process.engine is not None:
        process.register_engine(controller.process.engine)


def parse(controller: Controller) -> tuple[str, Any, bool, str]:
    """Address, TLS context or None, whether the runtime's metrics are wanted, and the file of `tls` if it does not exist."""
    address, tls, runtime, seen, absent = ADDRESS, None, False, False, ""
    while controller.once():
        address = page_address(controller, address)
        while controller.next_block():
            option = controller.val()
            if option == "runtime_metrics":
                controller.no_args()
                runtime = True
            elif option == "tls":
                from fastdns.plugins.prometheus.web import load

                if seen:
                    raise controller.err("tls block already specified")
                seen = True
                path = controller.path(controller.one_arg())
                if os.path.exists(path):
                    tls = load(path)
                else:
                    absent = path
                    controller.suspect(f"the TLS configuration {path} does not exist: without it there is no page of metrics")
            else:
                raise controller.err(f"unknown option: {option}")
    return address, tls, runtime, absent


def page(request: Request) -> Reply:
    """The text of every metric, packed where the client takes that."""
    from fastdns.telemetry import exposition

    body = exposition.page()
    if len(body) >= PACK_FROM and "gzip" in request.fields.get("accept-encoding", ""):
        import gzip

        return Reply(200, gzip.compress(body, 1, mtime=0), exposition.CONTENT_TYPE, (("Content-Encoding", "gzip"),))
    return Reply(200, body, exposition.CONTENT_TYPE)
