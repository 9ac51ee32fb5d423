"""Durations and numbers as Go's standard library reads and prints them, with its error texts."""

from __future__ import annotations

from fastdns.corefile.errors import quoted

__all__ = ["format_duration", "in_seconds", "parse_duration", "parse_float", "parse_int", "parse_uint"]

NANOSECOND = 1
MICROSECOND = 1000
MILLISECOND = 1000 * MICROSECOND
SECOND = 1000 * MILLISECOND
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE

UNITS = {
    "ns": NANOSECOND,
    "us": MICROSECOND,
    "µs": MICROSECOND,
    "μs": MICROSECOND,
    "ms": MILLISECOND,
    "s": SECOND,
    "m": MINUTE,
    "h": HOUR,
}
LIMIT = 1 << 63
DIGITS = frozenset("0123456789")


def parse_duration(text: str) -> int:
    """Nanoseconds of a text such as ``1h30m`` or ``-1.5s``. Raises ValueError with the text of Go's time.ParseDuration."""
    rest = text
    negative = rest[:1] == "-"
    if rest[:1] in ("-", "+"):
        rest = rest[1:]
    if rest == "0":
        return 0
    if not rest:
        raise ValueError(f"time: invalid duration {quoted(text)}")
    total = 0
    while rest:
        whole, rest = _digits(rest)
        fraction = ""
        point = rest[:1] == "."
        if point:
            fraction, rest = _digits(rest[1:])
        if not whole and not fraction:
            raise ValueError(f"time: invalid duration {quoted(text)}")
        end = 0
        while end < len(rest) and rest[end] != "." and rest[end] not in DIGITS:
            end += 1
        unit, rest = rest[:end], rest[end:]
        if not unit:
            raise ValueError(f"time: missing unit in duration {quoted(text)}")
        if unit not in UNITS:
            raise ValueError(f"time: unknown unit {quoted(unit)} in duration {quoted(text)}")
        if len(whole) > 30:
            raise ValueError(f"time: invalid duration {quoted(text)}")
        total += int(whole or "0") * UNITS[unit]
        if fraction:
            fraction = fraction[:20]
            total += int(fraction) * UNITS[unit] // 10 ** len(fraction)
        if total > LIMIT:
            raise ValueError(f"time: invalid duration {quoted(text)}")
    if total > LIMIT - (not negative):
        raise ValueError(f"time: invalid duration {quoted(text)}")
    return -total if negative else total


def in_seconds(text: str) -> str:
    """A duration as it is; a bare number with its unit, seconds."""
    try:
        parse_int(text)
    except ValueError:
        return text
    return text + "s"


def format_duration(nanoseconds: int) -> str:
    """A number of nanoseconds as Go's Duration.String: ``1h0m0s``, ``1.5s``, ``250ms``, ``0s``."""
    sign = "-" if nanoseconds < 0 else ""
    rest = abs(nanoseconds)
    if rest == 0:
        return "0s"
    if rest < SECOND:
        unit = next(unit for unit in ("ms", "µs", "ns") if rest >= UNITS[unit])
        return f"{sign}{_decimal(rest, UNITS[unit])}{unit}"
    seconds = f"{_decimal(rest % MINUTE, SECOND)}s"
    minutes, hours = rest // MINUTE % 60, rest // HOUR
    if hours:
        return f"{sign}{hours}h{minutes}m{seconds}"
    return f"{sign}{minutes}m{seconds}" if minutes else f"{sign}{seconds}"


def parse_int(text: str, bits: int = 64, function: str = "Atoi") -> int:
    """A whole number in base 10 with an optional sign. Raises ValueError with the text of ``strconv.FUNCTION``."""
    digits = text[1:] if text[:1] in ("-", "+") else text
    if not digits or not DIGITS.issuperset(digits):
        raise ValueError(f"strconv.{function}: parsing {quoted(text)}: invalid syntax")
    value = int(text) if len(text) < 40 else 1 << 200
    if not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise ValueError(f"strconv.{function}: parsing {quoted(text)}: value out of range")
    return value


def parse_uint(text: str, bits: int = 64) -> int:
    """A whole number in base 10 without sign. Raises ValueError with the text of ``strconv.ParseUint``."""
    if not text or not DIGITS.issuperset(text):
        raise ValueError(f"strconv.ParseUint: parsing {quoted(text)}: invalid syntax")
    value = int(text) if len(text) < 40 else 1 << 200
    if value >= 1 << bits:
        raise ValueError(f"strconv.ParseUint: parsing {quoted(text)}: value out of range")
    return value


def parse_float(text: str) -> float:
    """A decimal number. Raises ValueError with the text of ``strconv.ParseFloat``."""
    try:
        if "_" in text or text != text.strip():
            raise ValueError
        return float(text)
    except ValueError:
        raise ValueError(f"strconv.ParseFloat: parsing {quoted(text)}: invalid syntax") from None


def _digits(text: str) -> tuple[str, str]:
    end = 0
    while end < len(text) and text[end] in DIGITS:
        end += 1
    return text[:end], text[end:]


def _decimal(value: int, unit: int) -> str:
    """``value / unit`` without trailing zeros, exactly."""
    whole, part = divmod(value, unit)
    if not part:
        return str(whole)
    width = len(str(unit)) - 1
    return f"{whole}.{part:0{width}d}".rstrip("0")
