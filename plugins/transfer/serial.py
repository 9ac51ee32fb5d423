"""Serial numbers (RFC 1982)."""

from __future__ import annotations

__all__ = ["next_serial", "serial_after"]


def serial_after(serial: int, other: int) -> bool:
    """Whether a serial comes after another."""
    return 0 < (serial - other) & 0xFFFFFFFF < 0x80000000


def next_serial(wanted: int, last: int | None) -> int:
    """A serial that comes after the last one, if there is one: the wanted one where it does."""
    wanted &= 0xFFFFFFFF
    return wanted if last is None or serial_after(wanted, last) else (last + 1) & 0xFFFFFFFF
