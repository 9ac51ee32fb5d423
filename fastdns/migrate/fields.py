"""Fields of Kubernetes's objects, which come from elsewhere: what is not there or of another type is empty."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["Json", "at", "labels", "name", "number", "quantity", "rows", "selects", "table", "text", "words"]

Json = dict[str, Any]

#: Factors of resource.Quantity, for memory.
UNITS = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "m": 1e-3, "": 1.0}


def at(value: object, *path: str) -> Any:
    """The value at a path of keys, or None."""
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def table(value: object, *path: str) -> Json:
    found = at(value, *path)
    return found if isinstance(found, dict) else {}


def rows(value: object, *path: str) -> list[Json]:
    """The objects of an array."""
    found = at(value, *path)
    return [row for row in found if isinstance(row, dict)] if isinstance(found, list) else []


def words(value: object, *path: str) -> list[str]:
    """The texts of an array."""
    found = at(value, *path)
    return [word for word in found if isinstance(word, str)] if isinstance(found, list) else []


def text(value: object, *path: str) -> str:
    found = at(value, *path)
    return found if isinstance(found, str) else ""


def number(value: object, *path: str) -> int | None:
    found = at(value, *path)
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def name(value: object) -> str:
    return text(value, "metadata", "name")


def labels(value: object, *path: str) -> dict[str, str]:
    """A map of texts: by default the labels of an object."""
    return {key: word for key, word in table(value, *(path or ("metadata", "labels"))).items() if isinstance(key, str) and isinstance(word, str)}


def quantity(value: object) -> float | None:
    """Octets of a quantity such as ``170Mi``; None for what is none."""
    written = str(value).strip()
    unit = written.lstrip("0123456789.+-eE")
    try:
        return float(written[: len(written) - len(unit)]) * UNITS[unit]
    except (KeyError, ValueError):
        return None


def selects(selector: Json, its: Mapping[str, str]) -> bool:
    """Whether a LabelSelector matches. An empty one matches everything."""
    if any(its.get(key) != value for key, value in table(selector, "matchLabels").items()):
        return False
    return all(_holds(row, its) for row in rows(selector, "matchExpressions"))


def _holds(requirement: Json, its: Mapping[str, str]) -> bool:
    key, values = text(requirement, "key"), words(requirement, "values")
    operator = text(requirement, "operator")
    if operator == "In":
        return its.get(key) in values
    if operator == "NotIn":
        return its.get(key) not in values
    return (key in its) == (operator == "Exists")
