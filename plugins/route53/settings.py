"""What the ``route53`` directives of a server block say."""

from __future__ import annotations

import os

from fastdns.corefile.errors import quoted
from fastdns.plugins.file.hosted_options import HostedOptions, zone_arguments
from fastdns.setup import Controller
from fastdns.telemetry.log import Log

__all__ = ["Settings", "parse"]

log = Log("plugin/route53")


class Settings(HostedOptions):
    """What one ``route53`` directive says."""

    def __init__(self) -> None:
        super().__init__()
        #: Origin and hosted zone's ID, in the order of the Corefile.
        self.zones: list[tuple[str, str]] = []
        self.key: tuple[str, str] | None = None
        self.endpoint = ""
        self.profile = ""
        #: With credentials; "": AWS's own files.
        self.file = ""


def parse(controller: Controller) -> Settings:
    """Read one directive. Raises CorefileError with the texts of CoreDNS."""
    settings = Settings()
    settings.zones = [(origin, number) for origin, number in zone_arguments(controller, 2)]
    while controller.next_block():
        if not settings.read(controller):
            _property(controller, settings)
    return settings


def _property(controller: Controller, settings: Settings) -> None:
    match controller.val():
        case "aws_access_key":
            words = controller.remaining_args()
            if len(words) < 2:
                raise controller.err(f"invalid access key: '[{'...' if words else ''}]'")
            settings.key = words[0], words[1]
            log.warning("Save aws_access_key in Corefile has been deprecated, please use other authentication methods instead")
        case "aws_endpoint":
            settings.endpoint = controller.arg()
        case "credentials":
            settings.profile = controller.arg()
            if controller.next_arg():
                settings.file = os.path.abspath(controller.val())
                controller.reads(settings.file)
        case "upstream":  # of former versions
            controller.remaining_args()
        case word:
            raise controller.err(f"unknown property {quoted(word)}")
