"""fqdn_policy: replies wait until a policy agent has taken their addresses."""

from __future__ import annotations

import os

from fastdns.corefile.duration import format_duration
from fastdns.setup import Controller
from fastdns.setup.traits import Traits

__all__ = ["Settings", "parse", "setup"]

TRAITS = Traits(answers=False, side_effects=True)

MILLISECOND = 1_000_000
TIMEOUT_MOST = 50 * MILLISECOND
WAITING_MOST = 4096
#: Octets of a unix socket's path (sun_path), without the zero at its end.
PATH_MOST = 107


class Settings:
    """What the directive says."""

    def __init__(self) -> None:
        #: Path of the agent's socket.
        self.path = ""
        self.zones: list[str] = []
        #: ns that a reply waits.
        self.timeout = TIMEOUT_MOST
        #: Whether it fails when the agent has not taken its addresses by then.
        self.closed = False
        #: Replies that may wait.
        self.waiting = 1024


def setup(controller: Controller) -> None:
    """Add the block's handler."""
    settings = parse(controller)
    from fastdns.plugins.fqdn_policy._fqdn_policy import PolicyHandler

    controller.config.add_handler(PolicyHandler(settings.path, settings.zones, settings.timeout, settings.closed, settings.waiting))


def parse(controller: Controller) -> Settings:
    """``fqdn_policy SOCKET [ZONES...] { … }``. Raises CorefileError."""
    settings = Settings()
    while controller.once():
        path, *zones = controller.args(1)
        settings.path = os.path.abspath(controller.path(path, reads=False))
        if len(os.fsencode(settings.path)) > PATH_MOST:
            raise controller.err(f"the path of a unix socket has at most {PATH_MOST} octets: {settings.path}")
        settings.zones = controller.zones(zones)
        while controller.next_block():
            match controller.val():
                case "timeout":
                    settings.timeout = controller.duration(controller.one_arg())
                    if not MILLISECOND <= settings.timeout <= TIMEOUT_MOST:
                        raise controller.err(f"timeout must be between 1ms and 50ms: {format_duration(settings.timeout)}")
                case "fail":
                    mode = controller.one_arg()
                    if mode not in ("open", "closed"):
                        raise controller.err(f"fail must be open or closed: {mode}")
                    settings.closed = mode == "closed"
                case "waiting":
                    settings.waiting = controller.unsigned(controller.one_arg())
                    if not 1 <= settings.waiting <= WAITING_MOST:
                        raise controller.err(f"waiting must be between 1 and {WAITING_MOST}: {settings.waiting}")
                case name:
                    raise controller.err(f"unknown property '{name}'")
    return settings
