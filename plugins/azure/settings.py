"""What the ``azure`` directives of a server block say."""

from __future__ import annotations

import os
from typing import NamedTuple

from fastdns.corefile.errors import quoted
from fastdns.plugins.azure.environments import FILE, PUBLIC, environment
from fastdns.plugins.file.hosted_options import HostedOptions
from fastdns.setup import Controller

__all__ = ["Place", "Settings", "parse"]


class Place(NamedTuple):
    """Where a zone is in Azure."""

    group: str
    #: Without a final dot.
    zone: str
    private: bool = False


class Settings(HostedOptions):
    """What all ``azure`` directives of a server block say together."""

    def __init__(self) -> None:
        super().__init__()
        #: In the order of the Corefile.
        self.places: list[Place] = []
        self.environment = PUBLIC
        self.tenant = ""
        self.client = ""
        self.secret = ""
        self.subscription = os.environ.get("AZURE_SUBSCRIPTION_ID", "")


def parse(controller: Controller) -> Settings:
    """Read all directives. Raises CorefileError with the texts of CoreDNS."""
    settings = Settings()
    while controller.next():
        first = len(settings.places)
        for argument in controller.remaining_args():
            group, _, zone = argument.partition(":")
            if not group or not zone:
                raise controller.err(f"invalid resource group/zone: {quoted(argument)}")
            place = Place(group, zone.removesuffix(".").lower())
            if place in {known._replace(private=False) for known in settings.places}:
                raise controller.err(f"conflicting zone: {quoted(argument)}")
            settings.places.append(place)
        while controller.next_block():
            if not settings.read(controller):
                _property(controller, settings, first)
    if settings.places and not settings.subscription:
        raise controller.err("no subscription")
    return settings


def _property(controller: Controller, settings: Settings, first: int) -> None:
    """``first``: place of the directive's first zone."""
    match controller.val():
        case "tenant":
            settings.tenant = controller.arg()
        case "client":
            settings.client = controller.arg()
        case "secret":
            settings.secret = controller.arg()
        case "subscription":
            settings.subscription = controller.arg()
        case "environment":
            name = controller.arg()
            controller.reads(os.environ.get(FILE, ""))
            try:
                settings.environment = environment(name)
            except ValueError as error:
                raise controller.err(f"cannot set azure environment: {quoted(str(error))}") from error
        case "access":
            access = controller.arg()
            if access not in ("public", "private"):
                raise controller.err(f"invalid access value: can be public/private, found: {access}")
            settings.places[first:] = [place._replace(private=access == "private") for place in settings.places[first:]]
        case word:
            raise controller.err(f"unknown property: {quoted(word)}")
