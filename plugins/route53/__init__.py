"""route53: answers from hosted zones of AWS Route 53."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from fastdns.plugins.file.hosted import HostedZone, HostedZones, one_line, refusal
from fastdns.plugins.route53.settings import Settings, parse
from fastdns.setup import Controller
from fastdns.setup.extras import extra_package
from fastdns.setup.traits import Traits

if TYPE_CHECKING:
    from fastdns.plugins.route53.api import Api

__all__ = ["setup"]

TRAITS = Traits()


def setup(controller: Controller) -> None:
    """Add a handler for each directive; its zones are read before the block serves."""
    while controller.next():
        settings = parse(controller)
        with extra_package("boto3", "route53"):
            from fastdns.plugins.route53.api import Api
        try:
            api = Api(settings)
        except Exception as error:  # the library's have no common base
            raise controller.err(f"failed to create route53 client: {one_line(error)}") from error
        hosted = _hosted(controller, settings, api)
        hosted.serve(controller, settings.fall)


def _hosted(controller: Controller, settings: Settings, api: Api) -> HostedZones:
    zones = [HostedZone("route53", origin, number, partial(api.records, number), settings.snapshot) for origin, number in settings.zones]
    hosted = HostedZones(zones, settings.refresh, "route53")
    hosted.verify = [partial(api.verify, origin, number) for origin, number in settings.zones]
    hosted.refused = refusal(controller, "create route53 plugin")
    hosted.unread = refusal(controller, "initialize route53 plugin")
    return hosted
