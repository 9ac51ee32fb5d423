"""Remembered verdicts of Python plugins: see executor/verdicts.pxd and executor/verdict_cache.pxd, and query.Verdict.remember for what plugins use."""

from fastdns.executor.request import PluginQuery
from fastdns.query import Remembered, Verdict

class Verdicts:
    """The verdicts remembered for one handler of a plugin; at most ``limit`` (ValueError above 4,194,304). Times are ns, monotonic; 0: now."""

    def __init__(self, plugin: str, limit: int) -> None: ...
    @property
    def count(self) -> int:
        """How many there are, with those whose time is over and that nobody has swept away yet."""

    @property
    def octets(self) -> int:
        """Memory that they take, with what waits for the workers to be freed, without the tables."""

    def begin(self, query: PluginQuery) -> None:
        """The plugin is asked: what is withdrawn from now on makes its verdict too old to be remembered."""

    def put(self, query: PluginQuery, remembered: Remembered, message: bytes | None = None, now: int = 0) -> bool:
        """Remember the verdict on a query; ``message`` is that of a Reply. False when it is not kept: for messages that are no queries,
        for clients of a link's own addresses, or because something was withdrawn meanwhile. ValueError when the query is not in the scope."""

    def find(self, query: PluginQuery, now: int = 0) -> Verdict | None:
        """What would be applied to a query."""

    def forget(self, suffix: str | None = None, client: str | None = None) -> int:
        """Withdraw the verdicts that hold for some name at or below suffix and some client of the prefix; how many went."""
