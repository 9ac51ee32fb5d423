"""What the ``route53`` directives of a server block say."""

from __future__ import annotations

import os

from fastdns.corefile.errors import quoted
from fastdns.corefile.zone import fqdn
from fastdns.plugins.file.storage import check_folder
from fastdns.setup import Controller
from fastdns.telemetry.log import Log

__all__ = ["SECOND", "Settings", "parse"]

log = Log("plugin/route53")

SECOND = 10**9


class Settings:
    """What one ``route53`` directive says."""

    def __init__(self) -> None:
        #: Origin and hosted zone's ID, in the order of the Corefile.
        self.zones: list[tuple[str, str]] = []
        self.key: tuple[str, str] | None = None
        self.endpoint = ""
        self.profile = ""
        #: With credentials; "": AWS's own files.
        self.file = ""
        self.fall: list[str] = []
        #: Nanoseconds.
        self.refresh = 60 * SECOND
        #: Folder where zones are kept; "": nowhere.
        self.snapshot = ""


def parse(controller: Controller) -> Settings:
    """Read one directive. Raises CorefileError with the texts of CoreDNS."""
    settings = Settings()
    seen: set[str] = set()
    for argument in controller.remaining_args():
        name, _, number = argument.partition(":")
        if not name or not number:
            raise controller.err(f"invalid zone {quoted(argument)}")
        if argument in seen:
            raise controller.err(f"conflict zone {quoted(argument)}")
        seen.add(argument)
        settings.zones.append((fqdn(name).lower(), number))
    while controller.next_block():
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
        case "fallthrough":
            settings.fall = controller.fallthrough()
        case "refresh":
            settings.refresh = _refresh(controller)
        case "snapshot":
            settings.snapshot = check_folder(controller.path(controller.one_arg()))
        case "upstream":  # of former versions
            controller.remaining_args()
        case word:
            raise controller.err(f"unknown property {quoted(word)}")


def _refresh(controller: Controller) -> int:
    """Nanoseconds; a bare number is seconds."""
    text = controller.arg()
    try:
        controller.integer(text)
        text += "s"
    except ValueError:
        pass
    try:
        duration = controller.duration(text)
    except ValueError as error:
        raise controller.err(f"Unable to parse duration: {error}") from error
    if duration <= 0:
        raise controller.err(f"refresh interval must be greater than 0: {quoted(text)}")
    return duration
