"""What a ``clouddns`` directive says."""

from __future__ import annotations

import json

from fastdns.corefile.errors import quoted, system_error
from fastdns.plugins.file.hosted_options import HostedOptions, zone_arguments
from fastdns.setup import Controller

__all__ = ["Settings", "parse"]

#: What a file of credentials may have.
TYPES = ("service_account", "authorized_user", "impersonated_service_account", "external_account")


class Settings(HostedOptions):
    """What one ``clouddns`` directive says."""

    def __init__(self) -> None:
        super().__init__()
        #: Origin, project and name of the managed zone, in the order of the Corefile.
        self.zones: list[tuple[str, str, str]] = []
        #: With credentials; "": the environment's.
        self.file = ""
        #: URL; "": Google's.
        self.endpoint = ""


def parse(controller: Controller) -> Settings:
    """Read one directive. Raises CorefileError with the texts of CoreDNS."""
    settings = Settings()
    settings.zones = [(origin, project, name) for origin, project, name in zone_arguments(controller, 3)]
    while controller.next_block():
        if not settings.read(controller):
            _property(controller, settings)
    return settings


def _property(controller: Controller, settings: Settings) -> None:
    match controller.val():
        case "credentials":
            settings.file = controller.arg()
            controller.reads(settings.file)
            try:
                _check(settings.file)
            except ValueError as error:
                raise controller.err(f"invalid credentials file {quoted(settings.file)}: {error}") from error
        case "endpoint":
            settings.endpoint = controller.one_arg().rstrip("/")
            if not settings.endpoint.startswith(("https://", "http://")):
                raise controller.err(f"invalid endpoint {quoted(settings.endpoint)}")
        case "upstream":  # of former versions
            controller.remaining_args()
        case word:
            raise controller.err(f"unknown property {quoted(word)}")


def _check(path: str) -> None:
    """Raises ValueError, without what the file has beside its type."""
    try:
        with open(path, "rb") as file:
            found = json.load(file)
    except OSError as error:
        raise ValueError(system_error(error)) from error
    kind = found.get("type", "") if isinstance(found, dict) else ""
    if not kind:
        raise ValueError("missing `type` field in credential")
    if kind not in TYPES:
        raise ValueError(f"unknown credential type: {kind}")
