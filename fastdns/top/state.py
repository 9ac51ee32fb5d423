"""What the operator has chosen on the page of `fastdns top`, and what keys do."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

__all__ = ["ROWS", "VIEWS", "WINDOWS", "State"]

VIEWS = ("overview", "zones", "upstreams", "who asks", "queries", "events", "servers")
WINDOWS = {60: "1 minute", 600: "10 minutes", 3600: "1 hour"}
#: Rows of each table, and recorded queries, that servers are asked for.
ROWS = 100
#: Values of the small pictures.
VALUES = 40


@dataclass
class State:
    """The page as it stands."""

    #: Seconds that the tables of *top* count.
    window: int = 60
    view: int = 0
    row: int = 0
    #: Rows of the table that is shown, and as many as fit.
    rows: int = 0
    page: int = 20
    table: int = 0
    tables: int = 0
    #: Whether the chosen row is open.
    opened: bool = False
    paused: bool = False
    #: Of the recorder's queries: ``name`` or ``client``.
    filter: dict[str, str] = field(default_factory=dict)
    #: Of the rows that are shown, of *top*.
    keys: list[dict[str, Any]] = field(default_factory=list)
    #: The last values, the newest last.
    queries: list[float] = field(default_factory=list)
    latencies: list[float] = field(default_factory=list)

    @property
    def window_name(self) -> str:
        """The window in words."""
        return WINDOWS[self.window]

    def request(self) -> dict[str, Any]:
        """What is asked of the servers."""
        return {"window": self.window, "most": ROWS, **self.filter}

    def remember(self, rates: dict[str, Any] | None) -> None:
        """Keep the values of the small pictures."""
        if rates is not None:
            self.queries = [*self.queries, rates["queries"]][-VALUES:]
            self.latencies = [*self.latencies, rates["latency"]["p99"] or 0.0][-VALUES:]

    def press(self, key: str) -> bool:
        """Do what a key is for. False: the page ends."""
        if key in ("q", "\x03"):
            return False
        if key.isdigit() and 1 <= int(key) <= len(VIEWS):
            self._show(int(key) - 1)
            self.filter = {}
        elif key in ("up", "k"):
            self.row = max(0, self.row - 1)
        elif key in ("down", "j"):
            self.row = min(max(0, self.rows - 1), self.row + 1)
        elif key in ("\t", "right"):
            self.table, self.row = self.table + 1, 0
        elif key == "left":
            self.table, self.row = self.table - 1, 0
        elif key == "w":
            windows = list(WINDOWS)
            self.window = windows[(windows.index(self.window) + 1) % len(windows)]
        elif key == " ":
            self.paused = not self.paused
        elif key in ("\r", "\n"):
            self._open()
        elif key in ("esc", "\x7f"):
            self._back()
        return True

    def _show(self, view: int) -> None:
        self.view, self.row, self.opened = view, 0, False

    def _open(self) -> None:
        if VIEWS[self.view] == "who asks" and self.row < len(self.keys):
            key = self.keys[self.row]
            chosen = {name: str(key[member]) for name, member in (("client", "address"), ("name", "name")) if key.get(member)}
            if chosen:
                self._show(VIEWS.index("queries"))
                self.filter = chosen
        elif VIEWS[self.view] in ("zones", "upstreams", "queries"):
            self.opened = True

    def _back(self) -> None:
        if self.opened:
            self.opened = False
        elif self.filter:
            self.filter = {}
            self._show(VIEWS.index("who asks"))
