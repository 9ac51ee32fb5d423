"""Accounts of rates; the native side is in ``_table.pxd``. Python has them for tests."""

from typing import Literal

class Accounts:
    """A table of at most ``size`` accounts. MemoryError."""

    def __init__(self, size: int) -> None: ...
    def charge(self, key: int, rate: float, now: int, window: float = 15.0, slip: int = 0) -> Literal["granted", "exceeded", "slips", "untracked"]:
        """Charge one token to the account of a key of 64 bits. ``rate``: tokens a second; ``now``: nanoseconds; ``window``: most seconds of debt."""

    def keys(self) -> list[int]:
        """The accounts that are there; the lowest bit of a key is always set."""
