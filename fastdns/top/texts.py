"""Numbers and names as the page of `fastdns top` writes them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from rich.text import Text

__all__ = ["age", "bar", "clock", "key", "octets", "percent", "plain", "rate", "seconds", "spark"]

BLOCKS = " ▁▂▃▄▅▆▇█"


def plain(text: object, style: str = "") -> Text:
    """A text of a stranger: no markup, and no character that a terminal would take for a command."""
    return Text("".join(letter if letter.isprintable() else "\ufffd" for letter in str(text)), style)


def rate(value: float | None) -> str:
    """A number a second, in at most six characters."""
    if value is None:
        return "–"
    if value >= 1e4:
        return f"{value / 1e6:.2f}M" if value >= 1e6 else f"{value / 1e3:.1f}k"
    return f"{value:.0f}" if value >= 100 or value == 0 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def seconds(value: float | None) -> str:
    """A time in its unit."""
    if value is None:
        return "–"
    if value < 1e-3:
        return f"{value * 1e6:.0f} us"
    return f"{value * 1e3:.{2 if value < 1e-2 else 0}f} ms" if value < 1 else f"{value:.2f} s"


def percent(value: float | None) -> str:
    """A share."""
    return "–" if value is None else f"{value * 100:.1f} %"


def octets(value: float) -> str:
    """A size in memory."""
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TB"


def age(value: float) -> str:
    """How long a server has run."""
    days, hours, minutes = int(value // 86400), int(value // 3600) % 24, int(value // 60) % 60
    if days:
        return f"{days} d {hours} h"
    return f"{hours} h {minutes} min" if hours else f"{minutes} min" if minutes else f"{int(value)} s"


def clock(value: float) -> str:
    """A time of day, to the second."""
    return time.strftime("%H:%M:%S", time.localtime(value))


def bar(value: float, most: float, width: int = 20, style: str = "cyan") -> Text:
    """A bar of ``width`` cells for the most."""
    filled = 0 if most <= 0 else min(width, max(int(value > 0), round(width * value / most)))
    return Text("█" * filled, style).append("·" * (width - filled), "bright_black")


def spark(values: Sequence[float]) -> Text:
    """A small picture of the last values."""
    most = max(values, default=0) or 1
    return Text("".join(BLOCKS[min(8, round(8 * value / most))] for value in values), "cyan")


def key(row: Mapping[str, Any]) -> Text:
    """The key of a row of a table of *top*: a client as its pod where that is known."""
    rest = dict(row)
    address, pod, namespace, node = (rest.pop(name, "") for name in ("address", "pod", "namespace", "node"))
    parts = [f"{namespace}/{pod}" if pod and namespace else pod or namespace, address, node]
    return plain("  ".join(str(part) for part in [*parts, *rest.values()] if part))
