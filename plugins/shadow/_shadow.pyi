"""The handler of *shadow*."""

from collections.abc import Iterable

from fastdns._mux import NativeHandler
from fastdns.plugins.shadow._target import Target

class ShadowHandler(NativeHandler):
    """Copies questions of its server block to a target: those at or below the zones, or all where there are none."""

    target: Target
    def __init__(self, target: Target, zones: Iterable[str]) -> None: ...
