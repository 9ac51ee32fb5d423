"""nsid: the server's own identifier in replies to those who ask for it (RFC 5001)."""

from __future__ import annotations

from fastdns.plugins.nsid._nsid import NsidHandler
from fastdns.setup import Controller
from fastdns.setup.traits import Traits
from fastdns.system.host import host_name

__all__ = ["parse", "setup"]

TRAITS = Traits(answers=False, runs_in_check=True)


def setup(controller: Controller) -> None:
    """Add the block's handler."""
    controller.config.add_handler(NsidHandler("nsid", parse(controller)))


def parse(controller: Controller) -> bytes:
    """``nsid [DATA...]``: the words joined by a space, by default the host's name. Raises CorefileError."""
    data = host_name()
    while controller.once():
        data = " ".join(controller.remaining_args()) or data
    octets = data.encode("utf-8", "surrogateescape")
    if len(octets) > NsidHandler.MOST:
        raise controller.err(f"identifier longer than {NsidHandler.MOST} octets")
    return octets
