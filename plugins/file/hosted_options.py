"""The options that the directives of hosted zones have in common."""

from __future__ import annotations

from fastdns.corefile.duration import in_seconds
from fastdns.corefile.errors import quoted
from fastdns.corefile.zone import fqdn
from fastdns.plugins.file.storage import store_folder
from fastdns.setup import Controller

__all__ = ["HostedOptions", "refresh_seconds", "zone_arguments"]


class HostedOptions:
    """What a directive says of the zones that it serves."""

    def __init__(self) -> None:
        self.fall: list[str] = []
        #: Seconds between two times that zones are read.
        self.refresh = 60.0
        #: Folder where zones are kept; "": nowhere.
        self.snapshot = ""

    def read(self, controller: Controller) -> bool:
        """Read an option; False: it is another one. Raises CorefileError."""
        match controller.val():
            case "fallthrough":
                self.fall = controller.fallthrough()
            case "refresh":
                self.refresh = refresh_seconds(controller, controller.arg())
            case "snapshot":
                self.snapshot = store_folder(controller)
            case _:
                return False
        return True


def zone_arguments(controller: Controller, count: int) -> list[list[str]]:
    """The directive's arguments, each of ``count`` parts between colons, the zone's origin first. Raises CorefileError with the texts of CoreDNS."""
    found: dict[str, list[str]] = {}
    for argument in controller.remaining_args():
        parts = argument.split(":", count - 1)
        if len(parts) != count or not all(parts):
            raise controller.err(f"invalid zone {quoted(argument)}")
        if argument in found:
            raise controller.err(f"conflict zone {quoted(argument)}")
        found[argument] = [fqdn(parts[0]).lower(), *parts[1:]]
    return list(found.values())


def refresh_seconds(controller: Controller, text: str) -> float:
    """Seconds of a duration; a bare number is seconds. Raises CorefileError."""
    text = in_seconds(text)
    try:
        seconds = controller.seconds(text)
    except ValueError as error:
        raise controller.err(f"Unable to parse duration: {error}") from error
    if seconds <= 0:
        raise controller.err(f"refresh interval must be greater than 0: {quoted(text)}")
    return seconds
