"""Events of upstreams that are down, and that are back."""

from __future__ import annotations

from fastdns import control
from fastdns.plugins.forward._forward import ForwardHandler
from fastdns.telemetry import events

__all__ = ["UpstreamWatch"]

#: Seconds between two looks. A probe is sent each half second, and a probe has a second.
INTERVAL = 2.0


class UpstreamWatch:
    """Of one handler, from `start` to `stop`. The state is the workers', who tell nobody of it: an upstream that comes back between two looks is no event."""

    def __init__(self, handler: ForwardHandler) -> None:
        self._handler = handler
        self._down: set[str] = set()
        self._timer: control.Timer | None = None

    def start(self) -> None:
        self._timer = control.every(INTERVAL, self.look)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def look(self) -> None:
        """Note what has changed."""
        down = set(self._handler.down())
        for upstream in sorted(down - self._down):
            events.note("upstream_down", upstream, f"more than {self._handler.options.max_fails} health checks in a row have failed")
        for upstream in sorted(self._down - down):
            events.note("upstream_up", upstream, "it answers again")
        self._down = down
