"""https: limits of DNS over HTTPS."""

from __future__ import annotations

from fastdns.setup import Controller
from fastdns.setup.limits import parse_limits
from fastdns.setup.traits import Traits

__all__ = ["setup"]

TRAITS = Traits(answers=False, runs_in_check=True)

#: SETTINGS_MAX_CONCURRENT_STREAMS has 32 bits (RFC 9113 6.5.2).
STREAMS_MAX = 2**32 - 1


def setup(controller: Controller) -> None:
    """``https { max_connections N; max_streams N }``; CoreDNS does not look at a second one."""
    limits = parse_limits(controller, {"max_connections": 0, "max_streams": 0}, {"max_streams": STREAMS_MAX})
    if limits.get("max_streams") == 0:  # the default of Go's library, which is the one without the option
        del limits["max_streams"]
    controller.config.values.setdefault("https", limits)
