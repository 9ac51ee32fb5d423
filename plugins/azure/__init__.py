"""azure: answers from zones of Azure DNS and Azure Private DNS."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from fastdns.corefile import CorefileError
from fastdns.corefile.zone import fqdn
from fastdns.plugins.azure.settings import Settings, parse
from fastdns.plugins.file.hosted import HostedZone, HostedZones, one_line
from fastdns.setup import Controller
from fastdns.setup.extras import extra_package
from fastdns.setup.traits import Traits

if TYPE_CHECKING:
    from fastdns.plugins.azure.api import Api

__all__ = ["setup"]

TRAITS = Traits()


def setup(controller: Controller) -> None:
    """Add one handler for all directives; its zones are read before the block serves."""
    settings = parse(controller)
    with extra_package("azure-identity", "azure"):
        from fastdns.plugins.azure.api import Api
    try:
        api = Api(settings)
    except Exception as error:  # the library's have no common base
        raise _error(controller, one_line(error)) from error
    _hosted(controller, settings, api).serve(controller, settings.fall)


def _hosted(controller: Controller, settings: Settings, api: Api) -> HostedZones:
    zones = [
        HostedZone("azure", fqdn(place.zone), f"{settings.subscription}/{place.group}", partial(api.records, place), settings.snapshot, title=place.zone)
        for place in settings.places
    ]
    hosted = HostedZones(zones, settings.refresh, "azure")
    hosted.unread = partial(_error, controller)
    return hosted


def _error(controller: Controller, text: str) -> CorefileError:
    """CoreDNS shows no place of what Azure refuses."""
    at = controller.err("")
    return CorefileError(f"plugin/azure: {text}", at.file, at.line)
